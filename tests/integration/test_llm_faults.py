# SPDX-License-Identifier: MIT
"""What goes wrong on the LLM path: the agent is told, the log says it, and the next request works."""
import os
import pathlib
import socket
import subprocess
import threading
import time

import agent
import checks
import harness
import origin as upstream
import proc
import pytest

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}
POST = agent.post(BODY)


def last_outcome(run):
    return agent.events(run.records(), "outcome")[-1]


def wait_for_outcome(run, count=1):
    checks.wait_until(lambda: len(agent.events(run.records(), "outcome")) >= count)
    return last_outcome(run)


def assert_told(run, reply, status, code):
    """The agent has a JSON error that says what happened, and so has the log."""
    assert (reply.status, reply.code()) == (status, code), reply.body
    error = reply.json()["error"]
    assert error["message"] and error["runId"] == run.records()[0]["runId"]
    outcome = wait_for_outcome(run)
    assert (outcome["status"], outcome["ended"]) == (status, code)


# ---- upstreams that fail ----

def refuse(connection):
    connection.request()
    connection.reset()


def close_at_once(connection):
    connection.request()
    connection.close()


def cut_in_the_head(connection):
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    connection.close()


def stall(connection):
    connection.request()
    connection.wait_for_end()


def send_garbage(garbage):
    def script(connection):
        connection.request()
        connection.send(garbage)
        connection.wait_for_end()

    script.__name__ = repr(garbage[:24])
    return script


GARBAGE = [
    b"\x00\x01\x02\x03\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
]

FAULTS = [(refuse, 502, "upstream_reset"), (close_at_once, 502, "upstream_reset"),
          (cut_in_the_head, 502, "upstream_reset"), (stall, 504, "upstream_timeout"),
          *((send_garbage(garbage), 502, "upstream_garbage") for garbage in GARBAGE)]


def test_a_failing_upstream_is_told_of_and_the_next_request_works(place, origin):
    scripts = iter([script for script, _, _ in FAULTS for script in (script, upstream.answer_all)])
    origin.script = lambda connection: next(scripts)(connection)
    with agent.run(place, *agent.llm(origin, "--first-byte-timeout", "300ms")) as run:
        for number, (script, status, code) in enumerate(FAULTS):
            reply = run.ask(POST)
            assert (reply.status, reply.code()) == (status, code), script.__name__
            outcome = wait_for_outcome(run, number * 2 + 1)
            assert (outcome["status"], outcome["ended"], outcome["model"]) == (status, code, "gpt-4o")
            assert run.ask(POST).json() == {"ok": True}, script.__name__
            wait_for_outcome(run, number * 2 + 2)
            # The reply that worked leaves a connection behind, which the next script must not get.
            origin.connections[-1].close()
            checks.wait_until(lambda: count_sockets(run.pids()["keeper"]) == 0)
        assert run.end() == 0
        assert f"{2 * len(FAULTS)} requests, 0 refused" in run.stderr()
    assert len(origin.requests) == 2 * len(FAULTS)  # nothing was sent twice


def count_sockets(pid):
    """The TCP connections of a process of the host."""
    tcp = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().split()
    found = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        link = os.readlink(f"/proc/{pid}/fd/{fd}")
        found += link.startswith("socket:[") and link[8:-1] in tcp
    return found


@pytest.mark.parametrize("idle", [False, True], ids=["new", "pooled"])
def test_an_upstream_that_is_gone(place, idle):
    origin = upstream.Origin()
    with agent.run(place, *agent.llm(origin)) as run:
        if idle:
            assert run.ask(POST).status == 200
        port = origin.port
        origin.close()
        checks.wait_until(lambda: count_sockets(run.pids()["keeper"]) == 0)
        holder = socket.socket()  # nobody else may get the port
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        reply = run.ask(POST)
        holder.close()
        assert (reply.status, reply.code()) == (502, "upstream_refused")
        wait_for_outcome(run, 1 + idle)
        assert last_outcome(run)["ended"] == "upstream_refused"
        # Control: whoever listens there again is found again.
        listener = socket.create_server(("127.0.0.1", port))
        wire = run.connect()
        wire.send(POST)
        sock, _ = listener.accept()
        sock.sendall(upstream.reply())
        assert wire.reply().json() == {"ok": True}
        sock.close()
        listener.close()


