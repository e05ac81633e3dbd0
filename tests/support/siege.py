# SPDX-License-Identifier: MIT
"""A shared keeper and those who attack it: at its control socket, on a link, at its door."""
import array
import contextlib
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time

import agent
import checks
import harness
import link
import origin as upstream
import proc
import run_token
from run_token import FAR

KEYS = {"k1": "the first key, 0123456789abcdef", "k2": "the second key, 0123456789abcdef"}
IS_SANITIZED = "asan" in harness.BUILD.name
IDENTITY = "x-litellm-end-user-id"


def sign(data, key=KEYS["k1"]):
    return run_token.sign(data, key)


def token(run_id, attempt=0, expiry=FAR, key=KEYS["k1"]):
    return run_token.token(run_id, key, attempt, expiry)


# ---- the keeper ----

class Keeper:
    """`warder keeper` as a process, with its configuration, log and records."""

    def __init__(self, origin=None, certificates=None, env=None, **config):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="warder-siege-", dir="/tmp"))
        os.chmod(self.top, 0o755)
        self.path = self.top / "k.sock"
        self.audit = self.top / "audit.jsonl"
        self.ca = certificates and certificates.ca
        self.port = self._port_holder = None
        self.process = None
        self.env = {"PATH": harness.PATH, "HOME": str(self.top), "SANDBOX_ENABLED": "1",
                    **agent.KEY_ENV, **{k.upper(): v for k, v in KEYS.items()}, **(env or {})}
        self.keeper = {"control": f"unix:{self.path}", "store": f"sqlite:{self.top}/k.db",
                       "log": "json", "link_keys" if certificates else "token_keys": {"k1": "env:K1"},
                       **config.pop("keeper", {})}
        self.config = {"audit": {"file": str(self.audit)}, **config}
        if origin:
            self.config.setdefault("llm", {"upstream": origin.url, "key": agent.KEY_SOURCE})
        if certificates:
            self._port_holder, self.port = upstream.refusing_port()
            self.keeper.update({"listen": f"tls:127.0.0.1:{self.port}",
                                "cert": str(certificates.top / "keeper.pem"),
                                "cert_key": f"file:{certificates.top / 'keeper.key'}"})
        self.start()

    def start(self, prefix=()):
        self.write()
        self.log = self.top / f"log.{time.monotonic_ns()}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*prefix, harness.BUILD / "src" / "warder-keeper", "keeper", "--config",
                 self.top / "k.json"], env=self.env, stderr=log, stdout=log, stdin=subprocess.DEVNULL)
        self.wait_for("ready")

    def write(self):
        (self.top / "k.json").write_text(json.dumps({**self.config, "keeper": self.keeper}))

    def notices(self, event=None):
        lines = [json.loads(line) for line in self.log.read_text().splitlines()
                 if line.startswith("{")]
        return [line for line in lines if event in (None, line["event"])]

    def wait_for(self, event, count=1):
        def is_there():
            assert self.process.poll() is None, self.log.read_text()
            found = self.notices(event)
            return found if len(found) >= count else None
        return checks.wait_until(is_there, 60)

    def reload(self):
        count = len(self.notices("reloaded"))
        self.write()
        self.process.send_signal(signal.SIGHUP)
        self.wait_for("reloaded", count + 1)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def warder(self, *argv):
        return subprocess.run([harness.BUILD / "src" / "warder", *map(str, argv)], check=False,
                              capture_output=True, text=True, timeout=60, env=self.env)

    def ask(self, verb, *words):
        return self.warder(verb, "--keeper", f"unix:{self.path}", *words)

    def runs(self):
        done = self.ask("ps", "--json")
        assert done.returncode == 0, done
        return [json.loads(line) for line in done.stdout.splitlines()]

    def revoke(self, run_id):
        done = self.ask("revoke", run_id)
        assert done.returncode == 0, done

    def records(self, **wanted):
        """Those that there are, once what is under way has been written."""
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [r for r in lines if all(r.get(k) == v for k, v in wanted.items())]

    def wait_for_record(self, count=1, **wanted):
        def is_there():
            found = self.records(**wanted)
            return found if len(found) >= count else None
        return checks.wait_until(is_there)

    def refusals(self, reason):
        return self.records(event="decision", allowed=False, reason=reason)

    def wait_for_refused_links(self, count, reason):
        """So many, on record one by one or, where they were many in a second, by their number."""
        def is_there():
            more = sum(r["count"] for r in self.records(event="turned_away", reason=reason))
            found = len([r for r in self.refusals(reason) if r["method"] == "LINK"]) + more
            assert found <= count, found
            return found == count
        checks.wait_until(is_there)

    def fds(self):
        return proc.descriptors(self.process.pid)

    def fds_at_rest(self):
        """How many it has open when it has seen off whoever had left before this was asked."""
        visitor = Visitor(self)
        try:
            for _ in range(2):  # what is closed at the end of a turn is closed in the next one
                visitor.send(b"L")
                while visitor.told()[0] == "r":
                    pass
            return self.fds() - 1  # the visitor's
        finally:
            visitor.close()

    def wait_for_fds(self, count):
        """Until it has so many open again; whoever has left has seconds to be noticed."""
        checks.wait_until(lambda: self.fds() == count, 60)

    def rss(self):
        return proc.rss_kib(self.process.pid) << 10

    def cpu(self):
        return proc.cpu_s(self.process.pid)

    def stop(self):
        """Ends it in order; it must have lived until then, and its records hold together."""
        assert self.process.poll() is None, self.log.read_text()
        self.process.send_signal(signal.SIGTERM)
        checks.wait_until(lambda: self.notices("draining"), 40)
        self.process.send_signal(signal.SIGTERM)  # the second time it means at once
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        text = self.log.read_text()
        assert status == 0 and "Sanitizer" not in text and "runtime error" not in text, text
        done = self.warder("audit", "verify", self.audit)
        assert done.returncode == 0, done

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        if self._port_holder:
            self._port_holder.close()
        subprocess.run(["rm", "-rf", str(self.top)], check=True)


