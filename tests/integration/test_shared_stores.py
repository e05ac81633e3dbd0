# SPDX-License-Identifier: MIT
"""Two keepers that share a Redis or a PostgreSQL: one truth, also when it goes away for a while."""
import contextlib
import decimal
import functools
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import agent
import checks
import harness
import link
import load
import origin as upstream
import postgres
import pytest
import shared
import siege

pytestmark = pytest.mark.patient

RESERVE = decimal.Decimal("0.001")
ALIVE_S = 15  # STORE_ALIVE_MS


class Redis:
    """A real one of Debian's package, on a unix socket; what it has answered is written."""

    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="warder-redis-", dir="/tmp"))
        self.url = f"redis+unix://{self.top}/socket"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "redis-server", "--port", "0", "--unixsocket",
             str(self.top / "socket"), "--dir", str(self.top), "--save", "", "--appendonly", "yes",
             "--appendfsync", "always"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        checks.wait_until(self._answers)
        return self

    def _answers(self):
        done = subprocess.run(["redis-cli", "-s", str(self.top / "socket"), "ping"], text=True,
                              capture_output=True, check=False)
        return done.stdout == "PONG\n"

    def clear(self):
        subprocess.run(["redis-cli", "-s", str(self.top / "socket"), "flushall"], check=True,
                       capture_output=True)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.top)


class PostgreSQL:
    """The same of a PostgreSQL."""

    def __init__(self):
        self._server = postgres.Server()
        self.url = self._server.url()

    def start(self):
        self._server.start()
        return self

    def clear(self):
        for schema in self._server.psql("select nspname from pg_namespace where nspname like 'warder%'"):
            self._server.psql(f"drop schema {schema} cascade")
        for table in self._server.psql("select tablename from pg_tables where schemaname = 'public'"):
            self._server.psql(f"drop table {table} cascade")

    def freeze(self):
        self._server.signal_all(signal.SIGSTOP)

    def thaw(self):
        self._server.signal_all(signal.SIGCONT)

    def kill(self):
        self._server.end(signal.SIGKILL)

    def remove(self):
        self._server.remove()


@pytest.fixture(scope="module", params=[Redis, PostgreSQL])
def running(request):
    made = request.param().start()
    yield made
    made.remove()


@pytest.fixture
def server(running):
    running.clear()
    return running


@contextlib.contextmanager
def two_keepers(place, origin, server, env=None, **settings):
    """Both ready, with one store."""
    settings = shared.llm(origin, spend_reserve=str(RESERVE), **settings)
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(shared.keeper(place, shared.merge(
            settings, {"keeper": {"store": server.url}}), env=env)) for _ in range(2)]
        for keeper in made:
            checks.wait_until(lambda keeper=keeper: keeper.get("/readyz")[0] == 200)
        yield made
        for keeper in made:
            if keeper.is_alive():
                keeper.verify()


@pytest.fixture
def bank(origin):
    made = load.Bank(str(RESERVE))
    origin.script = made.script
    yield made
    made.release()


def ask_all(runs, count):
    """So many requests of each run at once; every reply's status and code."""
    numbers = [(run, [run.open() for _ in range(count)]) for run in runs]
    answers = []
    for run, opened in numbers:
        replies = {}
        while len(replies) < len(opened) or not all(r.is_complete for r in replies.values()):
            run.receive_into(replies)
        answers += [(r.status, r.code() if r.status != 200 else None) for r in replies.values()]
    return answers


# ---- one truth ----


def test_bytes_however_many_are_under_way(root_place, origin, server):
    """Nobody knows how long the replies are; those of both keepers end where the limit is."""
    limit = 1 << 20
    origin.script = load.together(20, b"x" * 300000)
    with two_keepers(root_place, origin, server, account_limits={"team": {"bytes": str(limit)}}) as keepers:
        runs = [load.Run(keepers[i % 2].path, f"r-{i}", "team") for i in range(20)]
        replies = load.ask_at_once(runs)
        moved = sum(13 + len(reply.body) for reply in replies)
        assert 0.9 * limit < moved <= limit
        assert [reply.status for reply in replies] == [200] * 20
        checks.wait_until(lambda: moved <= keepers[0].show("r-0")["account.bytes"] <= limit)
        for run in runs:
            run.close()


