# SPDX-License-Identifier: MIT
"""`warder spend`: both logs side by side (INV-BILLING-TRUTH). The real LiteLLM is in tests/clients."""
import hashlib
import json

import agent
import checks
import origin as upstream
import pytest
import spend

POST = agent.post({"model": "m", "messages": []})
STREAM = agent.post({"model": "m", "messages": [], "stream": True})
RUN = ("--run-id", "task-7", "--attempt", "2")


@pytest.fixture
def ledger(origin):
    made = spend.Ledger(agent.KEY)
    origin.script = made.script
    return made


@pytest.fixture
def done(user_place, origin, ledger):
    """A run with a plain call and a streamed one; LiteLLM has recorded both."""
    with agent.run(user_place, *agent.llm(origin, *RUN)) as run:
        assert run.ask(POST).status == 200
        assert run.ask(STREAM).status == 200
        run.end()
    for row in ledger.rows:
        row["startTime"] = row["endTime"] = agent.events(run.records(), "outcome")[0]["time"]
    return run


def ask(place, origin, *words, **options):
    """warder spend, with the key in its environment."""
    return place.warder("spend", *words, "--llm", origin.url, "--llm-key", agent.KEY_SOURCE,
                        env=options.pop("env", agent.KEY_ENV), **options)


def told(place, origin, *words, status):
    """The JSON object, with that exit status."""
    answer = ask(place, origin, *words, "--json")
    assert answer.returncode == status, answer
    assert agent.KEY not in answer.stdout + answer.stderr
    return json.loads(answer.stdout)


def verdicts(answer):
    return [(call.get("callId"), call["verdict"]) for call in answer["calls"]]


@pytest.mark.parametrize("words", [["task-7"], ["task-7/2"], ["--since", "1h"], ["task-7", "--since", "1d"]])
def test_a_run_that_adds_up(user_place, origin, ledger, done, words):
    answer = told(user_place, origin, *words, status=0)
    assert verdicts(answer) == [("call-1", "same"), ("call-2", "settled")]
    assert answer["ours"] == {"calls": 2, "cost": "0.001", "unknown": 1}
    assert answer["theirs"] == {"calls": 2, "cost": "0.003", "unknown": 0}
    assert (answer["isClean"], answer["differences"], answer["auditFaults"]) == (True, 0, [])
    text = ask(user_place, origin, *words)
    assert text.returncode == 0 and text.stdout.endswith("clean\n"), text
    assert "task-7/2" in text.stdout and "call-1" in text.stdout
    question = ledger.questions[0]
    assert question["summarize"] == "false" and question["start_date"] < question["end_date"]
    assert question.get("end_user") == ("task-7/2" if words == ["task-7/2"] else None)


def test_a_call_behind_our_back(user_place, origin, ledger, done):
    ledger.add("task-7/2", 9, 0.5, startTime=ledger.rows[0]["startTime"])
    answer = told(user_place, origin, "task-7", status=1)
    assert ("call-9", "only-theirs") in verdicts(answer) and answer["differences"] == 1
    assert answer["theirs"]["cost"] == "0.503"
    text = ask(user_place, origin, "task-7")
    assert text.returncode == 1 and "1 difference\n" in text.stdout, text


def test_a_call_that_names_the_run_beside_another_end_user(user_place, origin, ledger, done):
    row = ledger.add("someone", 9, 0.5, startTime=ledger.rows[0]["startTime"])
    assert told(user_place, origin, "task-7", status=0)["isClean"]  # control: it is not the run's
    row["metadata"]["spend_logs_metadata"] = {"runId": "task-7", "attempt": 2}
    assert ("call-9", "only-theirs") in verdicts(told(user_place, origin, "task-7/2", status=1))
    assert told(user_place, origin, "task-7/3", status=0)["calls"] == []