def test_a_name_that_does_not_resolve(place):
    with agent.run(place, "--llm", "http://no-such-name.invalid:9", "--connect-timeout", "5s") as run:
        reply = run.ask(POST)
        assert_told(run, reply, 502, "upstream_unresolved")


@pytest.mark.parametrize("name, words", [
    ("expired", "expired"), ("wrong", ""), ("foreign", ""), ("good", None)])
def test_a_certificate_that_proves_nothing(place, certificates, name, words):
    host = certificates.NAME
    origin = upstream.Origin(context=certificates.context(name), name=host)
    options = agent.llm(origin, "--upstream-ca", str(certificates.ca), "--connect-to",
                        f"{host}:{origin.port}=127.0.0.1:{origin.port}")
    with agent.run(place, *options) as run:
        for count in (1, 2):  # the second is no luckier
            reply = run.ask(POST)
            if words is None:  # control: the same with a certificate that is right
                assert reply.json() == {"ok": True}
                continue
            assert (reply.status, reply.code()) == (502, "upstream_tls")
            assert words in reply.json()["error"]["message"]
            assert wait_for_outcome(run, count)["ended"] == "upstream_tls"
    assert bool(origin.requests) == (words is None)
    assert (agent.KEY.encode() in origin.received()) == (words is None)
    origin.close()


def test_tls_to_what_speaks_none(place, origin):
    origin.script = lambda connection: connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    url = origin.url.replace("http:", "https:")
    with agent.run(place, "--llm", url, "--llm-key", agent.KEY_SOURCE) as run:
        assert_told(run, run.ask(POST), 502, "upstream_tls")
    assert agent.KEY.encode() not in origin.received()


def test_one_request_gets_one_reply_whatever_the_upstream_sends(place, origin):
    def script(connection):
        for number, _ in enumerate(connection.requests()):
            connection.send(upstream.reply(b'{"first":%d}' % number) + upstream.reply(b'{"evil":1}'))

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        for _ in range(20):
            assert wire.ask(POST).json() == {"first": 0}  # each on a connection of its own
        outcomes = agent.events(run.records(), "outcome")
        assert {outcome["ended"] for outcome in outcomes} == {"complete"}


def test_a_second_reply_that_comes_later_is_nobodys(place, origin):
    sent = []

    def script(connection):
        connection.request()
        connection.answer(b'{"connection":%d}' % connection.number)
        if connection.number == 0:
            checks.wait_until(lambda: sent)  # the agent has the first one
            connection.send(upstream.reply(b'{"evil":1}'))
            connection.wait_for_end()

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        assert wire.ask(POST).json() == {"connection": 0}
        sent.append(True)
        checks.wait_until(lambda: count_sockets(run.pids()["keeper"]) == 0)
        assert wire.ask(POST).json() == {"connection": 1}


@pytest.mark.parametrize("provider", ["litellm", "openai"])
def test_a_reply_before_the_body_ends(place, origin, provider):
    def script(connection):
        connection.head()
        connection.answer(b'{"error":"too large"}', 413)
        connection.wait_for_end()

    origin.script = script
    body = b'{"model":"m","messages":"' + b"x" * 200000 + b'"}'
    with agent.run(place, *agent.llm(origin, "--llm-provider", provider)) as run:
        wire = run.connect()
        wire.send(agent.post(body)[:-100000])  # the rest never comes
        reply = wire.reply()
        assert (reply.status, reply.json()) == (413, {"error": "too large"})
        origin.script = upstream.answer_all
        assert run.ask(POST).json() == {"ok": True}
        wait_for_outcome(run, 2)
        first = agent.events(run.records(), "outcome")[0]
        assert (first["status"], first["ended"]) == (413, "complete")


# ---- replies that are cut off ----

LENGTH_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b"0123456789" * 2
CHUNKED_REPLY = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n")


