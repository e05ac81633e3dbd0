# SPDX-License-Identifier: MIT
"""Every HTTP client does the same three things: a GET and a POST that carry a placeholder, and a download.

The origin received the secret in the field that it was in, the client got back its placeholder, and
both told which HTTP they spoke.
"""
import hashlib
import subprocess

import clients
import pytest

UPLOAD = b"0123456789" * 10000
BLOB_BYTES = 1 << 20


class Client:
    """A client's command line; `argv` has {GROUP} where the group of its files is."""

    def __init__(self, *argv, http="1.1", group=None, program=None, env=None):
        self.argv, self.group, self.program, self.http = argv, group, program, http
        self.env = env or {}

    def command(self):
        if self.program:
            clients.need_program(self.program)
        top = str(clients.need(self.group)) if self.group else ""
        env = {name: value.replace("{}", top) for name, value in self.env.items()}
        return [word.replace("{}", top) for word in self.argv], env


def sh(script, *options, **more):
    return Client("sh", clients.path_of(script), *options, program=script.split(".")[0], **more)


def python(script, *options, **more):
    return Client("{}/bin/python", clients.path_of(script), *options, group="python", **more)


def node(script, *options, **more):
    return Client("node", clients.path_of(script), *options, program="node", **more)


def undici(script, *options, **more):
    return node(script, *options, group="undici", env={"UNDICI": "{}/node_modules/undici/index.js"}, **more)


def java(name, **more):
    return Client("java", "-cp", "{}", name, group="java", program="java", **more)


PROXY = "http://127.0.0.1:3128"

CLIENTS = {
    "curl": sh("curl.sh", http="2"),
    "curl, h1": sh("curl.sh", "--http1.1"),
    "curl, h2": sh("curl.sh", "--http2", http="2"),
    "curl, prior knowledge": sh("curl.sh", "--http2-prior-knowledge", http="2"),
    "curl, TLS 1.2": sh("curl.sh", "--tlsv1.2", "--tls-max", "1.2", http="2"),
    "curl, TLS 1.3": sh("curl.sh", "--tlsv1.3", http="2"),
    "curl, no proxy": sh("curl.sh", "--noproxy", "*", http="2"),
    "curl, compressed": sh("curl.sh", "--compressed", http="2"),
    "curl, compressed h1": sh("curl.sh", "--compressed", "--http1.1"),
    "curl, proxy": sh("curl.sh", "--proxy", PROXY, http="2"),
    "curl, SOCKS": sh("curl.sh", "--socks5-hostname", "127.0.0.1:3128", http="2"),
    "wget": sh("wget.sh"),
    "wget, compressed": sh("wget.sh", "--compression=auto"),
    "python urllib": Client("/usr/bin/python3", clients.path_of("urllib_fetch.py")),
    "python requests": python("requests_fetch.py"),
    "python requests, proxy": python("requests_fetch.py", env={"HTTPS_PROXY": PROXY}),
    "python httpx": python("httpx_fetch.py"),
    "python httpx, h2": python("httpx_fetch.py", "--http2", http="2"),
    "python httpx, h2 proxy": python("httpx_fetch.py", "--http2", http="2", env={"HTTPS_PROXY": PROXY}),
    "python aiohttp": python("aiohttp_fetch.py"),
    "node fetch": node("fetch.mjs"),
    "node https": node("https.mjs"),
    "node http2": node("http2.mjs", http="2"),
    "undici fetch": undici("fetch.mjs"),
    "undici fetch, h2": undici("fetch.mjs", "h2", http="2"),
    "undici request": undici("undici_request.mjs"),
    "undici request, h2": undici("undici_request.mjs", "h2", http="2"),
    "go net/http": Client("{}/fetch", group="go", http="2"),
    "go net/http, own resolver": Client("{}/fetch", group="go", http="2", env={"GODEBUG": "netdns=go"}),
    "go net/http, h1": Client("{}/fetch", group="go", env={"GODEBUG": "http2client=0"}),
    "go net/http, proxy": Client("{}/fetch", group="go", http="2", env={"HTTPS_PROXY": PROXY}),
    "java HttpClient": java("HttpClientFetch", http="2"),
    "java HttpsURLConnection": java("UrlConnectionFetch"),
    "rust curl": Client("{}/curl-crate", group="rust", http="2"),
    "rust ureq": Client("{}/ureq", group="rust"),
}

# What each client calls them.
VERSIONS = {11: "1.1", "1.1": "1.1", "HTTP/1.1": "1.1", "HTTP_1_1": "1.1",
            "2": "2", "HTTP/2": "2", "HTTP/2.0": "2", "HTTP_2": "2"}


def fetch(place, name, origin):
    argv, env = CLIENTS[name].command()
    done = clients.run(place, argv, origin, "api.test", env={"BASE": "https://api.test", **env})
    return done, clients.answers(done)


def assert_received(origin, http):
    """The secret, in the field that had the placeholder; the body whole."""
    got, posted, blob = sorted(origin.wait(3), key=lambda record: (record["path"] == "/blob", record["method"] == "POST"))
    for record in (got, posted, blob):
        assert (record["http"], record["alpn"]) == http, record
        assert (record["host"], record["sni"]) == ("api.test", "api.test")
        assert record["tls"] in ("TLSv1.2", "TLSv1.3")
    assert (got["method"], got["path"], got["length"]) == ("GET", "/echo", 0)
    assert got["headers"]["authorization"] == f"Bearer {clients.SECRET}" and "x-api-key" not in got["headers"]
    assert (posted["method"], posted["path"], posted["length"]) == ("POST", "/echo", len(UPLOAD))
    assert posted["sha256"] == hashlib.sha256(UPLOAD).hexdigest()
    assert posted["headers"]["x-api-key"] == clients.SECRET and "authorization" not in posted["headers"]
    assert blob["headers"]["x-api-key"] == clients.SECRET


