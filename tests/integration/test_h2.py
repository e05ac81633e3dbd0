# SPDX-License-Identifier: MIT
"""HTTP/2 and other implementations of it: curl, nghttp and h2load as clients, nghttpd as server."""
import os
import socket
import subprocess

import checks
import harness
import origin as upstream
import pytest

PEER = harness.BUILD / "tests" / "support" / "h2_peer"


def output_of(*line):
    return subprocess.run([str(word) for word in line], stdout=subprocess.PIPE, timeout=60,
                          check=True, text=True).stdout


@pytest.fixture(scope="module")
def url():
    with subprocess.Popen([PEER, "serve"], stdout=subprocess.PIPE, text=True) as server:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    top = tmp_path_factory.mktemp("www")
    (top / "small").write_bytes(b"x" * 100)
    (top / "large").write_bytes(os.urandom(500_000))
    holder, number = upstream.refusing_port()
    line = ["nghttpd", "--no-tls", "--echo-upload", "-d", top, "-a", "127.0.0.1", str(number)]
    def answers():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", number)) == 0

    with holder, subprocess.Popen(line, stdout=subprocess.DEVNULL) as server:
        checks.wait_until(answers, 30)
        yield number
        server.kill()


def curl(*arguments, into="/dev/null"):
    return output_of("curl", "-sS", "--http2-prior-knowledge", "-m", "30", "-o", into, "-w",
                     "%{http_version} %{http_code} %{size_download}", *arguments)


def test_curl_gets(url):
    assert curl(f"{url}/0") == "2 200 0"
    assert curl(f"{url}/1000000") == "2 200 1000000"
    assert curl("-I", f"{url}/123").startswith("2 200 ")


def test_curl_posts(url, tmp_path):
    body, back = tmp_path / "body", tmp_path / "back"
    body.write_bytes(os.urandom(3_000_000))
    assert curl("--data-binary", f"@{body}", url, into=back) == "2 200 3000000"
    assert back.read_bytes() == body.read_bytes()


def test_curl_is_refused(url, tmp_path):
    assert curl("-X", "TRACE", url) == "2 405 0"
    fields = [word for i in range(130) for word in ("-H", f"X-{i}: y")]
    assert curl(*fields, url) == "2 431 0"
    assert curl("-H", "Expect: x", url) == "2 417 0"
    # The reply comes while the body is still being sent.
    body = tmp_path / "body"
    body.write_bytes(bytes(3_000_000))
    assert curl("-X", "TRACE", "--data-binary", f"@{body}", url) == "2 405 0"


def test_nghttp(url):
    table = output_of("nghttp", "-ns", f"{url}/10", f"{url}/200000")
    assert " 200   10 /10" in table and " 200 195K /200000" in table


def test_h2load(url):
    report = output_of("h2load", "-n", "1000", "-c", "4", "-m", "50", f"{url}/5000")
    assert "1000 succeeded, 0 failed, 0 errored" in report


def test_nghttpd(port):
    assert output_of(PEER, "get", port, 1, "/large") == "200 500000 0\n"
    assert output_of(PEER, "get", port, 100, "/small") == "200 100 0\n" * 100
    assert output_of(PEER, "get", port, 20, "/large") == "200 500000 0\n" * 20
    assert output_of(PEER, "get", port, 1, "/none").startswith("404 ")
    assert output_of(PEER, "post", port, 3_000_000, "/x") == "200 3000000 0\n"
