# SPDX-License-Identifier: MIT
"""The LLM path from end to end: the agent sends, the upstream must see, the log must say."""
import json
import queue
import re
import shutil
import struct
import threading
import time

import agent
import harness
import origin as upstream
import pytest

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}], "stream": False}
POST = agent.post(BODY)


# ---- completions and streams ----

def test_a_completion(place, origin):
    answer = {"id": "chatcmpl-1", "choices": [{"message": {"content": "hello"}}], "usage": {"cost": 0.5}}
    fields = [("x-litellm-call-id", "call-1"), ("x-litellm-response-cost", "0.25"), ("X-Other", "kept")]
    origin.script = lambda c: [c.answer(json.dumps(answer).encode(), fields=fields)
                               for _ in c.requests()]
    with agent.run(place, *agent.llm(origin, "-v", "--run-id", "task-1", "--attempt", "3")) as run:
        reply = run.ask(POST)
        assert (reply.status, reply.json(), reply.value("x-other")) == (200, answer, "kept")
        assert run.end() == 0
        pattern = (rf"warder: POST {re.escape(origin.label)}/v1/chat/completions 200 \d\.\d{{3}} s "
                   r"gpt-4o\n(.*\n)*"
                   r"warder: run task-1: exit 0, \d+\.\d{3} s.*, 1 request, 0 refused, audit "
                   + re.escape(str(run.audit)) + "\n")
        assert re.search(pattern, run.stderr()), run.stderr()
    request = origin.requests[0]
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.body == json.dumps(BODY).encode()
    assert request.values("x-litellm-end-user-id") == ["task-1/3"]
    assert json.loads(request.values("x-litellm-spend-logs-metadata")[0]) == {
        "runId": "task-1", "attempt": 3}
    start, decision, outcome, end = run.records()
    assert [r["event"] for r in (start, decision, outcome, end)] == [
        "start", "decision", "outcome", "end"]
    assert {r["runId"] for r in run.records()} == {"task-1"}
    assert (decision["method"], decision["host"], decision["path"], decision["allowed"]) == (
        "POST", origin.label, "/v1/chat/completions", True)
    assert (outcome["status"], outcome["ended"], outcome["model"], outcome["callId"],
            outcome["cost"]) == (200, "complete", "gpt-4o", "call-1", "0.25")
    assert place.warder("audit", "verify", str(run.audit)).returncode == 0


def event(number):
    return b"data: {\"n\":%d}\n\n" % number


