# SPDX-License-Identifier: MIT
"""Budgets and LiteLLM's own log: what is held is settled, what differs is corrected.

INV-BILLING-TRUTH: what a call has cost is what the upstream says, at once or in its log.
"""
import contextlib
import copy
import datetime
import decimal
import json
import shutil
import struct
import threading
import time

import checks
import harness
import load
import origin as upstream
import pytest
import shared

pytestmark = pytest.mark.patient

RESERVE = decimal.Decimal("0.05")
OFTEN = {"every": "250ms", "grace": "1s"}
NEVER_RELEASED = {"every": "250ms", "grace": "1h"}


class LiteLLM(load.Bank):
    """Calls cost what their model's name says, and the log has the rows that a test puts there."""

    def __init__(self):
        super().__init__()
        self.rows = []
        self.questions = []
        self.tell = self.tell_rows  # how /spend/logs is answered
        self.is_over = threading.Event()

    def script(self, connection):
        for request in connection.requests():
            if request.target.startswith("/spend/logs"):
                self.questions.append(request)
                assert request.values("authorization") == [f"Bearer {shared.KEY}"]
                self.tell(connection)
            else:
                self._call(connection, request)

    def _call(self, connection, request):
        asked = json.loads(request.body)
        how, _, cost = asked["model"].partition(" ")
        self.charge(request, cost or None)
        if how == "plain":
            connection.answer(fields=[("x-litellm-response-cost", cost)] if cost else ())
            return
        connection.send(upstream.CHUNKED + upstream.chunk(shared.EVENT))
        if how == "endless":
            connection.wait_for_end()
            raise upstream.Gone
        last = b'data: {"usage":{"total_tokens":3,"cost":%s}}\n\n' % cost.encode() if cost else b""
        connection.send(upstream.chunk(last + b"data: [DONE]\n\n") + upstream.LAST_CHUNK)

    def tell_rows(self, connection):
        connection.answer(json.dumps(self.rows).encode())

    def add_row(self, call, cost, **more):
        """As LiteLLM's table has it; `call` is one of `calls`."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.rows = [*self.rows, {
            "request_id": f"chatcmpl-{len(self.rows)}", "spend": float(cost), "startTime": now,
            "endTime": now, "model": "m", "end_user": call["user"], "litellm_call_id": call["id"],
            "messages": [{"role": "user", "content": "a \"litellm_call_id\": \"no\" b"}],
            "metadata": {"spend_logs_metadata": {"runId": call["run"], "attempt": 0}}, **more}]

    def rounds(self, count=2):
        """Waits until the log was asked for so many times more, and the answers have been read."""
        until = len(self.questions) + count + 1
        checks.wait_until(lambda: len(self.questions) >= until)


@pytest.fixture
def litellm(origin):
    made = LiteLLM()
    origin.script = made.script
    return made


@contextlib.contextmanager
def serving(place, origin, reconcile, env=None, **settings):
    settings = {"limits": {"spend": "1"}, "spend_reserve": str(RESERVE), **settings}
    with shared.keeper(place, shared.llm(origin, keeper={"reconcile": reconcile}, **settings), env=env) as keeper:
        yield keeper
        assert shared.KEY not in keeper.stderr()
        if keeper.is_alive():
            keeper.verify()


class Clock:
    """A keeper's own, which is put forward; with `env` it has it."""

    def __init__(self, place):
        library = shutil.copy(harness.BUILD / "tests/support/libshift_clock.so", place.top)
        self._path = place.write("clock", "\0" * 8)
        self._hours = 0
        self.env = {"LD_PRELOAD": str(library), "SHIFT_CLOCK": str(self._path)}
        if shared.IS_SANITIZED:
            self.env["ASAN_OPTIONS"] = "verify_asan_link_order=0"

    def put_forward(self, hours):
        self._hours += hours
        with open(self._path, "r+b") as file:  # written over: it is mapped
            file.write(struct.pack("<q", self._hours * 3600))


