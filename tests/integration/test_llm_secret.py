# SPDX-License-Identifier: MIT
"""INV-SECRETS-HOST-ONLY, INV-NO-REFLECTION: the key is nowhere but in the keeper and upstream."""
import gzip
import json
import os
import pathlib

import agent
import checks
import harness
import origin as upstream
import pytest

KEY = agent.KEY.encode()
POST = agent.post({"model": "m"})

# Searches everything that the agent can read: files, environments, memory, links.
SEARCH = """
import os, re
key = {key!r}.encode()[::-1]
found = []
def look(path, name=None):
    try:
        with open(path, "rb") as file:
            while True:
                data = file.read(1 << 20)
                if key in data:
                    found.append(path)
                if not data:
                    return
    except (OSError, ValueError):
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "auxv", "status", "maps", "mountinfo", "stack"):
        look("/proc/" + pid + "/" + name)
    try:
        for fd in os.listdir("/proc/" + pid + "/fd"):
            if key in os.readlink("/proc/" + pid + "/fd/" + fd).encode():
                found.append("/proc/" + pid + "/fd/" + fd)
    except OSError:
        pass
for top in ("/workspace", "/home", "/root", "/tmp", "/run", "/var", "/etc", "/dev/shm", "/proc/sys/kernel"):
    for root, _, files in os.walk(top):
        for name in files:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                look(path)
for name, value in os.environb.items():
    if key in value or key in name:
        found.append(name.decode())
result = found
"""


def search():
    # Backwards, so that the search does not find itself.
    return SEARCH.format(key=agent.KEY[::-1])


@pytest.fixture
def held(origin):
    """An upstream that has the request, and answers when told."""
    answer = []

    def script(connection):
        for _ in connection.requests():
            checks.wait_until(lambda: answer, 60)
            connection.answer()

    origin.script = script
    origin.answer = answer
    return origin


def sources(place):
    """Each kind of source, as (option, environment)."""
    path = place.write("secret/key", agent.KEY + "\n", 0o600)
    return {"env": (agent.KEY_SOURCE, agent.KEY_ENV), "file": (f"file:{path}", {"LLM_KEY": ""}),
            "exec": (f"exec:cat {path}", {"LLM_KEY": ""})}


def need_memory():
    if not harness.IS_ROOT:
        pytest.skip("needs root to read the memory of processes that cannot be dumped")
    if "asan" in harness.BUILD.name:
        pytest.skip("a sanitizer keeps copies of the environment, and hides no process")


@pytest.mark.parametrize("source", ["env", "file", "exec"])
def test_the_key_is_in_no_memory_but_the_keepers(place, held, source):
    """What a core dump of each process would show, taken while a request is under way."""
    need_memory()
    option, env = sources(place)[source]
    with agent.run(place, "--llm", held.url, "--llm-key", option, "-v", env=env) as run:
        wire = run.connect()
        wire.send(POST)
        assert held.next_request().values("authorization") == [f"Bearer {agent.KEY}"]
        pids = run.pids()
        assert set(pids) == {"supervisor", "keeper", "gate", "init", "agent"}
        found = {who for who, pid in pids.items() if agent.is_in_memory(KEY, pid)}
        assert found == {"keeper"}  # the control is in it: the keeper's does hold the key
        environs = {who for who, pid in pids.items()
                    if KEY in pathlib.Path(f"/proc/{pid}/environ").read_bytes()}
        assert not environs
        held.answer.append(True)
        assert wire.reply().status == 200
        # A second time, when the request's own buffers have been given back.
        assert {who for who, pid in pids.items() if agent.is_in_memory(KEY, pid)} == {"keeper"}


