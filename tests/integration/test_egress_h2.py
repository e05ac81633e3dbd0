# SPDX-License-Identifier: MIT
"""HTTP/2 on either side of the gateway: what is translated, what is refused, who waits for whom."""
import json
import os
import threading

import agent
import checks
import egress
import h2.errors
import h2.settings
import h2wire
import origin as upstream
import pytest
from test_egress_secrets import RAW, SECRET, assert_nowhere, bound, place, running  # noqa: F401

CODES = h2.errors.ErrorCodes


def echo(headers, body):
    """What the origin received, and how."""
    return json.dumps({"headers": headers, "body": len(body), "digest": sum(body)}).encode()


def serve_h2(connection, answer=None):
    server = h2wire.Server(connection)
    while (number := server.next()) is not None:
        message = server.streams[number]
        connection.origin.seen(message)
        if answer:
            answer(server, number, message)
        else:
            server.answer(number, echo(message.headers, message.body), ("content-type", "application/json"))


def serve_h1(connection):
    for request in connection.requests():
        connection.answer(echo([(name.lower(), value) for name, value in request.fields], request.body))


@pytest.fixture
def h2_origin(certificates):
    """An origin that speaks HTTP/2 only."""
    context = certificates.context("hosts")
    context.set_alpn_protocols(["h2"])
    made = upstream.Origin(serve_h2, context=context)
    made.ca = str(certificates.ca)
    yield made
    made.close()


def connect(run, host=egress.HOST, **settings):
    wire = run.connect(host, 443)
    assert wire.tls(host, alpn=["h2", "http/1.1"])[1] == "h2"
    return h2wire.Client(wire, **settings)


def script(origin, answer):
    """The origin answers each request with this."""
    origin.script = lambda connection: serve_h2(connection, answer)


# ---- the four ways ----

class ByH1:
    """An agent that speaks HTTP/1.1, in the words of the other."""

    def __init__(self, run):
        self.wire = egress.connect(run)

    def ask(self, method="GET", path="/", *fields, body=None):
        self.wire.send(egress.request(method, path, *(f"{name}: {value}" for name, value in fields), body=body))
        reply = self.wire.reply(method != "HEAD")
        message = h2wire.Message()
        message.headers = [(":status", str(reply.status))] + [(name.lower(), value) for name, value in reply.fields]
        message.body, message.is_complete = reply.body, True
        return message


@pytest.fixture(params=["h1", "h2"])
def by(request):
    return {"h1": ByH1, "h2": connect}[request.param]


@pytest.fixture(params=["h1", "h2"])
def server(request, certificates):
    """An origin of either kind."""
    context = certificates.context("hosts")
    context.set_alpn_protocols(["h2" if request.param == "h2" else "http/1.1"])
    made = upstream.Origin(serve_h2 if request.param == "h2" else serve_h1, context=context)
    made.ca = str(certificates.ca)
    yield made
    made.close()


def test_a_request_and_its_reply(place, server, by):
    with agent.run(place, *egress.allowed(server)) as run:
        client = by(run)
        for body in (None, b"x", os.urandom(200_000), os.urandom(1_000_000)):
            message = client.ask("POST" if body else "GET", "/a?b=c", ("x-one", "1"), ("x-two", "2"), body=body)
            got = json.loads(message.body)
            assert message.status == 200 and message.is_complete
            assert (got["body"], got["digest"]) == (len(body or b""), sum(body or b""))
            fields = {name: value for name, value in got["headers"]}
            assert fields["x-one"] == "1" and fields["x-two"] == "2"
            assert fields.get("host", fields.get(":authority")) == egress.HOST
            assert not {"connection", "keep-alive", "te", "upgrade"} & set(fields)
    assert len(server.connections) == 1  # all on one


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 3_000_000])
def test_replies_of_any_size(place, server, by, size):
    data = os.urandom(size)
    if server.script is serve_h2:
        script(server, lambda end, number, message: end.answer(number, data))
    else:
        server.script = lambda connection: [connection.answer(data) for _ in connection.requests()]
    with agent.run(place, *egress.allowed(server)) as run:
        client = by(run)
        for _ in range(2):
            assert client.ask().body == data


