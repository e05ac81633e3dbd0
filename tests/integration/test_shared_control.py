# SPDX-License-Identifier: MIT
"""What is asked of a shared keeper: its runs, taking one's access away, and its end."""
import json
import re
import signal
import subprocess
import time

import agent
import checks
import origin as upstream
import pytest
import shared
import siege

pytestmark = pytest.mark.patient

POST = agent.post({"model": "m"})


@pytest.fixture
def keeper(user_place, origin):
    """One whose LLM streams to those who want that."""
    origin.script = shared.answer_or_stream
    with shared.keeper(user_place, shared.llm(origin)) as made:
        yield made


# ---- listing and showing ----

def test_the_table_of_runs(keeper):
    assert keeper.warder("ps").stdout == ""
    with keeper.run("--run-id", "r-1", "--attempt", "2", "--billing-account", "team-7") as run, \
            keeper.run("--run-id", "r-2") as other:
        run.ask(POST)
        run.ask(agent.get("/v2/nothing"))
        shared.open_stream(other)
        head, *rows = keeper.warder("ps").stdout.splitlines()
        assert re.split(r"\s{2,}", head.strip()) == [
            "RUN", "ATTEMPT", "ACCOUNT", "STATE", "LINK", "AGE", "UNDER WAY", "ALLOWED", "REFUSED"]
        found = {row.split()[0]: row.split()[1:] for row in rows}
        assert found["r-1"][:4] == ["2", "team-7", "running", "local"]
        assert found["r-2"][:4] == ["0", "-", "running", "local"]
        assert re.fullmatch(r"\d+s", found["r-1"][4])
        assert found["r-2"][5:] == ["1", "1", "0"]
    checks.wait_until(lambda: keeper.warder("ps").stdout == "")


def test_runs_as_json_and_one_of_them(keeper):
    with keeper.run("--run-id", "123", "--billing-account", "456") as run, keeper.run():
        run.ask(POST)
        listed = {row["runId"]: row for row in keeper.ps()}
        assert len(listed) == 2
        row = listed["123"]  # still a text
        assert row["account"] == "456" and row["state"] == "running" and row["ageMs"] >= 0
        assert (row["allowed"], row["refused"], row["exchanges"]) == (1, 0, 0)
        shown = keeper.show("123")
        assert {"run.spent", "run.reserved", "run.bytes", "run.concurrent"} <= set(shown)
        assert {"account.spent", "account.reserved"} <= set(shown)
        text = keeper.warder("ps", "123").stdout
        assert re.search(r"^runId +123$", text, re.M) and re.search(r"^account +456$", text, re.M)


def test_the_longest_account_is_shown_with_what_it_has_used(user_place, origin):
    origin.script = shared.answer_or_stream
    account = "a" * 256
    config = shared.llm(origin, account_limits={"*": {"concurrent": 4}})
    with shared.keeper(user_place, config) as keeper, \
            keeper.run("--run-id", "r-1", "--billing-account", account) as run:
        shared.open_stream(run)
        shown = keeper.show("r-1")
        assert (shown["account"], shown["account.concurrent"]) == (account, 1)


@pytest.mark.parametrize("verb, words, expected", [
    ("ps", ("no/run",), "'no/run' is no run id"),
    ("ps", ("r-1", "r-2"), "unexpected argument 'r-2'"),
    ("ps", ("--jsn",), "--json"),
    ("revoke", (), "which run? 'warder ps' lists them"),
    ("revoke", ("r-1", "r-2"), "unexpected argument 'r-2'"),
    ("revoke", ("",), "is no run id"),
    ("drain", ("r-1",), "unexpected argument 'r-1'"),
])
def test_wrong_command_lines(keeper, verb, words, expected):
    done = keeper.warder(verb, *words)
    assert done.returncode == 125 and not done.stdout
    checks.assert_one_line(done.stderr, expected)
    assert keeper.is_alive()


