# SPDX-License-Identifier: MIT
"""A shared keeper as an operator has it: readiness, metrics, and a service manager's protocol."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess

import agent
import checks
import handover
import egress
import harness
import metrics
import origin as upstream
import pytest
import shared
import siege

POST = agent.post({"model": "m"})


@pytest.fixture
def small_disk(root_place):
    """A file system with room for little."""
    top = root_place.top / "disk"
    top.mkdir()
    agent.as_root("mount", "-t", "tmpfs", "-o", "size=256k,mode=0777", "tmpfs", top)
    yield top
    agent.as_root("umount", "-l", top)


def ask_until(run, is_refused, most=200):
    """What is left of a file's last page is good for a few more."""
    for _ in range(most):
        reply = run.ask(POST)
        if (reply.status != 200) == is_refused:
            return reply
    raise AssertionError("nothing has changed")


def readiness(keeper):
    status, text = keeper.get("/readyz")
    answer = json.loads(text)
    assert (status == 200) == (answer["status"] == "ready")
    assert keeper.get("/healthz")[0] == 200  # it lives, whatever it can do
    return answer.get("reasons", {})


# ---- readiness ----

def test_a_keeper_whose_log_cannot_be_written_is_not_ready(root_place, origin, small_disk):
    audit = small_disk / "audit.jsonl"
    config = shared.llm(origin, audit={"file": str(audit)})
    with shared.keeper(root_place, config) as keeper, keeper.run() as run:
        keeper.audit = audit
        assert run.ask(POST).status == 200 and not readiness(keeper)
        checks.fill(small_disk / "filling")
        reply = ask_until(run, True)
        assert (reply.status, reply.code()) == (503, "audit_failed")
        assert set(readiness(keeper)) == {"audit"}
        assert keeper.wait_for("audit_failed")["level"] == "error"
        count = len(origin.requests)
        assert run.ask(POST).status == 503 and len(origin.requests) == count
        # No run begins unseen.
        done = root_place.run("true", options=("--keeper", keeper.address))
        assert done.returncode == 125, done.stderr
        # It comes back by itself.
        (small_disk / "filling").unlink()
        assert run.ask(POST).status == 200
        keeper.wait_for("audit_back")
        assert not readiness(keeper)
        assert keeper.metrics()["warder_audit_failures_total"] > 0
    keeper.verify()


def test_a_keeper_that_may_not_write_so_much_is_not_ready(root_place, origin):
    """RLIMIT_FSIZE, as an operator may have set it: no signal ends the keeper."""
    with shared.keeper(root_place, shared.llm(origin)) as keeper, keeper.run() as run:
        size = keeper.audit.stat().st_size
        subprocess.run(["prlimit", f"--pid={keeper.pid()}", f"--fsize={size + 100}:unlimited"], check=True)
        reply = ask_until(run, True)
        assert (reply.status, reply.code()) == (503, "audit_failed")
        assert set(readiness(keeper)) == {"audit"}
        subprocess.run(["prlimit", f"--pid={keeper.pid()}", "--fsize=unlimited:unlimited"], check=True)
        assert run.ask(POST).status == 200 and not readiness(keeper)
    keeper.verify()


ROOM = 500  # for any one record, and not for two


@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("what", ["begins", "ends"])
def test_what_cannot_be_recorded_of_one_run_lets_nothing_of_another_out(origin, what, is_full):
    """INV-AUDIT-FIRST, when a request and the beginning or the end of another run are in one turn."""
    with siege.keeper(origin, keeper={"store": "memory:"}) as keeper:
        asking = siege.join(keeper, "asking")
        other = siege.join(keeper, "other") if what == "ends" else siege.Visitor(keeper)
        checks.wait_until(lambda: len(keeper.runs()) == (2 if what == "ends" else 1))
        keeper.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, keeper.process.pid, os.WSTOPPED | os.WNOWAIT)
        asking.gate.open(1, b"", method="GET", path="/v1/models")
        if what == "ends":
            other.socket.close()
        else:
            other.register("run-id=other")
        limit = keeper.audit.stat().st_size + ROOM if is_full else "unlimited"
        subprocess.run(["prlimit", f"--pid={keeper.process.pid}", f"--fsize={limit}:unlimited"], check=True)
        keeper.process.send_signal(signal.SIGCONT)
        reply = asking.gate.reply(1)
        subprocess.run(["prlimit", f"--pid={keeper.process.pid}", "--fsize=unlimited:unlimited"], check=True)
        if is_full:
            assert (reply.status, reply.code()) == (503, "audit_failed")
            assert not origin.requests and not keeper.records(event="decision")
        else:
            assert reply.status == 200 and len(origin.requests) == 1
            assert [r["runId"] for r in keeper.records(event="decision")] == ["asking"]
        if what == "begins":
            assert (other.told()[0] == "!") == is_full
        assert asking.gate.ask(2).status == 200
        for visitor in (asking, other):
            visitor.close()


