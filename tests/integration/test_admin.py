# SPDX-License-Identifier: MIT
"""The admin endpoint with real clients, under a service manager's protocol, and its documents."""
import http.client
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

import harness
import metrics

PEER = harness.BUILD / "tests" / "support" / "admin_peer"


class Peer:
    """A process that serves the admin endpoint on a port of its choice."""

    def __init__(self, *argv, env=None):
        self.process = subprocess.Popen([PEER, *argv], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **(env or {})})
        self.port = int(self.process.stdout.readline())
        self.base = f"http://127.0.0.1:{self.port}"

    def get(self, path):
        try:
            with urllib.request.urlopen(self.base + path, timeout=10) as reply:
                return reply.status, dict(reply.headers), reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read().decode()

    def end(self):
        """What it has written to its log."""
        _, log = self.process.communicate(timeout=10)
        assert self.process.returncode == 0, log
        return [json.loads(line) for line in log.splitlines()]


@pytest.fixture
def peer():
    made = Peer()
    yield made
    made.end()


@pytest.mark.parametrize("page", ["metrics.md", "log.md"])
def test_the_documented_tables_are_the_real_ones(page):
    made = (harness.BUILD / "src" / page).read_text()
    assert (harness.TOP / "docs" / page).read_text() == made


def test_prometheus_reads_the_metrics(peer):
    status, headers, text = peer.get("/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = metrics.check_metrics(text)
    assert samples["warder_runs"] == 1 and samples["warder_runs_total"] == 2
    assert samples["process_open_fds"] < 100
    values = [value for key, value in samples.items() if "warder_exchanges_total" in key]
    assert len(set(values)) == 4


def _spoil(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize("spoil", [
    lambda text: text[:-1],
    lambda text: _spoil(text, "# TYPE warder_runs gauge\n", ""),
    lambda text: text + "warder_runs_open 1\n",
    lambda text: _spoil(text, 'code="denied"', 'code="api.example.com"'),
    lambda text: _spoil(text, 'kind="llm"', 'kind="llm",run="r-1"'),
    lambda text: _spoil(text, 'kind="llm"', 'kind="host"'),
    lambda text: _spoil(text, 'warder_exchange_seconds_bucket{le="+Inf"}', "x_bucket"),
    lambda text: "\n".join(line for line in text.split("\n") if "direction=\"sent\"" not in line),
])
def test_what_is_wrong_with_metrics_is_seen(peer, spoil):
    """The control of check_metrics, on which others rely."""
    text = peer.get("/metrics")[2]
    metrics.check_metrics(text)
    with pytest.raises((AssertionError, ValueError)):
        metrics.check_metrics(spoil(text))


def test_health_and_readiness(peer):
    assert peer.get("/healthz")[::2] == (200, '{"status":"ok"}')
    assert peer.get("/readyz")[::2] == (200, '{"status":"ready"}')
    assert peer.get("/nothing")[0] == 404
    away = Peer("postgresql: connection refused")
    status, _, text = away.get("/readyz")
    assert status == 503 and json.loads(text) == {
        "status": "not_ready", "reasons": {"store": "postgresql: connection refused"}}
    assert away.get("/healthz")[0] == 200
    away.end()


def test_a_client_keeps_its_connection(peer):
    connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=10)
    connection.connect()
    own = connection.sock.getsockname()
    for path, status in [("/metrics", 200), ("/nothing", 404), ("/readyz", 200)] * 3:
        for method in ("GET", "HEAD"):
            connection.request(method, path)
            reply = connection.getresponse()
            assert reply.status == status and bool(reply.read()) == (method == "GET")
            assert connection.sock.getsockname() == own


def test_curl_can_use_it(peer):
    done = subprocess.run(["curl", "-sS", "-I", peer.base + "/metrics", "--next", "-sS", "-d", "x",
                           peer.base + "/metrics"], capture_output=True, text=True, timeout=30,
                          check=True)
    assert done.stdout.startswith("HTTP/1.1 200 OK\n") and "body_refused" in done.stdout


def test_a_service_manager_is_told(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        peer = Peer(env={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(1000) == b"READY=1\nSTATUS=serving"
        log = peer.end()
        assert manager.recv(1000) == b"STOPPING=1\n"
    assert [line["event"] for line in log] == ["ready", "stopped"]


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="needs systemd")
def test_a_service_manager_opens_the_socket(tmp_path):
    path = str(tmp_path / "admin.sock")
    with subprocess.Popen(["systemd-socket-activate", "--fdname=admin", "-l", path, PEER],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while "Listening on" not in process.stderr.readline():
            assert process.poll() is None
        done = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://admin/healthz"],
                              capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout == '{"status":"ok"}'
        process.communicate(timeout=10)
    assert process.returncode == 0