@pytest.mark.parametrize("is_tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_each_event_is_at_the_agent_before_the_next_is_sent(place, certificates, is_tls, framing):
    arrived = queue.Queue()

    def script(connection):
        connection.request()
        is_chunked = framing == "chunked"
        connection.send(upstream.CHUNKED if is_chunked else
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for number in range(20):
            connection.send(upstream.chunk(event(number)) if is_chunked else event(number))
            arrived.get(timeout=upstream.WAIT)  # the agent says that it has it
        if is_chunked:
            connection.send(upstream.LAST_CHUNK)
        connection.end()

    context = certificates.context() if is_tls else None
    origin = upstream.Origin(script, context, certificates.NAME)
    options = agent.llm(origin, "--upstream-ca", str(certificates.ca), "--connect-to",
                        f"{certificates.NAME}:{origin.port}=127.0.0.1:{origin.port}")
    with agent.run(place, *options) as run:
        wire = run.connect()
        wire.send(POST)
        assert wire.head().value("content-type") == "text/event-stream"
        for number in range(20):
            wire.until(event(number))
            arrived.put(number)
        wire.until(upstream.LAST_CHUNK)
    origin.close()


def test_tls_that_ends_without_a_word_is_a_cut_reply(place, certificates):
    """A reply that ends with the connection is whole only when its end is authentic."""

    def script(connection):
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        connection.close() if connection.number == 0 else connection.end()

    origin = upstream.Origin(script, certificates.context(), certificates.NAME)
    options = agent.llm(origin, "--upstream-ca", str(certificates.ca), "--connect-to",
                        f"{certificates.NAME}:{origin.port}=127.0.0.1:{origin.port}")
    with agent.run(place, *options) as run:
        with pytest.raises(ConnectionResetError):
            run.ask(POST)
        assert run.ask(POST).body == b"hello"
    origin.close()


def test_the_cost_of_a_stream_is_that_of_its_last_event(place, origin):
    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED)
        connection.send(upstream.chunk(b'data: {"choices":[]}\n\ndata: {"usage":{"co'))
        connection.send(upstream.chunk(b'st": 0.0125}}\n\ndata: [DONE]\n\n') + upstream.LAST_CHUNK)
        connection.wait_for_end()

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.ask(POST).body.endswith(b"[DONE]\n\n")
        run.end()
    assert agent.events(run.records(), "outcome")[0]["cost"] == "0.0125"


def test_both_loopbacks_and_the_port_that_was_asked_for(place, origin):
    with agent.run(place, *agent.llm(origin, "--llm-port", "4321"), port=4321) as run:
        for host in ("127.0.0.1", "::1", "localhost"):
            wire = run.connect(host)
            assert wire.ask(POST).status == 200
        assert run.python("import os; result = os.environ['OPENAI_BASE_URL']") == (
            "http://127.0.0.1:4321/v1")
        run.port = 8080
        with pytest.raises(ConnectionRefusedError):
            run.connect()


def test_nothing_else_can_be_reached(place, origin):
    """INV-NETWORK-DENY: the upstream itself, whose address the agent may know, is not there."""
    with agent.run(place, *agent.llm(origin)) as run:
        run.port = origin.port
        with pytest.raises((ConnectionRefusedError, AssertionError)):
            run.connect()
        assert not origin.connections
        run.port = 8080
        assert run.ask(POST).status == 200  # control


def test_without_an_llm_nothing_listens(place):
    with agent.run(place) as run:
        with pytest.raises((ConnectionRefusedError, AssertionError)):
            run.connect()
        assert set(run.pids()) == {"supervisor", "init", "agent"}


def test_health_and_other_paths(place, origin):
    with agent.run(place, *agent.llm(origin, "--run-id", "r-9")) as run:
        assert run.ask(agent.get("/health")).json() == {"status": "ok", "runId": "r-9"}
        for path in ("/", "/v1", "/v1/", "/v2/x", "/healthy", "/health/x", "/key/generate", "/v1x/y"):
            reply = run.ask(agent.get(path))
            assert (reply.status, reply.code()) == (404, "not_found"), path
            assert reply.json()["error"]["runId"] == "r-9"
        for path in ("/v1/../key/info", "/v1/%2e%2e/key", "/v1//x", "/v1/./x", "/v1/a%2fb", "/v1/a\\b"):
            assert run.ask(agent.get(path)).status in (400, 404), path
        assert not origin.requests
        assert run.ask(agent.get("/v1/models")).status == 200  # control
        run.end()
        refused = [r for r in agent.events(run.records(), "decision") if not r["allowed"]]
        assert len(refused) == 14
        assert "15 requests, 14 refused" in run.stderr()


# ---- everything else as it was ----

def test_other_fields_are_kept_in_order_and_as_they_were(place, origin):
    lines = ["User-Agent: OpenAI/Python 1.2.3", "anthropic-beta: a,b", "Anthropic-Version: 2023-06-01",
             "X-Stainless-Lang: python", "accept: */*", "anthropic-beta: c", "X-Empty:",
             "x-request-id: 7", "traceparent: 00-1-2-01"]
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.ask(agent.post(BODY, *lines, "Accept-Encoding: gzip, br")).status == 200
    # The one that is not: in what is compressed no key could be found (INV-NO-REFLECTION).
    assert origin.requests[0].values("accept-encoding") == ["identity"]
    sent = [tuple(part.strip() for part in line.split(":", 1)) for line in lines]
    got = [f for f in origin.requests[0].fields if f in sent or f[0] == "X-Empty"]
    assert [(n, v.strip()) for n, v in got] == sent


@pytest.mark.parametrize("size", [0, 1, 1000, 65535, 65536, 65537, 300000])
@pytest.mark.parametrize("provider", ["litellm", "openai"])
def test_a_body_arrives_byte_for_byte(user_place, origin, size, provider):
    filler = "äöü\\u00e4\\n  " * (size // 12 + 1)
    body = ('{ "model" : "m",\n\t"x": "' + filler[:size] + '"}').encode()
    body = body if body[-3:-2] != b"\\" else body[:-2] + b' "}'
    with agent.run(user_place, *agent.llm(origin, "--llm-provider", provider)) as run:
        try:
            json.loads(body)
        except ValueError:
            body = ('{ "model" : "m",\n\t"x": "' + "y" * size + '"}').encode()
        wire = run.connect()
        wire.send(agent.post(body))
        assert wire.reply().status == 200
        pieces = b"".join(upstream.chunk(body[i:i + 7001]) for i in range(0, len(body), 7001))
        wire.send(agent.request("POST", "/v1/x", "Transfer-Encoding: chunked") + pieces +
                  upstream.LAST_CHUNK)
        assert wire.reply().status == 200
    assert [request.body for request in origin.requests] == [body, body]


def test_what_the_members_stood_between_is_left_alone(place, origin):
    body = b' {"a" : 1 ,\n "user":"x",  "metadata" : { "k":[1,{"user_id":2}] , "user_id":"y"},"b":"user"}\n'
    want = {"a": 1, "metadata": {"k": [1, {"user_id": 2}]}, "b": "user"}
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.ask(agent.post(body)).status == 200
    got = origin.requests[0].body
    assert json.loads(got) == want
    assert got.startswith(b' {"a" : 1') and got.endswith(b'"b":"user"}\n')


# ---- ways of HTTP ----

def test_keep_alive_on_both_sides(place, origin):
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        for _ in range(10):
            assert wire.ask(POST).status == 200
        assert len(origin.connections) == 1


def test_pipelined_requests_are_answered_in_order(place, origin):
    origin.script = lambda c: [c.answer(json.dumps(r.target).encode()) for r in c.requests()]
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(b"".join(agent.post(BODY, target=f"/v1/{i}") for i in range(10)))
        assert [wire.reply().json() for _ in range(10)] == [f"/v1/{i}" for i in range(10)]


def test_expectations_are_met(place, origin):
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        body = json.dumps(BODY).encode()
        wire.send(agent.request("POST", "/v1/x", f"Content-Length: {len(body)}",
                                "Expect: 100-continue"))
        assert wire.head().status == 100
        wire.send(body)
        assert wire.reply().status == 200
    assert origin.requests[0].values("expect") == []


def test_head_and_replies_without_a_body(place, origin):
    replies = iter([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n",
                    b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
                    b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + upstream.reply(b"{}")])

    def script(connection):
        for _ in connection.requests():
            connection.send(next(replies))

    origin.script = script
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(agent.request("HEAD", "/v1/models"))
        assert wire.reply(has_body=False).value("content-length") == "99"
        assert wire.ask(agent.get()).status == 204
        assert wire.ask(agent.get()).value("etag") == "x"
        assert wire.ask(agent.get()).value("link") == "</x>"
        assert wire.reply().json() == {}
    assert len(origin.connections) == 1


def test_trailers_of_a_reply_come_through(place, origin):
    origin.script = lambda c: [c.send(upstream.CHUNKED + upstream.chunk(b"x") + b"0\r\nX-T: 1\r\n\r\n")
                               for _ in c.requests()]
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(POST)
        assert wire.until(b"0\r\nX-T: 1\r\n\r\n")


def test_half_a_close_still_gets_the_reply(place, origin):
    with agent.run(place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(POST)
        wire.shutdown()
        assert wire.reply().status == 200
        assert wire.rest() == b""


@pytest.mark.parametrize("sent, status", [
    (b"GET /v1/x HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
    (b"GET /v1/x HTTP/1.1\nHost: a\n\n", 400),
    (b"GET /v1/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /v1/x HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    (b"GET /v1/x HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
    (b"GET http://b/v1/x HTTP/1.1\r\nHost: a\r\n\r\n", 421),
    (b"GET http://u@a/v1/x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
    (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n{}", 400),
    (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", None),
    (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", None),
    (b"POST /v1/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", None),
    (b"TRACE /v1/x HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
    (b"GET /v1/x HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n", None),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
])
def test_what_two_parsers_could_read_differently_goes_nowhere(user_place, origin, sent, status):
    with agent.run(user_place, *agent.llm(origin)) as run:
        reply = run.ask(sent)
        assert reply.status == status if status else 400 <= reply.status <= 505
        assert reply.code() and reply.value("connection") == "close"
        assert not origin.connections
        assert run.ask(POST).status == 200  # control


def test_a_refusal_by_the_gate_is_in_the_log_too(user_place, origin):
    """DESIGN section 4: every refusal is audited."""
    with agent.run(user_place, *agent.llm(origin)) as run:
        assert run.ask(b"GET /v1/x HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n").status == 400
        run.end()
    refused = [r for r in agent.events(run.records(), "decision") if not r["allowed"]]
    assert len(refused) == 1


# ---- silence ----

def test_silence_within_the_limits_cuts_nothing_and_beyond_them_does(place, origin):
    def script(connection):
        for request in connection.requests():
            wait = float(request.target.rsplit("/", 1)[1])
            if "first" in request.target:
                time.sleep(wait)  # what it waits for is time itself
            connection.send(upstream.CHUNKED + upstream.chunk(event(0)))
            if "idle" in request.target:
                time.sleep(wait)  # what it waits for is time itself
            connection.send(upstream.chunk(event(1)) + upstream.LAST_CHUNK)

    origin.script = script
    options = agent.llm(origin, "--first-byte-timeout", "700ms", "--idle-timeout", "400ms")
    with agent.run(place, *options) as run:
        assert run.ask(agent.get("/v1/first/0.5")).body == event(0) + event(1)
        assert run.ask(agent.get("/v1/idle/0.2")).body == event(0) + event(1)
        assert run.ask(agent.get("/v1/first/1.2")).code() == "upstream_timeout"
        wire = run.connect()
        wire.send(agent.get("/v1/idle/1.2"))
        wire.until(event(0))
        with pytest.raises(ConnectionResetError):
            wire.rest()
        run.end()
    ended = [r["ended"] for r in agent.events(run.records(), "outcome")]
    assert ended == ["complete", "complete", "upstream_timeout", "upstream_timeout"]


@pytest.mark.parametrize("minutes, is_cut", [(31, False), (61, True)])
def test_half_an_hour_of_silence_does_not_cut_a_stream(place, origin, minutes, is_cut):
    """With the limits as they are by default, and a clock that can be put forward."""
    if "asan" in harness.BUILD.name:
        pytest.skip("a sanitizer has to be the first library")
    go_on = threading.Event()

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED + upstream.chunk(event(0)))
        go_on.wait(upstream.WAIT)
        connection.send(upstream.chunk(event(1)) + upstream.LAST_CHUNK)
        connection.wait_for_end()

    origin.script = script
    library = shutil.copy(harness.BUILD / "tests/support/libshift_clock.so", place.top)
    clock = place.write("clock", "\0" * 8)
    env = {"LD_PRELOAD": library, "SHIFT_CLOCK": str(clock)}
    with agent.run(place, *agent.llm(origin), env=env) as run:
        wire = run.connect()
        wire.send(POST)
        wire.until(event(0) + b"\r\n")
        with open(clock, "r+b") as file:  # written over: it is mapped
            file.write(struct.pack("<q", minutes * 60))
        # Something else wakes the keeper, which then sees what time it is.
        assert run.ask(agent.get("/elsewhere")).status == 404
        if is_cut:
            with pytest.raises(ConnectionResetError):
                wire.rest()
        else:
            with pytest.raises(TimeoutError):
                wire.more(timeout=0.2)
            go_on.set()
            assert event(1) in wire.until(upstream.LAST_CHUNK)
        go_on.set()
        run.end()
    outcome = agent.events(run.records(), "outcome")[0]
    assert outcome["ended"] == ("upstream_timeout" if is_cut else "complete")
    assert outcome["durationMs"] >= minutes * 60000


def test_the_defaults_allow_half_an_hour_of_silence(place):
    text = place.warder("run", "--help").stdout
    minutes = {"m": 1, "h": 60}
    found = re.search(r"--idle-timeout TIME +[^(]*\(default (\d+)([mh])\)", text)
    assert int(found[1]) * minutes[found[2]] >= 30
    assert "no limit on the whole" in text
    assert re.search(r"--first-byte-timeout TIME\n? +[^(]*\(default 10m\)", text)


# ---- what is odd ----

@pytest.mark.parametrize("model", ['"\\ud800"', '"a\\u0000b"', '"a\\u001b[31mb"', '"' + "m" * 5000 + '"',
                                   "7", "null", '{"a":1}', '"x","model":"y"', '"\\"]}"'])
def test_an_odd_model_spoils_no_record_and_no_terminal(user_place, origin, model):
    with agent.run(user_place, *agent.llm(origin, "-v")) as run:
        reply = run.ask(agent.post(b'{"model":' + model.encode() + b"}"))
        assert reply.status in (200, 400)
        run.end()
        assert "\x1b" not in run.stderr()
    assert user_place.warder("audit", "verify", str(run.audit)).returncode == 0
    assert len(run.records()) >= 3


def test_an_upstream_cannot_spoil_the_log(user_place, origin):
    fields = b"x-litellm-call-id: \xff\xfe\"},{\"event\":\"x\r\nx-litellm-response-cost: \xc3(\"\r\n"
    origin.script = lambda c: [c.send(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 0\r\n\r\n")
                               for _ in c.requests()]
    with agent.run(user_place, *agent.llm(origin)) as run:
        assert run.ask(POST).status == 200
        run.end()
    run.audit.read_text(encoding="utf-8")  # is what it says
    assert user_place.warder("audit", "verify", str(run.audit)).returncode == 0
    assert [r["event"] for r in run.records()] == ["start", "decision", "outcome", "end"]


def test_many_agents_at_once(place, origin):
    origin.script = lambda c: [c.answer(json.dumps(r.target).encode()) for r in c.requests()]
    code = """
import http.client, threading
wrong = []
def ask(number):
    client = http.client.HTTPConnection("127.0.0.1", 8080, timeout=20)
    for turn in range(5):
        path = "/v1/%d/%d" % (number, turn)
        client.request("POST", path, b'{"model":"m"}')
        if client.getresponse().read().decode() != '"%s"' % path:
            wrong.append(path)
threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
[t.start() for t in threads]
[t.join() for t in threads]
result = wrong
"""
    with agent.run(place, *agent.llm(origin)) as run:
        assert run.python(code) == []
        run.end()
        assert "200 requests, 0 refused" in run.stderr()
    assert place.warder("audit", "verify", str(run.audit)).returncode == 0


def test_two_runs_do_not_know_each_other(place, origin):
    with agent.run(place, *agent.llm(origin, "--run-id", "one")) as one:
        with agent.run(place, *agent.llm(origin, "--run-id", "two")) as two:
            assert one.ask(POST).status == two.ask(POST).status == one.ask(POST).status == 200
            assert two.end() == 0
        assert one.ask(POST).status == 200
        assert one.end() == 0
    users = [r.values("x-litellm-end-user-id") for r in origin.requests]
    assert users == [["one/0"], ["two/0"], ["one/0"], ["one/0"]]
    assert place.warder("audit", "verify", str(one.audit)).returncode == 0