def test_head_and_replies_without_a_body(place, server, by):
    def answer(end, number, message):
        status = int(message.values(":path")[0][1:])
        end.answer(number, b"", ("content-length", "123") if message.values(":method") == ["HEAD"] else ("x", "y"), status=status)

    def answer_h1(connection):
        for request in connection.requests():
            status = int(request.target[1:])
            length = "Content-Length: 123\r\n" if request.method == "HEAD" else "Content-Length: 0\r\n" if status == 200 else ""
            connection.send(f"HTTP/1.1 {status} Any\r\n{length}\r\n".encode())

    if server.script is serve_h2:
        script(server, answer)
    else:
        server.script = answer_h1
    with agent.run(place, *egress.allowed(server)) as run:
        client = by(run)
        message = client.ask("HEAD", "/200")
        assert (message.status, message.values("content-length"), message.body) == (200, ["123"], b"")
        for status in (204, 304, 200):
            message = client.ask("GET", f"/{status}")
            assert (message.status, message.body, message.is_complete) == (status, b"", True)


def test_trailers_reach_the_agent(place, server, by):
    trailer = [("x-last", "1"), ("grpc-status", "0")]
    if server.script is serve_h2:
        script(server, lambda end, number, message: end.answer(number, b"body", trailers=trailer))
    else:
        server.script = lambda connection: [connection.send(
            upstream.CHUNKED + upstream.chunk(b"body") + b"0\r\nx-last: 1\r\ngrpc-status: 0\r\n\r\n") for _ in connection.requests()]
    with agent.run(place, *egress.allowed(server)) as run:
        client = by(run)
        if by is connect:
            for _ in range(3):
                message = client.ask()
                assert (message.body, message.trailers) == (b"body", trailer)
        else:
            client.wire.send(egress.request())
            assert client.wire.until(b"0\r\nx-last: 1\r\ngrpc-status: 0\r\n\r\n")


def test_an_event_is_not_held_back(place, h2_origin, by):
    seen = threading.Semaphore(0)

    def answer(end, number, message):
        end.send_headers(number, [(":status", "200"), ("content-type", "text/event-stream")])
        for event in range(3):
            end.send(number, b"data: %d\n\n" % event)
            assert seen.acquire(timeout=10)
        end.send(number, b"", end=True)

    script(h2_origin, answer)
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = by(run)
        if by is connect:
            number = client.request()
            message = client.stream(number)
            for event in range(3):
                assert client.until(lambda: message.body.endswith(b"data: %d\n\n" % event))
                seen.release()
            assert client.reply(number).is_complete
        else:
            client.wire.send(egress.request())
            for event in range(3):
                client.wire.until(b"data: %d\n\n" % event)
                seen.release()


def test_interim_replies(place, h2_origin):
    def answer(end, number, message):
        end.send_headers(number, [(":status", "103"), ("link", "</a>")])
        end.answer(number, b"x")

    script(h2_origin, answer)
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        message = connect(run).ask()
        assert message.interim == [[(":status", "103"), ("link", "</a>")]] and message.body == b"x"


# ---- many at once ----

def test_many_streams_at_once(place, h2_origin):
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = connect(run)
        client.until(lambda: client.h2.remote_settings.max_concurrent_streams < 2 ** 31)
        for _ in range(5):
            numbers = [client.request("POST", f"/{n}", body=b"%d" % n * 1000) for n in range(90)]
            for n, number in enumerate(numbers):
                message = client.reply(number)
                got = json.loads(message.body)
                assert [":path", f"/{n}"] in got["headers"] and got["body"] == len(b"%d" % n) * 1000
    assert len(h2_origin.requests) == 450 and len(h2_origin.connections) <= 91