@pytest.mark.parametrize("verb, words", [("ps", ()), ("revoke", ("r-1",)), ("drain", ())])
def test_there_must_be_a_keeper(user_place, verb, words):
    done = user_place.warder(verb, *words, "--keeper", f"unix:{user_place.top}/missing")
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "no keeper listens at", "warder keeper")
    done = user_place.warder(verb, *words, "--keeper", "tls:localhost:1")
    checks.assert_one_line(done.stderr, "is not unix:PATH")
    assert user_place.warder(verb, "--help").stdout.startswith(f"usage: warder {verb}")


@pytest.mark.parametrize("options, config, expected", [
    (("--control", "tcp:127.0.0.1:1"), {}, "--control"),
    (("--control-mode", "0999"), {}, "permissions in octal"),
    (("--store", "mysql://u:hunter2@h/db"), {}, "sqlite:PATH"),
    (("--listen", "tls:127.0.0.1:0"), {}, "--listen"),
    (("extra",), {}, "unexpected argument 'extra'"),
    ((), {"keeper": {"contrl": "unix:/x"}}, "control"),
    ((), {"limits": {"spend": -1}}, "spend"),
    ((), {"llm": {"upstream": "http://127.0.0.1:1", "key": "env:NOT_SET"}}, "NOT_SET"),
])
def test_a_keeper_that_cannot_serve_says_why(user_place, options, config, expected):
    made = shared.Keeper(user_place, config)
    made.start(*options, wait=False)
    assert made.process.wait(timeout=20) == 125
    checks.assert_one_line(made.stderr(), expected)
    assert "hunter2" not in made.stderr()
    assert not (made.top / "control.sock").exists()


# ---- revoking ----

def test_a_revoked_run_is_cut_off_and_stays_so(keeper, origin):
    with keeper.run("--run-id", "r-1") as run, keeper.run("--run-id", "r-2") as other:
        wires = [shared.open_stream(run) for _ in range(2)]
        bystander = shared.open_stream(other)
        assert keeper.revoke("r-1").returncode == 0
        for wire in wires:
            shared.assert_cut(wire, "run_revoked")
        reply = run.ask(POST)
        assert (reply.status, reply.code()) == (403, "run_revoked")
        count = len(origin.requests)
        states = {row["runId"]: row["state"] for row in keeper.ps()}
        assert states == {"r-1": "revoked", "r-2": "running"}
        # Control: another run's stream goes on to its end.
        for data in (upstream.chunk(b"data: 2\n\n"), upstream.LAST_CHUNK):
            origin.connections[2].send(data)
        data, _ = bystander.until(upstream.LAST_CHUNK), other.ask(POST)
        assert b"data: 2" in data and len(origin.requests) == count + 1
    again = ("--keeper", keeper.address, "--run-id", "r-1")
    done = keeper.place.run("true", options=again)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "run r-1 was revoked")
    assert [r["ended"] for r in keeper.outcomes(2, "r-1")] == ["run_revoked"] * 2
    checks.wait_until(lambda: [(r["method"], r["reason"]) for r in keeper.records("decision")
                               if not r["allowed"]] == [("POST", "run_revoked"), ("LINK", "run_revoked")])
    assert keeper.log("run_revoked")[0]["runId"] == "r-1"
    keeper.verify()


def test_a_revocation_outlives_the_keeper(keeper):
    with keeper.run("--run-id", "r-1"):
        assert keeper.revoke("r-1").returncode == 0
    assert keeper.revoke("never-seen").returncode == 0  # one that begins later, perhaps
    for stop in (keeper.end, keeper.kill):
        stop()
        keeper.start()
        for name in ("r-1", "never-seen"):
            done = keeper.place.run("true", options=("--keeper", keeper.address, "--run-id", name))
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, f"run {name} was revoked")
        # Control: others begin.
        options = ("--keeper", keeper.address, "--run-id", "r-2")
        assert keeper.place.run("true", options=options).returncode == 0
    keeper.verify()