@pytest.mark.parametrize("what", ["places", "money"])
def test_a_thousand_for_the_last_ten(root_place, origin, server, bank, what):
    """Exactly ten reach the origin, whichever keeper they ask."""
    limits = {"concurrent": 10} if what == "places" else {"spend": str(10 * RESERVE)}
    code = "too_many_at_once" if what == "places" else "budget_exceeded"
    sample = ("warder_limited_total", "limit", what, "scope", "account")
    bank.hold()
    with two_keepers(root_place, origin, server, account_limits={"team": limits}) as keepers:
        runs = [load.Run(keepers[i % 2].path, f"r-{i}", "team") for i in range(20)]
        answers = []
        thread = threading.Thread(target=lambda: answers.extend(ask_all(runs, 50)))
        thread.start()
        checks.wait_until(lambda: sum(k.metrics()[sample] for k in keepers) == 990, 120)
        assert bank.count() == 10
        bank.release()
        thread.join(60)
        assert sorted(answers, key=str) == sorted([(200, None)] * 10 + [(429, code)] * 990, key=str)
        assert bank.count() == 10
        # Both have had some of it, or the race was none.
        assert all(k.metrics()[sample] > 99 for k in keepers)
        shown = checks.wait_until(lambda: (s := keepers[1].show("r-1")) and
                                  s["account.concurrent"] == 0 and s)
        if what == "money":
            assert load.amounts(shown, "account") == (10 * RESERVE, 0)
        for run in runs:
            run.close()


def test_without_one_store_there_are_two_truths(root_place, origin, bank):
    """The control of the test above."""
    bank.hold()
    settings = shared.llm(origin, account_limits={"team": {"concurrent": 10}})
    with shared.keeper(root_place, settings) as one, shared.keeper(root_place, settings) as other:
        runs = [load.Run(keeper.path, f"r-{i}", "team") for i, keeper in enumerate((one, other))]
        for run in runs:
            for _ in range(20):
                run.open()
        checks.wait_until(lambda: bank.count() == 20)
        bank.release()
        for run in runs:
            run.close()


def test_one_link_for_a_run(root_place, origin, server, bank):
    with two_keepers(root_place, origin, server) as (one, other):
        run = load.Run(one.path, "r-1")
        with pytest.raises(load.Refused, match="has a link already"):
            load.Run(other.path, "r-1")
        refused, = [r for r in other.records("decision") if not r["allowed"]]
        assert (refused["runId"], refused["method"], refused["reason"]) == ("r-1", "LINK", "run_has_link")
        assert not one.records("decision")
        run.close()
        again = checks.wait_until(lambda: try_to_begin(other, "r-1"))
        assert again.ask().status == 200
        assert bank.count() == 1
        again.close()


def try_to_begin(keeper, run_id):
    try:
        return load.Run(keeper.path, run_id)
    except load.Refused as error:
        assert "has a link already" in str(error)
        return None


def test_revoked_at_the_other(root_place, origin, server):
    origin.script = shared.answer_or_stream
    with two_keepers(root_place, origin, server) as (one, other):
        run, bystander = load.Run(one.path, "r-1"), load.Run(one.path, "r-2")
        number, reply = run.stream()
        other_number, other_reply = bystander.stream()
        assert other.revoke("r-1").returncode == 0
        run.rest(number, reply)
        assert not reply.is_complete and b'"code":"run_revoked"' in reply.body
        assert run.ask().code() == "run_revoked"
        for keeper in (one, other):
            with pytest.raises(load.Refused, match="revoked"):
                load.Run(keeper.path, "r-1")
        # Control: nobody else is.
        origin.connections[1].send(upstream.LAST_CHUNK)
        assert bystander.rest(other_number, other_reply).is_complete
        run.close()
        bystander.close()


def is_answered(path):
    try:
        agent.SocketWire(str(path)).close()
    except OSError:
        return False
    return True