def ask(run, model):
    return run.ask(body=json.dumps({"model": model}).encode())


def begin_stream(run, model):
    number = run.open(body=json.dumps({"model": model, "stream": True}).encode())
    reply = run.head(number)
    return number, run.rest(number, reply, b"\n\n")


def reconciled(keeper):
    samples = keeper.metrics()
    return {result: samples["warder_reconcile_total", "result", result]
            for result in ("equal", "corrected", "unknown", "failed")}


# ---- what the log says ----

def test_the_log_settles_and_corrects(place, origin, litellm):
    with serving(place, origin, NEVER_RELEASED) as keeper:
        runs = {name: load.Run(keeper.path, name) for name in ("held", "more", "less", "same", "stream")}
        assert ask(runs["held"], "plain").status == 200
        for name in ("more", "less", "same"):
            assert ask(runs[name], "plain 0.25").status == 200
        assert ask(runs["stream"], "stream 0.125").is_complete
        # What nobody has told the cost of is reserved, and stays so while the log does not have it.
        litellm.rounds()
        load.stands_at(keeper, "held", 0, RESERVE)
        for name in ("more", "less", "same"):
            load.stands_at(keeper, name, "0.25", 0)
        load.stands_at(keeper, "stream", "0.125", 0)
        assert set(reconciled(keeper).values()) == {0}
        for call, cost in zip(litellm.calls, ("0.03125", "0.5", "0.0625", "0.25", "0.125")):
            litellm.add_row(call, cost)
        for name, cost in (("held", "0.03125"), ("more", "0.5"), ("less", "0.0625"), ("same", "0.25"),
                           ("stream", "0.125")):
            load.stands_at(keeper, name, cost, 0)
        counts = reconciled(keeper)
        assert counts["corrected"] == 3 and counts["equal"] >= 2, counts
        assert counts["unknown"] == counts["failed"] == 0
        # Once is enough.
        litellm.rounds()
        assert reconciled(keeper)["corrected"] == 3
        for name, cost in (("held", "0.03125"), ("more", "0.5"), ("less", "0.0625")):
            load.stands_at(keeper, name, cost, 0)
        lines = keeper.log("reconcile_differs")
        assert sorted(line["runId"] for line in lines) == ["held", "less", "more"]
        assert {line["code"] for line in lines} == {"corrected"}
        for run in runs.values():
            run.close()


@pytest.mark.parametrize("is_last_first", [True, False])
def test_tries_that_failed(place, origin, litellm, is_last_first):
    """Within LiteLLM a call may need several: each is a row, and the one that cost something is it."""
    def tell_in_order(connection):
        connection.answer(json.dumps(litellm.rows[::-1] if is_last_first else litellm.rows).encode())

    with serving(place, origin, NEVER_RELEASED) as keeper:
        run, other = load.Run(keeper.path, "r-1"), load.Run(keeper.path, "r-2")
        assert ask(run, "plain 0.25").status == 200
        assert ask(other, "plain").status == 200
        rows = LiteLLM()
        for call, cost in zip(litellm.calls, ("0.25", "0.125")):
            for spend in ("0", "0", cost):
                rows.add_row(call, spend)
        litellm.tell = tell_in_order
        litellm.rows = rows.rows
        load.stands_at(keeper, "r-2", "0.125", 0)
        for _ in range(3):
            litellm.rounds()
            load.stands_at(keeper, "r-1", "0.25", 0)
            load.stands_at(keeper, "r-2", "0.125", 0)
        counts = reconciled(keeper)
        assert (counts["corrected"], counts["unknown"], counts["failed"]) == (1, 0, 0)
        assert [line["runId"] for line in keeper.log("reconcile_differs")] == ["r-2"]
        run.close()
        other.close()