def test_a_call_that_they_do_not_have(user_place, origin, ledger, done):
    del ledger.rows[0]
    answer = told(user_place, origin, "task-7", status=1)
    assert verdicts(answer) == [("call-1", "only-ours"), ("call-2", "settled")]


def test_costs_that_differ(user_place, origin, ledger, done):
    ledger.rows[0]["spend"] = 0.0010000000000000002  # as floating point has it: the same
    assert told(user_place, origin, "task-7", status=0)["isClean"]
    ledger.rows[0]["spend"] = 0.00101
    answer = told(user_place, origin, "task-7", status=1)
    assert verdicts(answer)[0] == ("call-1", "cost")
    assert (answer["calls"][0]["ours"], answer["calls"][0]["theirs"]) == ("0.001", "0.00101")


def test_a_row_under_another_name(user_place, origin, ledger, done):
    """INV-ATTRIBUTION: what LiteLLM has must be under the name that it was told."""
    ledger.rows[0]["end_user"] = "someone-else"
    assert verdicts(told(user_place, origin, "task-7", status=1))[0] == ("call-1", "whose")
    assert verdicts(told(user_place, origin, "--since", "1h", status=1))[0] == ("call-1", "whose")


def test_an_id_twice(user_place, origin, ledger, done):
    ledger.rows.append({**ledger.rows[0], "request_id": "chatcmpl-other"})
    assert ("call-1", "twice") in verdicts(told(user_place, origin, "task-7", status=1))
    ledger.rows[-1]["spend"] = 0  # a try that failed and was made again within LiteLLM
    assert ("call-1", "retry") in verdicts(told(user_place, origin, "task-7", status=0))
    ledger.rows[-1] = ledger.rows[0]  # the same row, told twice
    assert len(told(user_place, origin, "task-7", status=0)["calls"]) == 2


def test_the_id_may_be_anywhere_in_a_row(user_place, origin, ledger, done):
    first, second = ledger.rows
    del first["litellm_call_id"]  # only in the metadata
    del second["litellm_call_id"], second["metadata"]
    second["request_id"] = "call-2"
    assert told(user_place, origin, "task-7", status=0)["isClean"]
    second["request_id"] = "call-2_cache_hit1794754242.5"
    assert told(user_place, origin, "task-7", status=0)["isClean"]
    second["request_id"] = "chatcmpl-2"
    assert set(verdicts(told(user_place, origin, "task-7", status=1))) == {
        ("call-1", "same"), ("call-2", "only-ours"), (None, "only-theirs")}


# ---- the audit log ----

def rewrite(run, change):
    """The audit log with other lines, as someone who does not care for hashes would leave it."""
    lines = run.audit.read_text().splitlines(keepends=True)
    run.audit.write_text("".join(change(lines)))


def index_of(lines, call):
    return next(i for i, line in enumerate(lines) if f'"callId":"{call}"' in line)


def rechain(lines):
    """With numbers and hashes that fit again: by someone who does care."""
    made, prev = [], "0" * 64
    for seq, line in enumerate(lines, 1):
        record = {**json.loads(line), "seq": seq, "prev": prev}
        del record["hash"]
        start = json.dumps(record, separators=(",", ":"))[:-1]
        prev = hashlib.sha256(start.encode()).hexdigest()
        made.append(f'{start},"hash":"{prev}"}}\n')
    return made


def test_a_removed_record(user_place, origin, ledger, done):
    rewrite(done, lambda lines: [line for i, line in enumerate(lines) if i != index_of(lines, "call-1")])
    answer = told(user_place, origin, "task-7", status=1)
    assert ("call-1", "only-theirs") in verdicts(answer)
    assert len(answer["auditFaults"]) == 1 and "are missing" in answer["auditFaults"][0]


def test_a_removed_record_and_a_chain_made_anew(user_place, origin, ledger, done):
    rewrite(done, lambda lines: rechain([line for i, line in enumerate(lines)
                                         if i != index_of(lines, "call-1")]))
    assert user_place.warder("audit", "verify", str(done.audit)).returncode == 0
    answer = told(user_place, origin, "task-7", status=1)
    assert (answer["auditFaults"], answer["differences"]) == ([], 1)
    assert ("call-1", "only-theirs") in verdicts(answer)


