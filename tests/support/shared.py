# SPDX-License-Identifier: MIT
"""A shared keeper of a test: its configuration, its process, and what it can be asked."""
import contextlib
import http.client
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import tempfile

import agent
import checks
import harness
import metrics
import origin as upstream
import run_token

IS_SANITIZED = "asan" in harness.BUILD.name

# Unlike anything else on this machine, so that they can be searched for.
KEY = "sk-" + secrets.token_hex(24)
TOKEN = "ghp_" + secrets.token_hex(18)
TOKEN_KEY, LINK_KEY = secrets.token_hex(16), secrets.token_hex(16)
ENV = {"LLM_KEY": KEY, "API_TOKEN": TOKEN, "TOKEN_KEY": TOKEN_KEY, "LINK_KEY": LINK_KEY, "SANDBOX_ENABLED": "1"}


def assert_clean(stderr):
    """Sanitizers have nothing to say."""
    assert "Sanitizer" not in stderr and "runtime error" not in stderr, stderr


def merge(base, more):
    """The one object with the members of the other in it, object by object."""
    made = dict(base)
    for key, value in more.items():
        is_deep = isinstance(value, dict) and isinstance(made.get(key), dict)
        made[key] = merge(made[key], value) if is_deep else value
    return made


def llm(origin, **more):
    """Settings of a keeper whose LLM is `origin`."""
    return {"llm": {"upstream": origin.url, "key": "env:LLM_KEY"}, **more}


def host(origin, name="api.test", secret=True):
    """Settings of a keeper whose runs may reach `origin`, which has TLS, as that host."""
    made = {"connect_to": {f"{name}:443": f"127.0.0.1:{origin.port}"}, "upstream_ca": origin.ca}
    if secret:
        made["secrets"] = {"API_TOKEN": {"from": "env:API_TOKEN", "hosts": [name]}}
    else:
        made["allow"] = [name]
    return made


class _UnixHTTPConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("keeper", timeout=60)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