def test_a_run_of_tokens_is_revoked_at_the_other(root_place, origin, server, tmp_path):
    """It has no link that the store could know it by."""
    key, path = tmp_path / "key", tmp_path / "gate.sock"
    key.write_text("0123456789abcdef0123456789abcdef")
    origin.script = shared.answer_or_stream
    keys = {"keeper": {"token_keys": {"k": f"file:{key}"}}}
    with two_keepers(root_place, origin, server, **keys) as (one, other), contextlib.ExitStack() as stack:
        gate = subprocess.Popen([harness.BUILD / "src" / "warder", "gate", "--listen", f"unix:{path}", "--keeper",
                                 f"unix:{one.path}"])
        stack.callback(gate.wait)
        stack.callback(gate.terminate)
        checks.wait_until(lambda: is_answered(path))
        wires = []
        for run_id in ("t-1", "t-2"):
            wire = agent.SocketWire(str(path))
            wire.send(agent.post({"model": "m", "stream": True},
                                 f"X-Run-Token: {load.token(run_id, key.read_text())}"))
            assert wire.head().status == 200
            wire.until(shared.EVENT + b"\r\n")
            wires.append(wire)
        assert other.revoke("t-1").returncode == 0
        shared.assert_cut(wires[0], "run_revoked")
        origin.connections[1].send(upstream.LAST_CHUNK)  # control: nobody else is
        wires[1].until(upstream.LAST_CHUNK)


# ---- one run at several gates ----

def open_gate(keeper, number, run_id, attempt=0, stream=False):
    """A gate for any runs, and what its first request has brought: a stream's begin, or a reply."""
    visitor = siege.Visitor(keeper)
    gate = visitor.open_gate()
    items = [("x-run-token", siege.token(run_id, attempt))]
    if not stream:
        assert gate.ask(number, items=items).status == 200
        return visitor
    gate.open(number, b'{"model":"m","stream":true}', items=items)
    while gate.next(number)[0] != link.DATA:
        pass
    return visitor


def leave_another_gate(keeper, _):
    open_gate(keeper, 1, "t-1").close()


def leave_a_link(keeper, _):
    load.Run(keeper.path, "t-1").close()


def leave_nothing(_keeper, _visitor):
    """The control."""


def crowd_out(keeper, visitor):
    """The same gate has as many other runs as it remembers; another attempt of the run is one."""
    gate = visitor.gate
    ask = [("x-run-token", siege.token("t-1", 1))]
    assert gate.ask(2, items=ask).status == 200
    for first in range(10, 10 + 4096, 32):
        for number in range(first, first + 32):
            gate.open(number, b"", path="/nowhere", items=[("x-run-token", siege.token(f"o-{number}"))])
        for number in range(first, first + 32):
            assert gate.reply(number).status == 404


@pytest.mark.parametrize("what", ["revoked", "money"])
@pytest.mark.parametrize("leave", [leave_nothing, leave_another_gate, leave_a_link, crowd_out])
def test_news_of_a_run_that_was_at_several_places(root_place, origin, server, leave, what):
    """Who leaves has no news any more; who stays has."""
    origin.script = functools.partial(shared.answer_or_stream, fields=[("x-litellm-response-cost", "0.6")])
    keys = {"keeper": {"token_keys": {"k1": "env:K1"}}}
    with two_keepers(root_place, origin, server, env={"K1": siege.KEYS["k1"]},
                     limits={"spend": "2"}, **keys) as (one, other):
        stays = open_gate(one, 1, "t-1", stream=True)
        ended = len(one.records("end"))
        leave(one, stays)
        if leave in (leave_another_gate, leave_a_link):
            checks.wait_until(lambda: len(one.records("end")) > ended)
        if what == "revoked":
            assert other.revoke("t-1").returncode == 0
        else:
            far = open_gate(other, 1, "t-1")
            for number in range(2, 5):
                far.gate.ask(number, items=[("x-run-token", siege.token("t-1"))])
            far.close()
        stays.gate.socket.settimeout(30)
        reply = stays.gate.reply(1)
        code = {"revoked": "run_revoked", "money": "budget_exceeded"}[what]
        assert not reply.is_complete and b'"code":"%s"' % code.encode() in reply.body
        stays.close()


# ---- the time of a run that tokens name ----

KEYS = {"keeper": {"token_keys": {"k1": "env:K1"}}}


def named(run_id):
    return [("x-run-token", siege.token(run_id))]