@pytest.mark.parametrize("whole", [LENGTH_REPLY, CHUNKED_REPLY], ids=["length", "chunked"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_reply_cut_at_every_byte_is_an_error_at_the_agent(place, origin, whole, how):
    cuts = iter(range(len(whole) + 1))

    def script(connection):
        connection.request()
        connection.send(whole[:next(cuts)])
        getattr(connection, how)()

    origin.script = script
    head_len = whole.index(b"\r\n\r\n") + 4
    with agent.run(place, *agent.llm(origin)) as run:
        client = agent.HTTP_CLIENT.format(port=8080)
        for cut in range(len(whole)):
            got = run.python(client)
            if how == "close" or cut <= head_len:
                is_told = isinstance(got, list) and got[0] == 502 and "upstream_" in got[1]
                assert is_told if cut < head_len else isinstance(got, str), (cut, got)
            else:  # a reset may take bytes with it that were there already
                assert isinstance(got, str) or got[0] == 502, (cut, got)
        # Control: uncut, the same client is content.
        if how == "close":
            assert run.python(client)[0] == 200
        wait_for_outcome(run, len(whole))
        ended = [o["ended"] for o in agent.events(run.records(), "outcome")[:len(whole)]]
        assert set(ended) == {"upstream_reset"}


def test_a_cut_reply_is_an_error_for_curl_too(place, origin):
    whole = upstream.CHUNKED + upstream.chunk(b"data: 1\n\n")

    def script(connection):
        connection.request()
        connection.send(whole + (upstream.LAST_CHUNK if connection.number == 1 else b""))
        connection.close()

    origin.script = script
    line = """
import subprocess
words = ["curl", "-sS", "--json", "{}", "http://127.0.0.1:8080/v1/x"]
result = subprocess.run(words, capture_output=True).returncode
"""
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.python(line) in (18, 56)  # transfer closed, or reset
        assert run.python(line) == 0


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_cut_reply_is_an_error_for_a_client_of_http_1_0(place, origin, how):
    """Its replies end with the connection, so that only a reset tells it."""

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED + upstream.chunk(b"data: 1\n\n"))
        if connection.number == 1:
            connection.send(upstream.LAST_CHUNK)
        getattr(connection, how)()

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(b"GET /v1/x HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            wire.rest()
        if how == "close":  # control: a whole one ends cleanly
            wire = run.connect()
            wire.send(b"GET /v1/x HTTP/1.0\r\n\r\n")
            assert wire.rest().endswith(b"data: 1\n\n")


# ---- processes that die ----

def stream(connection):
    """A stream that does not end."""
    connection.request()
    connection.send(upstream.CHUNKED + upstream.chunk(b"data: 1\n\n"))
    connection.wait_for_end()


def read_to_error(wire):
    """What a client makes of the end of its stream: True when it cannot miss that it is cut."""
    data = b""
    try:
        data = wire.rest()
    except ConnectionResetError:
        return True
    return not data.endswith(upstream.LAST_CHUNK)


@pytest.mark.parametrize("who", ["keeper", "gate"])
def test_without_keeper_or_gate_streams_break_and_nothing_new_begins(place, origin, who):
    origin.script = stream
    with agent.run(place, *agent.llm(origin)) as run:
        wires = [run.connect() for _ in range(3)]
        for wire in wires:
            wire.send(POST)
            wire.until(b"data: 1\n\n\r\n")
        pids = run.pids()
        agent.as_root("kill", "-KILL", pids[who])
        for wire in wires:
            assert read_to_error(wire)
        # The other one ends too, and with it every connection to the upstream.
        other = {"keeper": "gate", "gate": "keeper"}[who]
        checks.wait_until(lambda: not proc.is_alive(pids[other]))
        for host in ("127.0.0.1", "::1"):
            with pytest.raises(ConnectionRefusedError):
                run.connect(host)
        # The run itself goes on, and says at its end what has happened.
        assert run.python("result = 1 + 1") == 2
        started = time.monotonic()
        assert run.end() == 0
        assert time.monotonic() - started < 20
        assert "the gateway ended before the run did" in run.stderr()
    assert place.warder("audit", "verify", str(run.audit)).returncode == 0


@pytest.mark.parametrize("who", ["keeper", "gate"])
def test_a_client_of_http_1_0_is_not_told_that_a_killed_stream_was_whole(place, origin, who):
    origin.script = stream
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(b"GET /v1/x HTTP/1.0\r\n\r\n")
        wire.until(b"data: 1\n\n")
        agent.as_root("kill", "-KILL", run.pids()[who])
        with pytest.raises(ConnectionResetError):
            wire.rest()


def test_a_killed_supervisor_takes_everything_with_it(place, origin):
    origin.script = stream
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(POST)
        wire.until(b"data: 1\n\n\r\n")
        pids = run.pids()
        agent.as_root("kill", "-KILL", pids["supervisor"])
        for pid in pids.values():
            checks.wait_until(lambda pid=pid: not proc.is_alive(pid))
    assert place.warder("audit", "verify", str(run.audit)).returncode == 0


# ---- logs that cannot be written ----

@pytest.fixture
def small_disk(place):
    """A file system with room for little."""
    top = place.top / "disk"
    top.mkdir()
    sudo = [] if harness.IS_ROOT else ["sudo", "-n"]
    if sudo and subprocess.run([*sudo, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root to mount a small file system")
    subprocess.run([*sudo, "mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "tmpfs", top],
                   check=True)
    yield top
    subprocess.run([*sudo, "umount", "-l", top], check=True)


def test_a_full_disk_refuses_requests_and_nothing_goes_out(place, origin, small_disk):
    audit = small_disk / "audit.jsonl"
    with agent.run(place, *agent.llm(origin, "--audit", str(audit))) as run:
        run.audit = audit
        assert run.ask(POST).status == 200
        checks.fill(small_disk / "filling")
        refused = 0
        while True:  # what is left of the log's last page is still good for a few
            before = len(origin.requests)
            reply = run.ask(POST)
            if reply.status != 200:
                break
            refused += 1
            assert refused < 100
        assert (reply.status, reply.code()) == (503, "audit_failed")
        assert len(origin.requests) == before
        assert "hint" in reply.json()["error"]
        # Every request that went out is in the log.
        assert len(agent.events(run.records(), "decision")) == len(origin.requests)
        (small_disk / "filling").unlink()
        assert run.ask(POST).status == 200
        assert run.end() == 0
        assert ", 1 refused" in run.stderr()
    assert place.warder("audit", "verify", str(audit)).returncode == 0
    assert len(agent.events(run.records(), "outcome")) == len(origin.requests)


def spoil_truncate(path):
    os.truncate(path, 10)


def spoil_remove(path):
    path.unlink()


def spoil_replace(path):
    path.rename(path.with_suffix(".old"))
    path.write_text("")


def spoil_append(path):
    with open(path, "a", encoding="ascii") as file:
        file.write("not a record\n")


@pytest.mark.parametrize("spoil", [spoil_truncate, spoil_remove, spoil_append])
def test_a_log_that_is_not_what_it_was_takes_no_more(place, origin, spoil):
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.ask(POST).status == 200
        wait_for_outcome(run)
        spoil(run.audit)
        reply = run.ask(POST)
        assert (reply.status, reply.code()) == (503, "audit_failed")
        assert len(origin.requests) == 1


def test_a_log_beyond_the_size_that_files_may_have(place, origin):
    """A limit that the kernel enforces with a signal, unless one asks it not to."""
    with agent.run(place, *agent.llm(origin), prefix=["prlimit", "--fsize=3000"]) as run:
        statuses = set()
        for _ in range(20):
            reply = run.ask(POST)
            statuses.add(reply.status)
            if reply.status != 200:
                break
        assert statuses == {200, 503} and reply.code() == "audit_failed"
        assert len(agent.events(run.records(), "decision")) == len(origin.requests)


@pytest.mark.parametrize("durability", ["write", "fsync"])
def test_the_decision_is_written_before_the_key_leaves(place, origin, durability):
    found = []

    def script(connection):
        for request in connection.requests():
            found.append((request.values("authorization"), run.records()))
            connection.answer()

    origin.script = script
    with agent.run(place, *agent.llm(origin, "--audit-durability", durability)) as run:
        for _ in range(5):
            assert run.ask(POST).status == 200
    for count, (keys, records) in enumerate(found, 1):
        assert keys == [f"Bearer {agent.KEY}"]
        assert len(agent.events(records, "decision")) == count
        assert records[-1]["event"] == "decision"


@pytest.mark.parametrize("where", ["nowhere/audit.jsonl", "workspace/audit.jsonl", "directory"])
def test_a_log_that_cannot_be_opened_is_a_run_not_started(place, origin, where):
    place.install()
    place.own((place.top / "directory").mkdir() or place.top / "directory")
    done = place.run(*checks.LEAVE_MARKER, env=agent.KEY_ENV,
                     options=agent.llm(origin, "--audit", str(place.top / where)))
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr)
    assert not (place.workspace / checks.MARKER).exists()


@pytest.mark.parametrize("option", ["--rw", "--workspace"])
def test_a_log_that_the_agent_could_write_to_is_refused(place, origin, option):
    place.install()
    state = place.top / "state"
    state.mkdir()
    place.own(state)
    audit = place.write("state/audit.jsonl", "")
    targets = [state] if option == "--workspace" else [state, audit]
    for target in targets:
        done = place.run(*checks.LEAVE_MARKER, env=agent.KEY_ENV, options=agent.llm(
            origin, "--audit", str(audit), option, str(target)))
        assert done.returncode == 125, (target, done)
        checks.assert_one_line(done.stderr, "audit log")


# ---- limits ----

def test_agents_beyond_the_limit_wait_and_are_served(place, origin):
    with agent.run(place, *agent.llm(origin, "--connections", "4")) as run:
        wires = [run.connect() for _ in range(4)]
        for wire in wires:
            assert wire.ask(POST).status == 200
        waiting = run.connect()
        waiting.send(POST)
        with pytest.raises(TimeoutError):
            waiting.more(timeout=0.2)
        wires[0].close()
        assert waiting.reply().status == 200


@pytest.mark.parametrize("who", ["keeper", "gate"])
def test_few_descriptors_are_an_error_and_not_the_end(place, origin, who):
    """Who cannot open more says so or waits, and what is open goes on."""
    release = threading.Event()

    def script(connection):
        for _ in connection.requests():
            connection.send(upstream.CHUNKED)
            release.wait(upstream.WAIT)
            connection.send(upstream.LAST_CHUNK)

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.connect().ask(agent.get("/elsewhere")).status == 404  # both are there
        pid = run.pids()[who]
        line = ["prlimit", "--pid", str(pid), f"--nofile={proc.descriptors(pid) + 2}"]
        assert place.host(line).returncode == 0
        wires = [run.connect() for _ in range(4)]
        for wire in wires:
            wire.send(POST)
        if who == "keeper":
            # Who of those that came together is served first is nobody's promise.
            heads = [(wire.head(), wire) for wire in wires]
            served = [wire for head, wire in heads if head.status == 200]
            waiting = [wire for head, wire in heads if head.status == 502]
            for wire in waiting:
                assert b'"upstream_unreachable"' in wire.until(b"}}")
        else:
            served, waiting = wires[:2], wires[2:]
            for wire in served:
                assert wire.head().status == 200
            for wire in waiting:
                with pytest.raises(TimeoutError):
                    wire.more(timeout=0.1)
        assert (len(served), len(waiting)) == (2, 2)
        release.set()
        for wire in served:
            wire.until(upstream.LAST_CHUNK)
            wire.close()
        for wire in waiting:
            assert (wire.ask(POST) if who == "keeper" else wire.reply()).status == 200


def test_a_slow_agent_slows_the_upstream_and_memory_stays_flat(place, origin):
    sent = [0]
    piece = upstream.chunk(b"x" * 65536)

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED)
        connection.socket.settimeout(0.5)
        try:
            while sent[0] < 1 << 28:
                connection.socket.sendall(piece)
                sent[0] += len(piece)
        except TimeoutError:
            pass

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(POST)
        wire.until(b"\r\n\r\n")
        checks.wait_until(lambda: origin.connections[0].socket.fileno() < 0)
        assert sent[0] < 1 << 26  # what the kernel's buffers hold
        if "asan" not in harness.BUILD.name:
            for who in ("keeper", "gate"):
                assert proc.rss_kib(run.pids()[who]) < 16 << 10


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_reset_behind_a_slow_agent_costs_no_time(place, origin):
    """What cannot be read yet must not be looked at again and again."""

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED)
        connection.socket.settimeout(0.3)
        try:
            while True:
                connection.socket.sendall(upstream.chunk(b"x" * 65536))
        except TimeoutError:
            connection.reset()

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(POST)
        wire.until(b"\r\n\r\n")
        checks.wait_until(lambda: origin.connections[0].socket.fileno() < 0)
        pids = run.pids()
        before = {who: cpu_ticks(pids[who]) for who in ("keeper", "gate")}
        time.sleep(0.5)
        for who in ("keeper", "gate"):
            assert cpu_ticks(pids[who]) - before[who] < 15, who  # of 50
        with pytest.raises(ConnectionResetError):
            wire.rest()
