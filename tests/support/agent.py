# SPDX-License-Identifier: MIT
"""The agent of a test, and the run around it: what it sends, what it gets, who serves it."""
import base64
import contextlib
import io
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import tempfile

import checks
import harness
import proc

PUPPET = (pathlib.Path(__file__).parent / "puppet.py").read_text()

# Unlike anything else on this machine, so that it can be searched for.
KEY = "sk-" + secrets.token_hex(24)
KEY_ENV = {"LLM_KEY": KEY}
KEY_SOURCE = "env:LLM_KEY"

HOST = b"Host: localhost:8080\r\n"


def get(target="/v1/models", *lines):
    return request("GET", target, *lines)


def post(body, *lines, target="/v1/chat/completions"):
    """A request with a length; `body` is bytes or what JSON is made of."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}", *lines)
    return request("POST", target, *lines) + body


def request(method, target, *lines, version="1.1"):
    text = "".join(f"{line}\r\n" for line in lines)
    return f"{method} {target} HTTP/{version}\r\n".encode() + HOST + text.encode("latin-1") + b"\r\n"


class Reply:
    """A whole reply."""

    def __init__(self, head, body=b""):
        lines = head.decode("latin-1").split("\r\n")
        self.head = head
        self.status = int(lines[0].split(" ")[1])
        self.fields = [tuple(line.split(": ", 1)) for line in lines[1:] if line]
        self.body = body

    def value(self, name):
        found = [v for n, v in self.fields if n.lower() == name]
        return found[0] if found else None

    def json(self):
        return json.loads(self.body)

    def code(self):
        return self.json()["error"]["code"]


class Wire:
    """A connection of the agent's. Subclasses move the bytes."""

    def __init__(self):
        self._left = b""

    def more(self, timeout=60):
        """Whatever comes next; b"" at a clean end. Raises as a socket does."""
        if self._left:
            taken, self._left = self._left, b""
            return taken
        return self.receive(65536, timeout)

    def until(self, end):
        data = b""
        while end not in data:
            piece = self.more()
            assert piece, data
            data += piece
        at = data.index(end) + len(end)
        self._left = data[at:] + self._left
        return data[:at]

    def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self.more()
            assert piece, data
            data += piece
        self._left = data[size:] + self._left
        return data[:size]

    def rest(self):
        """Everything up to the end of the connection."""
        data = b""
        while True:
            piece = self.more()
            if not piece:
                return data
            data += piece

    def _chunks(self):
        body = b""
        while True:
            size = int(self.until(b"\r\n"), 16)
            if size == 0:
                while self.until(b"\r\n") != b"\r\n":
                    pass
                return body
            body += self.exactly(size + 2)[:-2]

    def head(self):
        return Reply(self.until(b"\r\n\r\n"))

    def reply(self, has_body=True):
        """A whole reply, read as its head says."""
        got = self.head()
        if not has_body or got.status < 200 or got.status in (204, 304):
            return got
        if got.value("transfer-encoding"):
            got.body = self._chunks()
        elif got.value("content-length") is not None:
            got.body = self.exactly(int(got.value("content-length")))
        else:
            got.body = self.rest()
        return got

    def ask(self, data):
        self.send(data)
        return self.reply()