def test_many_calls_at_once(user_place, origin, litellm):
    """More than the store is told in one turn."""
    with serving(user_place, origin, NEVER_RELEASED) as keeper:
        run = load.Run(keeper.path, "r-1")
        assert ask(run, "plain 0").status == 200
        rows = LiteLLM()
        for number in range(500):
            rows.add_row({**litellm.calls[0], "id": f"call-{number}"}, "0.000001")
        litellm.rows = rows.rows
        load.stands_at(keeper, "r-1", "0.0005", 0)
        litellm.rounds()
        load.stands_at(keeper, "r-1", "0.0005", 0)
        assert reconciled(keeper)["unknown"] == 500
        run.close()


def test_a_call_behind_our_back_counts(place, origin, litellm):
    with serving(place, origin, NEVER_RELEASED, account_limits={"team": {"spend": "1"}}) as keeper:
        run = load.Run(keeper.path, "r-1", "team")
        assert ask(run, "plain 0.5").status == 200
        call = litellm.calls[0]
        litellm.add_row(call, "0.5")
        litellm.add_row({**call, "id": "somebody-else"}, "9", end_user="nobody", metadata={})
        litellm.rounds()
        assert ask(run, "plain 0").status == 200
        litellm.add_row({**call, "id": "unknown"}, "0.46875")
        load.stands_at(keeper, "r-1", "0.96875", 0)
        load.stands_at(keeper, "r-1", "0.96875", 0, "account")
        reply = ask(run, "plain 0")
        assert (reply.status, reply.code()) == (429, "budget_exceeded")
        assert reconciled(keeper)["unknown"] == 1
        line, = keeper.log("reconcile_differs")
        assert (line["code"], line["runId"], line["text"]) == ("unknown", "r-1", "unknown")
        run.close()


def test_the_log_ends_a_stream(user_place, origin, litellm):
    """What it says has used the money up."""
    with serving(user_place, origin, NEVER_RELEASED) as keeper:
        run, other = load.Run(keeper.path, "r-1"), load.Run(keeper.path, "r-2")
        number, reply = begin_stream(run, "endless")
        other_number, other_reply = begin_stream(other, "stream 0.5")
        assert other.rest(other_number, other_reply).is_complete
        litellm.add_row({**litellm.calls[0], "id": "unknown"}, "1")
        run.rest(number, reply)
        assert not reply.is_complete and b'"code":"budget_exceeded"' in reply.body
        assert ask(other, "plain 0.25").status == 200
        run.close()
        other.close()


# ---- what an agent says ----

FORGED = [{"type": "function", "name": "f", "parameters": {"cost": 0, "usage": {"cost": 0}}}]


def repeat(connection, request, usage, is_stream):
    """Answers as the Responses API does, which repeats much of what it was asked with."""
    if not request.body:  # the log is asked for
        connection.answer(b"[]")
        return
    asked = json.loads(request.body)
    said = {"tools": asked["tools"], "metadata": asked["metadata"], "instructions": asked["instructions"]}
    if not is_stream:
        connection.answer(json.dumps({**usage, **said}).encode(), fields=[("content-type", "application/json")])
        return
    events = [{"type": "response.created", "response": {"usage": None, **said}},
              {"type": "response.output_text.delta", "delta": '"usage": {"cost": 0}'},
              {"type": "response.completed", "response": {**usage, **said}}]
    connection.send(upstream.CHUNKED)
    for event in events:
        connection.send(upstream.chunk(b"data: %s\n\n" % json.dumps(event).encode()))
    connection.send(upstream.LAST_CHUNK)


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "plain"])
@pytest.mark.parametrize("cost", ["0.25", None])
def test_a_cost_that_the_agent_names(user_place, origin, litellm, cost, is_stream):
    usage = {"usage": {"output_tokens": 9, **({"cost": float(cost)} if cost else {})}}
    origin.script = lambda connection: [repeat(connection, request, usage, is_stream)
                                        for request in connection.requests()]
    asked = {"model": "m", "stream": is_stream, "tools": FORGED, "metadata": {"cost": "0"},
             "instructions": '{"usage": {"cost": 0}}'}
    with serving(user_place, origin, NEVER_RELEASED) as keeper:
        run = load.Run(keeper.path, "r-1")
        reply = run.ask("/v1/responses", json.dumps(asked).encode())
        assert reply.status == 200 and reply.is_complete and b'"parameters": {"cost": 0' in reply.body
        load.stands_at(keeper, "r-1", cost or 0, 0 if cost else RESERVE)
        outcome, = keeper.outcomes(1)
        assert outcome.get("cost") == cost
        run.close()


