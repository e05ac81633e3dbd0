# SPDX-License-Identifier: MIT
"""The LLM endpoint on sockets of the host, and tokens that tell the runs on them apart."""
import base64
import hashlib
import hmac
import os
import shutil
import signal
import socket
import stat
import subprocess
import time

import agent
import checks
import harness
import origin as upstream
import pytest

BODY = {"model": "m"}
SECRET = "a shared secret"
FAR = 4102444800


# ---- --llm-socket ----

def test_a_run_has_the_same_endpoint_on_the_host(place, origin):
    path = place.home / "llm.sock"
    with agent.run(place, *agent.llm(origin, "--llm-socket", str(path), "--run-id", "r-1")) as run:
        st = os.lstat(path)
        assert stat.S_ISSOCK(st.st_mode) and stat.S_IMODE(st.st_mode) == 0o600
        assert st.st_uid == (harness.USER_ID if place.who == "user" and harness.IS_ROOT else
                             0 if place.who == "root" else os.geteuid())
        wire = agent.SocketWire(str(path)) if harness.IS_ROOT or place.who == "user" else None
        if wire:
            assert wire.ask(agent.get("/health")).json() == {"status": "ok", "runId": "r-1"}
            assert wire.ask(agent.post(BODY, "x-litellm-end-user-id: evil")).status == 200
            assert origin.requests[0].values("x-litellm-end-user-id") == ["r-1/0"]
            assert origin.requests[0].values("authorization") == [f"Bearer {agent.KEY}"]
        assert run.ask(agent.post(BODY)).status == 200
        run.end()
    assert not path.exists()


def test_mode_and_owner_of_the_socket(root_place, origin):
    path = root_place.top / "llm.sock"
    options = agent.llm(origin, "--llm-socket", str(path), "--llm-socket-mode", "0660",
                        "--llm-socket-owner", f"{harness.USER_ID}:54321")
    with agent.run(root_place, *options):
        st = os.lstat(path)
        assert (stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid) == (0o660, harness.USER_ID, 54321)


def connect_as(uid, path):
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    line = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--", "/usr/bin/python3", "-c", code]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_only_whom_the_mode_admits_comes_in(root_place, origin):
    if not harness.IS_ROOT:
        pytest.skip("needs root to be somebody else")
    path = root_place.top / "llm.sock"
    for mode, comes_in in (("0600", False), ("0666", True)):
        options = agent.llm(origin, "--llm-socket", str(path), "--llm-socket-mode", mode)
        with agent.run(root_place, *options) as run:
            done = connect_as(harness.USER_ID, path)
            assert (done.returncode == 0) == comes_in, done.stderr
            assert comes_in or "PermissionError" in done.stderr
            run.end()


@pytest.mark.parametrize("options, words", [
    (("--llm-socket-mode", "0600"), "--llm-socket"),
    (("--llm-socket", "{top}/s", "--llm-socket-mode", "9"), "mode"),
    (("--llm-socket", "{top}/s", "--llm-socket-mode", "01777"), "mode"),
    (("--llm-socket", "{top}/s", "--llm-socket-owner", "no-such-user"), "USER[:GROUP]"),
    (("--llm-socket", "{top}/no/such/place"), "socket"),
    (("--llm-socket", "{top}/file"), "no socket"),
    (("--llm-socket", "{top}/" + "x" * 200), "at most"),
])
def test_a_socket_that_cannot_be_made_is_a_run_not_started(root_place, origin, options, words):
    root_place.install()
    root_place.write("file", "here before")
    options = [option.format(top=root_place.top) for option in options]
    done = root_place.run(*checks.LEAVE_MARKER, options=agent.llm(origin, *options), env=agent.KEY_ENV)
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr, words)
    assert (root_place.top / "file").read_text() == "here before"
    assert not (root_place.workspace / checks.MARKER).exists()
    assert not (root_place.top / "s").exists()


def test_a_socket_that_is_listened_on_is_left_alone(place, origin):
    place.install()
    path = place.home / "llm.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    os.chmod(path, 0o666)
    done = place.run("true", options=agent.llm(origin, "--llm-socket", str(path)), env=agent.KEY_ENV)
    assert done.returncode == 125 and "already" in done.stderr
    assert path.exists()
    listener.close()  # now it is what a crash leaves behind
    place.own(path)
    done = place.run("true", options=agent.llm(origin, "--llm-socket", str(path)), env=agent.KEY_ENV)
    assert done.returncode == 0, done.stderr


def test_a_cut_reply_on_a_unix_socket_is_an_error(place, origin):
    """There is no reset on a unix socket: the framing has to tell."""

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED + upstream.chunk(b"data: 1\n\n"))
        connection.close()

    origin.script = script
    with agent.gate(place, *agent.llm(origin, "--run-id", "r", "--mode", "0666")) as gate:
        wire = gate.wait().connect()
        wire.send(agent.post(BODY))
        try:
            assert not wire.rest().endswith(upstream.LAST_CHUNK)
        except ConnectionResetError:
            pass


# ---- warder gate ----