def test_a_request_that_is_not_a_stream_is_cut_as_well(keeper, origin):
    origin.script = lambda connection: [connection.request(), connection.wait_for_end()]
    with keeper.run("--run-id", "r-1") as run:
        wire = run.connect()
        wire.send(POST)
        origin.next_request()
        assert keeper.revoke("r-1").returncode == 0
        reply = wire.reply()  # nothing of it had begun: there is room for a whole one
        assert (reply.status, reply.code()) == (403, "run_revoked")
    assert [r["ended"] for r in keeper.outcomes(1)] == ["run_revoked"]


def test_half_a_reply_of_a_revoked_run_is_broken(keeper, origin):
    def half(connection):
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 49 + b"\n")
        connection.wait_for_end()

    origin.script = half
    with keeper.run("--run-id", "r-1") as run:
        wire = run.connect()
        wire.send(POST)
        wire.head()
        assert wire.exactly(50) == b"x" * 49 + b"\n"
        assert keeper.revoke("r-1").returncode == 0
        with pytest.raises(ConnectionResetError):
            wire.rest()


BEGIN = """
import builtins, subprocess
builtins.curl = subprocess.Popen(["curl", "-sSN", "--http2", "https://api.test/"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
result = curl.stdout.readline()
"""
END = """
out, err = curl.communicate(timeout=20)
result = [curl.returncode, out, err]
"""


@pytest.mark.parametrize("is_revoked", [True, False])
def test_a_stream_of_http_2_says_why_it_is_cut(user_place, https, is_revoked):
    def stream(connection):
        connection.request()
        connection.send(upstream.CHUNKED + upstream.chunk(shared.EVENT))
        connection.wait_for_end()

    https.script = stream
    with shared.keeper(user_place, shared.host(https, secret=False)) as keeper, \
            keeper.run("--run-id", "r-1") as run:
        assert run.python(BEGIN) == shared.EVENT.decode().split("\n", maxsplit=1)[0] + "\n"
        if is_revoked:
            assert keeper.revoke("r-1").returncode == 0
        else:  # the control
            https.connections[0].send(upstream.LAST_CHUNK)
        status, out, err = run.python(END)
        assert (status != 0) == is_revoked, err
        assert ("HTTP/2 stream" in err) == is_revoked
        assert ('event: error\ndata: {"error":{"code":"run_revoked"' in out) == is_revoked


# ---- draining ----

def test_a_drained_keeper_ends_with_its_last_run(keeper, origin):
    options = ("--keeper", keeper.address)
    with keeper.run("--run-id", "r-1") as run, keeper.run("--run-id", "r-2") as other:
        wire = shared.open_stream(run)
        drain = keeper.drain()
        keeper.wait_for("draining")
        done = keeper.place.run("true", options=options)
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "takes no more runs")
        # Those that are there go on, and can ask for more.
        assert run.ask(POST).status == 200
        for data in (upstream.chunk(b"data: 2\n\n"), upstream.LAST_CHUNK):
            origin.connections[0].send(data)
        assert b"data: 2" in wire.until(upstream.LAST_CHUNK)
        assert keeper.run_ids() == ["r-1", "r-2"]
        assert run.end() == 0
        checks.wait_until(lambda: keeper.run_ids() == ["r-2"])
        assert keeper.is_alive() and drain.poll() is None
        assert other.end() == 0
    assert keeper.wait() == 0
    assert drain.communicate(timeout=20) == ("", "") and drain.returncode == 0
    assert not (keeper.top / "control.sock").exists()
    assert "stopped" in keeper.stderr()
    keeper.verify()


def test_an_idle_keeper_is_drained_at_once(keeper):
    drain = keeper.drain()
    assert drain.communicate(timeout=20) == ("", "") and drain.returncode == 0
    assert keeper.wait() == 0


def test_the_end_waits_for_the_last_run(keeper):
    with keeper.run() as run:
        stream = shared.open_stream(run)
        keeper.send(signal.SIGTERM)
        keeper.wait_for("draining")
        assert run.ask(POST).status == 200
        assert keeper.is_alive()
        stream.close()
        assert run.end() == 0
    assert keeper.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_it_at_once(keeper, number):
    with keeper.run() as run:
        wire = shared.open_stream(run)
        keeper.send(number)
        keeper.wait_for("draining")
        assert keeper.is_alive()
        keeper.send(number)
        assert keeper.wait(10) == 0
        assert not shared.read_to_end(wire)[1]
        assert run.end() == 0
        assert "1 request, 0 refused" in run.stderr()
    assert [r["event"] for r in keeper.records()][-2:] == ["outcome", "end"]
    keeper.verify()


