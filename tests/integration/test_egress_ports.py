# SPDX-License-Identifier: MIT
"""Where the kernel cannot redirect: listeners on the policy's ports do the same job.

What both ways have in common runs with both, so that one is the other's control.
"""
import shutil

import agent
import egress
import harness
import origin as upstream
import pytest
import test_egress

PORTS = ("--capture", "ports")


@pytest.fixture(params=["nft", "ports"])
def capture(request):
    return ("--capture", request.param)


@pytest.mark.parametrize("port", [22, 443, 3128, 8080, 8443, 65535])
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_a_port_that_a_rule_names(user_place, https, capture, family, port):
    with agent.run(user_place, *egress.allowed(https, port=port), *capture) as run:
        address = run.python(f"""
import socket
result = socket.getaddrinfo("api.test", {port}, socket.{family}, socket.SOCK_STREAM)[0][4][0]
""")
        wire = run.connect(address, port)
        wire.tls("api.test")
        host = "api.test" if port == 443 else f"api.test:{port}"
        assert wire.ask(egress.request(host=host)).status == 200
        assert egress.decisions(run)[0]["host"] == f"api.test:{port}"
    assert https.requests[0].values("host") == [host]


CLIENTS = ("curl", "curl ipv6", "curl no variables", "wget", "urllib", "connect proxy", "socks5", "socks5 name")


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unmodified_client(place, https, client):
    """Its control is test_egress.py."""
    https.script = test_egress.say_hello
    done = egress.bash(place, test_egress.CLIENTS[client], (*egress.allowed(https), *PORTS))
    assert done.stdout.encode() == test_egress.HELLO, done


def test_a_client_in_clear(user_place, origin):
    origin.script = test_egress.say_hello
    done = egress.bash(user_place, "curl -sS http://plain.test/x",
                       (*egress.allowed(origin, host="plain.test", port=80), *PORTS))
    assert done.stdout.encode() == test_egress.HELLO, done


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1"])
def test_an_address_can_be_allowed(user_place, origin, capture, address):
    host = f"[{address}]" if ":" in address else address
    options = ("--allow-net", f"{host}:8000", *egress.mapped(origin, host, 8000), *capture)
    with agent.run(user_place, *options) as run:
        assert run.connect(address, 8000).ask(egress.request(host=f"{host}:8000")).status == 200
        other = address[:-1] + "9"
        host = f"[{other}]" if ":" in other else other
        reply = run.connect(other, 8000).ask(egress.request(host=f"{host}:8000"))
        egress.assert_refused(reply, 403, "host_not_allowed")
    assert len(origin.requests) == 1


def test_a_tunnel(user_place, origin, capture):
    def script(connection):
        connection.send(b"welcome\n")
        connection.send(connection.take(4))

    origin.script = script
    with agent.run(user_place, *test_egress.tunnel(origin), *capture) as run:
        wire = run.connect("db.test", 5432)
        assert wire.until(b"\n") == b"welcome\n"
        wire.send(b"ping")
        assert wire.exactly(4) == b"ping"


def test_the_hosts_of_a_secret_have_ports_too(user_place, https, capture):
    options = ("--secret", "TOKEN=env:TOKEN@api.test", *egress.mapped(https), *egress.trusted(https), *capture)
    with agent.run(user_place, *options, env={"TOKEN": "sk-" + "a" * 40}) as run:
        assert egress.ask(run).status == 200


def test_the_llm_and_a_host_on_the_same_port(user_place, origin, capture):
    """The loopback's is the LLM's, every other address's is the host's."""
    other = upstream.Origin()
    options = (*agent.llm(origin), *egress.allowed(other, host="plain.test", port=8080), *capture)
    with agent.run(user_place, *options) as run:
        assert run.ask(agent.get()).status == 200
        reply = run.connect("plain.test", 8080).ask(egress.request(host="plain.test:8080"))
        assert reply.status == 200
    assert len(origin.requests) == 1 and len(other.requests) == 1
    other.close()


TRY = """
import socket, time
result = []
for address, port in {targets!r}:
    start = time.monotonic()
    try:
        socket.create_connection((address, port), 30).close()
        result.append("connected")
    except OSError as error:
        result.append(type(error).__name__ if time.monotonic() - start < 20 else "late")
"""

ELSEWHERE = [("api.test", 22), ("evil.test", 8443), ("93.184.216.34", 12345), ("2606:2800:220:1::1", 25), ("10.0.0.1", 1)]