def test_its_time_goes_on_at_the_other(root_place, origin, server):
    """It ends there before that of a run whose first request came to the same keeper earlier."""
    origin.script = shared.answer_or_stream
    with two_keepers(root_place, origin, server, env={"K1": siege.KEYS["k1"]}, limits={"duration": "4s"},
                     **KEYS) as (one, other), contextlib.closing(siege.Visitor(one)) as here:
        gate = here.open_gate()
        for number in range(1, 10):  # until one was faster than its time
            old, new = f"old-{number}", f"new-{number}"
            assert gate.ask(number, items=named(old)).status == 200
            time.sleep(0.5)  # so much older is it
            gates = {run_id: siege.Visitor(other) for run_id in (new, old)}
            statuses = []
            for run_id, visitor in gates.items():
                visitor.open_gate().open(1, b'{"model":"m","stream":true}', items=named(run_id))
                statuses.append(link.Reader(visitor.gate.next(1)[1]).number(4))
            replies = [visitor.gate.reply(1) for visitor in gates.values()]
            for visitor in gates.values():
                visitor.close()
            if statuses == [200, 200]:
                break
        assert not any(r.is_complete for r in replies)
        assert all(b'"code":"run_time_over"' in r.body for r in replies)
        ended = [r["runId"] for r in other.outcomes(2) if r["runId"] in (old, new)]
        assert ended == [old, new]
        assert {r["ended"] for r in other.records("outcome")} == {"run_time_over"}


def ask_of_many(gate, first, count=20):
    """Requests of runs that nobody has seen, two of each, all at once; none is answered yet."""
    for number in range(first, first + count):
        gate.open(number, items=named(f"t-{number // 2}"))


def test_whose_time_cannot_be_known_is_refused_until_it_can(root_place, origin, server):
    with two_keepers(root_place, origin, server, env={"K1": siege.KEYS["k1"]}, limits={"duration": "1h"},
                     **KEYS) as (one, _), contextlib.closing(siege.Visitor(one)) as visitor:
        gate = visitor.open_gate()
        assert gate.ask(1, items=named("known")).status == 200
        server.freeze()
        try:
            ask_of_many(gate, 100)
            assert [answer(gate) for _ in range(20)] == [(503, "1")] * 20
            refused = one.records("decision", allowed=False)
            assert {r["reason"] for r in refused} == {"store_unreachable"} and len(refused) == 20
            assert len(origin.requests) == 1
        finally:
            server.thaw()
        checks.wait_until(lambda: one.get("/readyz")[0] == 200)
        assert gate.ask(200, items=named("t-50")).status == 200
        assert gate.ask(201, items=named("known")).status == 200


def answer(gate):
    """Of the next that is answered: its status, and when to try again."""
    while (message := gate.receive())[0] != link.REPLY:
        pass
    reader = link.Reader(message[2])
    status, _, _ = reader.number(4), reader.number(9), reader.text()
    return status, dict(reader.fields()).get("retry-after")


def give_up(gate):
    """Nobody waits for the answer, and other runs have taken the place of those that it is about."""
    for number in range(100, 120):
        gate.send(link.ABORT, number)
    for first in range(1000, 1000 + 4096 + 64, 32):
        for number in range(first, first + 32):
            gate.open(number, b"", path="/nowhere", items=named(f"o-{number}"))
        for number in range(first, first + 32):
            assert gate.reply(number).status == 404


@pytest.mark.parametrize("how", ["given up", "closed", "reloaded", "ended"])
def test_what_happens_while_the_time_is_asked_for(root_place, origin, server, how):
    """The answer finds nobody, or whoever is left. Sanitizers have nothing to say."""
    config = shared.merge(KEYS, {"keeper": {"store": server.url}, "limits": {"duration": "1h"}})
    with shared.keeper(root_place, shared.llm(origin, **config), env={"K1": siege.KEYS["k1"]}) as keeper:
        checks.wait_until(lambda: keeper.get("/readyz")[0] == 200)
        visitor = siege.Visitor(keeper)
        gate = visitor.open_gate()
        server.freeze()
        try:
            ask_of_many(gate, 100)
            assert gate.ask(1, b"", path="/nowhere", items=named("x")).status == 404  # those before were read
            if how == "given up":
                give_up(gate)
            elif how == "closed":
                visitor.close()
                checks.wait_until(lambda: keeper.metrics()["warder_exchanges"] == 0)
            elif how == "reloaded":
                keeper.reload({"limits": {"duration": None}})
            else:
                assert keeper.end() == 0
                return
        finally:
            server.thaw()
        checks.wait_until(lambda: keeper.get("/readyz")[0] == 200)
        open_gate(keeper, 1, "t-50").close()


