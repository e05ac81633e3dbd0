# SPDX-License-Identifier: MIT
"""warder.json as the LLM path has it: several upstreams, mappings, the log; bad files change nothing."""
import json
import time

import agent
import checks
import origin as upstream
import pytest


def write(place, settings, name="warder.json"):
    text = settings if isinstance(settings, str) else json.dumps(settings)
    return str(place.write(name, text))


@pytest.fixture
def origins():
    made = [upstream.Origin() for _ in range(4)]
    yield made
    for one in made:
        one.close()


def ask_model(run, model, **kwargs):
    return run.ask(agent.post({"model": model, "messages": []}, **kwargs))


def test_a_file_says_what_options_would(place, origin):
    config = write(place, f"""{{
        // LiteLLM
        "llm": {{ "upstream": "{origin.url}", "key": "{agent.KEY_SOURCE}", "port": 4000 }},
        "billing_account": "team-7",
        "metadata": {{ "team": "search" }}, /* who asks */
        "env": {{ "CI": "true" }},
        "audit": {{ "file": "log/audit.jsonl", "durability": "fsync" }}
    }}""")
    place.own((place.top / "log").mkdir() or place.top / "log")
    with agent.run(place, "--config", config, port=4000) as run:
        run.audit = place.top / "log" / "audit.jsonl"  # from the directory of the file
        assert run.ask(agent.post({"model": "m"})).status == 200
        variables = run.python("import os; result = dict(os.environ)")
        assert variables["CI"] == "true"
        assert variables["OPENAI_BASE_URL"] == "http://127.0.0.1:4000/v1"
        run.end()
    request = origin.requests[0]
    assert request.values("authorization") == [f"Bearer {agent.KEY}"]
    assert request.values("x-litellm-end-user-id") == ["team-7"]
    assert json.loads(request.values("x-litellm-spend-logs-metadata")[0])["team"] == "search"
    records = run.records()
    assert len(records) == 4
    assert agent.events(records, "decision")[0]["runId"] == records[0]["runId"]


def test_options_count_over_the_file(place, origin):
    config = write(place, {"llm": {"upstream": origin.url}, "billing_account": "from-file"})
    with agent.run(place, "--config", config, "--billing-account", "from-line") as run:
        assert run.ask(agent.post({"model": "m"})).status == 200
    assert origin.requests[0].values("x-litellm-end-user-id") == ["from-line"]


@pytest.mark.parametrize("by", ["file", "options"])
def test_upstreams_by_prefix_and_by_model(place, origins, by):
    default, claude, opus, other = origins
    if by == "file":
        config = write(place, {"llm": [
            {"upstream": default.url}, {"match": "claude-*", "upstream": claude.url + "/base"},
            {"match": "claude-opus-*", "upstream": opus.url},
            {"match": "/anthropic", "upstream": other.url, "provider": "anthropic"}]})
        options = ("--config", config)
    else:
        options = ("--llm", default.url, "--llm", f"claude-*={claude.url}/base", "--llm",
                   f"claude-opus-*={opus.url}", "--llm", f"/anthropic={other.url}",
                   "--llm-provider", "anthropic")
    with agent.run(place, *options) as run:
        for model in ("gpt-4o", "claude-haiku", "claude-opus-4", "Claude-haiku", "", "claude-"):
            assert ask_model(run, model).status == 200, model
        assert run.ask(agent.get("/v1/models")).status == 200
        assert ask_model(run, "gpt-4o", target="/anthropic/v1/messages?beta=true").status == 200
        # The model may come last, in pieces, or more than once; never too late.
        assert run.ask(agent.post(b'{"messages":[{"model":"claude-opus-4"}],"model":"claude-x"}')).status == 200
        assert run.ask(agent.post(b'{"x":"' + b"y" * 50000 + b'","model":"claude-x"}')).status == 200
        late = run.ask(agent.post(b'{"x":"' + b"y" * 70000 + b'","model":"claude-x"}'))
        assert (late.status, late.code()) == (400, "model_not_seen")
        assert run.ask(agent.get("/anthropic/v1x")).status == 404
        assert run.ask(agent.get("/anthropicx/v1/x")).status == 404
    assert [r.target for r in default.requests] == ["/v1/chat/completions"] * 3 + ["/v1/models"]
    assert [r.target for r in claude.requests] == ["/base/v1/chat/completions"] * 4
    assert [json.loads(r.body)["model"] for r in opus.requests] == ["claude-opus-4"]
    assert [r.target for r in other.requests] == ["/v1/messages?beta=true"]
    assert other.requests[0].values("x-litellm-end-user-id") == []


@pytest.mark.parametrize("body", [
    b'{"model":"gpt","model":"claude-x"}', b'{"model":"claude-x","model":"gpt"}',
    b'{"model":"gpt","\\u006dodel":"claude-x"}', b'{"Model":"claude-x","model":"gpt"}',
    b'{"model":["claude-x"]}', b'{"model":7}', b"not json", b"[]", b'"claude-x"'])
def test_a_model_in_doubt_does_not_choose_between_keys(user_place, origins, body):
    """What one reader takes for gpt and another for claude goes to neither, or is one to both."""
    default, claude = origins[:2]
    options = ("--llm", default.url, "--llm-key", "env:A", "--llm", f"claude-*={claude.url}",
               "--llm-key", "env:B")
    with agent.run(user_place, *options, env={"A": "key-a", "B": "key-b"}) as run:
        reply = run.ask(agent.post(body))
        assert reply.status in (200, 400, 404)
        for origin, key in ((default, "key-a"), (claude, "key-b")):
            for request in origin.requests:
                assert request.values("authorization") == [f"Bearer {key}"]
                assert request.body.count(b"odel") <= 1 or reply.status == 400