def test_the_variables_of_the_original_set_up(place, origin):
    path, log = place.workspace / "llm.sock", place.home / "access.jsonl"
    env = {"SOCKET_PATH": str(path), "LITELLM_MASTER_KEY": agent.KEY, "RUN_ID": "run-5", "ATTEMPT": "4",
           "LITELLM_HOST": origin.label, "ACCESS_LOG_PATH": str(log), "LLM_KEY": ""}
    with agent.gate(place, env=env, listen=()) as gate:
        gate.audit = log
        checks.wait_until(path.exists)
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
        if harness.IS_ROOT or place.who == "user":
            assert gate.wait().ask(agent.post(BODY)).status == 200
            request = origin.requests[0]
            assert request.values("authorization") == [f"Bearer {agent.KEY}"]
            assert request.values("x-litellm-end-user-id") == ["run-5/4"]
        assert gate.end() == 0
        assert "warder: gate: 1 requests, 0 refused, audit" in gate.stderr()
    assert not path.exists()
    assert agent.events(gate.records(), "decision")[0]["runId"] == "run-5"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gate_ends_when_it_is_told_to_and_leaves_nothing(user_place, origin, number):
    with agent.gate(user_place, *agent.llm(origin, "--run-id", "r")) as gate:
        gate.wait()
        pids = gate.pids()
        os.kill(gate.process.pid, number)
        assert gate.process.wait(timeout=30) == 0
        assert not os.path.exists(gate.path)
        for pid in pids.values():
            assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("who", ["keeper", "gate"])
def test_a_gate_that_loses_a_part_ends_with_an_error(user_place, origin, who):
    with agent.gate(user_place, *agent.llm(origin, "--run-id", "r")) as gate:
        agent.as_root("kill", "-KILL", gate.wait().pids()[who])
        assert gate.process.wait(timeout=30) == 125
        assert "ended by itself" in gate.stderr()
        assert not os.path.exists(gate.path)


def test_a_gate_on_tcp(user_place, origin):
    holder, port = upstream.refusing_port()
    listen = ("--listen", f"tcp:127.0.0.1:{port}")
    with holder, agent.gate(user_place, *agent.llm(origin, "--run-id", "r"), listen=listen) as gate:
        gate.connect = lambda: agent.SocketWire(("127.0.0.1", port))
        assert gate.wait().ask(agent.post(BODY)).status == 200


@pytest.mark.parametrize("options, words", [
    ((), "--llm"), (("--llm", "{url}"), "whose"), (("--llm", "{url}", "--run-id", "a b"), "run-id"),
    (("--llm", "{url}", "--token-secret", "plain"), "env:NAME"),
    (("--llm", "{url}", "--token-secret", "env:NOT_SET"), "NOT_SET"),
    (("--llm", "{url}", "--run-id", "r", "extra"), "extra"),
])
def test_a_gate_that_is_asked_for_wrongly_is_not_started(user_place, origin, options, words):
    user_place.install()
    path = user_place.workspace / "s"
    options = [option.format(url=origin.url) for option in options]
    done = user_place.warder("gate", "--listen", f"unix:{path}", *options, timeout=10)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, words)
    assert not path.exists()


# ---- tokens ----

def sign(data, secret=SECRET):
    """As the original's Node code does it: by Node where there is one."""
    node = shutil.which("node")
    if node:
        code = ("const c=require('crypto');const [s,d]=process.argv.slice(1);process.stdout.write("
                "d+'.'+c.createHmac('sha256',s).update(d).digest('base64url'))")
        done = subprocess.run([node, "-e", code, secret, data], capture_output=True, text=True, check=True)
        return done.stdout
    digest = hmac.new(secret.encode(), data.encode(), hashlib.sha256).digest()
    return f"{data}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


@pytest.fixture(scope="module")
def tokens():
    good = sign(f"run-a|1|{FAR}")
    data, signature = good.rsplit(".", 1)
    return {
        "good": good, "other": sign(f"run-b|7|{FAR}"),
        "expired": sign(f"run-a|1|{int(time.time()) - 10}"),
        "wrong secret": sign(f"run-a|1|{FAR}", "another"),
        "no signature": data, "empty signature": data + ".", "padded": good + "=",
        "cut": good[:-1], "flipped": data + "." + ("B" if signature[0] == "A" else "A") + signature[1:],
        "another run": f"run-b|1|{FAR}.{signature}", "another attempt": f"run-a|2|{FAR}.{signature}",
        "later": f"run-a|1|{FAR + 1}.{signature}", "spaces": good.replace("|", " | "),
        "leading zero": sign(f"run-a|01|{FAR}"), "signed run id": sign(f"../x|1|{FAR}"),
        "no attempt": sign(f"run-a|{FAR}"), "negative": sign(f"run-a|-1|{FAR}"),
        "standard base64": data + "." + signature.replace("-", "+").replace("_", "/") + "=",
        "quoted": f'"{good}"', "bearer": f"Bearer {good}", "list": f"{good}, {good}", "empty": "",
        "upper case": good.upper(), "long": "x" * 5000,
    }


GOOD = ("good", "other")