def test_a_limit_that_cannot_be_kept_cuts_off(root_place, origin, server):
    """It came with a reload, while nobody could say how old a run is that has something under way."""
    origin.script = shared.answer_or_stream
    config = shared.merge(KEYS, {"keeper": {"store": server.url}})
    with shared.keeper(root_place, shared.llm(origin, **config), env={"K1": siege.KEYS["k1"]}) as keeper:
        checks.wait_until(lambda: keeper.get("/readyz")[0] == 200)
        with contextlib.closing(open_gate(keeper, 1, "t-1", stream=True)) as cut:
            server.freeze()
            try:
                keeper.reload({"limits": {"duration": "1h"}})
                reply = cut.gate.reply(1)
                assert not reply.is_complete and b'"code":"store_unreachable"' in reply.body
            finally:
                server.thaw()
        checks.wait_until(lambda: keeper.get("/readyz")[0] == 200)
        with contextlib.closing(open_gate(keeper, 1, "t-1", stream=True)) as goes_on:
            keeper.reload({"limits": {"duration": "2h"}})  # the control: its time is known
            origin.connections[-1].send(upstream.LAST_CHUNK)
            assert goes_on.gate.reply(1).is_complete


def test_money_is_used_up_at_the_other(root_place, origin, server):
    """INV-BILLING-TRUTH: what was spent there ends the stream here."""
    origin.script = functools.partial(shared.answer_or_stream, fields=[("x-litellm-response-cost", "0.6")])
    with two_keepers(root_place, origin, server, account_limits={"team": {"spend": "1"}}) as keepers:
        runs = [load.Run(keeper.path, f"r-{i}", "team") for i, keeper in enumerate(keepers)]
        number, reply = runs[0].stream()
        assert runs[1].ask().status == 200
        assert runs[0].ask().status == 200  # control: not yet
        runs[0].rest(number, reply)
        assert not reply.is_complete and b'"code":"budget_exceeded"' in reply.body
        assert runs[1].ask().code() == "budget_exceeded"
        for run in runs:
            run.close()


# ---- away and back ----

class Loads(load.Workers):
    """Runs that ask without end; what they were answered, and how long the longest took."""

    def __init__(self, keepers):
        super().__init__()
        self.longest = 0
        self.last = {}  # the last answer of each run
        self.runs = [load.Run(keepers[i % 2].path, f"r-{i}", "team") for i in range(6)]
        for run in self.runs:
            self.repeat(lambda run=run: self._ask(run))

    def _ask(self, run):
        begun = time.monotonic()
        reply = run.ask()
        self.longest = max(self.longest, time.monotonic() - begun)
        code = reply.code() if reply.status != 200 else None
        if reply.status == 503:
            assert reply.value("retry-after") == "1"
            time.sleep(0.01)
        self.last[run.run_id] = reply.status, code
        self.note((reply.status, code))

    def close(self):
        try:
            self.stop()
        finally:
            for run in self.runs:
                run.close()


OK, AWAY = (200, None), (503, "store_unreachable")


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_away_and_back_under_load(root_place, origin, server, bank, how):
    """INV-FAIL-CLOSED: nothing is allowed meanwhile; then it goes on by itself, with all that counts."""
    limits = {"team": {"spend": "1000"}}
    with two_keepers(root_place, origin, server, account_limits=limits) as keepers:
        loads = Loads(keepers)
        try:
            for _ in range(2):
                loads.wait_for(OK)
                server.freeze() if how == "frozen" else server.kill()
                loads.wait_for(AWAY)
                for keeper in keepers:
                    checks.wait_until(lambda keeper=keeper: keeper.get("/readyz")[0] == 503)
                    status, text = keeper.get("/readyz")
                    assert status == 503 and "store" in text
                    assert postgres.PASSWORD not in text and "sesame" not in text
                    with pytest.raises(load.Refused, match="store cannot be reached"):
                        load.Run(keeper.path, "new")
                # Whoever was allowed before has had its reply when its next one is refused.
                checks.wait_until(lambda: set(loads.last.values()) == {AWAY})
                seen, allowed = bank.count(), loads.answers[OK]
                loads.wait_for(AWAY)
                assert bank.count() == seen and loads.answers[OK] == allowed
                server.thaw() if how == "frozen" else server.start()
                loads.wait_for(OK)
                for keeper in keepers:
                    checks.wait_until(lambda keeper=keeper: keeper.get("/readyz")[0] == 200)
                    load.Run(keeper.path, f"new-{keeper.top.name}").close()
        finally:
            loads.close()
        assert set(loads.answers) == {OK, AWAY, "done"}
        assert loads.longest < 60
        check_counted(keepers, bank, loads)
        for keeper in keepers:
            check_told([line["event"] for line in keeper.log() if line["event"].startswith("store_")])
            assert "sesame" not in keeper.stderr()