def serve_large(connection):
    """As much to each as it takes: one that is not read must not hold up this server."""
    end = h2wire.Server(connection)
    left = {}
    while True:
        while end.ready() is not None:
            number = end.next()
            end.send_headers(number, [(":status", "200")])
            left[number] = 1_000_000
        for number in list(left):
            while left[number] and (size := min(left[number], end.h2.local_flow_control_window(number), 16384)):
                left[number] -= size
                end.h2.send_data(number, b"x" * size, end_stream=left[number] == 0)
                end.flush()
        left = {number: size for number, size in left.items() if size}
        if not end.turn():
            return


def test_a_stream_that_is_not_read_does_not_hold_up_the_others(place, h2_origin):
    h2_origin.script = serve_large
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = connect(run)
        slow = client.request()
        client.unread.add(slow)
        message = client.stream(slow)
        assert client.until(lambda: len(message.body) == 65535)
        for _ in range(3):
            assert len(client.ask().body) == 1_000_000
        assert len(message.body) == 65535
        client.unread.remove(slow)
        client.h2.increment_flow_control_window(65535, slow)
        client.flush()
        assert len(client.reply(slow).body) == 1_000_000


def test_a_cancelled_stream_is_cancelled_at_the_origin(place, h2_origin):
    cancelled = threading.Event()

    def answer(end, number, message):
        end.send_headers(number, [(":status", "200")])
        end.until(lambda: end.streams[number].reset is not None)
        cancelled.set()

    script(h2_origin, answer)
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = connect(run)
        number = client.request()
        assert client.until(lambda: client.stream(number).headers)
        client.reset(number)
        assert cancelled.wait(10)
        ended = checks.wait_until(lambda: agent.events(run.records(), "outcome"))
        assert ended[0]["ended"] == "agent_gone"


def test_both_sides_talk_at_once(place, h2_origin):
    """Each answer comes before the next piece of the request."""
    def serve(connection):
        end = h2wire.Server(connection)
        number = end.next(whole=False)
        end.send_headers(number, [(":status", "200")])
        message, sent = end.streams[number], 0
        while end.until(lambda: len(message.body) > sent or message.is_complete) and not (message.is_complete and len(message.body) == sent):
            piece = message.body[sent:]
            sent += len(piece)
            end.send(number, piece.upper())
        end.send(number, b"", end=True)

    h2_origin.script = serve
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = connect(run)
        number = client.request("POST", "/", end=False)
        message = client.stream(number)
        for turn in range(5):
            client.send(number, b"turn %d." % turn)
            assert client.until(lambda: message.body.endswith(b"TURN %d." % turn))
        client.send(number, b"", end=True)
        assert client.reply(number).is_complete


# ---- what origins do ----

@pytest.mark.parametrize("code", [CODES.REFUSED_STREAM, CODES.HTTP_1_1_REQUIRED])
def test_a_request_that_was_not_looked_at_is_made_again(place, certificates, code):
    context = certificates.context("hosts")
    context.set_alpn_protocols(["h2", "http/1.1"])

    def serve(connection):
        if connection.socket.selected_alpn_protocol() != "h2":
            serve_h1(connection)
            return
        end = h2wire.Server(connection)
        first = end.next()
        end.reset(first, code)
        while (number := end.next()) is not None:
            end.answer(number, b"again")

    origin = upstream.Origin(serve, context=context)
    origin.ca = str(certificates.ca)
    with agent.run(place, *egress.allowed(origin)) as run:
        message = connect(run).ask()
        assert message.status == 200 and (message.body == b"again") == (code == CODES.REFUSED_STREAM)
    origin.close()


def test_an_origin_that_refuses_every_stream_is_given_up(place, h2_origin):
    script(h2_origin, lambda end, number, message: end.reset(number, CODES.REFUSED_STREAM))
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        message = connect(run).ask()
        assert message.status == 502 and b"upstream_reset" in message.body
    assert len(h2_origin.requests) <= 5


def test_an_origin_that_goes_away_is_dialled_again(place, h2_origin):
    """nginx does so after some requests: those in flight end, new ones go elsewhere."""
    def serve(connection):
        end = h2wire.Server(connection)
        for _ in range(3):
            number = end.next()
            if number is None:
                return
            end.answer(number, b"x")
        end.h2.close_connection(last_stream_id=number)
        end.flush()

    h2_origin.script = serve
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = connect(run)
        assert [client.ask().status for _ in range(20)] == [200] * 20
    assert len(h2_origin.connections) == 7