@pytest.mark.parametrize("timeout, least, most", [("1s", 0.9, 60), ("0", 0, 60)])
def test_the_end_waits_no_longer_than_it_may(user_place, origin, timeout, least, most):
    origin.script = shared.answer_or_stream
    config = shared.llm(origin, keeper={"drain_timeout": timeout})
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        wire = shared.open_stream(run)
        start = time.monotonic()
        keeper.send(signal.SIGTERM)
        assert keeper.wait(90) == 0
        assert least <= time.monotonic() - start < most
        assert not shared.read_to_end(wire)[1]


def test_a_socket_that_a_killed_keeper_left_is_taken_over(keeper, user_place):
    keeper.kill()
    assert (keeper.top / "control.sock").exists()
    keeper.start()
    assert keeper.run_ids() == []
    # Control: one that somebody listens at is not.
    second = shared.Keeper(user_place, {"keeper": {"control": keeper.address}})
    second.start(wait=False)
    assert second.process.wait(timeout=20) == 125
    checks.assert_one_line(second.stderr(), keeper.path)
    assert keeper.run_ids() == []


def test_two_keepers_do_not_share_a_file_of_counts(keeper, user_place):
    store = keeper.config["keeper"]["store"]
    second = shared.Keeper(user_place, {"keeper": {"store": store}})
    second.start(wait=False)
    assert second.process.wait(timeout=20) == 125
    checks.assert_one_line(second.stderr(), "store.db")


def test_what_is_asked_in_pieces_or_not_at_all(keeper):
    """Visitors who say nothing, too much, or nonsense cost nobody else anything."""
    done = subprocess.run(["/usr/bin/python3", "-c", f"""
import socket
open = []
for packet in (None, b"", b"R", b"Rrun-id=r-9", b"?", b"S", b"Sr-1", b"S\\0",
               b"V\\0", b"Rrun-id=../x\\0", b"R" + b"x" * 60000, b"\\0" * 100):
    for _ in range(3):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect({keeper.path!r})
        if packet:
            sock.send(packet)
        open.append(sock)
        if packet:
            sock.settimeout(10)
            assert sock.recv(1000)[:1] == b"!", packet
"""], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert keeper.run_ids() == []
    with keeper.run("--run-id", "r-1") as run:
        assert run.ask(POST).status == 200


def test_who_asks_nothing_does_not_stay(keeper):
    """A connection that is nobody's run and owes nobody an answer is closed after a while."""
    with keeper.run("--run-id", "r-1") as run:
        idle = [siege.Visitor(keeper) for _ in range(3)]
        idle[1].send(b"L")
        assert [idle[1].told()[0] for _ in range(2)] == ["r", "."]
        idle[2].send(b"?")
        idle[2].failure()
        drain = keeper.drain()
        keeper.wait_for("draining")
        for visitor in idle:
            visitor.socket.settimeout(60)
            assert visitor.told() is None
            visitor.close()
        # Control: who has a run, or waits for its end, does.
        assert drain.poll() is None and keeper.run_ids() == ["r-1"]
        assert run.ask(POST).status == 200
    assert drain.communicate(timeout=20) == ("", "") and drain.returncode == 0
    assert keeper.wait() == 0


def test_the_log_for_people(user_place, origin):
    config = shared.llm(origin, keeper={"log": "text"})
    made = shared.Keeper(user_place, config)
    made.start(wait=False)
    checks.wait_until(lambda: "ready" in made.stderr())
    made.send(signal.SIGTERM)
    assert made.wait() == 0
    lines = made.stderr().splitlines()
    assert any("ready" in line and made.path in line for line in lines)
    for line in lines:
        with pytest.raises(json.JSONDecodeError):
            json.loads(line)
