# SPDX-License-Identifier: MIT
"""`warder gate --keeper`: one gate, many runs, told apart by nothing but their tokens
(INV-RUN-IDENTITY). What reaches the origin is checked for every single request."""
import contextlib
import json
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time

import agent
import checks
import h2wire
import harness
import link
import origin as upstream
import pytest
import siege
from open_gate import BODY, Gate


@pytest.fixture
def keeper(origin):
    with siege.keeper(origin) as made:
        yield made


@pytest.fixture
def gate(keeper):
    made = Gate(keeper)
    yield made
    made.stop()
    made.close()


def with_token(text):
    return f"X-Run-Token: {text}"


def identities(origin):
    return [request.values(siege.IDENTITY) for request in origin.requests]


# ---- many runs on one connection ----

def test_a_hundred_runs_take_turns_on_one_connection(keeper, gate, origin):
    chooser = random.Random(6)
    expected = []
    tokens = {(n, a): siege.token(f"run-{n}", a) for n in range(100) for a in (0, 1)}
    with contextlib.closing(gate.wire()) as wire:
        for number in range(600):
            run, attempt = number % 100 if number < 200 else chooser.randrange(100), number % 2
            claimed = f"run-{chooser.randrange(100)}/0"
            body = {"model": "m", "n": number, "user": claimed}
            reply = wire.ask(agent.post(body, with_token(tokens[run, attempt]),
                                        f"{siege.IDENTITY}: {claimed}"))
            assert reply.status == 200
            expected.append((f"run-{run}/{attempt}", number))
    seen = [(r.values(siege.IDENTITY)[0], json.loads(r.body)["n"]) for r in origin.requests]
    assert seen == expected
    for request, (name, _) in zip(origin.requests, expected):
        run, attempt = name.split("/")
        metadata, = request.values("x-litellm-spend-logs-metadata")
        assert json.loads(metadata) == {"runId": run, "attempt": int(attempt)}
    assert b"x-run-token" not in origin.received().lower()
    assert not any(text.encode() in origin.received() for text in tokens.values())
    allowed = keeper.wait_for_record(600, event="decision", allowed=True)
    assert [f"{r['runId']}/{r['attempt']}" for r in allowed] == [name for name, _ in expected]


def test_requests_of_many_runs_one_after_the_other_without_waiting(gate, origin):
    """Pipelined: replies come in order, and each request has been its own run's."""
    with contextlib.closing(gate.wire()) as wire:
        wire.send(b"".join(agent.post({"model": "m", "n": n}, with_token(siege.token(f"run-{n}")))
                           for n in range(50)))
        assert [wire.reply().status for _ in range(50)] == [200] * 50
    assert {(r.values(siege.IDENTITY)[0], json.loads(r.body)["n"]) for r in origin.requests} == {
        (f"run-{n}/0", n) for n in range(50)}