def test_a_keeper_whose_store_has_no_room_is_not_ready(root_place, origin, small_disk):
    config = shared.llm(origin, limits={"spend": "100000"}, spend_reserve="0.01",
                        keeper={"store": f"sqlite:{small_disk}/store.db"})
    with shared.keeper(root_place, config) as keeper, keeper.run() as run:
        assert run.ask(POST).status == 200 and not readiness(keeper)
        checks.fill(small_disk / "filling")
        reply = ask_until(run, True, 2000)
        assert (reply.status, reply.code()) == (503, "store_unreachable")
        assert set(readiness(keeper)) == {"store"}
        assert keeper.wait_for("store_lost")["level"] == "error"
        assert keeper.metrics()["warder_store_reachable"] == 0
        done = root_place.run("true", options=("--keeper", keeper.address))
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "the keeper's store cannot be reached")
        # Nor is there anything to take over.
        new = handover.successor(keeper).start("--take-over", wait=False)
        assert new.wait() == 125
        checks.assert_one_line(new.stderr(), "the keeper that is there stays", "its store cannot be reached")
        assert "its store" in keeper.wait_for("handover_failed")["text"]
        (small_disk / "filling").unlink()
        checks.wait_until(lambda: run.ask(POST).status == 200)
        checks.wait_until(lambda: not readiness(keeper))
        assert keeper.metrics()["warder_store_reachable"] == 1
    keeper.verify()


def test_a_keeper_that_is_drained_is_not_ready(user_place, origin):
    with shared.keeper(user_place, shared.llm(origin)) as keeper:
        with keeper.run() as run:
            assert not readiness(keeper)
            keeper.send(signal.SIGTERM)
            keeper.wait_for("draining")
            assert set(readiness(keeper)) == {"draining"}
            assert keeper.metrics()["warder_draining"] == 1
            assert run.ask(POST).status == 200
        assert keeper.wait() == 0


def test_the_admin_socket_is_its_owners(user_place, origin):
    with shared.keeper(user_place, shared.llm(origin)) as keeper:
        assert os.stat(keeper.admin_path).st_mode & 0o777 == 0o600
        assert keeper.get("/nothing")[0] == 404


def test_the_admin_endpoint_on_a_port(user_place, origin):
    holder, port = upstream.refusing_port()
    config = shared.llm(origin, keeper={"admin": f"tcp:127.0.0.1:{port}"})
    with holder, shared.keeper(user_place, config) as keeper, keeper.run() as run:
        assert run.ask(POST).status == 200
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        got = {}
        for path in ("/healthz", "/readyz", "/metrics", "/nothing"):
            connection.request("GET", path)
            reply = connection.getresponse()
            got[path] = reply.status, reply.read().decode()
        connection.close()
        assert [status for status, _ in got.values()] == [200, 200, 200, 404]
        assert metrics.check_metrics(got["/metrics"][1])["warder_runs"] == 1
        assert not os.path.exists(keeper.admin_path)


# ---- metrics ----

def test_metrics_name_nobody(user_place, origin, https):
    config = shared.merge(shared.llm(origin), shared.host(https))
    config.update(limits={"requests": "1/m", "burst": 3}, account_limits={"acct-zz9": {"spend": 1}})
    with shared.keeper(user_place, config) as keeper, \
            keeper.run("--run-id", "run-zz9", "--billing-account", "acct-zz9") as run:
        placeholder = run.python("import os; result = os.environ['API_TOKEN']")
        assert run.ask(POST).status == 200
        ask = egress.request("GET", "/secret-zz9", f"X-Key: {placeholder}")
        assert egress.ask(run, ask).status == 200
        assert egress.ask(run, host="host-zz9.test").status == 403
        assert [run.ask(agent.get("/v2/secret-zz9")).status, run.ask(POST).status] == [404, 200]
        assert run.ask(POST).status == 429
        keeper.warder("revoke", "run-zz9")
        assert run.ask(POST).status == 403
        samples = keeper.metrics()  # it is as documented
        assert samples["warder_runs"] == 1 and samples["warder_runs_total"] == 1
        assert samples["warder_refusals_total", "code", "host_not_allowed"] == 1
        assert samples["warder_refusals_total", "code", "run_revoked"] == 1
        text = keeper.get("/metrics")[1]
        for word in (shared.KEY, shared.TOKEN, placeholder, "zz9", "api.test", "127.0.0.1",
                     str(origin.port), keeper.path):
            assert word not in text, word
        # Control: all of that is known to the keeper, and in its records.
        assert "run-zz9" in keeper.audit.read_text() and "api.test" in keeper.audit.read_text()


def test_counts_follow_what_happens(user_place, origin):
    origin.script = shared.answer_or_stream
    with shared.keeper(user_place, shared.llm(origin)) as keeper:
        with keeper.run() as run, keeper.run() as other:
            shared.open_stream(run)
            assert other.ask(POST).status == 200
            samples = keeper.metrics()
            assert samples["warder_runs"] == 2 and samples["warder_exchanges"] == 1
            assert samples["warder_links_total", "link", "local"] == 2
        checks.wait_until(lambda: keeper.metrics()["warder_runs"] == 0)
        samples = keeper.metrics()
        assert samples["warder_exchanges"] == 0 and samples["warder_runs_total"] == 2


