# SPDX-License-Identifier: MIT
"""The real LiteLLM: what it records of an agent's calls, and `warder spend` on it (INV-ATTRIBUTION,
INV-BILLING-TRUTH)."""
import decimal
import json

import agent
import checks
import clients
import litellm_proxy
import load
import pytest
import shared

EVIL = "someone-else"
MESSAGES = [{"role": "user", "content": "hi"}]
RUN = ("--run-id", "task-7", "--attempt", "2")
PLAIN = {"model": "m", "messages": MESSAGES}
STREAM = {**PLAIN, "stream": True, "stream_options": {"include_usage": True}}
BARE_STREAM = {**PLAIN, "stream": True}  # without usage, so without a cost

# Whatever might name somebody else, or hide the call.
FIELDS = [f"x-litellm-end-user-id: {EVIL}", f"x-litellm-customer-id: {EVIL}", "x-litellm-call-id: evil-call",
          'x-litellm-spend-logs-metadata: {"runId":"evil","attempt":9}', f"x-litellm-tags: {EVIL}",
          f"x-litellm-api-key: {EVIL}", f"x-litellm-session-id: {EVIL}", "x-litellm-disable-callbacks: rows",
          f"authorization: Bearer {EVIL}", f"x-openwebui-user-id: {EVIL}"]
MEMBERS = {"user": EVIL, "safety_identifier": EVIL, "litellm_metadata": {"user_api_key_end_user_id": EVIL},
           "metadata": {"user_id": EVIL, "user_api_key_end_user_id": EVIL, "spend_logs_metadata": {"runId": "evil"},
                        "litellm_call_id": "evil-call", "x": "1"},
           "litellm_call_id": "evil-call", "proxy_server_request": {"headers": {"x-litellm-end-user-id": EVIL}}}


@pytest.fixture(scope="module", params=[True, False], ids=["stream-cost", "no-stream-cost"])
def server(request, tmp_path_factory):
    python = clients.need("litellm") / "bin/python"
    made = litellm_proxy.Litellm(python, tmp_path_factory.mktemp("litellm"), agent.KEY, request.param)
    made.has_stream_cost = request.param
    yield made
    made.close()


@pytest.fixture
def litellm(server):
    server.forget()
    return server


def run_calls(place, litellm, *bodies, fields=(), options=RUN):
    with agent.run(place, *agent.llm(litellm, *options)) as run:
        replies = [run.ask(agent.post(body, *fields)) for body in bodies]
        assert run.end() == 0
    assert [reply.status for reply in replies] == [200] * len(bodies), [reply.body for reply in replies]
    run.replies = replies
    return run


def spend(place, litellm, *words, status):
    done = place.warder("spend", *words, "--json", "--llm", litellm.url, "--llm-key", agent.KEY_SOURCE,
                        env=agent.KEY_ENV)
    assert done.returncode == status, done
    assert agent.KEY not in done.stdout + done.stderr
    return json.loads(done.stdout)


def words_of(answer):
    return [call["verdict"] for call in answer["calls"]]


def test_calls_are_recorded_under_the_run_and_add_up(place, litellm):
    run = run_calls(place, litellm, PLAIN, STREAM, BARE_STREAM)
    rows = litellm.rows(3)
    assert {row["end_user"] for row in rows} == {"task-7/2"}
    for row in rows:
        assert json.loads(row["metadata"])["spend_logs_metadata"] == {"runId": "task-7", "attempt": 2}
        assert row["spend"] > 0
    outcomes = agent.events(run.records(), "outcome")
    assert [row["litellm_call_id"] for row in rows] == [outcome["callId"] for outcome in outcomes]
    # Whether a stream says what it cost is up to LiteLLM; a version may do so whatever its setting is.
    has_cost = [True, *(b'"cost"' in reply.body for reply in run.replies[1:])]
    assert ["cost" in outcome for outcome in outcomes] == has_cost
    assert has_cost[1] or not litellm.has_stream_cost
    assert not has_cost[2]
    for words in (["task-7"], ["task-7/2"], ["--since", "1h"]):
        answer = spend(place, litellm, *words, status=0)
        assert words_of(answer) == ["same" if known else "settled" for known in has_cost]
    assert float(answer["theirs"]["cost"]) == pytest.approx(sum(row["spend"] for row in rows), abs=1e-8)


def test_whatever_the_agent_says_about_itself(place, litellm):
    bodies = [{**body, **MEMBERS} for body in (PLAIN, STREAM)]
    run = run_calls(place, litellm, *bodies, fields=FIELDS)
    rows = litellm.rows(2)
    for row in rows:
        told = json.loads(row["metadata"])
        assert row["end_user"] == "task-7/2"
        assert told["spend_logs_metadata"] == {"runId": "task-7", "attempt": 2}
        assert row["litellm_call_id"] != "evil-call"
    assert [row["litellm_call_id"] for row in rows] == [
        outcome["callId"] for outcome in agent.events(run.records(), "outcome")]
    assert spend(place, litellm, "task-7", status=0)["isClean"]


@pytest.mark.parametrize("headers, members", [
    ({"x-litellm-end-user-id": EVIL}, {}),
    ({}, {"user": EVIL}),
    ({}, {"safety_identifier": EVIL}),
    ({}, {"metadata": {"user_id": EVIL}}),
    ({"x-litellm-end-user-id": "task-7/2", "x-litellm-call-id": "evil-call"}, {}),
])
def test_control_what_they_say_would_count(litellm, headers, members):
    """The same without warder: LiteLLM believes it."""
    litellm.call({**PLAIN, **members}, **headers)
    row, = litellm.rows(1)
    assert row["end_user"] == EVIL or row["litellm_call_id"] == "evil-call"