def test_every_other_port_refuses_at_once(user_place, https, capture):
    with agent.run(user_place, *egress.allowed(https), *capture) as run:
        got = run.python(TRY.format(targets=ELSEWHERE))
        # Control: redirected, they are captured and judged by what they say.
        wanted = "connected" if "nft" in capture else "ConnectionRefusedError"
        assert got == [wanted] * len(ELSEWHERE)
        assert egress.ask(run).status == 200
    assert len(https.connections) == 1


@pytest.mark.parametrize("address", ["93.184.216.34", "10.0.0.1", "169.254.169.254", "198.18.0.1", "224.0.0.1",
                                     "2606:2800:220:1::1", "fd00:ec2::254"])
def test_no_address_without_a_rule(user_place, https, capture, address):
    with agent.run(user_place, *egress.allowed(https), *capture) as run:
        got = run.python(f"""
import socket
try:
    sock = socket.create_connection(("{address}", 80), 5)
    sock.sendall(b"GET / HTTP/1.1\\r\\nHost: x.test\\r\\n\\r\\n")
    result = sock.recv(100).decode("latin-1")
except OSError as error:
    result = type(error).__name__
""")
        assert " 403 " in got or " 421 " in got or not got.startswith("HTTP"), got
        assert egress.ask(run).status == 200  # control
    assert len(https.connections) == 1


@pytest.mark.parametrize("tcp", ["+notcp", "+tcp"])
def test_names(user_place, https, capture, tcp):
    done = egress.bash(user_place, f"""
for server in 198.18.0.1 8.8.8.8 2001:4860:4860::8888; do dig +short {tcp} @$server api.test A; done
getent ahosts api.test | wc -l
""", (*egress.allowed(https), *capture))
    assert done.stdout.split()[:3] == ["198.18.0.2"] * 3 and int(done.stdout.split()[3]) >= 2, done


def test_datagrams_go_nowhere(user_place, https, capture):
    """A connected socket hears so at once, as QUIC needs it."""
    with agent.run(user_place, *egress.allowed(https), *capture) as run:
        assert run.python("""
import socket, time
result = []
for address in ("198.18.0.2", "93.184.216.34", "2606:2800:220:1::1"):
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(30)
    try:
        sock.connect((address, 443))
        sock.send(b"x" * 1200)
        result.append(sock.recv(100).decode("latin-1"))
    except OSError as error:
        result.append(type(error).__name__ != "TimeoutError")
""") == [True] * 3


def test_the_loopback_leads_nowhere(user_place, https, capture):
    """Port 443 of it is a listener's here, or nobody's; other ports are the agent's own."""
    with agent.run(user_place, *egress.allowed(https), *capture) as run:
        for address in ("127.0.0.1", "::1"):
            with pytest.raises(ConnectionError):
                wire = run.connect(address, 443)
                wire.send(egress.request(host=address))
                wire.rest()
        assert run.python("""
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.sendall(b"mine")
result = server.accept()[0].recv(4).decode()
""") == "mine"
    assert not https.connections


def test_more_ports_than_there_are_listeners(user_place, https, capture):
    rules = [word for port in range(1000, 1070) for word in ("--allow-net", f"api.test:{port}")]
    done = egress.bash(user_place, "echo started", (*rules, *capture))
    if "nft" in capture:
        assert done.stdout == "started\n", done  # control
    else:
        assert done.returncode == 125 and "64 ports" in done.stderr and not done.stdout, done


# ---- which way is taken ----

@pytest.fixture
def without_nft(user_place):
    path = user_place.top / "without_nft"
    shutil.copy(harness.BUILD / "tests/support/without_nft", path)
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize("has_nft", [True, False])
def test_the_way_is_chosen_by_what_the_kernel_has(user_place, https, without_nft, has_nft):
    prefix = [] if has_nft else without_nft
    with agent.run(user_place, *egress.allowed(https), prefix=prefix) as run:
        assert egress.ask(run).status == 200
        wanted = "connected" if has_nft else "ConnectionRefusedError"
        assert run.python(TRY.format(targets=ELSEWHERE[:1])) == [wanted]


def test_the_better_way_can_be_insisted_on(user_place, https, without_nft):
    options = (*egress.allowed(https), "--capture", "nft")
    assert egress.bash(user_place, "echo started", options).stdout == "started\n"  # control
    line = [user_place.binary, "run", *options, "--", "echo", "started"]
    done = user_place.host([*without_nft, *line])
    assert done.returncode == 125 and "warder doctor" in done.stderr and not done.stdout, done