def check_told(events):
    """Of each there is one line in a second, so that one of the second time may be missing, or both."""
    lost_and_back = ["store_lost", "store_back"]
    assert events[:2] == lost_and_back
    assert events[2:] in ([], lost_and_back[:1], lost_and_back[1:], lost_and_back), events


def check_counted(keepers, bank, loads):
    """What the origin has charged is spent, or is reserved because nobody could be told."""
    assert bank.count() == loads.answers[OK]
    total = sum(bank.charged().values())
    spent, reserved = load.amounts(shown_account(keepers[0]), "account")
    assert total <= spent + reserved <= total + RESERVE * 12, (total, spent, reserved)
    assert spent <= total
    assert spent + RESERVE * 12 >= total


def shown_account(keeper):
    run = load.Run(keeper.path, "auditor", "team")
    try:
        return keeper.show("auditor")
    finally:
        run.close()


def test_streams_go_on_while_the_store_is_away(root_place, origin, server):
    origin.script = shared.answer_or_stream
    with two_keepers(root_place, origin, server, limits={"spend": "1"}) as (one, _):
        run = load.Run(one.path, "r-1")
        number, reply = run.stream()
        server.kill()
        checks.wait_until(lambda: one.get("/readyz")[0] == 503)
        origin.connections[0].send(upstream.chunk(b'data: {"usage":{"cost":0.25}}\n\n') + upstream.LAST_CHUNK)
        assert run.rest(number, reply).is_complete
        server.start()
        checks.wait_until(lambda: one.get("/readyz")[0] == 200)
        # It was settled when it could be.
        checks.wait_until(lambda: load.amounts(one.show("r-1")) == (decimal.Decimal("0.25"), 0))
        run.close()


# ---- a keeper that is killed ----

@pytest.mark.waits
def test_a_keeper_that_is_killed(root_place, origin):
    """After a time it counts as gone: its places are free, and its runs may begin elsewhere."""
    origin.script = shared.answer_or_stream
    servers = [Redis().start(), PostgreSQL().start()]
    limits = {"account_limits": {"team": {"concurrent": 1, "spend": "1"}}}
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.remove)
        pairs = [stack.enter_context(two_keepers(root_place, origin, server, **limits)) for server in servers]
        others = []
        for one, other in pairs:
            run = load.Run(one.path, "r-1", "team")
            run.stream()
            others.append(load.Run(other.path, "r-2", "team"))
            assert others[-1].ask().code() == "too_many_at_once"
            one.kill()
            run.close()
        killed = time.monotonic()
        for (_, other), second in zip(pairs, others):
            if run := try_to_begin(other, "r-1"):
                assert is_over(killed)
                run.close()
            assert second.ask().status == 429 or is_over(killed)
        for (_, other), second in zip(pairs, others):
            run = checks.wait_until(lambda other=other: try_to_begin(other, "r-1"), 2 * ALIVE_S + 30, 0.2)
            assert is_over(killed), "too early: it might have been asleep"
            checks.wait_until(lambda second=second: second.ask().status == 200, 2 * ALIVE_S + 30, 0.2)
            # Nobody knows what its stream has cost: that is kept.
            assert load.amounts(other.show("r-2"), "account")[1] >= RESERVE
            run.close()
            second.close()


def is_over(killed):
    """Whether one that said that it lived just before it was killed may be taken for dead."""
    return time.monotonic() - killed > ALIVE_S - 6


@pytest.mark.parametrize("packet", [b"Xr-1\0", b"Sr-1\0"], ids=["revoke", "show"])
def test_a_keeper_ends_while_its_store_owes_an_answer(root_place, origin, server, packet):
    """Whoever has asked is gone then, and so is the socket that it was asked at."""
    config = shared.llm(origin, keeper={"store": server.url})
    with shared.keeper(root_place, config) as keeper:
        checks.wait_until(lambda: keeper.get("/readyz")[0] == 200, 20)
        visitor = siege.Visitor(keeper)
        server.freeze()
        try:
            visitor.send(packet)
            visitor.send(b"L")
            while visitor.told()[0] != ".":  # the list: what was asked before waits
                pass
            assert keeper.end() == 0  # and sanitizers have nothing to say
        finally:
            server.thaw()
            visitor.close()