def assert_shown(done, shown, http):
    """What the origin echoed has the placeholder where the secret was."""
    got, posted, blob = shown
    assert [answer["status"] for answer in shown] == [200, 200, 200]
    assert {VERSIONS[answer["version"]] for answer in shown if "version" in answer} <= {http}, shown
    assert got["body"]["headers"]["authorization"] == f"Bearer {done.placeholder}"
    assert posted["body"]["headers"]["x-api-key"] == done.placeholder
    assert posted["body"]["length"] == len(UPLOAD)
    assert blob["length"] == BLOB_BYTES


@pytest.mark.parametrize("name", CLIENTS)
def test_an_origin_that_knows_only_http_1(place, h1_origin, name):
    done, shown = fetch(place, name, h1_origin)
    assert_received(h1_origin, ("1.1", "http/1.1"))
    assert_shown(done, shown, CLIENTS[name].http)


@pytest.mark.parametrize("name", CLIENTS)
def test_an_origin_that_prefers_http_2(place, origin, name):
    done, shown = fetch(place, name, origin)
    assert_received(origin, ("2.0", "h2"))
    assert_shown(done, shown, CLIENTS[name].http)


@pytest.mark.parametrize("name", ["curl", "python requests", "node fetch", "go net/http", "rust ureq", "java HttpClient"])
def test_the_same_as_root(as_root, origin, name):
    done, shown = fetch(as_root, name, origin)
    assert_received(origin, ("2.0", "h2"))
    assert_shown(done, shown, CLIENTS[name].http)


@pytest.mark.parametrize("name, coding", [
    ("curl, compressed", "br"), ("curl, compressed h1", "br"), ("wget, compressed", "gzip"), ("python requests", "gzip"),
    ("python httpx, h2", "gzip"), ("python aiohttp", "gzip"), ("node fetch", "br"), ("go net/http", "gzip"),
    ("go net/http, h1", "gzip")])
def test_a_client_that_asks_for_a_coding_gets_one(place, origin, name, coding):
    """What is compressed on its way is searched for the secret all the same."""
    done, shown = fetch(place, name, origin)
    assert_shown(done, shown, CLIENTS[name].http)
    assert [record["coding"] for record in origin.wait(3) if record["path"] == "/echo"] == [coding, coding]


@pytest.mark.parametrize("kind, http", [("h1_origin", "1.1"), ("origin", "2.0")])
@pytest.mark.parametrize("option", ["--http1.1", "--http2"])
def test_events_that_show_the_secret(place, request, kind, http, option):
    """Once whole, once in two writes; each event comes as it is sent."""
    origin = request.getfixturevalue(kind)
    argv = ["bash", "-c", f'curl -sSN {option} -H "Authorization: Bearer $TOKEN" https://api.test/events']
    done = clients.run(place, argv, origin, "api.test")
    clients.assert_done(done)
    assert done.stdout == f"data: Bearer {done.placeholder}\n\n" * 2
    assert origin.wait(1)[0]["http"] == http


@pytest.fixture(scope="session")
def impostor(tmp_path_factory):
    """A certificate that its owner has signed."""
    top = tmp_path_factory.mktemp("impostor")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-keyout", "impostor.key", "-out", "impostor.pem", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost"], cwd=top, check=True, capture_output=True)
    return top


def against_impostor(place, name, origin, impostor, *options, env=None):
    argv, more = CLIENTS[name].command()
    for file in ("impostor.pem", "impostor.key"):
        place.write(f"workspace/{file}", (impostor / file).read_text())
    argv = ["/usr/bin/python3", clients.path_of("impostor.py"), *argv, *options]
    return clients.run(place, argv, origin, "api.test", env={**more, **(env or {})})


VERIFIES = [name for name in CLIENTS if "proxy" not in name.split(", ")[-1] and "SOCKS" not in name]
BELIEVED = "the impostor was believed\n"


@pytest.mark.parametrize("name", VERIFIES)
def test_the_client_verifies_what_it_connects_to(place, h1_origin, impostor, name):
    """It trusts the run's authority, and not just anybody."""
    done = against_impostor(place, name, h1_origin, impostor)
    assert done.status != 0 and BELIEVED not in done.stdout
    assert any(word in done.stderr.lower() for word in ("certificate", "cert", "unable to find valid")), done


@pytest.mark.parametrize("name, options, env", [
    ("curl, h1", ["--insecure"], {}), ("wget", ["--no-check-certificate"], {}),
    ("node https", [], {"NODE_TLS_REJECT_UNAUTHORIZED": "0"}),
    ("go net/http, h1", [], {"SSL_CERT_FILE": "/workspace/impostor.pem"})])
def test_a_client_that_does_not_verify_believes_it(place, h1_origin, impostor, name, options, env):
    """The control of the test above."""
    assert BELIEVED in against_impostor(place, name, h1_origin, impostor, *options, env=env).stdout