def test_connect_to_and_a_ca_of_our_own(place, certificates):
    host = certificates.NAME
    origin = upstream.Origin(context=certificates.context(), name=host)
    ca = place.write("ca.pem", certificates.ca.read_text())
    settings = {"llm": {"upstream": f"https://{host}", "key": agent.KEY_SOURCE},
                "upstream_ca": ca.name, "connect_to": {f"{host}:443": f"127.0.0.1:{origin.port}"}}
    with agent.run(place, "--config", write(place, settings)) as run:
        assert run.ask(agent.post({"model": "m"})).status == 200
        decision = agent.events(run.records(), "decision")[0]
        assert decision["host"] == f"{host}:443"  # what was verified, not what was dialled
    assert origin.requests[0].values("host") == [host]
    # Control: without the authority nobody is trusted, and the key stays.
    del settings["upstream_ca"]
    with agent.run(place, "--config", write(place, settings)) as run:
        assert run.ask(agent.post({"model": "m"})).code() == "upstream_tls"
    assert len(origin.requests) == 1
    origin.close()


def test_a_gate_takes_the_same_file(place, origin):
    config = write(place, {"llm": {"upstream": origin.url, "key": agent.KEY_SOURCE}})
    with agent.gate(place, "--config", config, "--run-id", "r", "--mode", "0666") as gate:
        assert gate.wait().ask(agent.post({"model": "m"})).status == 200
    assert origin.requests[0].values("authorization") == [f"Bearer {agent.KEY}"]


BAD = [
    ("", ":1:"), ("[]", ""), ("{", ""), ('{"llm": }', ":1:"), ('{"llm": {}}', "upstream"),
    ('{\n\n"llmm": {}}', ":3:"), ('{"llm": {"upstream": "ftp://x"}}', ""),
    ('{"llm": {"upstream": "http://u:p@x"}}', ""), ('{"llm": {"upstream": "http://x", "key": "KEY"}}', ""),
    ('{"llm": {"upstream": "http://x", "key": "env:NOT_SET_AT_ALL"}}', "NOT_SET_AT_ALL"),
    ('{"llm": {"upstream": "http://x"}, "llm": {"upstream": "http://y"}}', "twice"),
    ('{"llm": [{"upstream": "http://x"}, {"upstream": "http://y"}]}', "MATCH"),
    ('{"llm": {"upstream": "http://x", "port": 70000}}', "port"),
    ('{"llm": {"upstream": "http://x", "provider": "nobody"}}', "provider"),
    ('{"upstream_ca": "nowhere.pem", "llm": {"upstream": "https://x"}}', "nowhere.pem"),
    ('{"connect_to": {"x": "y"}, "llm": {"upstream": "http://x"}}', ""),
    ('{"audit": {"file": "workspace/audit.jsonl"}, "llm": {"upstream": "http://x"}}', "audit log"),
    ('{"audit": {"durability": "maybe"}, "llm": {"upstream": "http://x"}}', "durability"),
    ('{"metadata": {"a": "b\\nc"}, "llm": {"upstream": "http://x"}}', "metadata"),
    ('{"billing_account": "a\\r\\nX-Evil: 1", "llm": {"upstream": "http://x"}}', ""),
    ('{"run_id": "someone-else", "llm": {"upstream": "http://x"}}', "run_id"),
    ('{"secrets": {}} trailing', ""),
]


@pytest.mark.parametrize("text, words", BAD)
def test_a_bad_file_is_a_run_not_started_and_changes_nothing(place, text, words):
    place.install()
    text = text.replace("KEY", agent.KEY) if '"KEY"' in text else text
    config = write(place, text)
    before = checks.tree(place.top)
    started = time.monotonic()
    done = place.run(*checks.LEAVE_MARKER, options=("--config", config), env=agent.KEY_ENV)
    assert time.monotonic() - started < 20  # nobody waits for anybody
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr, words)
    assert agent.KEY not in done.stderr
    after = checks.tree(place.top)
    state = str(place.home / ".local")  # where the log would be may have been made
    assert {k: v for k, v in after.items() if not k.startswith(state)} == before


def test_a_file_that_is_not_there(place):
    place.install()
    checks.assert_refused(place, ("--config", "/nowhere/warder.json"), "/nowhere/warder.json")


@pytest.mark.parametrize("options, words", [
    (("--llm-key", "env:LLM_KEY"), "--llm"), (("--llm-provider", "openai"), "--llm"),
    (("--llm", "nonsense"), "--llm"), (("--llm", "http://"), "--llm"),
    (("--llm", "http://x/?q"), "--llm"), (("--llm", "=http://x"), "--llm"),
    (("--llm", "http://x", "--llm", "http://y"), "MATCH"),
    (("--llm", "http://x", "--connect-to", "x"), "connect-to"),
    (("--llm", "http://x", "--metadata", "x"), "metadata"),
    (("--llm", "https://x", "--upstream-ca", "/nowhere"), "/nowhere"),
    (("--llm", "http://x", "--idle-timeout", "0"), "idle-timeout"),
    (("--llm", "http://x", "--llm-port", "0"), "llm-port"),
])
def test_bad_options_are_a_run_not_started(place, options, words):
    place.install()
    done = place.run(*checks.LEAVE_MARKER, options=options, env=agent.KEY_ENV)
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr, words)
    assert not (place.workspace / checks.MARKER).exists()