def test_the_key_is_in_no_memory_when_a_file_names_it(place, held):
    need_memory()
    config = place.write("warder.json", json.dumps(
        {"llm": {"upstream": held.url, "key": agent.KEY_SOURCE}}))
    with agent.run(place, "--config", str(config)) as run:
        wire = run.connect()
        wire.send(POST)
        held.next_request()
        found = {who for who, pid in run.pids().items() if agent.is_in_memory(KEY, pid)}
        held.answer.append(True)
    assert found == {"keeper"}


def test_the_secret_of_tokens_is_in_no_memory_but_the_keepers(place, held):
    need_memory()
    with agent.gate(place, "--llm", held.url, "--token-secret", agent.KEY_SOURCE) as gate:
        gate.wait()
        pids = gate.pids()
        assert set(pids) == {"supervisor", "keeper", "gate"}
        found = {who for who, pid in pids.items() if agent.is_in_memory(KEY, pid)}
        assert found == {"keeper"}


def test_other_users_cannot_read_the_keepers_memory(place, held):
    need_memory()
    with agent.run(place, *agent.llm(held)) as run:
        for who in ("keeper", "gate"):
            pid = run.pids()[who]
            tried = place.host(["sh", "-c", f"head -c 1 /proc/{pid}/environ; cat /proc/{pid}/maps"])
            if place.who == "user":  # not even as the same user
                assert (tried.returncode, tried.stdout) == (1, "")
        # Control: the supervisor, which holds nothing, can be looked at.
        assert place.host(["cat", f"/proc/{run.pids()['supervisor']}/maps"]).stdout
        held.answer.append(True)


@pytest.mark.parametrize("source", ["env", "file"])
def test_the_agent_finds_the_key_nowhere(place, held, source):
    option, env = sources(place)[source]
    with agent.run(place, "--llm", held.url, "--llm-key", option, env=env) as run:
        wire = run.connect()
        wire.send(POST)
        held.next_request()
        assert run.python(search()) == []
        held.answer.append(True)
        assert KEY not in wire.until(b'{"ok":true}')
        # Control: the same search finds what is there.
        run.python("open('/workspace/it', 'w').write({!r})".format(agent.KEY))
        assert run.python(search()) == ["/workspace/it"]


def test_the_agent_gets_variables_that_hold_no_key(place, held):
    env = {"OPENAI_API_KEY": agent.KEY, "ANTHROPIC_API_KEY": agent.KEY}
    with agent.run(place, "--llm", held.url, "--llm-key", "env:OPENAI_API_KEY", env=env) as run:
        variables = run.python("import os; result = dict(os.environ)")
    assert variables["OPENAI_BASE_URL"] == "http://127.0.0.1:8080/v1"
    assert variables["OPENAI_API_BASE"] == "http://127.0.0.1:8080/v1"
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8080"
    assert variables["OPENAI_API_KEY"] and variables["ANTHROPIC_API_KEY"]
    assert agent.KEY not in str(variables)


def test_the_variable_of_a_key_is_not_passed_on_even_when_asked(place, origin):
    """--env NAME of the variable that a key comes from would hand the key to the agent."""
    place.install()
    done = place.run("env", options=(*agent.llm(origin), "--env", "LLM_KEY"), env=agent.KEY_ENV)
    assert agent.KEY not in done.stdout + done.stderr
    # Control: another variable is passed on.
    done = place.run("env", options=(*agent.llm(origin), "--env", "OTHER"),
                     env={**agent.KEY_ENV, "OTHER": "value"})
    assert "OTHER=value" in done.stdout.splitlines()


