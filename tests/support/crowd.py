# SPDX-License-Identifier: MIT
"""Very many runs at once through one keeper, on this machine: who they are, what they cost, what
they leave behind. For tests and for benchmarks."""
import asyncio
import contextlib
import json
import os
import pathlib
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import harness
import link
import proc

KEY = "sk-crowd-0123456789abcdef0123456789"
TOKEN_KEY = "crowd-token-key-0123456789abcdef"
COST = "0.0001"  # of a call, as the origin says
AT_ONCE = 12  # runs that are being started
WAIT = 60


def raise_descriptors():
    """As many as are allowed: each run has pipes here, and two or three more in the keeper."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# ---- the origin ----

class _Client(asyncio.Protocol):
    """A connection of the keeper's, with one request at a time."""

    def __init__(self, origin):
        self.origin, self.data, self.transport = origin, b"", None

    def connection_made(self, transport):
        self.transport = transport
        self.origin.connection_count += 1

    def connection_lost(self, exc):
        self.origin.connection_count -= 1

    def data_received(self, data):
        self.data += data
        head, end, rest = self.data.partition(b"\r\n\r\n")
        if not end:
            return
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
        length = next((int(v) for n, v in fields if n.lower() == "content-length"), 0)
        if len(rest) < length:
            return
        self.data = rest[length:]
        self.origin.on_request(self, fields, rest[:length])


class Origin:
    """An LLM that says whose request it has had; it tells no two connections apart."""

    def __init__(self):
        self.seen = []  # (mark, users, metadata, body): what came in
        self.gather = 0  # answers nothing until so many requests wait for it at once
        self.most_waiting = 0
        self.connection_count = 0
        self._waiting = []
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        server = self._loop.create_server(lambda: _Client(self), sock=self._listener, backlog=4096)
        self._server = self._loop.run_until_complete(server)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def on_request(self, client, fields, body):
        def values(name):
            return [v for n, v in fields if n.lower() == name]

        body = json.loads(body)
        users = values("x-litellm-end-user-id")
        metadata = [json.loads(text) for text in values("x-litellm-spend-logs-metadata")]
        self.seen.append((body["model"], users, metadata, body, values("authorization")))
        text = f'{{"mark":"{body["model"]}","user":"{",".join(users)}"}}\n'.encode()
        reply = (f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-litellm-response-cost: {COST}\r\n"
                 f"x-litellm-call-id: call-{len(self.seen)}\r\nContent-Length: {len(text)}\r\n\r\n")
        self._waiting.append((client, reply.encode() + text))
        self.most_waiting = max(self.most_waiting, len(self._waiting))
        if len(self._waiting) >= self.gather:
            self.gather = 0
            waiting, self._waiting = self._waiting, []
            for other, data in waiting:
                other.transport.write(data)

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT)
        self._server.close()
        self._loop.run_until_complete(self._server.wait_closed())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.close()


# ---- processes ----

def parents():
    """{pid: the pid of its parent}, of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                found[int(name)] = proc.parent(int(name))
    return found


def memory_kib(pid):
    """(PSS, what is its own alone, RSS) of a process."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return lines["Pss"], lines["Private_Clean"] + lines["Private_Dirty"], lines["Rss"]


class Place:
    """Where the programs, the keeper's files and the workspace of the crowd are."""

    def __init__(self, is_user):
        self.ids = {"user": harness.USER_ID, "group": harness.USER_ID, "extra_groups": []} \
            if is_user and harness.IS_ROOT else {}
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="warder-crowd-", dir="/tmp"))
        self.workspace = self.top / "workspace"
        self.state = self.top / "state"
        os.chmod(self.top, 0o755)
        for path in (self.workspace, self.state):
            path.mkdir()
            if self.ids:
                os.chown(path, harness.USER_ID, harness.USER_ID)
        for name in ("warder", "warder-gateway", "warder-keeper"):
            shutil.copy(harness.BUILD / "src" / name, self.top)
        shutil.copy(harness.BUILD / "tests/support/crowd_agent", self.workspace)
        self.warder = str(self.top / "warder")
        self.env = {"PATH": harness.PATH, "HOME": str(self.state), "LANG": "C.UTF-8",
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}

    def popen(self, *argv, before=(), env=None, **options):
        """warder ARGV; `before` is what executes it."""
        options.setdefault("cwd", self.workspace)
        return subprocess.Popen([*before, self.warder, *argv], env={**self.env, **(env or {})}, **self.ids,
                                **options)

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)