def test_many_connections_at_once(gate, origin):
    faults = []

    def talk(mine):
        with contextlib.closing(gate.wire()) as wire:
            for number in range(20):
                name = f"run-{mine}-{number % 3}"
                reply = wire.ask(agent.post({"model": name}, with_token(siege.token(name))))
                if reply.status != 200:
                    faults.append(reply)

    threads = [threading.Thread(target=talk, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults and len(origin.requests) == 600
    for request in origin.requests:
        assert request.values(siege.IDENTITY) == [json.loads(request.body)["model"] + "/0"]


def test_on_a_tcp_port_as_well(keeper, origin):
    holder, port = upstream.refusing_port()
    gate = Gate(keeper, f"tcp:127.0.0.1:{port}")
    try:
        assert gate.ask(with_token(siege.token("far"))).status == 200
        assert gate.ask().code() == "token_missing"
        assert identities(origin) == [["far/0"]]
    finally:
        gate.process.send_signal(signal.SIGTERM)
        gate.process.wait(20)
        gate.close()
        holder.close()


# ---- tokens that are not good ----

def refused(keeper, reply, code, status=401):
    assert (reply.status, reply.code()) == (status, code)
    assert "runId" not in reply.json()["error"]


def test_tokens_that_are_not_good(keeper, gate, origin):
    good = siege.token("mine")
    data, signature = good.rsplit(".", 1)
    tried = {
        "token_missing": [None],
        "token_invalid": [*(good[:size] for size in range(1, len(good))), "victim" + data[4:] + "." + signature,
                          siege.token("victim", key="another key"), siege.token("mine", key=siege.KEYS["k2"]),
                          good + "A", good + "=", good.swapcase(), f"{good},{good}", f"{good}, {good}",
                          f"Bearer {good}", f'"{good}"', siege.sign("mine|00|4102444800"),
                          siege.sign("mine|0|4102444800|x"), "", "x" * 300, "\u00e9"],
        "token_expired": [siege.token("mine", expiry=1), siege.token("mine", expiry=int(time.time()) - 1)],
    }
    with contextlib.closing(gate.wire()) as wire:
        for code, texts in tried.items():
            for text in texts:
                lines = [] if text is None else [with_token(text)]
                reply = wire.ask(agent.post(BODY, *lines))
                assert reply.status == 401 and reply.code() == code, text
                assert "runId" not in reply.json()["error"]
            found = keeper.wait_for_record(len(texts), event="decision", allowed=False, reason=code)
            assert len(found) == len(texts) and {r["runId"] for r in found} == {""}
        assert origin.requests == []
        assert wire.ask(agent.post(BODY, with_token(good))).status == 200  # the control
    assert identities(origin) == [["mine/0"]]
    text = keeper.audit.read_text() + keeper.stderr()
    assert signature not in text and siege.token("mine", expiry=1) not in text


def test_a_token_anywhere_else(keeper, gate, origin):
    good, other = siege.token("mine"), siege.token("victim")
    wrong = {
        "two of them": ([with_token(good), with_token(good)], "token_invalid"),
        "two runs'": ([with_token(good), with_token(other)], "token_invalid"),
        "two, one in capitals": ([with_token(good), f"X-RUN-TOKEN: {good}"], "token_invalid"),
        "an underscore": ([f"X_Run_Token: {good}"], "token_missing"),
        "authorization": ([f"Authorization: Bearer {good}"], "token_missing"),
        "a cookie": ([f"Cookie: X-Run-Token={good}"], "token_missing"),
        "another name": ([f"X-Run-Token-2: {good}"], "token_missing"),
        "joined": ([f"X-Run-Token: {good};{good}"], "token_invalid"),
        "with a tab inside": ([f"X-Run-Token: {good}\t{good}"], "token_invalid"),
    }
    for name, (lines, code) in wrong.items():
        reply = gate.ask(*lines)
        assert (reply.status, reply.code()) == (401, code), name
    with contextlib.closing(gate.wire()) as wire:
        for target in (f"/v1/chat/completions?X-Run-Token={good}", f"/v1/chat/completions?x-run-token={good}",
                       f"/v1/{good}"):
            assert wire.ask(agent.post(BODY, target=target)).code() == "token_missing"
        assert wire.ask(agent.post({"model": "m", "X-Run-Token": good})).code() == "token_missing"
        # In a trailer it is too late, and neither counts nor is passed on.
        chunked = agent.request("POST", "/v1/chat/completions", "Content-Type: application/json",
                                "Transfer-Encoding: chunked", "Trailer: X-Run-Token")
        body = upstream.chunk(b'{"model":"m"}') + b"0\r\nX-Run-Token: %s\r\n\r\n" % good.encode()
        assert wire.ask(chunked + body).code() == "token_missing"
        mixed = agent.request("POST", "/v1/chat/completions", "Content-Type: application/json",
                              "Transfer-Encoding: chunked", with_token(good))
        body = upstream.chunk(b'{"model":"m"}') + b"0\r\nX-Run-Token: %s\r\n\r\n" % other.encode()
        assert wire.ask(mixed + body).status == 200
        # White space around a value is not part of it; the name is the same in any case.
        for line in (f"X-Run-Token:   {good}", f"X-Run-Token:\t{good}  ", f"x-rUN-tOKEN: {good}"):
            assert wire.ask(agent.post(BODY, line)).status == 200, line
    assert identities(origin) == [["mine/0"]] * 4
    assert b"run-token" not in origin.received().lower() and good.encode() not in origin.received()
    assert other.encode() not in origin.received()
    # A name that two parsers could read differently is no request at all.
    for line in (f"X-Run-Token : {good}", f" X-Run-Token: {good}"):
        assert gate.ask(line).status == 400
    assert not keeper.records(runId="victim")


def test_it_speaks_no_http2(keeper, gate, origin):
    """HTTP/2 without TLS is refused, so that a token has one place where it can be."""
    with contextlib.closing(gate.wire()) as wire:
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
        assert wire.head().status in (400, 505)
    with contextlib.closing(gate.wire()) as wire:
        reply = wire.ask(agent.post(BODY, with_token(siege.token("mine")), "Connection: Upgrade, HTTP2-Settings",
                                    "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"))
        assert reply.status != 101
    assert all("upgrade" not in r.names() for r in origin.requests)


def test_a_key_that_is_taken_out(keeper, gate, origin):
    """New requests with it are refused at once; one that is under way goes on to its end."""
    go_on = threading.Event()

    def slowly(connection):
        for number, _ in enumerate(connection.requests()):
            connection.send(upstream.CHUNKED + upstream.chunk(b"data: 1\n\n"))
            assert number > 0 or go_on.wait(upstream.WAIT)
            connection.send(upstream.chunk(b"data: 2\n\n") + upstream.LAST_CHUNK)

    origin.script = slowly
    old, new = siege.token("old"), siege.token("new", key=siege.KEYS["k2"])
    with contextlib.closing(gate.wire()) as wire, contextlib.closing(gate.wire()) as second:
        wire.send(agent.post(BODY, with_token(old)))
        wire.until(b"data: 1")
        keeper.keeper["token_keys"] = {"k2": "env:K2"}
        keeper.reload()
        reply = second.ask(agent.post(BODY, with_token(old)))
        assert (reply.status, reply.code()) == (401, "token_invalid")
        go_on.set()
        assert second.ask(agent.post(BODY, with_token(new))).status == 200
        assert b"data: 2" in wire.until(b"0\r\n\r\n")
        assert wire.ask(agent.post(BODY, with_token(old))).code() == "token_invalid"
    keeper.wait_for_record(event="outcome", runId="old", ended="complete")
    keeper.wait_for_record(2, event="decision", reason="token_invalid", allowed=False)


# ---- revoked in the middle ----

def test_a_run_that_is_revoked_in_the_middle(keeper, gate, origin):
    """Its stream ends with an error and a broken connection; its neighbours on the gate go on."""
    origin.script = upstream.stream_for_ever
    wires = {name: gate.wire() for name in ("honest", "liar")}
    for name, wire in wires.items():
        wire.send(agent.post(BODY, with_token(siege.token(name))))
        wire.until(b"data: ")
    keeper.revoke("liar")
    rest = b""
    with contextlib.suppress(ConnectionError):
        while piece := wires["liar"].more():
            rest += piece
    assert b"run_revoked" in rest and not rest.endswith(b"0\r\n\r\n")
    wires["honest"].until(b"data: ")
    reply = gate.ask(with_token(siege.token("liar", 7)))  # another attempt is the same run
    assert (reply.status, reply.code()) == (403, "run_revoked")
    keeper.wait_for_record(event="outcome", runId="liar", ended="run_revoked")
    keeper.wait_for_record(event="decision", runId="liar", attempt=7, reason="run_revoked", allowed=False)
    for wire in wires.values():
        wire.close()


# ---- the keeper goes and comes ----

def test_a_keeper_that_is_started_again(origin):
    """The socket stays. What comes meanwhile fails or waits; nothing is answered without a keeper."""
    keeper = siege.Keeper(origin)
    gate = Gate(keeper)
    try:
        for number in range(3):
            kept = gate.wire()
            text = siege.token(f"run-{number}")
            assert kept.ask(agent.post(BODY, with_token(text))).status == 200
            keeper.kill()
            with pytest.raises((OSError, AssertionError)):
                kept.ask(agent.post(BODY, with_token(text)))
            kept.close()
            count = len(origin.requests)
            meanwhile = gate.wire()  # the socket is there, and nobody behind it
            meanwhile.send(agent.post(BODY, with_token(text)))
            with pytest.raises(TimeoutError):
                meanwhile.receive(1, 0.3)
            assert len(origin.requests) == count
            keeper.start()
            assert meanwhile.reply().status == 200
            meanwhile.close()
            assert gate.ask(with_token(text)).status == 200
            assert gate.ask(with_token(text[:-1])).code() == "token_invalid"
        assert {i[0] for i in identities(origin)} == {f"run-{n}/0" for n in range(3)}
        gate.stop()
        keeper.stop()
    finally:
        gate.close()
        keeper.close()


@contextlib.contextmanager
def deaf_keeper(path, is_full):
    """Somebody who listens where a keeper would, and never says anything; or takes nobody in."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.ExitStack() as open_ones:
        listener.bind(str(path))
        listener.listen(0)
        listener.settimeout(20)
        if is_full:
            knock = open_ones.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            knock.connect(str(path))
            yield lambda: None
        else:
            yield lambda: open_ones.enter_context(listener.accept()[0]).recv(65536)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gate_can_be_ended_while_its_keeper_is_deaf(tmp_path, is_full, number):
    sockets = [tmp_path / name for name in ("gate.sock", "proxy.sock")]
    with deaf_keeper(tmp_path / "keeper.sock", is_full) as hear:
        process = subprocess.Popen(
            [harness.BUILD / "src" / "warder", "gate", "--listen", f"unix:{sockets[0]}", "--proxy",
             f"unix:{sockets[1]}", "--keeper", f"unix:{tmp_path}/keeper.sock"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            checks.wait_until(lambda: all(path.exists() for path in sockets))
            hear()  # it has asked, and waits for the answer
            assert process.poll() is None
            # A signal that comes before it is listened for ends it, too, but leaves the files.
            status = f"/proc/{process.pid}/status"
            checks.wait_until(lambda: int(pathlib.Path(status).read_text().split("SigBlk:")[1].split()[0], 16))
            process.send_signal(number)
            assert process.wait(timeout=20) == 0, process.stderr.read()
            assert not any(path.exists() for path in sockets)
        finally:
            process.kill()
            process.communicate()


def test_no_gate_without_a_key(origin):
    with siege.keeper(origin, keeper={"token_keys": {}}) as keeper:
        done = keeper.warder("gate", "--listen", f"unix:{keeper.top}/g.sock")
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "no key for tokens of requests")


# ---- a gate that is not ours any more ----

@pytest.fixture
def hosts(origin, https):
    """A keeper with a host behind TLS beside the LLM."""
    config = {"allow": ["api.test"], "connect_to": {"api.test:443": f"127.0.0.1:{https.port}"},
              "upstream_ca": https.ca}
    with siege.keeper(origin, **config) as made:
        yield made


def host_request(gate, exchange, *items, path="/x"):
    return gate.ask(exchange, b"", items=items, method="GET", kind=1, host="api.test:443", is_tls=1, path=path)


def test_a_token_never_reaches_a_host(hosts, https):
    visitor = siege.Visitor(hosts)
    gate = visitor.open_gate()
    good, other = siege.token("mine"), siege.token("victim")
    assert host_request(gate, 1, ("x-run-token", good), ("x-other", "harmless")).status == 200
    assert host_request(gate, 2, ("X-RUN-TOKEN", good)).status == 200
    assert host_request(gate, 3).code() == "token_missing"
    assert host_request(gate, 4, ("x-run-token", good), ("x-run-token", other)).code() == "token_invalid"
    assert https.requests[0].values("x-other") == ["harmless"]
    assert len(https.requests) == 2
    assert b"token" not in https.received().lower() and good.encode() not in https.received()
    found = hosts.wait_for_record(2, event="decision", allowed=True)
    assert [(r["runId"], r["host"]) for r in found] == [("mine", "api.test:443")] * 2
    visitor.close()
    # On a run's own link a token is nothing, and does not go out either.
    run = siege.join(hosts, "own")
    assert host_request(run.gate, 1, ("X-Run-Token", other)).status == 200
    assert other.encode() not in https.received()
    hosts.wait_for_record(event="decision", allowed=True, runId="own")
    assert not hosts.records(runId="victim")
    run.close()


# ---- the proxy of an open gate ----

@pytest.fixture
def proxy(hosts):
    made = Gate(hosts, proxy=True)
    yield made
    made.stop()
    made.close()


def runs_of(connection):
    """The runs, by their paths, whose requests an origin has seen on a connection."""
    return {line.split(b"/")[1] for line in connection.received.split(b"\r\n") if line.startswith(b"GET /")}


def check_hosts(hosts, https, count):
    """Each request was its own run's: in the log, and on a connection of nobody else."""
    allowed = hosts.wait_for_record(count, event="decision", allowed=True)
    assert len(allowed) == count == len(https.requests)
    assert all(r["path"].split("/")[1] == r["runId"] for r in allowed)
    assert all(len(runs_of(c)) == 1 for c in https.connections)
    assert b"token" not in https.received().lower()


def test_runs_take_turns_on_a_connection_to_a_host(hosts, proxy, https):
    with contextlib.closing(proxy.connect()) as wire:
        for number in range(90):
            run = f"run-{number % 30}"
            reply = wire.ask(b"GET /%s/%d HTTP/1.1\r\nHost: api.test\r\n%s\r\n\r\n" % (
                run.encode(), number, with_token(siege.token(run)).encode()))
            assert reply.status == 200
    check_hosts(hosts, https, 90)


def test_runs_share_a_connection_of_http2(hosts, proxy, https):
    with contextlib.closing(proxy.connect(alpn="h2")) as wire:
        client = h2wire.Client(wire)
        for turn in range(4):  # a hundred streams, twenty-five at a time
            streams = {}
            for number in range(25):
                run = f"run-{turn * 25 + number}"
                streams[client.request("GET", f"/{run}/x", ("x-run-token", siege.token(run)))] = run
            for number in streams:
                assert client.reply(number).status == 200
    check_hosts(hosts, https, 100)


def test_a_token_anywhere_else_in_http2(hosts, proxy, https):
    good, other = siege.token("mine"), siege.token("victim")
    wrong = {
        "none": ([], "token_missing"),
        "two": ([("x-run-token", good), ("x-run-token", good)], "token_invalid"),
        "two runs'": ([("x-run-token", other), ("x-run-token", good)], "token_invalid"),
        "joined": ([("x-run-token", f"{good},{good}")], "token_invalid"),
        "a cookie": ([("cookie", f"x-run-token={good}")], "token_missing"),
        "an underscore": ([("x_run_token", good)], "token_missing"),
        "authorization": ([("authorization", f"Bearer {good}")], "token_missing"),
        "cut off": ([("x-run-token", good[:-1])], "token_invalid"),
        "expired": ([("x-run-token", siege.token("mine", expiry=1))], "token_expired"),
        "another key": ([("x-run-token", siege.token("mine", key="x"))], "token_invalid"),
    }
    with contextlib.closing(proxy.connect(alpn="h2")) as wire:
        client = h2wire.Client(wire)
        for name, (fields, code) in wrong.items():
            got = client.ask("GET", f"/mine/{name.replace(' ', '-')}", *fields)
            assert (got.status, json.loads(got.body)["error"]["code"]) == (401, code), name
        got = client.ask("GET", f"/mine/x?x-run-token={good}")
        assert got.status == 401
        # In a trailer it is too late.
        number = client.request("POST", "/mine/trailer", body=b"x", end=False)
        client.send_headers(number, [("x-run-token", good)], end=True)
        assert client.reply(number).status == 401
    # Names in capitals, and white space around values, are no HTTP/2: such a stream is none.
    for fields in ([("X-Run-Token", good)], [("x-run-token", f" {good}")]):
        with contextlib.closing(proxy.connect(alpn="h2")) as wire:
            client = h2wire.Client(wire)
            number = client.request("GET", "/mine/odd", *fields)
            got = client.reply(number)
            assert got.reset is not None or client.is_over or got.status in (400, 401)
    assert https.requests == []
    with contextlib.closing(proxy.connect(alpn="h2")) as wire:  # the control
        assert h2wire.Client(wire).ask("GET", "/mine/x", ("x-run-token", good)).status == 200
    check_hosts(hosts, https, 1)
    assert not hosts.records(runId="victim")


def test_a_token_of_the_connection_is_no_token_of_its_requests(hosts, proxy, https):
    good = siege.token("mine")
    for lines in ([with_token(good)], [f"Proxy-Authorization: Bearer {good}"]):
        with contextlib.closing(proxy.connect(*lines)) as wire:
            reply = wire.ask(b"GET /mine/x HTTP/1.1\r\nHost: api.test\r\n\r\n")
            assert (reply.status, reply.code()) == (401, "token_missing")
    # Nor of what follows on the same connection.
    with contextlib.closing(proxy.connect()) as wire:
        ask = b"GET /mine/x HTTP/1.1\r\nHost: api.test\r\n%s\r\n"
        assert wire.ask(ask % (with_token(good).encode() + b"\r\n")).status == 200
        assert wire.ask(ask % b"").code() == "token_missing"
    check_hosts(hosts, https, 1)


@pytest.mark.parametrize("way", ["tunnel", "socks"])
def test_what_has_no_place_for_a_token_is_refused(hosts, proxy, https, way):
    """Bytes that are no HTTP, through CONNECT, also with a token, and through SOCKS."""
    make = getattr(proxy, way)
    for lines in ((), (with_token(siege.token("mine")),)) if way == "tunnel" else ((),):
        with contextlib.closing(make(*lines)) as wire:
            with contextlib.suppress(ConnectionError):
                wire.send(b"SSH-2.0-x\r\n")
                assert wire.receive(100, 60) == b""
    assert https.connections == [] and not hosts.records(event="decision", allowed=True)
    with contextlib.closing(proxy.connect(way=make)) as wire:  # the control: the same way, with a token
        reply = wire.ask(b"GET /mine/x HTTP/1.1\r\nHost: api.test\r\n%s\r\n\r\n" % with_token(siege.token("mine")).encode())
        assert reply.status == 200
    check_hosts(hosts, https, 1)


def test_a_hostile_gate_has_no_more_than_its_tokens(keeper, origin):
    """It serves many runs, and can be each of them whose token it has been shown; no other."""
    visitor = siege.Visitor(keeper)
    gate = visitor.open_gate()
    for number, items in enumerate((
            [], [("x-litellm-end-user-id", "victim/0")], [("x-run-token", "victim|0|4102444800")],
            [("x-run-token", siege.token("victim", key="guess"))],
            [("x-run-token", siege.token("mine")), ("x-run-token", siege.token("mine"))])):
        assert gate.ask(number + 1, items=items).status == 401
    assert gate.ask(10, items=[("x-run-token", siege.token("mine")), (siege.IDENTITY, "victim/0")]).status == 200
    assert identities(origin) == [["mine/0"]]
    gate.send(link.REFUSED, 11, b"".join(map(link.text, ("made_up", "GET", "victim", "/victim"))))
    record, = keeper.wait_for_record(event="decision", reason="made_up")
    assert record["runId"] == ""
    # What a remote link may say, it may not.
    gate.socket.sendall(siege.token_message(siege.token("victim")))
    assert gate.is_ended()
    visitor.close()
    assert not keeper.records(runId="victim")


def test_more_runs_than_are_remembered(keeper, origin):
    """Those that do nothing make room; revoked ones are still revoked when they come back."""
    visitor = siege.Visitor(keeper)
    gate = visitor.open_gate()
    count = 4096 + 200
    assert gate.ask(1, items=[("x-run-token", siege.token("revoked"))]).status == 200
    keeper.revoke("revoked")
    memory = None
    for first in range(0, count, 50):
        for number in range(first, min(first + 50, count)):
            gate.open(number + 2, items=[("x-run-token", siege.token(f"run-{number}"))])
        waiting = set(range(first + 2, min(first + 50, count) + 2))
        while waiting:
            kind, exchange, _ = gate.receive()
            if kind == link.END:
                waiting.discard(exchange)
        if first == 3000:
            memory = keeper.rss()
    assert gate.ask(count + 2, items=[("x-run-token", siege.token("revoked"))]).code() == "run_revoked"
    assert gate.ask(count + 3, items=[("x-run-token", siege.token("run-0"))]).status == 200
    seen = sorted(i[0] for i in identities(origin))
    assert seen == sorted(["revoked/0", "run-0/0", *(f"run-{n}/0" for n in range(count))])
    assert keeper.rss() - memory < (400 if siege.IS_SANITIZED else 64) << 20
    visitor.close()