@pytest.mark.parametrize("how", ["reset", "lost"])
def test_half_a_reply_is_no_whole_one(place, h2_origin, by, how):
    def serve(connection):
        end = h2wire.Server(connection)
        number = end.next()
        end.send_headers(number, [(":status", "200")])
        end.send(number, b"half")
        if how == "reset":
            end.reset(number, CODES.INTERNAL_ERROR)
            end.next()
        else:
            connection.reset()

    h2_origin.script = serve
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = by(run)
        if by is connect:
            message = client.ask()
            assert message.reset is not None and not message.is_complete
        else:
            with pytest.raises((ConnectionError, AssertionError)):
                client.ask()


GARBAGE = {
    "no status": [("x", "y")],
    "bad status": [(":status", "20")],
    "upper case": [(":status", "200"), ("X-Upper", "1")],
    "connection": [(":status", "200"), ("connection", "close")],
    "pseudo later": [("x", "y"), (":status", "200")],
    "line end": [(":status", "200"), ("x", "a\r\nset-cookie: b")],
    "101": [(":status", "101")],
}


@pytest.mark.parametrize("headers", GARBAGE.values(), ids=GARBAGE)
def test_garbage_of_an_origin_is_refused(place, h2_origin, by, headers):
    is_end = headers != GARBAGE["101"]  # h2 does not send that
    script(h2_origin, lambda end, number, message: end.send_headers(number, headers, end=is_end))
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        message = by(run).ask()
        assert message.status == 502 and b"set-cookie" not in message.body


# ---- what agents do ----

MISDIRECTED = {
    "another authority": dict(host="evil.test"),
    "another port": dict(host="api.test:444"),
    "below": dict(host="x.api.test"),
    "cleartext": dict(scheme="http"),
}


@pytest.mark.parametrize("game", MISDIRECTED.values(), ids=MISDIRECTED)
def test_an_authority_that_is_not_the_connections_is_refused(place, h2_origin, game):
    with agent.run(place, *egress.allowed(h2_origin), "--allow-net", "evil.test", "--allow-net", "x.api.test") as run:
        client = connect(run)
        message = client.ask(**game)
        assert message.status == 421 and json.loads(message.body)["error"]["code"] == "authority_mismatch"
        assert client.ask().status == 200  # control, on the same connection
        refused = agent.events(run.records(), "decision")
        assert [r["host"] for r in refused if not r["allowed"]] == ["api.test:443"]
    assert len(h2_origin.requests) == 1


GAMES = {
    "host and authority": [("host", "evil.test")],
    "transfer-encoding": [("transfer-encoding", "chunked")],
    "connection": [("connection", "keep-alive")],
    "upgrade": [("upgrade", "h2c")],
    "te": [("te", "gzip")],
    "upper case": [("X-Upper", "1")],
    "line end": [("x", "a\r\nb: c")],
    "nul": [("x", "a\0b")],
    "pseudo later": [("x", "y"), (":path", "/other")],
    "unknown pseudo": [(":evil", "1")],
    "two paths": [(":path", "/other")],
    "empty name": [("", "x")],
    "length that is none": [("content-length", "-1")],
    "two lengths": [("content-length", "1"), ("content-length", "2")],
}


@pytest.mark.parametrize("fields", GAMES.values(), ids=GAMES)
def test_a_head_that_could_be_read_in_two_ways_is_refused(place, h2_origin, fields):
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client = connect(run)
        message = client.ask("GET", "/", *fields)
        assert message.reset is not None or 400 <= message.status < 500
        assert connect(run).ask().status == 200  # control
    assert len(h2_origin.requests) == 1


TARGETS = ["", "*", "relative", "http://evil.test/", "/\r\n", "/ x", "/\x7f", "//evil.test/"]