@contextlib.contextmanager
def keeper(*args, **config):
    made = Keeper(*args, **config)
    try:
        yield made
        made.stop()
    finally:
        made.close()


# ---- at the control socket ----

class Visitor:
    """A connection to the control socket."""

    def __init__(self, made):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(str(made.path))
        self.gate = None

    def send(self, packet, fds=()):
        luggage = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([packet], luggage)

    def told(self):
        """The next packet: its letter and its text; None at the end."""
        try:
            data = self.socket.recv(1 << 19)
        except ConnectionResetError:  # told once, before the last words
            data = self.socket.recv(1 << 19)
        return (data[:1].decode(), data[1:]) if data else None

    def failure(self):
        letter, text = self.told()
        assert letter == "!", (letter, text)
        return text.decode()

    def register(self, *words):
        """Sends a registration and our end of a link; what is answered is not looked at."""
        ours, theirs = link.pair()
        self.gate = link.Gate(ours)
        self.send(b"R" + b"".join((w if isinstance(w, bytes) else w.encode()) + b"\0" for w in words),
                  [theirs.fileno()])
        theirs.close()
        return self

    def open_gate(self):
        ours, theirs = link.pair()
        self.gate = link.Gate(ours)
        self.send(b"O", [theirs.fileno()])
        theirs.close()
        assert self.told() == ("+", b"")
        return self.gate.begin()

    def until_ready(self):
        """What it is told of its run, as words."""
        words = []
        while (got := self.told()) and got[0] == "W":
            words += got[1].decode().split("\0")[:-1]
        assert got == ("+", b""), got
        return words

    def close(self):
        self.socket.close()
        if self.gate:
            self.gate.socket.close()


def join(made, run_id, *words):
    """A run that is registered, with its gate in our hands."""
    visitor = Visitor(made).register(f"run-id={run_id}", *words)
    visitor.until_ready()
    visitor.gate.begin()
    assert visitor.gate.run_id == run_id
    return visitor


# ---- at the door for other machines ----

def tls_context(made, alpn="warder/1", version=None):
    context = ssl.create_default_context(cafile=str(made.ca))
    if alpn:
        context.set_alpn_protocols([alpn])
    if version:
        context.maximum_version = version
    return context


def message(kind, exchange, payload=b""):
    return struct.pack("<III", kind, exchange, len(payload)) + payload


def token_message(text, version=1, flags=0):
    return message(link.TOKEN, 0, bytes([version, flags]) + link.text(text))


class Caller:
    """Somebody at the door: what it is told, and its link if it comes in."""

    def __init__(self, made, first, context=None, raw=None):
        raw = raw or socket.create_connection(("127.0.0.1", made.port), timeout=60)
        self.socket = (context or tls_context(made)).wrap_socket(raw, server_hostname="localhost")
        self.gate = link.Gate(self.socket)
        self.gate.socket.settimeout(60)
        self.socket.sendall(first)

    def answer(self):
        """"ready", or why not; "" when the door was closed without a word."""
        try:
            while True:
                kind, _, payload = self.gate.receive()
                if kind == link.NOTICE and payload[:1] == b"!":
                    return payload[1:].decode()
                if kind == link.NOTICE and payload[:1] == b"+":
                    return "ready"
                if kind == link.HELLO:
                    reader = link.Reader(payload)
                    self.gate.attempt, self.gate.run_id = reader.number(4), reader.text()
        except (EOFError, OSError):
            return ""

    def close(self):
        self.socket.close()


def call(made, text, **how):
    return Caller(made, token_message(text), **how)


def come_in(made, text):
    """A remote link that is open."""
    caller = call(made, text)
    assert caller.answer() == "ready"
    return caller
