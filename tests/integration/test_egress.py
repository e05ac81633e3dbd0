# SPDX-License-Identifier: MIT
"""Allowed hosts, from unmodified clients in the sandbox to origins that show what they received."""
import base64
import hashlib
import json
import os
import pathlib
import subprocess
import threading
import time

import agent
import checks
import egress
import harness
import origin as upstream
import pytest

HELLO = b"hello from the origin\n"


def say_hello(connection):
    for _ in connection.requests():
        connection.answer(HELLO)


# ---- capture ----

@pytest.mark.parametrize("port", [1, 22, 443, 3128, 8080, 8443, 65535])
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_any_port_of_an_allowed_name_is_captured(place, https, family, port):
    with agent.run(place, *egress.allowed(https, port=port)) as run:
        address = run.python(f"""
import socket
result = socket.getaddrinfo("api.test", {port}, socket.{family}, socket.SOCK_STREAM)[0][4][0]
""")
        wire = run.connect(address, port)
        wire.tls("api.test")
        host = "api.test" if port == 443 else f"api.test:{port}"
        assert wire.ask(egress.request(host=host)).status == 200
    assert https.requests[0].values("host") == [host]


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1"])
def test_an_address_can_be_allowed(place, origin, address):
    host = f"[{address}]" if ":" in address else address
    options = ("--allow-net", f"{host}:8000", *egress.mapped(origin, host, 8000))
    with agent.run(place, *options) as run:
        wire = run.connect(address, 8000)
        assert wire.ask(egress.request(host=f"{host}:8000")).status == 200
        # Control: its neighbour is not allowed.
        other = address[:-1] + "9"
        host = f"[{other}]" if ":" in other else other
        wire = run.connect(other, 8000)
        reply = wire.ask(egress.request(host=f"{host}:8000"))
        egress.assert_refused(reply, 403, "host_not_allowed", f"allow it with --allow-net {host}:8000")
    assert len(origin.requests) == 1