@pytest.fixture
def shared(user_place, origin):
    env = {"PROXY_SHARED_SECRET": SECRET}
    with agent.gate(user_place, *agent.llm(origin), "--token-secret", "env:PROXY_SHARED_SECRET",
                    env=env) as made:
        yield made.wait()


def test_a_token_says_whose_request_it_is(shared, origin, tokens):
    wire = shared.connect()
    for name in ("good", "other", "good"):
        reply = wire.ask(agent.post(BODY, f"X-Run-Token: {tokens[name]}"))
        assert reply.status == 200, reply.body
    users = [r.values("x-litellm-end-user-id") for r in origin.requests]
    assert users == [["run-a/1"], ["run-b/7"], ["run-a/1"]]
    assert [r.values("x-run-token") for r in origin.requests] == [[], [], []]
    for token in tokens["good"], tokens["other"]:
        assert token.encode() not in origin.received()
    decisions = agent.events(shared.records(), "decision")
    assert [(r["runId"], r["attempt"]) for r in decisions] == [("run-a", 1), ("run-b", 7), ("run-a", 1)]
    assert tokens["good"] not in shared.audit.read_text()


def test_without_a_good_token_nothing_goes_out(shared, origin, tokens):
    good = tokens["good"]
    heads = {name: [f"X-Run-Token: {token}"] for name, token in tokens.items() if name not in GOOD}
    heads.update({
        "missing": [], "twice": [f"X-Run-Token: {good}"] * 2,
        "two": [f"X-Run-Token: {good}", f"x-run-token: {tokens['other']}"],
        "good and bad": [f"X-Run-Token: {good}", "X-RUN-TOKEN: x"],
        "underscores": [f"X_Run_Token: {good}"], "another name": [f"X-Run-Tokens: {good}"],
        "as authorization": [f"Authorization: Bearer {good}"],
        "of the connection": [f"X-Run-Token: {good}", "Connection: x-run-token"],
    })
    for name, lines in heads.items():
        reply = shared.ask(agent.post(BODY, *lines))
        assert reply.status == 401, name
        assert reply.code().startswith("token_"), name
        assert "run-a" not in reply.body.decode(), name
    for target in (f"/v1/x?X-Run-Token={good}", "/v1/x"):
        assert shared.ask(agent.get(target)).status == 401
    assert not origin.connections
    refused = agent.events(shared.records(), "decision")
    assert len(refused) == len(heads) + 2 and not any(r["allowed"] for r in refused)
    assert shared.ask(agent.post(BODY, f"x-rUN-tOKEN:\t{good} ")).status == 200  # control


def test_a_token_in_a_trailer_is_none(shared, origin, tokens):
    data = agent.request("POST", "/v1/x", "Transfer-Encoding: chunked", "Trailer: X-Run-Token")
    reply = shared.ask(data + b"2\r\n{}\r\n0\r\nX-Run-Token: " + tokens["good"].encode() + b"\r\n\r\n")
    assert reply.status == 401 and not origin.connections


def test_each_pipelined_request_needs_its_own_token(shared, origin, tokens):
    wire = shared.connect()
    with_token = agent.post(BODY, f"X-Run-Token: {tokens['good']}")
    wire.send(with_token + agent.post(BODY) + with_token)
    assert [wire.reply().status for _ in range(3)] == [200, 401, 200]
    assert len(origin.requests) == 2


def test_with_a_run_id_only_its_own_tokens_count(user_place, origin, tokens):
    with agent.gate(user_place, *agent.llm(origin), "--run-id", "run-a", "--token-secret",
                    "env:PROXY_SHARED_SECRET", env={"PROXY_SHARED_SECRET": SECRET}) as gate:
        reply = gate.wait().ask(agent.post(BODY, f"X-Run-Token: {tokens['other']}"))
        assert (reply.status, reply.code()) == (401, "token_of_another_run")
        assert not origin.connections
        assert gate.ask(agent.post(BODY, f"X-Run-Token: {tokens['good']}")).status == 200


def test_a_token_that_expires_between_two_requests(shared, origin):
    token = sign(f"run-a|1|{int(time.time()) + 1}")
    post = agent.post(BODY, f"X-Run-Token: {token}")
    wire = shared.connect()
    assert wire.ask(post).status == 200
    checks.wait_until(lambda: wire.ask(post).status == 401)


def test_what_warder_mints_is_accepted(shared, origin):
    done = shared.place.warder("token", "mint", "--secret", "env:S", "--run-id", "minted", "--attempt",
                               "9", env={"S": SECRET})
    assert shared.ask(agent.post(BODY, f"X-Run-Token: {done.stdout.strip()}")).status == 200
    assert origin.requests[0].values("x-litellm-end-user-id") == ["minted/9"]


def test_without_a_secret_a_token_is_only_removed(user_place, origin, tokens):
    with agent.gate(user_place, *agent.llm(origin), "--run-id", "r") as gate:
        assert gate.wait().ask(agent.post(BODY, f"X-Run-Token: {tokens['good']}")).status == 200
    assert origin.requests[0].values("x-run-token") == []
    assert origin.requests[0].values("x-litellm-end-user-id") == ["r/0"]