def test_neither_log_nor_stderr_nor_result_hold_key_or_prompt(place, origin):
    prompt, answer, query = "a very private prompt", "a very private answer", "a-private-query"

    def script(connection):
        for request in connection.requests():
            if "fault" in request.target:
                connection.send(b"HTTP/1.1 200 " + KEY + b"\x00\r\n\r\n")
                return
            connection.answer(json.dumps({"answer": answer}).encode(),
                              fields=[("x-litellm-call-id", agent.KEY)])

    origin.script = script
    place.install()
    code = f"""
import http.client
for path in ("/v1/chat/completions?{query}", "/v1/fault", "/elsewhere?{query}"):
    client = http.client.HTTPConnection("127.0.0.1", 8080)
    client.request("POST", path, '{{"model":"m","messages":"{prompt}"}}', {{"X-Note": "{prompt}"}})
    print(client.getresponse().status)
"""
    done = place.run("python3", "-c", code, options=(*agent.llm(origin), "-v", "--json"),
                     env=agent.KEY_ENV)
    assert json.loads(done.stdout)["stdout"] == "200\n502\n404\n"
    audit = place.home / ".local/state/warder/audit.jsonl"
    written = done.stdout + done.stderr + audit.read_text()
    for text in (agent.KEY, prompt, answer, query):
        assert text not in written
    assert "/v1/chat/completions" in written and "/elsewhere" in written  # control


@pytest.mark.parametrize("given", [agent.KEY, "Bearer " + agent.KEY, "env" + agent.KEY])
def test_a_key_given_in_place_of_its_source_is_not_repeated(place, origin, given):
    place.install()
    options = ("--llm", origin.url, "--llm-key", given)
    done = checks.assert_refused(place, options, "--llm-key", "env:NAME")
    assert agent.KEY not in done.stderr


@pytest.mark.parametrize("given, words", [
    ("env:NOT_SET", "NOT_SET"), ("env:EMPTY", "empty"), ("file:/nowhere/key", "/nowhere/key"),
    ("exec:false", "failed"), ("env:LINES", "no header can hold")])
def test_a_key_that_cannot_be_had_is_a_run_not_started(place, origin, given, words):
    place.install()
    env = {"EMPTY": "", "LINES": f"{agent.KEY}\r\nX-Evil: 1"}
    done = place.run(*checks.LEAVE_MARKER, options=("--llm", origin.url, "--llm-key", given), env=env)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, words)
    assert agent.KEY not in done.stderr
    assert not (place.workspace / checks.MARKER).exists()


# ---- upstreams that send the key back ----

STARS = b"*" * len(KEY)


def ask(place, origin, script, data=POST, options=()):
    origin.script = script
    with agent.run(place, *agent.llm(origin, *options)) as run:
        wire = run.connect()
        wire.send(data)
        head = wire.until(b"\r\n\r\n")
        reply, raw = agent.Reply(head), b""
        while not raw.endswith((b"END", upstream.LAST_CHUNK, b"\r\nX-Kept: 1\r\n\r\n")):
            piece = wire.more()
            assert piece, raw
            raw += piece
        return reply, head + raw


def echo(data):
    def script(connection):
        connection.request()
        connection.send(data)
        connection.wait_for_end()

    return script


def test_a_reflected_key_does_not_reach_the_agent(place, origin):
    body = b'{"you sent":"Bearer ' + KEY + b'"}' + KEY + KEY[:-1] + KEY + b"END"
    _, raw = ask(place, origin, echo(upstream.reply(body)))
    assert KEY not in raw
    clean = b'{"you sent":"Bearer ' + STARS + b'"}' + STARS + KEY[:-1] + STARS + b"END"
    assert raw.endswith(clean)  # everything else as it was, and as long


def test_a_reflected_key_does_not_reach_the_agent_in_pieces(place, origin):
    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED)
        for byte in b"<" + KEY + b">" + KEY[:20] + KEY + b"END":
            connection.send(upstream.chunk(bytes([byte])))
        connection.send(upstream.LAST_CHUNK)
        connection.wait_for_end()

    _, raw = ask(place, origin, script)
    text = b"".join(part for part in raw.split(b"\r\n\r\n", 1)[1].split(b"\r\n")[1::2])
    assert text == b"<" + STARS + b">" + KEY[:20] + STARS + b"END"