class Keeper:
    """A shared keeper of a crowd, from its start to its end."""

    def __init__(self, place, upstream, store="memory:", descriptors_max=None, **settings):
        self.place = place
        self.control = place.state / "control.sock"
        self.audit = place.state / "audit.jsonl"
        config = {"llm": {"upstream": upstream, "key": "env:LLM_KEY"}, "audit": {"file": str(self.audit)},
                  **settings,
                  "keeper": {"control": f"unix:{self.control}", "store": store, "log": "text",
                             "token_keys": {"k1": "env:TOKEN_KEY"}}}
        (place.top / "keeper.json").write_text(json.dumps(config))
        before = ["prlimit", f"--nofile={descriptors_max}"] if descriptors_max else []
        with open(place.top / "keeper.log", "ab") as log:
            self.process = place.popen("keeper", "--config", str(place.top / "keeper.json"), before=before,
                                       env={"LLM_KEY": KEY, "TOKEN_KEY": TOKEN_KEY, "SANDBOX_ENABLED": "1"},
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self.process.pid
        self._wait_until_ready()

    def log(self):
        return (self.place.top / "keeper.log").read_text()

    def _wait_until_ready(self):
        deadline = time.monotonic() + WAIT
        while True:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                try:
                    sock.connect(str(self.control))
                    return
                except OSError:
                    time.sleep(0.005)

    def busy_s(self):
        """How long it has had a processor."""
        return int(pathlib.Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def stop(self):
        """Ends it at once; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)


class Link:
    """A run without a sandbox and without a gate: what a keeper has of it, and no more."""

    def __init__(self, keeper, run_id):
        self.visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.visitor.settimeout(WAIT)
        self.visitor.connect(str(keeper.control))
        self.visitor.send(b"Rrun-id=%s\0attempt=0\0" % run_id.encode())
        self.link = None

    def answer(self):
        """What the keeper says to it: "+" when it has begun, else "!" and why not."""
        while True:
            packet, passed = link.packet_of(self.visitor)
            self.link = passed or self.link
            if packet[:1] not in (b"W", b"k"):
                return packet.decode()

    def close(self):
        self.visitor.close()
        if self.link:
            self.link.close()


class Crowd:
    """Runs that go on at the same time, each with an agent that does as it is told."""

    def __init__(self, place, keeper, count):
        self.place, self.keeper, self.count = place, keeper, count
        self.runs = []
        self.ids = {}  # by number
        self._read_fd, self._write_fd = os.pipe()  # all of them write into one
        os.set_blocking(self._read_fd, False)
        self._left = b""
        self._log = open(place.top / "runs.log", "ab")

    def _start_one(self):
        number = len(self.runs)
        self.runs.append(self.place.popen(
            "run", "-q", "--keeper", f"unix:{self.keeper.control}", "--", "/workspace/crowd_agent",
            str(number), stdin=subprocess.PIPE, stdout=self._write_fd, stderr=self._log))

    def _lines(self, seconds):
        """What the agents say next; waits for it."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._read_fd, selectors.EVENT_READ)
            assert selector.select(seconds), self.trouble()
        *lines, self._left = (self._left + os.read(self._read_fd, 65536)).split(b"\n")
        return [line.decode().split(" ") for line in lines]

    def trouble(self):
        ended = [run.returncode for run in self.runs if run.poll() is not None]
        runs_log = (self.place.top / "runs.log").read_text()
        return (f"{len(self.ids)} of {len(self.runs)} are ready, ended with {ended[:20]}:\n"
                f"{runs_log[-2000:]}{self.keeper.log()[-2000:]}")

    def start(self, seconds=300):
        """Until all are there and have a connection to their gate."""
        deadline = time.monotonic() + seconds
        while len(self.ids) < self.count:
            while len(self.runs) < self.count and len(self.runs) - len(self.ids) < AT_ONCE:
                self._start_one()
            for number, word, run_id in self._lines(WAIT):
                assert word == "ready", (number, word, self.trouble())
                self.ids[int(number)] = run_id
            assert time.monotonic() < deadline, self.trouble()

    def ask(self, requests, seconds=120):
        """Everybody makes so many requests; who did not have what it should, with a word for it."""
        for run in self.runs:
            run.stdin.write(b"%d\n" % requests)
            run.stdin.flush()
        deadline, left, bad = time.monotonic() + seconds, self.count, []
        while left > 0:
            for number, word, run_id in self._lines(WAIT):
                left -= 1
                if word != "done" or self.ids[int(number)] != run_id:
                    bad.append((number, word))
            assert time.monotonic() < deadline, self.trouble()
        return bad

    def end(self):
        """Their input ends; how they ended, as a set."""
        for run in self.runs:
            run.stdin.close()
        return {run.wait(WAIT) for run in self.runs}

    def kill(self):
        """Whoever is left, and what belongs to us."""
        for run in self.runs:
            if run.poll() is None:
                run.kill()
            run.wait(WAIT)
            run.stdin.close()
        for fd in (self._read_fd, self._write_fd):
            os.close(fd)
        self._log.close()

    def members(self):
        """{kind: pids} of all runs: supervisor, gate, init, agent."""
        children = {}
        for pid, parent in parents().items():
            children.setdefault(parent, []).append(pid)
        found = {"supervisor": [run.pid for run in self.runs], "gate": [], "init": [], "agent": []}
        for run in self.runs:
            for pid in children.get(run.pid, []):
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                kind = "gate" if line.startswith(b"warder-gateway\0gate") else "init"
                found[kind].append(pid)
                if kind == "init":
                    found["agent"] += children.get(pid, [])
        return found

    def memory(self):
        """{kind: (PSS, own, RSS)} in KiB, of one process on average."""
        found = {}
        for kind, pids in self.members().items():
            rows = [memory_kib(pid) for pid in pids]
            found[kind] = tuple(sum(column) / len(rows) for column in zip(*rows))
        return found