@pytest.mark.parametrize("path", TARGETS)
def test_a_path_stays_a_path(place, h2_origin, path):
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        message = connect(run).ask("GET", path)
    for request in h2_origin.requests:
        assert request.values(":authority") == ["api.test"] and request.values(":path") == [path]
    if path not in ("//evil.test/", "*"):
        assert not h2_origin.requests and (message.reset is not None or message.status == 400)


def test_the_policy_judges_each_stream(place, h2_origin):
    options = ("--allow-net", "GET api.test/v1/**", *egress.mapped(h2_origin), *egress.trusted(h2_origin))
    with agent.run(place, *options) as run:
        client = connect(run)
        assert client.ask("GET", "/v1/a").status == 200
        assert json.loads(client.ask("POST", "/v1/a", body=b"x").body)["error"]["code"] == "method_not_allowed"
        assert json.loads(client.ask("GET", "/v2").body)["error"]["code"] == "path_not_allowed"
        assert json.loads(client.ask("GET", "/v1/../v2").body)["error"]["code"] in ("path_not_allowed", "bad_path")
        assert client.ask("TRACE", "/v1/a").status in (400, 405, 501)
    assert [r.values(":path") for r in h2_origin.requests] == [["/v1/a"]]


def test_a_flood_of_resets_ends_the_connection(place, h2_origin):
    """Streams that are opened and given up at once cost us more than the agent."""
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        client, is_over = connect(run), False
        try:
            for _ in range(5000):
                client.reset(client.request())
            client.until(lambda: False)
        except ConnectionError:
            is_over = True
        assert is_over or client.is_over
        assert connect(run).ask().status == 200  # the gate is there, and so is the keeper
        decisions = agent.events(run.records(), "decision")
        assert len(decisions) < 4000


def test_a_connection_that_is_no_http2_ends(place, h2_origin):
    with agent.run(place, *egress.allowed(h2_origin)) as run:
        wire = run.connect(egress.HOST, 443)
        wire.tls(egress.HOST, alpn=["h2"])
        wire.send(egress.request())
        seen = b""
        try:
            seen = wire.rest()
        except ConnectionError:
            pass
        assert b"HTTP/1.1 200" not in seen
        assert connect(run).ask().status == 200
    assert len(h2_origin.requests) == 1


# ---- secrets ----

def test_the_origin_sees_the_secret_and_the_agent_does_not(place, h2_origin, by):
    def answer(end, number, message):
        end.answer(number, b"<" + RAW + b">", ("x-echo", message.values("x-key")[0]), trailers=[("x-last", SECRET)])

    script(h2_origin, answer)
    with running(place, *bound(h2_origin)) as it:
        message = by(it.run).ask("GET", "/", ("x-key", it.placeholder))
        assert message.body == b"<" + it.placeholder_bytes + b">" and message.values("x-echo") == [it.placeholder]
        if by is connect:
            assert message.trailers == [("x-last", it.placeholder)]
        assert_nowhere(str(message.headers + message.trailers).encode())
    assert h2_origin.requests[0].values("x-key") == [SECRET]


def test_a_secret_is_scrubbed_wherever_a_frame_ends(place, h2_origin):
    def answer(end, number, message):
        cut = int(message.values(":path")[0][1:])
        end.send_headers(number, [(":status", "200")])
        end.send(number, b"<" + RAW[:cut])
        end.send(number, RAW[cut:] + b">", end=True)

    script(h2_origin, answer)
    with running(place, *bound(h2_origin)) as it:
        client = connect(it.run)
        for cut in range(1, len(RAW)):
            assert client.ask("GET", f"/{cut}", ("x-key", it.placeholder)).body == b"<" + it.placeholder_bytes + b">"


def test_a_misplaced_placeholder_is_refused(place, h2_origin):
    with running(place, *bound(h2_origin)) as it:
        client = connect(it.run)
        for words, body in ((("GET", "/", ("user-agent", it.placeholder)), None), (("POST", "/"), it.placeholder_bytes)):
            message = client.ask(*words, body=body)
            assert message.status == 403 and b"placeholder_misplaced" in message.body
        assert client.ask("GET", "/", ("x-key", it.placeholder)).status == 200  # control
    assert len([r for r in h2_origin.requests if r.is_complete]) == 1