def test_a_key_in_the_reason_fields_or_trailer_does_not_reach_the_agent(place, origin):
    data = (b"HTTP/1.1 103 Early\r\nLink: " + KEY + b"\r\n\r\n"
            b"HTTP/1.1 200 is " + KEY + b"\r\nX-Echo: Bearer " + KEY + b"\r\nX-" + KEY + b": 1\r\n"
            b"X-Kept: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + upstream.chunk(b"END") +
            b"0\r\nX-Echo: " + KEY + b"\r\nX-Kept: 1\r\n\r\n")
    reply, raw = ask(place, origin, echo(data))
    assert reply.status == 103
    assert KEY not in raw and raw.count(b"X-Kept: 1") == 2


@pytest.mark.parametrize("head", [
    b"HTTP/1.1 200 OK\r\nContent-Encoding: compress\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, br\r\n",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/20\r\n",
], ids=["unknown", "two fields", "a list", "a part"])
def test_a_reply_that_cannot_be_searched_for_the_key_is_refused(user_place, origin, head):
    body = gzip.compress(b"Bearer " + KEY)
    data = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    origin.script = echo(data)
    with agent.run(user_place, *agent.llm(origin)) as run:
        wire = run.connect()
        wire.send(POST)
        head = wire.until(b"\r\n\r\n")
        raw = wire.until(b"}}")
    assert agent.Reply(head).status == 502 and b"upstream_garbage" in raw and body not in raw


def test_a_key_in_an_encoded_reply_does_not_reach_the_agent(user_place, origin):
    body = gzip.compress(b"<" + KEY + b">END")
    origin.script = echo(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    with agent.run(user_place, *agent.llm(origin)) as run:
        reply = run.connect().ask(POST)
    assert reply.body == b"<" + b"*" * len(KEY) + b">END"


def test_parts_and_encodings_are_not_asked_for_while_there_is_a_key(user_place, origin):
    hiding = b"Range: bytes=0-5\r\nIf-Range: x\r\nAccept-Encoding: gzip\r\nHost:"
    ask(user_place, origin, echo(upstream.reply(b"END")), POST.replace(b"Host:", hiding))
    assert not origin.requests[0].values("range") + origin.requests[0].values("if-range")
    assert origin.requests[0].values("accept-encoding") == ["identity"]


def test_half_a_key_at_the_end_of_a_reply_is_not_held_back(place, origin):
    body = KEY[:-4] + b"END"
    _, raw = ask(place, origin, echo(upstream.reply(body)))
    assert raw.endswith(body)


def test_a_key_in_an_error_of_the_upstream_does_not_reach_the_agent(place, origin):
    """As LiteLLM does it: 401 with the key that was wrong."""
    body = b'{"error":{"message":"Authentication Error, key=' + KEY + b'"}}END'
    reply, raw = ask(place, origin, echo(upstream.reply(body, 401)))
    assert reply.status == 401 and KEY not in raw and STARS in raw


def test_each_upstream_gets_its_own_key_and_no_other(place, origin):
    """INV-HOST-SCOPED: two upstreams, two keys."""
    second = upstream.Origin()
    other = "sk-other-" + os.urandom(16).hex()
    options = (*agent.llm(origin), "--llm", f"/other={second.url}", "--llm-key", "env:OTHER_KEY",
               "--llm", "/none=" + second.url)
    with agent.run(place, *options, env={"OTHER_KEY": other}) as run:
        for path in ("/v1/x", "/other/v1/x", "/none/v1/x", "/v1/x", "/other/v1/x"):
            assert run.ask(agent.get(path, f"Authorization: Bearer {other}")).status == 200
    assert [r.values("authorization") for r in origin.requests] == [[f"Bearer {agent.KEY}"]] * 2
    keys = [r.values("authorization") for r in second.requests]
    assert keys == [[f"Bearer {other}"], [], [f"Bearer {other}"]]
    assert agent.KEY.encode() not in second.received() and other.encode() not in origin.received()
    second.close()