@pytest.mark.parametrize("is_rechained", [False, True])
def test_a_changed_record(user_place, origin, ledger, done, is_rechained):
    def change(lines):
        changed = [line.replace('"cost":"0.001"', '"cost":"0.002"') for line in lines]
        assert changed != lines
        return rechain(changed) if is_rechained else changed

    rewrite(done, change)
    answer = told(user_place, origin, "task-7", status=1)
    assert ("call-1", "cost") in verdicts(answer)
    assert bool(answer["auditFaults"]) != is_rechained
    text = ask(user_place, origin, "task-7")
    assert ("was changed" in text.stdout) != is_rechained


def test_a_change_that_no_call_shows(user_place, origin, ledger, done):
    rewrite(done, lambda lines: [lines[0].replace('"task-7"', '"task-8"'), *lines[1:]])
    answer = told(user_place, origin, "task-7", status=1)
    assert {word for _, word in verdicts(answer)} == {"same", "settled"}
    assert answer["differences"] == len(answer["auditFaults"]) == 1


# ---- whose ----

def test_an_account(user_place, origin, ledger):
    options = agent.llm(origin, "--run-id", "task-8", "--billing-account", 'team "7"')
    with agent.run(user_place, *options) as run:
        assert run.ask(POST).status == 200
        run.end()
    assert agent.events(run.records(), "outcome")[0]["account"] == 'team "7"'
    ledger.rows[0]["startTime"] = run.records()[0]["time"]
    for words in (["--account", 'team "7"'], ["task-8"], ["task-8/0"]):
        assert verdicts(told(user_place, origin, *words, status=0)) == [("call-1", "same")]
    assert [q.get("end_user") for q in ledger.questions] == ['team "7"', None, None]
    assert told(user_place, origin, "--account", "other", status=0)["calls"] == []
    ledger.add('team "7"', 9, 1, startTime=ledger.rows[0]["startTime"])
    assert ("call-9", "only-theirs") in verdicts(told(user_place, origin, "--account", 'team "7"', status=1))


def test_calls_before_the_time_asked_for(user_place, origin, ledger, done):
    answer = told(user_place, origin, "--since", "2999-01-01", status=0)
    assert answer["calls"] == []
    ledger.rows[0]["startTime"] = "2020-01-01T00:00:00Z"  # a clock that differs: still the same call
    assert told(user_place, origin, "--since", "1h", status=0)["isClean"]


def test_a_failed_call_that_nobody_pays_for(user_place, origin, ledger):
    def script(connection):
        for request in connection.requests():
            if request.target.startswith("/spend/logs"):
                connection.answer(b"[]")
            else:
                connection.answer(b"{}", status=400, fields=[("x-litellm-call-id", "call-1"),
                                                             ("x-litellm-response-cost", "0")])

    origin.script = script
    with agent.run(user_place, *agent.llm(origin, *RUN)) as run:
        assert run.ask(POST).status == 400
        run.end()
    assert verdicts(told(user_place, origin, "task-7", status=0)) == [("call-1", "not-billed")]


def test_a_reply_without_an_id(user_place, origin, ledger):
    """The call has the id that it was sent with, and their log should know it."""
    seen = []

    def answer(connection):
        for request in connection.requests():
            seen.extend(request.values("x-litellm-call-id"))
            connection.answer(b"[]")
    origin.script = answer
    with agent.run(user_place, *agent.llm(origin, *RUN)) as run:
        assert run.ask(POST).status == 200
        assert run.ask(agent.get("/v1/models")).status == 200  # no call: nothing is asked of a model
        run.end()
    assert len(seen) == 1
    assert verdicts(told(user_place, origin, "task-7", status=1)) == [(seen[0], "only-ours")]