@pytest.mark.parametrize("body", [PLAIN, BARE_STREAM], ids=["plain", "stream"])
def test_a_call_that_asks_not_to_be_logged(place, litellm, body):
    litellm.call({**body, "no-log": True})  # control: LiteLLM does as it is asked
    litellm.call(body)
    litellm.rows(1)
    litellm.forget()
    run_calls(place, litellm, {**body, "no-log": True})
    assert litellm.rows(1)[0]["end_user"] == "task-7/2"
    assert spend(place, litellm, "task-7", status=0)["isClean"]


def test_an_account(place, litellm):
    run_calls(place, litellm, PLAIN, options=[*RUN, "--billing-account", "team-7"])
    row, = litellm.rows(1)
    assert row["end_user"] == "team-7"
    for words in (["task-7"], ["task-7/2"], ["--account", "team-7"]):
        assert words_of(spend(place, litellm, *words, status=0)) == ["same"]
    assert spend(place, litellm, "--account", "team-8", status=0)["calls"] == []


@pytest.mark.parametrize("body", [PLAIN, BARE_STREAM], ids=["plain", "stream"])
def test_a_call_behind_our_back(place, litellm, body):
    run_calls(place, litellm, PLAIN)
    litellm.rows(1)
    assert spend(place, litellm, "task-7", status=0)["isClean"]
    headers, _ = litellm.call(body, **{"x-litellm-end-user-id": "task-7/2"})
    litellm.rows(2)
    answer = spend(place, litellm, "task-7", status=1)
    assert words_of(answer) == ["same", "only-theirs"]
    assert answer["calls"][1]["callId"] == headers["x-litellm-call-id"]


def test_a_record_removed_or_changed(place, litellm):
    run = run_calls(place, litellm, PLAIN, PLAIN)
    first, _ = litellm.rows(2)
    whole = run.audit.read_text()
    lines = whole.splitlines(keepends=True)
    decision, gone = [line for line in lines if first["litellm_call_id"] in line]
    for left_out, verdict in (((gone,), "settled"), ((decision, gone), "only-theirs")):
        run.audit.write_text("".join(line for line in lines if line not in left_out))
        answer = spend(place, litellm, "task-7", status=1)
        assert sorted(words_of(answer)) == sorted([verdict, "same"]) and answer["auditFaults"]
    cost = json.loads(gone)["cost"]
    run.audit.write_text(whole.replace(gone, gone.replace(f'"cost":"{cost}"', '"cost":"0.00001"')))
    answer = spend(place, litellm, "task-7", status=1)
    assert sorted(words_of(answer)) == ["cost", "same"] and len(answer["auditFaults"]) == 1
    run.audit.write_text(whole)
    assert spend(place, litellm, "task-7", status=0)["isClean"]  # control


def test_a_failed_call_is_no_difference(place, litellm):
    with agent.run(place, *agent.llm(litellm, *RUN)) as run:
        assert run.ask(agent.post({"model": "unknown", "messages": MESSAGES})).status == 400
        assert run.ask(agent.get("/v1/models")).status == 200
        run.end()
    assert words_of(spend(place, litellm, "task-7", status=0)) == ["not-billed"]


# ---- the shared keeper ----

RESERVE = decimal.Decimal("0.05")


def spent(keeper, run_id):
    return [float(amount) for amount in load.amounts(keeper.show(run_id))]


def test_the_log_settles_what_is_held(place, litellm):
    """A keeper's budgets, by the log as LiteLLM itself writes it."""
    config = shared.llm(litellm, limits={"spend": "1"}, spend_reserve=str(RESERVE),
                        keeper={"reconcile": {"every": "0", "grace": "1h"}})
    with shared.keeper(place, config, env={"LLM_KEY": agent.KEY}) as keeper:
        held, told = load.Run(keeper.path, "held"), load.Run(keeper.path, "told", "team-7")
        reply = held.ask(body=json.dumps(BARE_STREAM).encode())
        assert reply.is_complete and b'"cost"' not in reply.body
        assert told.ask(body=json.dumps(PLAIN).encode()).status == 200
        costs = {json.loads(row["metadata"])["spend_logs_metadata"]["runId"]: row["spend"] for row in litellm.rows(2)}
        # Control: without being compared, both stand as the replies have it.
        load.stands_at(keeper, "held", 0, RESERVE)
        checks.wait_until(lambda: spent(keeper, "told") == [pytest.approx(costs["told"], abs=1e-8), 0])
        assert keeper.metrics()["warder_reconcile_total", "result", "corrected"] == 0
        keeper.reload({"keeper": {"reconcile": {"every": "250ms"}}})
        checks.wait_until(lambda: spent(keeper, "held") == [pytest.approx(costs["held"], abs=1e-8), 0])
        keeper.wait_for("reconciled", 2)
        samples = keeper.metrics()
        assert samples["warder_reconcile_total", "result", "corrected"] == 1
        assert samples["warder_reconcile_total", "result", "equal"] >= 1
        assert samples["warder_reconcile_total", "result", "unknown"] == 0
        assert samples["warder_reconcile_total", "result", "failed"] == 0
        assert spent(keeper, "told") == [pytest.approx(costs["told"], abs=1e-8), 0]
        held.close()
        told.close()
        assert agent.KEY not in keeper.stderr()


def test_a_key_that_is_none(place, litellm):
    place.write("home/audit", "")
    done = place.warder("spend", "task-7", "--audit", str(place.home / "audit"), "--llm", litellm.url,
                        "--llm-key", "env:OTHER", env={"OTHER": "sk-other"})
    assert done.returncode == 125 and done.stderr.count("\n") == 1, done
    assert "sk-other" not in done.stderr