class Keeper:
    """`warder keeper` with a configuration of the test's own; start() starts it."""

    def __init__(self, place, config=None, env=None):
        if place.binary != str(harness.BUILD / "src" / "warder") and not (place.top / "warder-keeper").exists():
            place.install()
        self.place = place
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="k", dir=place.top))
        self.top.chmod(0o755)
        place.own(self.top)
        self.env = {name: value for name, value in {**ENV, **(env or {})}.items() if value is not None}
        self.path = str(self.top / "control.sock")
        self.address = f"unix:{self.path}"
        self.audit = self.top / "audit.jsonl"
        self.admin_path = str(self.top / "admin.sock")
        self.file = self.top / "keeper.json"
        self.process = None
        self._log = None
        self._holder = self.port = self.ca = None  # of the door for other machines
        self.config = {
            "audit": {"file": str(self.audit)},
            "keeper": {"control": self.address, "admin": f"unix:{self.admin_path}",
                       "store": f"sqlite:{self.top}/store.db", "log": "json"},
        }
        self.configure(config or {})

    def configure(self, more):
        """Changes the file, object by object; a member that is None is taken away."""
        self.config = _strip(merge(self.config, more))
        self.write()

    def write(self, text=None):
        """Puts the file in place as an editor does: all of it or nothing."""
        new = self.top / "keeper.json.new"
        new.write_text(text or json.dumps(self.config))
        new.chmod(0o600)
        self.place.own(new)
        new.rename(self.file)

    def listen(self, certificates):
        """Takes runs of other machines as well: those that come with a token."""
        self._holder, self.port = upstream.refusing_port()
        self.ca = certificates.ca
        self.env["SANDBOX_ENABLED"] = "1"
        copies = {name: self.place.write(self.top / name, (certificates.top / name).read_text(), 0o600)
                  for name in ("keeper.pem", "keeper.key")}
        keys = self.config["keeper"].get("link_keys", {"l1": "env:LINK_KEY"})
        self.configure({"keeper": {"listen": f"tls:127.0.0.1:{self.port}", "cert": str(copies["keeper.pem"]),
                                   "cert_key": f"file:{copies['keeper.key']}", "link_keys": keys}})
        return self

    # ---- the process ----

    def start(self, *options, prefix=(), wait=True, **kwargs):
        """Begins to serve; returns itself when runs are taken."""
        line = [self.place.binary, "keeper", "--config", str(self.file), *options]
        if self._log:
            self._log.close()
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*prefix, *self.place.command(line, self.env)], cwd=self.top,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, **kwargs)
        if wait:
            self.wait_for("ready")
        return self

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def pid(self):
        """Of the keeper itself, which may be a child of sudo."""
        return agent.pids_of_run(self.process.pid)["supervisor"]

    def stderr(self):
        # With a file offset of our own: the keeper's is shared with this descriptor.
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace")

    def log(self, event=None):
        """The lines of its log, or those of an event; what is not JSON is a fault."""
        lines = [json.loads(line) for line in self.stderr().splitlines()]
        return [line for line in lines if event in (None, line["event"])]

    def wait_for(self, event, count=1, seconds=60):
        """Until the log has so many lines of an event; the last of them."""

        def has_come():
            found = f'"event":"{event}"'
            text = self.stderr()
            if text.count(found) >= count:
                return True
            assert self.process.poll() is None or event in ("stopped", "drained"), text
            return False

        checks.wait_until(has_come, seconds)
        return self.log(event)[count - 1]

    def send(self, number):
        checks.send(self.process, number)

    def reload(self, more=None, event="reloaded"):
        """Changes the file, lets it be read, and waits until that is done; the log's line."""
        if more is not None:
            self.configure(more)
        count = len(self.log(event))
        self.send(signal.SIGHUP)
        return self.wait_for(event, count + 1)

    def wait(self, seconds=60):
        """Until it has ended by itself; its exit status. Sanitizers have nothing to say then."""
        status = self.process.wait(timeout=seconds)
        assert_clean(self.stderr())
        return status

    def end(self):
        """SIGTERM, twice: it ends at once. The second after the first was heard, or it would be the same."""
        if self.is_alive():
            self.send(signal.SIGTERM)
            checks.wait_until(lambda: not self.is_alive() or "draining" in self.stderr(), 60)
            with contextlib.suppress(ProcessLookupError, subprocess.CalledProcessError):
                self.send(signal.SIGTERM)
        return self.wait()

    def kill(self):
        if self.is_alive():
            self.send(signal.SIGKILL)
        self.process.wait(timeout=60)

    def close(self):
        """Whatever is left of it."""
        if self.process:
            self.kill()
        if self._holder:
            self._holder.close()

    # ---- what it can be asked ----

    def warder(self, verb, *words, place=None, **kwargs):
        """`warder VERB WORDS` of this keeper."""
        return (place or self.place).warder(verb, *words, "--keeper", self.address, **kwargs)

    def ps(self, *words, place=None):
        """The runs, or one of them, as objects."""
        done = self.warder("ps", "--json", *words, place=place)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run_ids(self, place=None):
        return sorted(run["runId"] for run in self.ps(place=place) if "runId" in run)

    def show(self, run_id):
        return self.ps(run_id)[0]

    def revoke(self, run_id, **kwargs):
        return self.warder("revoke", run_id, **kwargs)

    def drain(self):
        """`warder drain`, which waits for the keeper's end."""
        line = [self.place.binary, "drain", "--keeper", self.address]
        return subprocess.Popen(self.place.command(line), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def get(self, path):
        """Of the admin endpoint: status and text."""
        connection = _UnixHTTPConnection(self.admin_path)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def metrics(self):
        """Every sample, when they are as documented."""
        status, text = self.get("/metrics")
        assert status == 200, text
        return metrics.check_metrics(text)

    def records(self, event=None, **wanted):
        """Those of an event, or all, which have these members."""
        if event:
            wanted["event"] = event
        return [r for r in agent.read_audit(self.audit) if all(r.get(k) == v for k, v in wanted.items())]

    def outcomes(self, count, run_id=None):
        """How so many requests have ended, of a run or of all, when that is written."""

        def find():
            found = [r for r in self.records("outcome") if run_id in (None, r["runId"])]
            return found if len(found) >= count else None

        return checks.wait_until(find)

    def verify(self):
        """Fails unless the audit log is whole."""
        done = self.place.warder("audit", "verify", str(self.audit))
        assert done.returncode == 0, done.stdout + done.stderr

    # ---- runs ----

    @contextlib.contextmanager
    def run(self, *options, place=None, env=None, **kwargs):
        """A run of this keeper's with a puppet in it. It knows no secret by its environment."""
        env = {"LLM_KEY": "none", **(env or {})}
        with agent.run(place or self.place, "--keeper", self.address, *options, env=env,
                       **kwargs) as made:
            made.audit = self.audit
            yield made
            assert_clean(made.stderr())

    def run_of(self, link, run_id, *options, **kwargs):
        """A run of that name: of this machine ("unix"), or as if of another one ("tls")."""
        if link == "unix":
            return self.run("--run-id", run_id, *options, **kwargs)
        env = {"LLM_KEY": "none", "RUN_TOKEN": run_token.token(run_id, LINK_KEY)}
        return agent.run(self.place, "--keeper", f"tls:localhost:{self.port}", "--keeper-ca", str(self.ca),
                         "--keeper-token", "env:RUN_TOKEN", *options, env=env, **kwargs)


def _strip(config):
    return {key: _strip(value) if isinstance(value, dict) else value
            for key, value in config.items() if value is not None}


@contextlib.contextmanager
def keeper(place, config=None, *options, env=None, certificates=None, **kwargs):
    """A keeper that serves, and ends with the block; sanitizers have nothing to say about it.

    With certificates it takes runs of other machines, too."""
    made = Keeper(place, config, env)
    if certificates:
        made.listen(certificates)
    try:
        made.start(*options, **kwargs)
        yield made
        if made.is_alive():
            assert made.end() == 0, made.stderr()
    finally:
        made.close()


# ---- streams ----

EVENT = b'data: {"choices":[]}\n\n'


def answer_or_stream(connection, fields=()):
    """A script: who asks for a stream gets its first event, and nothing more by itself; who does not
    is answered with these fields."""
    for request in connection.requests():
        if b'"stream"' in request.body:
            connection.send(upstream.CHUNKED + upstream.chunk(EVENT))
        else:
            connection.answer(fields=fields)


def open_stream(run, **more):
    """A connection of the agent's with a stream on it that has begun."""
    wire = run.connect()
    wire.send(agent.post({"model": "m", "stream": True, **more}))
    assert wire.head().status == 200
    wire.until(EVENT + b"\r\n")
    return wire


def read_to_end(wire):
    """What is left of a stream, and whether a client would take it for whole."""
    data = b""
    while True:
        try:
            piece = wire.more()
        except ConnectionResetError:
            return data, False
        if not piece:
            return data, data.endswith(upstream.LAST_CHUNK)
        data += piece


def assert_cut(wire, code):
    """The stream ends with an event that says why, and not as if it were whole."""
    data, is_whole = read_to_end(wire)
    assert not is_whole, data
    _, found, event = data.partition(b"event: error\ndata: ")
    assert found, data
    error = json.loads(event.split(b"\n\n")[0])["error"]
    assert error["code"] == code and error["runId"] and error["message"], error