@pytest.mark.parametrize("is_whole", [True, False], ids=["control", "half"])
def test_the_cost_of_half_a_reply_is_not_known(user_place, origin, litellm, is_whole):
    def script(connection):
        for _ in connection.requests():
            connection.send(upstream.CHUNKED + upstream.chunk(b'data: {"usage":{"cost":0.25}}\n\n'))
            if not is_whole:
                return
            connection.send(upstream.LAST_CHUNK)

    origin.script = script
    with serving(user_place, origin, NEVER_RELEASED) as keeper:
        run = load.Run(keeper.path, "r-1")
        assert run.ask().is_complete == is_whole
        load.stands_at(keeper, "r-1", *(("0.25", 0) if is_whole else (0, RESERVE)))
        run.close()


def test_a_call_of_hours(place, origin, litellm):
    """It is in the log by when it began, and not before it has ended."""
    clock = Clock(place)
    with serving(place, origin, NEVER_RELEASED, env=clock.env) as keeper:
        runs = [load.Run(keeper.path, name) for name in ("told", "untold")]
        streams = [(run, begin_stream(run, "endless")[0]) for run in runs]
        litellm.rounds()
        clock.put_forward(3)
        for run, number in streams:
            run.abort(number)
            checks.wait_until(lambda run=run: keeper.show(run.run_id)["run.concurrent"] == 0)
        litellm.rounds(4)
        for run in runs:
            load.stands_at(keeper, run.run_id, 0, RESERVE)
        litellm.add_row(litellm.calls[0], "0.125")
        load.stands_at(keeper, "told", "0.125", 0)
        load.stands_at(keeper, "untold", 0, RESERVE)
        # Control: for longer than the grace it is not in the log, and was none.
        clock.put_forward(2)
        load.stands_at(keeper, "untold", 0, 0)
        load.stands_at(keeper, "told", "0.125", 0)
        for run in runs:
            run.close()


# ---- what it does not say ----

def test_a_hold_without_a_row(place, origin, litellm):
    with serving(place, origin, NEVER_RELEASED) as keeper:
        run = load.Run(keeper.path, "r-1")
        assert ask(run, "plain").status == 200
        # Something under way is not released, however long it takes.
        number, reply = begin_stream(run, "endless")
        litellm.rounds(3)
        load.stands_at(keeper, "r-1", 0, 2 * RESERVE)
        keeper.reload({"keeper": {"reconcile": OFTEN}})
        load.stands_at(keeper, "r-1", 0, RESERVE)
        litellm.rounds(3)
        load.stands_at(keeper, "r-1", 0, RESERVE)
        run.abort(number)
        assert not reply.is_complete
        load.stands_at(keeper, "r-1", 0, 0)
        run.close()


BROKEN = {
    "an error": lambda connection: connection.answer(b'{"error":"no"}', status=500),
    "forbidden": lambda connection: connection.answer(b"{}", status=403),
    "no list": lambda connection: connection.answer(b'"rows"'),
    "half a list": lambda connection: connection.answer(b'[{"request_id":"a"'),
    "cut off": lambda connection: connection.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]") or connection.close(),
    "silence": lambda connection: connection.reset(),
    "its key": lambda connection: connection.answer(
        json.dumps({"error": shared.KEY, shared.KEY: [shared.KEY]}).encode(), status=401),
}