def test_verbose_is_a_line_for_each_request(user_place, origin, https):
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        assert run.ask(POST).status == 200
        assert not keeper.log("request")  # the control
    with shared.keeper(user_place, config, "-v") as keeper, keeper.run("--run-id", "r-1") as run:
        assert run.ask(POST).status == 200
        assert egress.ask(run).status == 200
        assert egress.ask(run, host="no.test").status == 403
        keeper.wait_for("request", 3)
        lines = keeper.log("request")
        assert {line["runId"] for line in lines} == {"r-1"}
        for line, words in zip(lines, (("POST", "/v1/", " 200 "), ("GET", "api.test", " 200 "),
                                       ("no.test", "host_not_allowed"))):
            assert all(word in line["text"] for word in words), line
        assert shared.KEY not in keeper.stderr()


# ---- a service manager ----

class Manager:
    """The end of NOTIFY_SOCKET."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        path.chmod(0o777)
        self.socket.settimeout(20)

    def told(self):
        return self.socket.recv(4096).decode().split("\n")


def test_a_service_manager_is_told(user_place, origin):
    path = user_place.top / "notify"
    manager = Manager(path)
    config = shared.llm(origin, keeper={"drain_timeout": "2h"})
    with manager.socket, shared.keeper(user_place, config, env={"NOTIFY_SOCKET": str(path)}) as keeper:
        assert "READY=1" in manager.told()
        with keeper.run():
            keeper.reload()
            words = manager.told()
            assert "RELOADING=1" in words and any(w.startswith("MONOTONIC_USEC=") for w in words)
            assert "READY=1" in manager.told()
            keeper.write("{")
            keeper.reload(event="reload_failed")
            assert "RELOADING=1" in manager.told()
            words = manager.told()  # with the one before it is ready as well
            assert "READY=1" in words and any("as it was" in word for word in words)
            keeper.send(signal.SIGTERM)
            assert "STOPPING=1" in manager.told()
            # As long as runs may take, and a little more.
            assert manager.told()[0] == f"EXTEND_TIMEOUT_USEC={(7200 + 15) * 10 ** 6}"
        assert keeper.wait() == 0


def test_a_service_manager_does_not_wait_for_a_drain(user_place, origin):
    """It takes as long as the last run; who says that it stops has a minute or two for that."""
    path = user_place.top / "notify"
    manager = Manager(path)
    with manager.socket, shared.keeper(user_place, shared.llm(origin),
                                       env={"NOTIFY_SOCKET": str(path)}) as keeper:
        assert "READY=1" in manager.told()
        with keeper.run():
            drain = keeper.drain()
            assert manager.told() == ["STATUS=takes no more runs, and ends with the last one"]
        assert keeper.wait() == 0
        assert drain.communicate(timeout=20)[1] == ""
        manager.socket.settimeout(0)
        with pytest.raises(BlockingIOError):
            manager.told()


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="needs systemd")
def test_a_service_manager_opens_the_control_socket(user_place, origin):
    keeper = shared.Keeper(user_place, shared.llm(origin))
    keep = [f"--setenv={name}" for name in keeper.env]
    line = ["systemd-socket-activate", "--seqpacket", "--fdname=control", "-l", keeper.path, *keep,
            user_place.binary, "keeper", "--config", str(keeper.file)]
    log = user_place.top / "log"
    with open(log, "wb") as stderr, subprocess.Popen(
            user_place.command(line, keeper.env), stdin=subprocess.DEVNULL, stderr=stderr) as process:
        try:
            checks.wait_for_file(log, "Listening on")
            with keeper.run("--run-id", "r-1") as run:  # which starts it
                assert run.ask(POST).status == 200
                assert keeper.run_ids() == ["r-1"]
                assert os.stat(keeper.path).st_uid == harness.USER_ID
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0, log.read_text()
            # The path is the service manager's, which has gone on to listen there.
            assert os.path.exists(keeper.path)
        finally:
            process.kill()
    assert "Sanitizer" not in log.read_text()


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="needs systemd")
@pytest.mark.parametrize("options, words", [
    (("--seqpacket", "--fdname=contrl"), "'contrl'"),
    (("--fdname=control",), "control"),  # a stream's
    (("--fdname=listen",), "nothing says --listen"),
])
def test_what_a_service_manager_opens_must_be_of_use(user_place, origin, options, words):
    keeper = shared.Keeper(user_place, shared.llm(origin))
    path = str(user_place.home / "given.sock")
    keep = [f"--setenv={name}" for name in keeper.env]
    line = ["systemd-socket-activate", *options, "-l", path, *keep, user_place.binary, "keeper",
            "--config", str(keeper.file)]
    kind = socket.SOCK_SEQPACKET if "--seqpacket" in options else socket.SOCK_STREAM
    with subprocess.Popen(user_place.command(line, keeper.env), stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        while "Listening on" not in process.stderr.readline():
            assert process.poll() is None
        with socket.socket(socket.AF_UNIX, kind) as client:
            client.connect(path)
            text = process.communicate(timeout=20)[1]
    assert process.returncode == 125
    assert words in [line for line in text.splitlines() if line.startswith("warder: ")][0]
