# SPDX-License-Identifier: MIT
"""The gate as a process: the agent's side is a socket, the keeper's side is played here."""
import fcntl
import json
import os
import socket
import struct
import subprocess

import harness
import link
import pytest


class Gate:
    """The real gate between a listener and a link."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        ours, theirs = link.pair()
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(self.control, [b"L"], [self.listener.fileno()])
        # As the run hands them over: 3 and 4, whatever their numbers are here.
        high = [fcntl.fcntl(s, fcntl.F_DUPFD, 20) for s in (control, theirs)]
        place = 'exec "$0" gate 3<&{0} 4<&{1} {0}<&- {1}<&-'.format(*high)
        self.process = subprocess.Popen(
            ["bash", "-c", place, harness.BUILD / "src" / "warder-gateway"], pass_fds=high)
        for fd in high:
            os.close(fd)
        theirs.close()
        control.close()
        self.keeper = link.Keeper(ours)
        self.keeper.hello()

    def connect(self, sent=b""):
        agent = socket.create_connection(self.listener.getsockname(), timeout=10)
        agent.sendall(sent)
        return agent

    def stop(self):
        self.keeper.socket.close()
        self.listener.close()
        assert self.process.wait(timeout=30) in (0, 125)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.stop()


def read_all(agent):
    data = b""
    while True:
        piece = agent.recv(65536)
        if not piece:
            return data
        data += piece


def read_until(agent, end):
    data = b""
    while not data.endswith(end):
        piece = agent.recv(65536)
        assert piece, data
        data += piece
    return data


GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost:8080\r\n"


def test_a_request_becomes_one_canonical_message(gate):
    agent = gate.connect(b"GET http://localhost:8080/v1/x?q=1 HTTP/1.1\r\nHOST: localhost:8080\r\n"
                         b"X-One:  a b \r\nConnection: X-Two\r\nX-Two: gone\r\nTE: trailers\r\n\r\n")
    request = gate.keeper.request()
    assert (request.method, request.host, request.path) == ("GET", "localhost:8080", "/v1/x?q=1")
    assert request.fields == [("X-One", "a b")]
    gate.keeper.answer(request.exchange, b"hello", [("X-Reply", "1")])
    assert read_until(agent, b"hello") == (b"HTTP/1.1 200 Fine\r\nX-Reply: 1\r\n"
                                           b"content-length: 5\r\n\r\nhello")


def test_a_body_follows_as_credit_is_granted_and_no_further(gate):
    agent = gate.connect(b"POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n")
    request = gate.keeper.request()
    assert (request.framing, request.length) == (link.LENGTH, 300000)
    body = os.urandom(300000)
    agent.settimeout(0.3)
    sent = 0
    try:
        while sent < len(body):
            sent += agent.send(body[sent:])
    except TimeoutError:
        pass
    agent.settimeout(10)
    got = b""
    gate.keeper.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            kind, _, payload = gate.keeper.receive()
            assert kind == link.DATA
            got += payload
    assert len(got) == 65536  # the first credit, and not a byte beyond it
    gate.keeper.socket.settimeout(10)
    gate.keeper.send(link.CREDIT, request.exchange, struct.pack("<I", len(got)))
    agent.sendall(body[sent:])
    rest, _ = gate.keeper.body()
    assert got + rest == body
    gate.keeper.answer(request.exchange)
    assert read_until(agent, b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_chunked_body_goes_on_without_its_trailer(gate):
    gate.connect(b"POST /v1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"3\r\nabc\r\n4;x\r\ndefg\r\n0\r\nX-T: 1\r\n\r\n")
    assert gate.keeper.request().framing == link.CHUNKED
    assert gate.keeper.body() == (b"abcdefg", [])  # the trailer was judged by nobody


def test_a_slow_agent_slows_the_keeper(gate):
    agent = gate.connect(GET + b"\r\n")
    exchange = gate.keeper.request().exchange
    assert gate.keeper.receive()[0] == link.END
    gate.keeper.reply(exchange, 200, (), link.CHUNKED)
    for _ in range(4):
        gate.keeper.data(exchange, b"x" * 16384)
    granted = 0
    while granted < 49152:  # what the agent's socket takes is granted anew
        kind, _, payload = gate.keeper.receive()
        assert kind == link.CREDIT
        granted += struct.unpack("<I", payload)[0]
    gate.keeper.end(exchange, [("X-T", "1")])
    data = read_until(agent, b"0\r\nX-T: 1\r\n\r\n")
    assert data.count(b"x") == 65536


def test_pipelined_requests_are_answered_in_order(gate):
    agent = gate.connect(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(5)))
    for i in range(5):
        request = gate.keeper.request()
        assert request.path == f"/{i}"
        assert gate.keeper.receive()[0] == link.END
        gate.keeper.answer(request.exchange, b"%d" % i)
    assert read_until(agent, b"\r\n\r\n4").count(b"HTTP/1.1 200") == 5


def test_informational_replies_come_first(gate):
    agent = gate.connect(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                         b"Content-Length: 2\r\n\r\n")
    request = gate.keeper.request()
    assert ("Expect", "100-continue") in request.fields
    gate.keeper.reply(request.exchange, 100)
    assert read_until(agent, b"\r\n\r\n") == b"HTTP/1.1 100 Fine\r\n\r\n"
    agent.sendall(b"hi")
    assert gate.keeper.body()[0] == b"hi"
    gate.keeper.answer(request.exchange, b"yes")
    assert read_until(agent, b"yes").startswith(b"HTTP/1.1 200")


def test_http_1_0_gets_a_body_that_ends_with_the_connection(gate):
    agent = gate.connect(b"GET /x HTTP/1.0\r\n\r\n")
    request = gate.keeper.request()
    gate.keeper.reply(request.exchange, 200, (), link.CHUNKED)
    gate.keeper.data(request.exchange, b"old style")
    gate.keeper.end(request.exchange)
    assert read_all(agent) == b"HTTP/1.1 200 Fine\r\nconnection: close\r\n\r\nold style"


def test_half_a_close_still_gets_the_reply(gate):
    agent = gate.connect(GET + b"\r\n")
    agent.shutdown(socket.SHUT_WR)
    request = gate.keeper.request()
    gate.keeper.answer(request.exchange, b"late")
    assert read_all(agent).endswith(b"late")


@pytest.mark.parametrize("framing, length", [(link.CHUNKED, 0), (link.LENGTH, 100)])
def test_a_reply_that_breaks_off_is_an_error_at_the_agent(gate, framing, length):
    agent = gate.connect(GET + b"\r\n")
    exchange = gate.keeper.request().exchange
    gate.keeper.reply(exchange, 200, (), framing, length)
    gate.keeper.data(exchange, b"the beginning")
    read_until(agent, b"beginning" if framing == link.LENGTH else b"beginning\r\n")
    gate.keeper.send(link.ABORT, exchange)
    with pytest.raises(ConnectionResetError):
        read_all(agent)


def test_an_agent_that_goes_away_ends_its_exchange(gate):
    agent = gate.connect(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
    exchange = gate.keeper.request().exchange
    assert gate.keeper.receive() == (link.DATA, exchange, b"abc")
    agent.close()
    assert gate.keeper.receive() == (link.ABORT, exchange, b"")


@pytest.mark.parametrize("sent, status, code", [
    (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_host"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400, "obs_fold"),
    (b"GET / HTTP/1.1\nHost: a\n\n", 400, "bad_line_end"),
    (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405, "trace_refused"),
    (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405, "method_not_allowed"),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
     "two_framings"),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70000 + b"\r\n\r\n", 431, "head_too_large"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400, "bad_line_end"),
])
def test_what_is_refused_is_on_record_and_goes_no_further(gate, sent, status, code):
    agent = gate.connect(sent)
    head, _, body = read_all(agent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in head
    assert json.loads(body)["error"]["code"] == code
    assert json.loads(body)["error"]["runId"] == "r-1"
    assert gate.keeper.refused()[0] == code
    # Control: the same gate passes the next one on.
    gate.connect(GET + b"\r\n")
    assert gate.keeper.request().path == "/v1/models"


def test_a_fault_in_a_body_ends_the_exchange(gate):
    agent = gate.connect(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
    exchange = gate.keeper.request().exchange
    assert gate.keeper.receive() == (link.ABORT, exchange, b"")
    assert b"bad_chunk" in read_all(agent)


def test_a_fault_after_a_good_exchange_is_answered_too(gate):
    agent = gate.connect(GET + b"\r\n")
    request = gate.keeper.request()
    assert gate.keeper.receive()[0] == link.END
    gate.keeper.answer(request.exchange)
    assert read_until(agent, b"\r\n\r\n") == b"HTTP/1.1 200 Fine\r\ncontent-length: 0\r\n\r\n"
    agent.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert b"bad_host" in read_all(agent)


def test_a_body_cut_short_after_its_credit_ends_the_exchange(gate):
    agent = gate.connect(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n" + b"x" * 70000)
    agent.shutdown(socket.SHUT_WR)
    exchange = gate.keeper.request().exchange
    got = 0
    while got < 65536:
        got += len(gate.keeper.receive()[2])
    gate.keeper.send(link.CREDIT, exchange, struct.pack("<I", 65536))
    while got < 70000:
        got += len(gate.keeper.receive()[2])
    assert gate.keeper.receive() == (link.ABORT, exchange, b"")


def test_half_a_close_and_a_chunked_reply_end_the_connection(gate):
    agent = gate.connect(GET + b"\r\n")
    agent.shutdown(socket.SHUT_WR)
    exchange = gate.keeper.request().exchange
    gate.keeper.reply(exchange, 200, (), link.CHUNKED)
    gate.keeper.data(exchange, b"late")
    gate.keeper.end(exchange)
    assert read_all(agent).endswith(b"late\r\n0\r\n\r\n")


def test_the_end_of_a_body_needs_no_credit(gate):
    gate.connect(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"10000\r\n" + b"x" * 65536 + b"\r\n0\r\n\r\n")
    gate.keeper.request()
    got = 0
    while got < 65536:
        got += len(gate.keeper.receive()[2])
    assert gate.keeper.receive()[0] == link.END


def test_an_agent_that_cancels_a_stream_costs_nothing(gate):
    agent = gate.connect(GET + b"\r\n")
    exchange = gate.keeper.request().exchange
    assert gate.keeper.receive()[0] == link.END
    gate.keeper.reply(exchange, 200, (), link.CHUNKED)
    read_until(agent, b"\r\n\r\n")
    agent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    agent.close()
    assert gate.keeper.receive() == (link.ABORT, exchange, b"")


def test_a_keeper_that_stalls_stops_the_agents_and_not_the_gate(gate):
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n"
    agents = [gate.connect() for _ in range(200)]
    for agent in agents:
        agent.settimeout(0.05)
        try:
            agent.sendall(head + b"x" * 60000)
        except TimeoutError:
            pass
        agent.settimeout(10)
    assert gate.process.poll() is None
    got = {}
    while len(got) < 200 or any(size < 60000 for size in got.values()):
        kind, exchange, payload = gate.keeper.receive()
        if kind == link.DATA:
            got[exchange] = got.get(exchange, 0) + len(payload)


def test_health_is_answered_here(gate):
    agent = gate.connect(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
    data = read_until(agent, b"}") + b""
    while data.count(b"}") < 2:
        data += agent.recv(65536)
    assert data.count(b'{"status":"ok","runId":"r-1"}') == 2


def test_a_request_read_byte_by_byte_is_the_same(gate):
    agent = gate.connect()
    agent.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello":
        agent.sendall(bytes([byte]))
    assert gate.keeper.request().path == "/v1"
    assert gate.keeper.body()[0] == b"hello"


def test_many_sessions_at_once(gate):
    agents = [gate.connect(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i) for i in range(300)]
    for _ in agents:
        request = gate.keeper.request()
        assert gate.keeper.receive()[0] == link.END
        gate.keeper.answer(request.exchange, request.path.encode())
    for i, agent in enumerate(agents):
        assert read_until(agent, b"/%d" % i).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("message", [
    struct.pack("<III", 9, 1, 0), struct.pack("<III", link.OPEN, 1, 20) + b"x" * 20,
    struct.pack("<III", link.CREDIT, 1, 4000), b"\xff" * 64,
], ids=["unknown", "wrong side", "wrong length", "noise"])
def test_a_keeper_that_talks_nonsense_ends_the_gate(gate, message):
    agent = gate.connect(GET + b"\r\n")
    gate.keeper.request()
    gate.keeper.socket.sendall(message)
    assert gate.process.wait(timeout=30) is not None
    with pytest.raises(ConnectionResetError):
        read_all(agent)


def test_without_its_keeper_the_gate_ends_and_so_do_its_sessions(gate):
    agent = gate.connect(GET + b"\r\n")
    gate.keeper.request()
    gate.keeper.socket.close()
    assert gate.process.wait(timeout=30) is not None
    with pytest.raises(ConnectionResetError):
        read_all(agent)


def test_the_gate_cannot_be_started_by_hand():
    done = subprocess.run([harness.BUILD / "src" / "warder-gateway", "gate"], close_fds=True,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 125 and "not by hand" in done.stderr