# ---- what the server may say ----

def test_text_of_others_is_harmless_on_a_terminal(user_place, origin, ledger, done):
    ledger.add("task-7/2\x1b[2J", 9, 1, model_group="\x1b]0;x\x07", startTime=ledger.rows[0]["startTime"])
    answer = ask(user_place, origin, "--since", "1h")
    assert answer.returncode == 1 and "\x1b" not in answer.stdout and "\x07" not in answer.stdout


@pytest.mark.parametrize("body, words", [
    (b"", "ends in the middle"),
    (b"[", "ends in the middle"),
    (b'{"error":"x"}', "no list"),
    (b'[{"startTime":"2026-11-15","spend":1,"users":{}}]', "no id"),
    (b'[{"request_id":"a","spend":-1}]', "no amount"),
    (b'[1]', "no list of rows"),
    (b'[[]]', "no row"),
    (b"<html>", "no list of rows"),
    (b'[{"request_id":"a"x}]', "not JSON"),
])
def test_an_answer_that_is_no_log(user_place, origin, ledger, done, body, words):
    origin.script = lambda c: [c.answer(body) for _ in c.requests()]
    answer = ask(user_place, origin, "task-7")
    assert answer.returncode == 125 and not answer.stdout
    checks.assert_one_line(answer.stderr, words)


@pytest.mark.parametrize("status, words", [(401, "administrators"), (403, "administrators"), (500, "database"),
                                           (302, "answers 302"), (404, "answers 404")])
def test_a_refusal(user_place, origin, ledger, done, status, words):
    origin.script = lambda c: [c.answer(b"{}", status=status, fields=[("Location", "http://127.0.0.1:1/")])
                               for _ in c.requests()]
    answer = ask(user_place, origin, "task-7")
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, words, origin.label)
    assert len(origin.requests) == 3  # the run's two, and one: no redirect is followed


def test_a_wrong_key(user_place, origin, ledger, done):
    answer = ask(user_place, origin, "task-7", env={"LLM_KEY": "sk-other"})
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, "the key is not one's")
    assert "sk-other" not in answer.stderr


def test_a_cut_reply_is_no_log(user_place, origin, ledger, done):
    whole = upstream.reply(json.dumps(ledger.rows).encode())
    cuts = {0, 1, 20, whole.index(b"\r\n\r\n") + 4, len(whole) - 2, len(whole) - 1, len(whole)}
    for cut in sorted(cuts):
        def script(connection, cut=cut):
            connection.request()
            connection.send(whole[:cut])
        origin.script = script
        assert ask(user_place, origin, "task-7").returncode == (0 if cut == len(whole) else 125), cut


def test_tls(user_place, certificates):
    ledger = spend.Ledger(agent.KEY)
    origin = upstream.Origin(ledger.script, certificates.context(), certificates.NAME)
    trust = ("--upstream-ca", str(certificates.ca), "--connect-to",
             f"{certificates.NAME}:{origin.port}=127.0.0.1:{origin.port}")
    with agent.run(user_place, *agent.llm(origin, *RUN, *trust)) as run:
        assert run.ask(POST).status == 200
        run.end()
    ledger.rows[0]["startTime"] = run.records()[0]["time"]
    assert told(user_place, origin, "task-7", *trust, status=0)["isClean"]
    answer = ask(user_place, origin, "task-7", *trust[2:])
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, "TLS")
    origin.close()


# ---- a log that is too long for one answer ----