def test_loopback_stays_the_agents_own(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        assert run.python("""
import socket, threading
result = []
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((address, 0), family=family)
    client = socket.create_connection(server.getsockname()[:2])
    client.sendall(b"mine")
    result.append(server.accept()[0].recv(4).decode())
""") == ["mine", "mine"]
    assert not https.connections


def test_without_a_rule_there_is_no_network_at_all(place, https):
    done = place.run("python3", "-c", """
import socket
for address in ("93.184.216.34", "2606:2800:220:1::1", "198.18.0.1"):
    try:
        socket.create_connection((address, 443), 5)
        print("connected")
    except OSError as error:
        print(type(error).__name__, error.errno)
try:
    print(socket.getaddrinfo("api.test", 443))
except OSError as error:
    print("no name")
""")
    assert "connected" not in done.stdout and "no name" in done.stdout, done


def test_the_end_of_a_reply_does_not_wait(place, https):
    def say_much(connection):
        for _ in connection.requests():
            connection.answer(b"much " * 13000)

    https.script = say_much
    with agent.run(place, *egress.allowed(https)) as run:
        taken = run.python("""
import http.client, time
connection = http.client.HTTPSConnection("api.test")
result = []
for _ in range(30):
    start = time.monotonic()
    connection.request("GET", "/")
    assert len(connection.getresponse().read()) == 65000
    result.append(time.monotonic() - start)
""")
    # With Nagle's algorithm each waits for a delayed acknowledgement, which takes 40 ms; but the first
    # few, which are acknowledged at once.
    assert min(taken[20:]) < 0.03, taken


# ---- names ----

DIG = """
ask() {{ dig {tcp} +tries=1 +time=30 "$@"; }}  # once, so that nothing that is lost goes unseen
ask +short api.test A; ask +short API.Test A; ask +short api.test AAAA
for type in TXT MX SRV NS SOA HTTPS ANY; do
    ask api.test $type | grep -c 'status: NOERROR.*' ; ask +short api.test $type
done
ask +short -x "$(ask +short api.test A)"
ask +short localhost A
ask printer.local A | grep -o 'status: [A-Z]*'
"""


@pytest.mark.parametrize("tcp", ["+notcp", "+tcp"])
def test_names_are_answered_at_once(place, https, tcp):
    done = egress.bash(place, DIG.format(tcp=tcp), egress.allowed(https))
    lines = done.stdout.split("\n")
    assert lines[0] == lines[1] and lines[0].startswith("198.18.0."), done.stdout
    assert lines[2].startswith("fd77:6172:6465:7200::"), done.stdout
    assert lines[3:10] == ["1"] * 7, done.stdout  # NODATA for all the rest
    assert lines[10:] == ["api.test.", "127.0.0.1", "status: NXDOMAIN", ""], done.stdout


NAMES = {"api.test": True, "API.Test": True, "sub.wild.test": True, "wild.test": True, "bad.wild.test": False,
         "db.test": True, "llm.key.test": True, "litellm": True, "printer.local": True, "evil.test": False,
         "x.api.test": False, "other": False, "other.local": False, "localhost": True}


@pytest.mark.parametrize("mode", ["explain", "deny"])
def test_names_without_a_rule(place, https, mode):
    """They are explained, or do not exist; of the local network only what a rule names is there."""
    options = (*egress.allowed(https), "--allow-net", "*.wild.test", "--deny-net", "bad.wild.test",
               "--allow-net", "tcp://db.test:5432", "--allow-net", "litellm", "--allow-net", "printer.local",
               "--allow-net", "[2606:2800:220:1::1]:80", "--secret", "TOKEN=env:TOKEN@*.key.test", "--dns", mode)
    with agent.run(place, *options, env=TOKEN_ENV) as run:
        found = run.python(f"""
import socket
result = {{}}
for name in {list(NAMES)!r}:
    try:
        result[name] = bool(socket.getaddrinfo(name, 443))
    except socket.gaierror as error:
        result[name] = False
""")
        # With explanations, every name that could be of the internet resolves.
        explained = {name: True for name in NAMES if name.endswith("test") and mode == "explain"}
        assert found == {**NAMES, **explained}
        assert egress.ask(run).status == 200
        if mode == "explain":
            egress.assert_refused(egress.ask(run, host="evil.test"), 403, "host_not_allowed")


def test_names_that_do_not_exist_say_so(place, https):
    done = egress.bash(place, """
for way in +notcp +tcp; do for type in A AAAA TXT; do
    dig $way +tries=1 +time=2 evil.test $type | grep -o 'status: [A-Z]*'
done; done""", (*egress.allowed(https), "--dns", "deny"))
    assert done.stdout.split("\n")[:-1] == ["status: NXDOMAIN"] * 6, done


def test_a_great_many_names(place, https):
    """More than one message of the link holds."""
    rules = [word for i in range(300) for word in ("--allow-net", f"host{i}.test")]
    options = (*egress.allowed(https), *rules, "--dns", "deny")
    done = egress.bash(place, "getent ahostsv4 host0.test host299.test host300.test | wc -l; curl -sS https://api.test/",
                       options)
    assert done.stdout == '6\n{"ok":true}', done


def test_every_name_has_an_address_that_can_be_connected_to(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        found = run.python("""
import socket
result = []
for number in range(600):
    address = socket.getaddrinfo(f"name-{number}.test", 443, socket.AF_INET, socket.SOCK_STREAM)[0][4]
    socket.create_connection(address, 5).close()
    result.append(address[0])
""")
    assert len(set(found)) == 600 and {"198.18.0.255", "198.18.1.0", "198.18.1.255"} <= set(found)


def test_the_usual_ways_to_ask_for_a_name(place, https):
    done = egress.bash(place, "getent ahosts api.test; getent hosts localhost", egress.allowed(https))
    assert "fd77:6172:6465:7200::" in done.stdout and "198.18.0." in done.stdout, done


# ---- clients ----

PYTHON_CLIENT = """python3 -c '
import urllib.request
print(urllib.request.urlopen("https://api.test/x").read().decode(), end="")'"""
HTTP_CLIENT = """python3 -c '
import http.client
c = http.client.HTTPSConnection("api.test")
for _ in range(3):
    c.request("GET", "/x")
    body = c.getresponse().read()
print(body.decode(), end="")'"""
OPENSSL = r"""printf 'GET /x HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n' |
    openssl s_client {} -quiet -verify_return_error -connect api.test:443 -servername api.test 2>/dev/null | tail -n 1"""
CLIENTS = {
    "curl": "curl -sS https://api.test/x",
    "curl http1.1": "curl -sS --http1.1 https://api.test/x",
    "curl http1.0": "curl -sS --http1.0 https://api.test/x",
    "curl http2": "curl -sS --http2 https://api.test/x",
    "curl tls1.2": "curl -sS --tlsv1.2 --tls-max 1.2 https://api.test/x",
    "curl tls1.3": "curl -sS --tlsv1.3 https://api.test/x",
    "curl ipv4": "curl -sS -4 https://api.test/x",
    "curl ipv6": "curl -sS -6 https://api.test/x",
    "curl no alpn": "curl -sS --no-alpn https://api.test/x",
    "curl no variables": "env -i curl -sS https://api.test/x",
    "curl resumed": "curl -sS https://api.test/x -o /dev/null --next -sS -H 'Connection: close' https://api.test/x",
    "wget": "wget -q -O - https://api.test/x",
    "wget no variables": "env -i wget -q -O - https://api.test/x",
    "urllib": PYTHON_CLIENT,
    "urllib no variables": "env -i " + PYTHON_CLIENT,
    "http.client": HTTP_CLIENT,
    "openssl": OPENSSL.format(""),
    "openssl tls1.2": OPENSSL.format("-tls1_2"),
    "connect proxy": "curl -sS -x http://127.0.0.1:3128 https://api.test/x",
    "connect proxy, variable": "https_proxy=http://127.0.0.1:3128 curl -sS https://api.test/x",
    "socks5": "curl -sS --socks5 127.0.0.1:3128 https://api.test/x",
    "socks5 name": "curl -sS --socks5-hostname 127.0.0.1:3128 https://api.test/x",
    "wget proxy": "https_proxy=http://127.0.0.1:3128 wget -q -O - https://api.test/x",
    "urllib proxy": "https_proxy=http://127.0.0.1:3128 " + PYTHON_CLIENT,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unmodified_client(place, https, client):
    https.script = say_hello
    done = egress.bash(place, CLIENTS[client], egress.allowed(https))
    assert done.stdout.encode() == HELLO, done
    assert https.requests[-1].line == "GET /x HTTP/1.1"
    assert https.requests[-1].values("host") == ["api.test"]


def test_a_target_that_cannot_be_written_down_is_refused_and_no_more(place, https):
    """Over HTTP/2 it comes in whole, and its refusal is recorded without it."""
    ask = "curl -sS --http2 -o /dev/null -w '%{http_version} %{http_code} ' --request-target "
    targets = ["/x", "$'/\\xc3\\xa4'", "/x"]  # the controls are what comes before and after it
    done = egress.bash(place, "; ".join(f"{ask}{target} https://api.test" for target in targets), egress.allowed(https))
    assert done.stdout == "2 200 2 400 2 200 ", done


@pytest.mark.parametrize("client", [
    "curl -sS http://plain.test/x", "curl -sS -x http://127.0.0.1:3128 http://plain.test/x",
    "http_proxy=http://127.0.0.1:3128 curl -sS http://plain.test/x",
    "curl -sS --socks5-hostname 127.0.0.1:3128 http://plain.test/x",
    "curl -sS -p -x http://127.0.0.1:3128 http://plain.test/x", "wget -q -O - http://plain.test/x"])
def test_an_unmodified_client_in_clear(place, origin, client):
    origin.script = say_hello
    done = egress.bash(place, client, egress.allowed(origin, host="plain.test", port=80))
    assert done.stdout.encode() == HELLO, done
    assert origin.requests[-1].line == "GET /x HTTP/1.1"
    assert origin.requests[-1].values("host") == ["plain.test"]
    assert not origin.requests[-1].values("proxy-connection")


def test_a_client_that_trusts_only_others_is_not_fooled(place, https, certificates):
    """The run's authority signs what the agent sees, and is no authority for anyone else."""
    ca = place.write("workspace/other.pem", certificates.ca.read_text())
    done = egress.bash(place, f"curl -sS --cacert {ca.name} https://api.test/", egress.allowed(https))
    assert done.returncode == 60, done


def git(place, *words):
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*", *words]
    return subprocess.run(line, cwd=place.top, check=True, capture_output=True, text=True).stdout


def serve_git(place, password):
    """git's own server behind ours."""

    def serve(connection, request):
        path, _, query = request.target.partition("?")
        env = {"GIT_PROJECT_ROOT": str(place.top), "GIT_HTTP_EXPORT_ALL": "1", "PATH": harness.PATH,
               "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": request.method,
               "CONTENT_TYPE": (request.values("content-type") or [""])[0],
               "CONTENT_LENGTH": str(len(request.body)), "REMOTE_USER": "u",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "GIT_PROTOCOL": (request.values("git-protocol") or [""])[0],
               "HTTP_CONTENT_ENCODING": (request.values("content-encoding") or [""])[0]}
        done = subprocess.run(["/usr/lib/git-core/git-http-backend"], input=request.body, env=env,
                              check=True, capture_output=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        status = b"200 OK"
        lines = []
        for line in head.split(b"\r\n"):
            if line.startswith(b"Status: "):
                status = line[8:]
            else:
                lines.append(line)
        lines.append(b"Content-Length: %d" % len(body))
        connection.send(b"HTTP/1.1 " + status + b"\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body)

    wanted = "Basic " + base64.b64encode(b"u:" + password.encode()).decode()

    def script(connection):
        for request in connection.requests():
            if request.values("authorization") != [wanted]:
                connection.answer(b"who?", 401, [("WWW-Authenticate", 'Basic realm="git"')])
            else:
                serve(connection, request)

    return script


def test_git_clones_and_pushes_with_a_password_that_it_never_has(place, https):
    """Basic: the password that git has is a placeholder."""
    if not pathlib.Path("/usr/lib/git-core/git-http-backend").exists():
        pytest.skip("needs git http-backend")
    password = "ghp_" + os.urandom(18).hex()
    git(place, "init", "-q", "-b", "main", "seed")
    (place.top / "seed/file").write_text("content\n")
    git(place, "-C", "seed", "add", "file")
    git(place, "-C", "seed", "commit", "-q", "-m", "first")
    git(place, "clone", "-q", "--bare", "seed", "repo.git")
    git(place, "-C", "repo.git", "config", "http.receivepack", "true")
    https.script = serve_git(place, password)
    done = egress.bash(place, """set -e
export HOME=/tmp GIT_TERMINAL_PROMPT=0
git clone -q "https://u:$TOKEN@api.test/repo.git" it
cat it/file
cd it
echo more > more
git add more
git -c user.name=a -c user.email=a@b commit -q -m second
git -c http.postBuffer=10 push -q
echo pushed
""", (*egress.mapped(https), *egress.trusted(https), "--secret", f"TOKEN=env:TOKEN@{egress.HOST}"),
                       env={"TOKEN": password})
    assert done.stdout == "content\npushed\n", done
    assert password not in done.stdout + done.stderr
    assert git(place, "-C", "repo.git", "log", "--format=%s", "main").split() == ["second", "first"]


# ---- TLS towards the agent ----

@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_the_certificate_names_the_host(place, https, version):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("api.test", 443)
        got, alpn, names = wire.tls("api.test", version, ["http/1.1"])
        assert got == version.replace("_", ".") and alpn == "http/1.1"
        assert ["DNS", "api.test"] in names
        assert wire.ask(egress.request()).status == 200


def test_a_client_without_a_server_name(place, https):
    """The name is known from the address that the resolver gave out."""
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("api.test", 443)
        _, _, names = wire.tls(None)
        assert ["DNS", "api.test"] in names
        assert wire.ask(egress.request()).status == 200


def test_a_request_together_with_the_end_of_the_handshake(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        for _ in range(10):
            assert egress.ask(run).status == 200


@pytest.mark.parametrize("pause", [0.7, 2])
def test_a_client_that_connects_ahead_of_its_needs(place, https, pause):
    """Pools and browsers open connections before there is a request to send."""
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("api.test", 443)
        time.sleep(pause)
        wire.tls("api.test")
        time.sleep(pause)
        assert wire.ask(egress.request()).status == 200


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_hello_in_pieces(place, https, size):
    with agent.run(place, *egress.allowed(https)) as run:
        assert run.python(f"""
import socket, ssl, time
sock = socket.create_connection(("api.test", 443))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
context = ssl.create_default_context(cafile="/etc/warder/ca.pem")
inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(inside, outside, server_hostname="api.test")
def flush():
    data = outside.read()
    for at in range(0, len(data), {size}):
        sock.sendall(data[at:at + {size}])
        if at < 300: time.sleep(0.001)
def until(what, *args):
    while True:
        try:
            got = what(*args)
            flush()
            return got
        except ssl.SSLWantReadError:
            flush()
            inside.write(sock.recv(65536))
until(tls.do_handshake)
until(tls.write, b"GET / HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n")
result = until(tls.read, 12).decode()
""") == "HTTP/1.1 200"


# ---- TLS towards origins ----

@pytest.mark.parametrize("name", ["wrong", "expired", "foreign"])
def test_an_origin_that_cannot_be_trusted(place, certificates, name):
    made = upstream.Origin(context=certificates.context(name))
    made.ca = str(certificates.ca)
    with agent.run(place, *egress.allowed(made, host="llm.test")) as run:
        reply = egress.ask(run, host="llm.test")
        egress.assert_refused(reply, 502, "upstream_tls")
        assert egress.decisions(run)[0]["allowed"] is True
    assert not made.requests
    made.close()


def test_an_origin_that_refuses_connections(place, certificates):
    held, port = upstream.refusing_port()
    options = ("--allow-net", "api.test", "--connect-to", f"api.test:443=127.0.0.1:{port}",
               "--upstream-ca", str(certificates.ca))
    with agent.run(place, *options) as run:
        egress.assert_refused(egress.ask(run), 502, "upstream_refused")
    held.close()


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Le",
                                  b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
                                  b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", b"\x00\x01\x02\r\n\r\n"])
def test_an_origin_that_does_not_speak_http(place, https, data):
    def script(connection):
        connection.request()
        connection.send(data)
        connection.end()

    https.script = script
    with agent.run(place, *egress.allowed(https)) as run:
        assert egress.ask(run).status == 502


@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_reply_that_is_cut_short_is_no_whole_one(place, https, head):
    def script(connection):
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        connection.send(b"5\r\nhello\r\n" if b"chunked" in head else b"hello")
        connection.end()

    https.script = script
    done = egress.bash(place, "curl -sS https://api.test/", egress.allowed(https))
    assert done.returncode in (18, 52, 56, 92), done


# ---- bodies ----

def rss(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(pid)


SIZE = 200 << 20
PIECE = bytes(range(256)) * 4096  # 1 MiB
SHA = hashlib.sha256(PIECE * (SIZE // len(PIECE))).hexdigest()
MEMORY_MAX = 32 << 20  # of each; a sanitizer needs more
if "asan" in harness.BUILD.name:
    MEMORY_MAX *= 16


def send_large(connection):
    connection.request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
    for _ in range(SIZE // len(PIECE)):
        connection.send(PIECE)


def send_large_chunked(connection):
    connection.request()
    connection.send(upstream.CHUNKED)
    for _ in range(SIZE // len(PIECE)):
        connection.send(upstream.chunk(PIECE))
    connection.send(upstream.LAST_CHUNK)


def take_large(connection):
    """Hashes a body without keeping it."""
    request = connection.head()
    left = int((request.values("content-length") or ["-1"])[0])
    digest = hashlib.sha256()
    while left:
        size = left
        if left < 0:
            line = b""
            while not line.endswith(b"\r\n"):
                line += connection.take(1)
            size = int(line, 16)
        got = 0
        while got < size:
            if not connection._left:
                connection._more()
                connection.received = b""
            piece = connection.take(min(size - got, len(connection._left)))
            digest.update(piece)
            got += len(piece)
        if left < 0:
            connection.take(2)
            left = -1 if size else 0
        else:
            left = 0
    connection.answer(digest.hexdigest().encode())


def memory_of(run):
    pids = run.pids()
    return {who: rss(pids[who]) for who in ("gate", "keeper")}


WITH_SECRET = ("--secret", "TOKEN=env:TOKEN@api.test", "--secret-in", "TOKEN=header,body")
TOKEN_ENV = {"TOKEN": "sk-" + "0123456789abcdef" * 3}


@pytest.mark.parametrize("options", [(), WITH_SECRET], ids=["plain", "secret"])
@pytest.mark.parametrize("script", [send_large, send_large_chunked])
def test_a_large_download_needs_no_memory(place, https, script, options):
    https.script = script
    with agent.run(place, *egress.allowed(https), *options, env=TOKEN_ENV) as run:
        assert run.python("""
import hashlib, urllib.request
digest = hashlib.sha256()
reply = urllib.request.urlopen("https://api.test/")
while True:
    piece = reply.read(1 << 20)
    if not piece: break
    digest.update(piece)
result = digest.hexdigest()
""") == SHA
        memory = memory_of(run)
        assert max(memory.values()) < MEMORY_MAX, memory


UPLOAD = """
import http.client
piece = bytes(range(256)) * 4096
def pieces():
    for _ in range({count}): yield piece
connection = http.client.HTTPSConnection("api.test")
connection.request("PUT", "/", pieces(), {fields}, encode_chunked={chunked})
result = connection.getresponse().read().decode()
"""


@pytest.mark.parametrize("options", [(), WITH_SECRET], ids=["plain", "secret"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_upload_needs_no_memory(place, https, chunked, options):
    https.script = take_large
    fields = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(SIZE)}
    with agent.run(place, *egress.allowed(https), *options, env=TOKEN_ENV) as run:
        code = UPLOAD.format(count=SIZE // len(PIECE), fields=fields, chunked=chunked)
        assert run.python(code) == SHA
        memory = memory_of(run)
        assert max(memory.values()) < MEMORY_MAX, memory


def test_a_slow_reader_holds_the_origin_back(place, https):
    """What the agent does not read is not read from the origin either."""
    sent = []

    def script(connection):
        connection.request()
        connection.socket.settimeout(2)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
        try:
            for _ in range(SIZE // len(PIECE)):
                connection.socket.sendall(PIECE)
                sent.append(1)
        except TimeoutError:
            pass

    https.script = script
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        wire.send(egress.request())
        wire.head()
        time.sleep(3)
        assert len(sent) < 40
        memory = memory_of(run)
        assert max(memory.values()) < MEMORY_MAX, memory


# ---- connections ----

def test_a_connection_is_kept_on_both_sides(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        for number in range(20):
            assert wire.ask(egress.request(target=f"/{number}")).status == 200
        wire.close()
        for _ in range(5):
            assert egress.ask(run).status == 200
    assert [r.target for r in https.requests[:20]] == [f"/{n}" for n in range(20)]
    assert len(https.connections) == 1  # of the whole run


def test_pipelined_requests_are_answered_in_order(place, https):
    def script(connection):
        for request in connection.requests():
            connection.answer(request.target.encode())

    https.script = script
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        wire.send(b"".join(egress.request("POST", f"/{n}", body=b"x" * n) for n in range(30)))
        assert [wire.reply().body for _ in range(30)] == [f"/{n}".encode() for n in range(30)]


def test_many_connections_at_once(place, https):
    https.script = say_hello
    with agent.run(place, *egress.allowed(https)) as run:
        assert run.python("""
import threading, urllib.request
got = []
def one():
    got.append(urllib.request.urlopen("https://api.test/").read())
threads = [threading.Thread(target=one) for _ in range(60)]
for t in threads: t.start()
for t in threads: t.join()
result = [len(got), len(set(got))]
""") == [60, 1]


def test_events_are_delivered_as_they_come(place, https):
    go_on = threading.Semaphore(0)

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED)
        for number in range(5):
            connection.send(upstream.chunk(b"data: %d\n\n" % number))
            assert go_on.acquire(timeout=20)
        connection.send(upstream.LAST_CHUNK)
        connection.wait_for_end()

    https.script = script
    with agent.run(place, *egress.allowed(https), *WITH_SECRET, env=TOKEN_ENV) as run:
        wire = egress.connect(run)
        wire.send(egress.request())
        wire.head()
        for number in range(5):
            assert b"data: %d\n\n" % number in wire.until(b"\n\n\r\n")
            go_on.release()
        assert wire.until(b"0\r\n\r\n")


def test_an_upload_is_passed_on_as_it_comes(place, https):
    seen = []

    def script(connection):
        connection.head()
        for _ in range(3):
            size = int(connection._line(), 16)
            seen.append(connection.take(size + 2)[:-2])
        assert connection.take(5) == b"0\r\n\r\n"
        connection.answer()

    https.script = script
    with agent.run(place, *egress.allowed(https), *WITH_SECRET, env=TOKEN_ENV) as run:
        wire = egress.connect(run)
        wire.send(egress.request("POST", "/", "Transfer-Encoding: chunked"))
        for number in range(3):
            wire.send(upstream.chunk(b"piece %d" % number))
            checks.wait_until(lambda: len(seen) > number)
        wire.send(upstream.LAST_CHUNK)
        assert wire.reply().status == 200
    assert seen == [b"piece 0", b"piece 1", b"piece 2"]


def test_expect_continue_is_answered(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        wire.send(egress.request("POST", "/", "Expect: 100-continue", "Content-Length: 5"))
        assert wire.head().status == 100
        wire.send(b"hello")
        assert wire.reply().status == 200
    assert https.requests[0].body == b"hello"


@pytest.mark.parametrize("data, has_body", [
    (b"HTTP/1.1 204 No Content\r\n\r\n", False), (b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", False),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False)])
def test_replies_without_a_body(place, https, data, has_body):
    def script(connection):
        for _ in connection.requests():
            connection.send(data)

    https.script = script
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        for _ in range(2):
            wire.send(egress.request())
            reply = wire.reply()
            assert reply.status == int(data.split()[1]) and reply.body == b""


def test_the_reply_to_head_tells_the_length(place, https):
    def script(connection):
        for _ in connection.requests():
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")

    https.script = script
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        for _ in range(2):
            wire.send(egress.request("HEAD"))
            assert wire.reply(has_body=False).value("content-length") == "1000"


def test_what_the_client_says_is_passed_on_in_order(place, https):
    lines = ("User-Agent: it/1", "X-B: 2", "x-a: 1", "X-B: 3", "Accept-Encoding: gzip, br",
             "Cookie: a=b", "Authorization: Bearer mine")
    with agent.run(place, *egress.allowed(https)) as run:
        reply = egress.ask(run, egress.request("GET", "/a%20b;c?d=e&f=%2F", *lines, "Connection: x-hop",
                                               "X-Hop: 1", "Proxy-Authorization: Basic eA=="))
        assert reply.status == 200
    request = https.requests[0]
    assert request.target == "/a%20b;c?d=e&f=%2F"
    assert [f"{n}: {v}" for n, v in request.fields if n.lower() != "host"] == list(lines)


# ---- policy and refusals ----

RULES = ("--allow-net", "GET,HEAD api.test/v1/**", "--allow-net", "POST api.test/v1/items/*",
         "--allow-net", "*.wild.test", "--deny-net", "bad.wild.test", "--deny-net", "GET api.test/v1/secret")


@pytest.mark.parametrize("host, port, method, target, code, hint", [
    ("evil.test", 443, "GET", "/", "host_not_allowed", "allow it with --allow-net evil.test"),
    ("api.test.evil.test", 443, "GET", "/v1/x", "host_not_allowed",
     "allow it with --allow-net api.test.evil.test"),
    ("xapi.test", 443, "GET", "/v1/x", "host_not_allowed", None),
    ("api.test", 8443, "GET", "/v1/x", "port_not_allowed", "allow it with --allow-net api.test:8443"),
    ("api.test", 443, "DELETE", "/v1/x", "method_not_allowed", None),
    ("api.test", 443, "GET", "/v2/x", "path_not_allowed", None),
    ("api.test", 443, "GET", "/v1/../v2", None, None),
    ("api.test", 443, "GET", "/v1/%2e%2e/v2", None, None),
    ("api.test", 443, "GET", "/v1/..%2fv2", None, None),
    ("api.test", 443, "POST", "/v1/items/1/2", None, None),
    ("api.test", 443, "GET", "/v1/secret", "denied", None),
    ("bad.wild.test", 443, "GET", "/", "denied", None),
])
def test_a_refusal_says_what_would_help(place, https, host, port, method, target, code, hint):
    with agent.run(place, *RULES, *egress.mapped(https), *egress.trusted(https), "-v") as run:
        name = host if port == 443 else f"{host}:{port}"
        reply = egress.ask(run, egress.request(method, target, host=name, body=b""), host, port)
        assert reply.status in (400, 403)
        egress.assert_refused(reply, reply.status, code or reply.code(), hint)
        record = egress.decisions(run)[0]
        assert (record["allowed"], record["reason"], record["host"]) == (False, reply.code(), f"{host}:{port}")
        assert reply.code() in run.stderr()
        assert run.end() == 0
        assert "1 refused" in run.stderr()
    assert not https.connections


@pytest.mark.parametrize("method, target", [
    ("GET", "/v1/x"), ("HEAD", "/v1/a/b/c"), ("POST", "/v1/items/1"), ("GET", "/v1/secret/x")])
def test_what_the_same_rules_allow(place, https, method, target):
    """The control of the test above."""
    with agent.run(place, *RULES, *egress.mapped(https), *egress.trusted(https)) as run:
        wire = egress.connect(run)
        wire.send(egress.request(method, target, body=None if method == "GET" else b""))
        assert wire.reply(has_body=method != "HEAD").status == 200
    assert https.requests[0].line == f"{method} {target} HTTP/1.1"


def test_the_summary_names_the_refused_hosts_and_the_flag(place, https):
    done = egress.bash(place, "curl -s https://evil.test/ https://evil.test/ https://worse.test:8443/",
                       egress.allowed(https))
    assert "--allow-net evil.test" in done.stderr and "--allow-net worse.test:8443" in done.stderr, done.stderr


def test_a_refused_connection_goes_on(place, https):
    with agent.run(place, *RULES, *egress.mapped(https), *egress.trusted(https)) as run:
        wire = egress.connect(run)
        assert wire.ask(egress.request("POST", "/v2", body=b"x" * 1000)).status == 403
        assert wire.ask(egress.request("GET", "/v1/x")).status == 200


def test_a_refused_upload_ends(place, https):
    """The reply comes although the client has not said all."""
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run, "evil.test")
        wire.send(egress.request("POST", "/", "Content-Length: 1000000000", host="evil.test"))
        egress.assert_refused(wire.reply(), 403, "host_not_allowed")


# ---- raw TCP ----

def tunnel(origin, *more):
    return ("--allow-net", "tcp://db.test:5432", *egress.mapped(origin, "db.test", 5432), *more)


def test_a_tunnel_carries_both_directions(place, origin):
    def script(connection):
        connection.send(b"220 welcome\r\n")  # who speaks first
        while True:
            connection.send(connection._line().upper())

    origin.script = script
    with agent.run(place, *tunnel(origin)) as run:
        wire = run.connect("db.test", 5432)
        assert wire.until(b"\r\n") == b"220 welcome\r\n"
        for text in (b"hello\r\n", b"\x00\x16\x03\xff\r\n", b"GET / HTTP/1.1\r\n"):
            wire.send(text)
            assert wire.until(b"\r\n") == text.upper()
        record = egress.decisions(run)[0]
        assert (record["allowed"], record["host"]) == (True, "db.test:5432")


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\x05\x01\x00",
                                   b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_a_tunnel_is_not_looked_into(place, origin, first):
    def script(connection):
        connection.send(b"[" + connection.take(len(first)) + b"]")

    origin.script = script
    with agent.run(place, *tunnel(origin)) as run:
        wire = run.connect("db.test", 5432)
        wire.send(first)
        assert wire.rest() == b"[" + first + b"]"


@pytest.mark.parametrize("way", ["connect", "socks"])
def test_a_tunnel_through_the_proxy(place, origin, way):
    def script(connection):
        connection.send(b"welcome\n")
        connection.send(connection.take(4))

    origin.script = script
    with agent.run(place, *tunnel(origin)) as run:
        wire = run.connect("127.0.0.1", egress.PROXY)
        if way == "connect":
            wire.send(b"CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n")
            assert wire.head().status == 200
        else:
            wire.send(b"\x05\x01\x00")
            assert wire.exactly(2) == b"\x05\x00"
            wire.send(b"\x05\x01\x00\x03\x07db.test\x15\x38")
            assert wire.exactly(10)[:2] == b"\x05\x00"
        assert wire.until(b"\n") == b"welcome\n"
        wire.send(b"ping")
        assert wire.exactly(4) == b"ping"


def test_the_agents_half_close_goes_through_a_tunnel(place, origin):
    def script(connection):
        data = b""
        while True:
            piece = connection.socket.recv(65536)
            if not piece:
                break
            data += piece
        connection.send(hashlib.sha256(data).hexdigest().encode())

    origin.script = script
    with agent.run(place, *tunnel(origin)) as run:
        wire = run.connect("db.test", 5432)
        data = os.urandom(3 << 20)
        wire.send(data)
        wire.shutdown()
        assert wire.rest() == hashlib.sha256(data).hexdigest().encode()


def test_the_hosts_half_close_goes_through_a_tunnel(place, origin):
    got = []

    def script(connection):
        connection.send(b"all I have to say")
        connection.socket.shutdown(1)
        while True:
            piece = connection.socket.recv(65536)
            if not piece:
                break
            got.append(piece)

    origin.script = script
    with agent.run(place, *tunnel(origin)) as run:
        wire = run.connect("db.test", 5432)
        assert wire.rest() == b"all I have to say"
        wire.send(b"and now ")
        time.sleep(0.2)
        wire.send(b"me")
        wire.shutdown()
        checks.wait_until(lambda: b"".join(got) == b"and now me")


def test_a_tunnel_of_megabytes_both_ways_needs_no_memory(place, origin):
    def script(connection):
        def back():
            for _ in range(100):
                connection.socket.sendall(PIECE)
            connection.socket.shutdown(1)

        thread = threading.Thread(target=back)
        thread.start()
        total = 0
        while True:
            piece = connection.socket.recv(1 << 20)
            if not piece:
                break
            total += len(piece)
        thread.join()
        origin.total = total

    origin.script = script
    with agent.run(place, *tunnel(origin)) as run:
        assert run.python("""
import socket, threading
sock = socket.create_connection(("db.test", 5432))
def out():
    for _ in range(100): sock.sendall(bytes(1 << 20))
    sock.shutdown(1)
thread = threading.Thread(target=out)
thread.start()
result = 0
while True:
    piece = sock.recv(1 << 20)
    if not piece: break
    result += len(piece)
thread.join()
""") == 100 << 20
        checks.wait_until(lambda: getattr(origin, "total", 0) == 100 << 20)
        memory = memory_of(run)
        assert max(memory.values()) < MEMORY_MAX, memory


@pytest.mark.parametrize("how", ["reset", "refused"])
def test_a_tunnel_that_fails_is_a_reset(place, origin, how):
    def script(connection):
        connection.send(b"x")
        connection.take(1)
        connection.reset()

    origin.script = script
    held, port = upstream.refusing_port()
    options = tunnel(origin)
    if how == "refused":
        options = (*options[:-1], f"db.test:5432=127.0.0.1:{port}")
    with agent.run(place, *options) as run:
        with pytest.raises(ConnectionResetError):
            wire = run.connect("db.test", 5432)
            if how == "reset":
                assert wire.exactly(1) == b"x"
                wire.send(b"y")
            wire.rest()
    held.close()


def test_a_tunnel_carries_no_secret(place, origin):
    def script(connection):
        connection.send(connection._line())

    origin.script = script
    secret = ("--secret", "TOKEN=env:TOKEN@api.test", "--secret-in", "TOKEN=header,basic,query,path,body")
    with agent.run(place, *tunnel(origin), *secret, env=TOKEN_ENV) as run:
        placeholder = run.python("import os; result = os.environ['TOKEN']").encode()
        wire = run.connect("db.test", 5432)
        wire.send(b"Authorization: " + placeholder + b"\r\n")
        wire.rest()
    assert TOKEN_ENV["TOKEN"].encode() not in origin.received()


# ---- records ----

def test_the_log_has_each_request_and_how_it_ended(place, https):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = egress.connect(run)
        wire.ask(egress.request("POST", "/v1/x?private=query", body=b"a private body"))
        egress.ask(run, egress.request("GET", "/other", host="evil.test"), "evil.test")
        run.end()
        records = run.records()
    names = [r["event"] for r in records]
    assert names == ["start", "decision", "outcome", "decision", "end"], names
    decision, outcome, refused, end = records[1:]
    assert (decision["method"], decision["host"], decision["path"], decision["allowed"],
            decision["reason"]) == ("POST", "api.test:443", "/v1/x", True, "api.test")
    assert (outcome["exchange"], outcome["status"], outcome["sentBytes"], outcome["receivedBytes"],
            outcome["ended"]) == (decision["exchange"], 200, 14, 11, "complete")
    assert (refused["host"], refused["allowed"], refused["reason"]) == (
        "evil.test:443", False, "host_not_allowed")
    assert (end["allowed"], end["refused"]) == (1, 1)
    assert "private" not in json.dumps(records)
    verified = place.warder("audit", "verify", str(run.audit))
    assert verified.returncode == 0, verified


def test_more_tunnels_than_the_gate_takes_are_a_run_not_started(user_place):
    user_place.install()
    rules = [word for number in range(129) for word in ("--allow-net", f"tcp://db{number}.test:5432")]
    done = user_place.run("true", options=rules)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "more than 128 rules")
    assert user_place.run("true", options=rules[2:]).returncode == 0  # control