def test_a_log_that_cannot_be_read(place, origin, litellm):
    """INV-FAIL-CLOSED: nothing is released by it, for longer than the grace."""
    with serving(place, origin, OFTEN) as keeper:
        litellm.tell = BROKEN["an error"]
        run = load.Run(keeper.path, "r-1")
        assert ask(run, "plain").status == 200
        for how in BROKEN.values():
            litellm.tell = how
            until = reconciled(keeper)["failed"] + 3
            checks.wait_until(lambda enough=until: reconciled(keeper)["failed"] >= enough)
        load.stands_at(keeper, "r-1", 0, RESERVE)
        lines = keeper.log("reconcile_differs")
        assert {line["code"] for line in lines} == {"failed"} and all(line["text"] for line in lines)
        # Control: it is released when it can be read.
        litellm.tell = litellm.tell_rows
        load.stands_at(keeper, "r-1", 0, 0)
        run.close()


def test_a_log_without_the_ids_of_calls(place, origin, litellm):
    """INV-FAIL-CLOSED: what it has of a run may be what is held, and nobody can tell."""
    with serving(place, origin, OFTEN) as keeper:
        run = load.Run(keeper.path, "r-1")
        litellm.tell = BROKEN["an error"]
        assert ask(run, "plain").status == 200
        litellm.add_row({**litellm.calls[0], "id": None}, "0.125")
        litellm.tell = litellm.tell_rows
        litellm.rounds(12)  # for longer than the grace
        load.stands_at(keeper, "r-1", 0, RESERVE)
        assert reconciled(keeper)["unknown"] == 0
        line = keeper.log("reconcile_differs")[-1]
        assert line["code"] == "failed" and "litellm_call_id" in line["text"], line
        # Control: a row of somebody else's, or one that has cost nothing, hinders nobody.
        litellm.rows = []
        litellm.add_row({**litellm.calls[0], "id": None}, "0.125", end_user="nobody", metadata={})
        litellm.add_row({**litellm.calls[0], "id": None}, "0")
        load.stands_at(keeper, "r-1", 0, 0)
        run.close()