def test_a_log_in_pieces(user_place, origin, ledger, done):
    """Halves of the days, and of a day that is still too much, pages."""
    ledger.rows += [{**ledger.rows[0], "request_id": f"more-{i}", "litellm_call_id": f"more-{i}",
                     "end_user": "another", "metadata": {}} for i in range(250)]
    cut = [("x-litellm-spend-logs-truncated", "true")]

    def by_day(query):
        days = [row for row in ledger.rows if query["start_date"] <= row["startTime"][:10] <= query["end_date"]]
        return (days[:5], cut) if days else ([], ())

    def by_page(query):
        assert query["start_date"] < query["end_date"]
        page, size = int(query["page"]), int(query["page_size"])
        start, end = (query[name].replace(" ", "T") for name in ("start_date", "end_date"))
        found = [row for row in ledger.rows if start <= row["startTime"] <= end]
        return {"data": found[(page - 1) * size:page * size], "total": len(found), "page": page}, ()

    ledger.pages = {"/spend/logs": by_day, "/spend/logs/v2": by_page}
    answer = told(user_place, origin, "task-7", status=0)
    assert verdicts(answer) == [("call-1", "same"), ("call-2", "settled")]
    assert {question["path"] for question in ledger.questions} == {"/spend/logs", "/spend/logs/v2"}
    assert len(told(user_place, origin, "--since", "1h", status=1)["calls"]) == 252


def test_a_day_in_pieces(user_place, origin, ledger, done):
    """Of one window v2 tells no more than a hundred pages: then shorter ones are asked for."""
    rows = [{"request_id": f"more-{i}", "spend": 0, "end_user": "another"} for i in range(100)]
    windows = set()

    def by_page(query):
        start, end = query["start_date"], query["end_date"]
        windows.add((start, end))
        if start[11:] == "00:00:00" and end[11:] == "12:00:00":
            return {"data": rows}, ()
        if int(query["page"]) > 1:
            return {"data": []}, ()
        return {"data": [row for row in ledger.rows
                         if start.replace(" ", "T") <= row["startTime"] <= end.replace(" ", "T")]}, ()

    ledger.pages = {"/spend/logs": lambda query: ([], [("x-litellm-spend-logs-truncated", "true")]),
                    "/spend/logs/v2": by_page}
    assert told(user_place, origin, "task-7", status=0)["isClean"]
    assert {end[11:] for _, end in windows} >= {"06:00:00", "12:00:00"}


# ---- the command line ----

@pytest.mark.parametrize("words, told_words", [
    ([], "of what?"),
    (["a b"], "no RUN"),
    (["../x"], "no RUN"),
    (["r/x"], "no attempt"),
    (["r", "s"], "one RUN"),
    (["--since", "yesterday"], "no time"),
    (["r", "--nonsense"], "nonsense"),
])
def test_a_command_line_that_is_wrong(user_place, origin, words, told_words):
    user_place.install()
    answer = ask(user_place, origin, *words)
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, told_words)


def test_a_litellm_is_needed(user_place, done):
    answer = user_place.warder("spend", "task-7")
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, "--llm")
    answer = user_place.warder("spend", "task-7", "--llm", "https://api.openai.com")
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, "LiteLLM")


def test_settings_from_a_file(user_place, origin, ledger, done):
    path = user_place.write("warder.json", json.dumps(
        {"llm": {"upstream": origin.url, "key": agent.KEY_SOURCE}, "audit": {"file": str(done.audit)}}))
    answer = user_place.warder("spend", "--config", str(path), "--json", "task-7", env=agent.KEY_ENV)
    assert answer.returncode == 0, answer
    assert json.loads(answer.stdout)["isClean"]


def test_no_log_and_no_server(user_place, origin, ledger):
    user_place.install()
    answer = ask(user_place, origin, "task-7")
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, "open the audit log")
    user_place.write("log", "")
    held, port = upstream.refusing_port()
    answer = user_place.warder("spend", "task-7", "--audit", str(user_place.top / "log"),
                               "--llm", f"http://127.0.0.1:{port}")
    held.close()
    assert answer.returncode == 125
    checks.assert_one_line(answer.stderr, "connect to")


def test_the_help(user_place):
    user_place.install()
    answer = user_place.warder("spend", "--help")
    assert answer.returncode == 0 and "--since TIME" in answer.stdout
    assert user_place.warder("spend").returncode == 125
