# SPDX-License-Identifier: MIT
"""A shared keeper and those who attack it: at its control socket, on a link, at its door."""
import array
import contextlib
import socket
import ssl
import struct

import agent
import checks
import harness
import link
import proc
import run_token
import shared
from run_token import FAR

KEYS = {"k1": "the first key, 0123456789abcdef", "k2": "the second key, 0123456789abcdef"}
IS_SANITIZED = "asan" in harness.BUILD.name
IDENTITY = "x-litellm-end-user-id"


def sign(data, key=KEYS["k1"]):
    return run_token.sign(data, key)


def token(run_id, attempt=0, expiry=FAR, key=KEYS["k1"]):
    return run_token.token(run_id, key, attempt, expiry)


# ---- the keeper ----

class Keeper(shared.Keeper):
    """A keeper that serves from the start, in a place of its own; counted and weighed while it is
    attacked. What is changed in its configuration counts from the next write() or reload()."""

    def __init__(self, origin=None, certificates=None, env=None, **config):
        place = harness.Place("root" if harness.IS_ROOT else "user", harness.BUILD / "src" / "warder")
        settings = {"link_keys" if certificates else "token_keys": {"k1": "env:K1"}, **config.pop("keeper", {})}
        if origin:
            config.setdefault("llm", {"upstream": origin.url, "key": agent.KEY_SOURCE})
        super().__init__(place, {**config, "keeper": settings},
                         {"PATH": harness.PATH, "HOME": str(place.home), "SANDBOX_ENABLED": "1", **agent.KEY_ENV,
                          **{k.upper(): v for k, v in KEYS.items()}, **(env or {})})
        if certificates:
            self.listen(certificates)
        self.start()

    @property
    def keeper(self):
        return self.config["keeper"]

    def reload(self, more=None, event="reloaded"):
        self.write()
        return super().reload(more, event)

    def notices(self, event=None):
        return self.log(event)

    def runs(self):
        return self.ps()

    def revoke(self, run_id, **kwargs):
        done = super().revoke(run_id, **kwargs)
        assert done.returncode == 0, done
        return done

    def wait_for_record(self, count=1, **wanted):
        def is_there():
            found = self.records(**wanted)
            return found if len(found) >= count else None
        return checks.wait_until(is_there)

    def refusals(self, reason):
        return self.records("decision", allowed=False, reason=reason)

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
        """Ends it; it must have lived until then, and its records hold together."""
        assert self.is_alive(), self.stderr()
        assert self.end() == 0, self.stderr()
        self.verify()

    def close(self):
        super().close()
        self.place.remove()


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
        """The next packet, its letter and its text, or None at the end; a link that comes is kept."""
        try:
            data, passed = link.packet_of(self.socket)
        except ConnectionResetError:  # told once, before the last words
            data, passed = link.packet_of(self.socket)
        if passed:
            self.gate = link.Gate(passed)
        if data == b"k":
            return self.told()
        return (data[:1].decode(), data[1:]) if data else None

    def failure(self):
        letter, text = self.told()
        assert letter == "!", (letter, text)
        return text.decode()

    def register(self, *words):
        """Sends a registration; what is answered is not looked at."""
        self.send(b"R" + b"".join((w if isinstance(w, bytes) else w.encode()) + b"\0" for w in words))
        return self

    def open_gate(self):
        self.send(b"O")
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