def test_a_log_that_is_slow(user_place, origin, litellm):
    """Nobody waits for it, and nothing is released before its end."""
    def tell_slowly(connection):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[")
        if litellm.is_over.wait(120):
            connection.send(b"]")

    with serving(user_place, origin, OFTEN) as keeper:
        litellm.tell = tell_slowly
        run = load.Run(keeper.path, "r-1")
        checks.wait_until(lambda: litellm.questions)
        assert ask(run, "plain").status == 200
        begun = time.monotonic()
        while time.monotonic() < begun + 3:
            assert ask(run, "plain 0").status == 200
        load.stands_at(keeper, "r-1", 0, RESERVE)
        assert len(litellm.questions) == 1
        litellm.is_over.set()
        load.stands_at(keeper, "r-1", 0, 0)
        run.close()


def test_how_often_is_reloaded(user_place, origin, litellm):
    with serving(user_place, origin, {"every": "1h", "grace": "1s"}) as keeper:
        time.sleep(1.5)
        assert not litellm.questions
        keeper.reload({"keeper": {"reconcile": {"every": "250ms"}}})
        litellm.rounds()
        keeper.reload({"keeper": {"reconcile": {"every": "0"}}})
        checks.wait_until(lambda: is_quiet(litellm))  # what was asked before may come a moment later


def is_quiet(litellm):
    count = len(litellm.questions)
    time.sleep(1.5)
    return len(litellm.questions) == count


# ---- what no log knows ----

def direct_to(origin, **more):
    """Settings of an upstream that is no LiteLLM."""
    return {"upstream": origin.url, "provider": "openai", **more}


def test_a_provider_without_a_log(place, origin, litellm):
    """Its calls have cost what was reserved for them: nobody will ever know better."""
    direct = upstream.Origin()
    llms = [shared.llm(origin)["llm"], direct_to(direct, match="gpt*")]
    with contextlib.closing(direct), serving(place, origin, OFTEN, llm=llms) as keeper:
        run = load.Run(keeper.path, "r-1")
        assert ask(run, "gpt-x").status == 200
        load.stands_at(keeper, "r-1", RESERVE, 0)
        # Control: a call of LiteLLM's that its log does not have was none.
        assert ask(run, "plain").status == 200
        load.stands_at(keeper, "r-1", RESERVE, 0)
        litellm.rounds()
        load.stands_at(keeper, "r-1", RESERVE, 0)
        assert keeper.metrics()["warder_spend_reported_total"] == 0
        run.close()


def test_a_provider_without_a_log_alone(user_place, origin):
    with serving(user_place, origin, OFTEN, llm=direct_to(origin), limits={"spend": str(3 * RESERVE)}) as keeper:
        run = load.Run(keeper.path, "r-1")
        replies = [ask(run, "m") for _ in range(5)]
        assert [reply.status for reply in replies] == [200] * 3 + [429] * 2
        assert replies[-1].code() == "budget_exceeded"
        load.stands_at(keeper, "r-1", 3 * RESERVE, 0)
        run.close()


def test_a_log_that_is_not_read_any_more(place, origin, litellm):
    """Another LiteLLM's says nothing about its calls."""
    other = LiteLLM()
    elsewhere = upstream.Origin(script=other.script)
    with contextlib.closing(elsewhere), serving(place, origin, OFTEN) as keeper:
        run = load.Run(keeper.path, "r-1")
        keeper.reload({"keeper": {"reconcile": {"grace": "1h"}}})
        assert ask(run, "plain").status == 200
        keeper.reload({"keeper": {"reconcile": OFTEN}, **shared.llm(elsewhere)})
        # Control: what it was itself asked is released.
        assert ask(run, "plain").status == 200
        load.stands_at(keeper, "r-1", 0, RESERVE)
        other.rounds(4)
        load.stands_at(keeper, "r-1", 0, RESERVE)
        keeper.reload(shared.llm(origin))
        load.stands_at(keeper, "r-1", 0, 0)
        run.close()


# ---- whoever is gone ----

def test_a_client_that_leaves_is_settled(place, origin, litellm):
    """In the middle of a stream, which has said nothing of its cost; the log knows it by our id."""
    with serving(place, origin, NEVER_RELEASED) as keeper:
        run = load.Run(keeper.path, "r-1")
        number, _ = begin_stream(run, "endless")
        run.abort(number)
        checks.wait_until(lambda: keeper.show("r-1")["run.concurrent"] == 0)
        litellm.rounds()
        load.stands_at(keeper, "r-1", 0, RESERVE)
        litellm.add_row(litellm.calls[0], "0.125")
        load.stands_at(keeper, "r-1", "0.125", 0)
        outcome = checks.wait_until(lambda: keeper.records("outcome"))[0]
        assert outcome["callId"] == litellm.calls[0]["id"] and outcome["ended"] == "agent_gone"
        run.close()


def test_a_keeper_that_was_killed_is_settled(place, origin, litellm):
    """Of what it had under way only the log knows what it has cost."""
    keeper = shared.Keeper(place, shared.llm(origin, limits={"spend": "1"}, spend_reserve=str(RESERVE),
                                             keeper={"reconcile": OFTEN}))
    keeper.start()
    try:
        run = load.Run(keeper.path, "r-1")
        begin_stream(run, "endless")
        keeper.kill()
        run.close()
        litellm.tell = BROKEN["an error"]
        keeper.start()
        checks.wait_until(lambda: reconciled(keeper)["failed"] >= 2)
        load.stands_at(keeper, "r-1", 0, RESERVE)
        litellm.add_row(litellm.calls[0], "0.125")
        litellm.tell = litellm.tell_rows
        load.stands_at(keeper, "r-1", "0.125", 0)
        assert keeper.end() == 0
        keeper.verify()
        # That it was to be made is on record, by the id that LiteLLM has.
        assert not keeper.records("outcome")
        done = place.warder("spend", "r-1", "--json", "--audit", str(keeper.audit), "--llm", origin.url,
                            "--llm-key", "env:LLM_KEY", env=shared.ENV)
        assert done.returncode == 0, done
        call, = json.loads(done.stdout)["calls"]
        assert (call["callId"], call["verdict"]) == (litellm.calls[0]["id"], "settled")
    finally:
        keeper.kill()


def test_a_call_of_a_keeper_that_was_replaced(user_place, origin, litellm):
    """When it has taken hours nobody knows where to look for it; once a day it is found."""
    clock = Clock(user_place)
    with serving(user_place, origin, NEVER_RELEASED, env=clock.env) as old:
        run = load.Run(old.path, "r-1")
        number, _ = begin_stream(run, "endless")
        new = copy.copy(old)
        new.process = new._log = None  # pylint: disable=protected-access
        new.start("--take-over")
        try:
            litellm.rounds()
            clock.put_forward(3)
            with contextlib.suppress(load.Ended):  # it has waited long enough for its last run, too
                run.abort(number)
            checks.wait_until(lambda: new.show("r-1")["run.concurrent"] == 0)
            litellm.rounds(4)  # the first of these still looks at the time before
            litellm.add_row(litellm.calls[0], "0.125")
            litellm.rounds(4)
            load.stands_at(new, "r-1", 0, RESERVE)
            clock.put_forward(24)
            load.stands_at(new, "r-1", "0.125", 0)
            run.close()
            assert old.wait() == 0
            assert new.end() == 0
        finally:
            new.kill()


# ---- used up while a stream is under way ----

def test_another_run_of_the_account_uses_the_money_up(place, origin, litellm):
    limits = {"team": {"spend": "1"}, "others": {"spend": "1"}}
    with serving(place, origin, {"every": "0"}, limits={}, account_limits=limits) as keeper:
        poor, rich = load.Run(keeper.path, "poor", "team"), load.Run(keeper.path, "rich", "team")
        stranger = load.Run(keeper.path, "stranger", "others")
        streams = {run.run_id: (run, *begin_stream(run, "endless")) for run in (poor, stranger)}
        assert ask(rich, "plain 0.5").status == 200
        assert ask(poor, "plain 0").status == 200  # control: half of it is left
        assert ask(rich, "plain 0.5").status == 200
        run, number, reply = streams["poor"]
        run.rest(number, reply)
        assert not reply.is_complete
        assert reply.body.startswith(shared.EVENT)
        event = reply.body[len(shared.EVENT):]
        assert event.startswith(b"event: error\ndata: ") and event.endswith(b"\n\n")
        error = json.loads(event[len(b"event: error\ndata: "):])["error"]
        assert error["code"] == "budget_exceeded" and error["runId"] == "poor"
        outcome = checks.wait_until(lambda: [record for record in keeper.records("outcome")
                                             if record["ended"] == "budget_exceeded"])
        assert [(record["runId"], record["account"]) for record in outcome] == [("poor", "team")]
        # What it may have cost is not known, and stays reserved; its place is free.
        load.stands_at(keeper, "poor", 1, RESERVE, "account")
        assert keeper.show("poor")["account.concurrent"] == 0
        for run in (poor, rich):
            assert ask(run, "plain 0").code() == "budget_exceeded"
        # Control: whoever has an account of its own goes on.
        assert ask(stranger, "plain 0").status == 200
        run, number, _ = streams["stranger"]
        run.abort(number)
        for run in (poor, rich, stranger):
            run.close()