class SocketWire(Wire):
    """A client outside any sandbox."""

    def __init__(self, address):
        super().__init__()
        self.socket = socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(address)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, size, timeout):
        self.socket.settimeout(timeout)
        return self.socket.recv(size)

    def shutdown(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()


class PuppetWire(Wire):
    """A connection inside the sandbox."""

    def __init__(self, run, number):
        super().__init__()
        self._run = run
        self._number = number

    def send(self, data):
        self._run.tell("send", self._number, base64.b64encode(data).decode())

    def receive(self, size, timeout):
        return base64.b64decode(self._run.tell("recv", self._number, size, timeout))

    def tls(self, name, version=None, alpn=(), ca="/etc/warder/ca.pem"):
        """Speaks TLS from here on; the version, the protocol, and whom the certificate names."""
        return self._run.tell("tls", self._number, name, ca, version, alpn)

    def shutdown(self):
        self._run.tell("shutdown", self._number)

    def close(self):
        self._run.tell("close", self._number)


def as_root(*words):
    """Does something to processes of others."""
    subprocess.run([*([] if harness.IS_ROOT else ["sudo", "-n"]), *map(str, words)], check=True)


ERRORS = {"ConnectionResetError": ConnectionResetError, "SSLEOFError": ConnectionResetError,
          "SSLError": ConnectionError, "SSLCertVerificationError": ConnectionError, "TimeoutError": TimeoutError,
          "ConnectionRefusedError": ConnectionRefusedError, "BrokenPipeError": BrokenPipeError,
          "FileNotFoundError": FileNotFoundError, "PermissionError": PermissionError}


class Run:
    """`warder run` with a puppet in it."""

    def __init__(self, place, *options, env=None, port=8080, prefix=()):
        self.place = place
        self.port = port
        self.audit = place.home / ".local/state/warder/audit.jsonl"
        line = [place.binary, "run", *options, "--", "python3", "-I", "-S", "-c", PUPPET]
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*prefix, *place.command(line, {**KEY_ENV, **(env or {})})], cwd=place.workspace,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True)

    def tell(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.stderr()
        how, result = json.loads(line)
        if how != "ok":
            raise ERRORS.get(how, AssertionError)(f"{how}: {result}")
        return result

    def connect(self, host="127.0.0.1", port=None):
        return PuppetWire(self, self.tell("open", host, port or self.port))

    def python(self, text):
        """Runs code as the agent; its `result`."""
        return self.tell("python", text)

    def ask(self, data):
        """A request on a connection of its own."""
        wire = self.connect()
        try:
            return wire.ask(data)
        finally:
            wire.close()

    def stderr(self):
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def records(self):
        return read_audit(self.audit)

    def pids(self):
        """The processes of this run by what they are: supervisor, keeper, gate, agent."""
        return pids_of_run(self.process.pid)

    def end(self):
        """The agent ends; the exit status of the run."""
        self.process.stdin.close()
        self.process.stdout.read()
        return self.process.wait(timeout=60)

    def kill(self):
        if self.process.poll() is None:
            checks.send(self.process, signal.SIGKILL)
        if not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self._stderr.close()


class Gate:
    """`warder gate` on a socket of the host."""

    def __init__(self, place, *options, env=None, listen=None):
        self.place = place
        self.path = str(place.workspace / "llm.sock")
        self.audit = place.home / ".local/state/warder/audit.jsonl"
        self._stderr = tempfile.TemporaryFile()
        where = ["--listen", f"unix:{self.path}"] if listen is None else listen
        line = [place.binary, "gate", *where, *options]
        self.process = subprocess.Popen(
            place.command(line, {**KEY_ENV, **(env or {})}), cwd=place.workspace,
            stdin=subprocess.DEVNULL, stderr=self._stderr)

    def wait(self):
        """Until it answers."""

        def answers():
            assert self.process.poll() is None, self.stderr()
            try:
                wire = self.connect()
                return wire.ask(get("/health")).status == 200
            except OSError:
                return False

        checks.wait_until(answers)
        return self

    def connect(self):
        return SocketWire(self.path)

    def ask(self, data):
        wire = self.connect()
        try:
            return wire.ask(data)
        finally:
            wire.close()

    stderr = Run.stderr
    records = Run.records
    pids = Run.pids

    def end(self):
        if self.process.poll() is None:
            checks.send(self.process, signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self):
        if self.process.poll() is None:
            checks.send(self.process, signal.SIGKILL)
        self.process.wait(timeout=60)
        self._stderr.close()


@contextlib.contextmanager
def run(place, *options, **kwargs):
    """A run with a puppet in it; whoever is left at the end is killed."""
    if not (place.top / "warder-gateway").exists():
        place.install()
    made = Run(place, *options, **kwargs)
    try:
        made.python("")  # it is there
        yield made
    finally:
        made.kill()


@contextlib.contextmanager
def gate(place, *options, **kwargs):
    if not (place.top / "warder-gateway").exists():
        place.install()
    made = Gate(place, *options, **kwargs)
    try:
        yield made
    finally:
        made.kill()


def llm(origin, *more):
    """Options for a run whose upstream is `origin`."""
    return ("--llm", origin.url, "--llm-key", KEY_SOURCE, *more)


def read_audit(path):
    if not harness.IS_ROOT and path.exists() and not os.access(path, os.R_OK):
        text = subprocess.run(["sudo", "-n", "cat", path], capture_output=True, check=True).stdout
    else:
        text = path.read_bytes()
    return [json.loads(line) for line in io.BytesIO(text)]


def events(records, name):
    return [record for record in records if record["event"] == name]


def _children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if proc.parent(int(name)) == pid:
                    found.append(int(name))
    return found


def pids_of_run(pid):
    if not harness.IS_ROOT and os.stat(f"/proc/{pid}").st_uid != os.geteuid():
        pid = _children(pid)[0]  # of sudo
    found = {"supervisor": pid}
    for child in _children(pid):
        words = pathlib.Path("/proc", str(child), "cmdline").read_bytes().split(b"\0")
        if words[:1] == [b"warder-gateway"]:
            found[words[1].decode()] = child
        else:
            found["init"] = child
            found["agent"] = (_children(child) or [0])[0]
    return found


def _mappings(pid):
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        # The largest are a sanitizer's shadow, which holds no text.
        if line.split()[1][0] == "r" and end - start <= 1 << 30:
            yield start, end


def is_in_memory(needle, pid):
    """Whether a core dump of the process would hold it."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for start, end in _mappings(pid):
            before = b""
            with contextlib.suppress(OSError):  # not every page can be read: [vvar], say
                mem.seek(start)
                while start < end:
                    piece = mem.read(min(end - start, 1 << 22))
                    if not piece:
                        break
                    if needle in before + piece:
                        return True
                    before = piece[-len(needle):]
                    start += len(piece)
    return False


# A clean end of a cut reply would be the worst that can happen: what such a client says to it.
HTTP_CLIENT = """
import http.client
connection = http.client.HTTPConnection("127.0.0.1", {port}, timeout=60)
try:
    connection.request("POST", "/v1/chat/completions", b'{{"model":"m"}}')
    reply = connection.getresponse()
    result = [reply.status, reply.read().decode("latin-1")]
except (http.client.HTTPException, ConnectionError) as error:
    result = type(error).__name__
finally:
    connection.close()
"""
