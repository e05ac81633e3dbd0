# SPDX-License-Identifier: MIT
"""One keeper takes another's place: under load, with runs that go on, and when it does not work."""
import contextlib
import decimal
import http.client
import json
import os
import signal
import socket
import ssl
import stat
import threading
import time
import types

import agent
import checks
import handover
import load
import origin as upstream
import pytest
import shared
import siege
from handover import certificate_at, ending, successor, take_over, tls_settings

RESERVE = decimal.Decimal("0.001")
MONEY = {"limits": {"spend": "1000"}, "spend_reserve": str(RESERVE)}


@pytest.fixture
def bank(origin):
    made = load.Bank(str(RESERVE))
    origin.script = made.script
    yield made
    made.release()


def start(place, origin, **more):
    return shared.Keeper(place, shared.llm(origin, **{**MONEY, **more})).start()


# ---- runs ----

def test_runs_go_on_where_they_are_and_new_ones_begin_at_the_successor(place, origin, bank):
    old = start(place, origin)
    first = load.Run(old.path, "r-1")
    assert first.ask().status == 200
    new = take_over(old)
    with ending(old, new):
        assert first.ask().status == 200
        second = load.Run(new.path, "r-2")
        assert second.ask().status == 200
        assert new.run_ids() == ["r-2"]
        # One of each at a time, also while it is at the other one.
        with pytest.raises(load.Refused, match="has a link already"):
            load.Run(new.path, "r-1")
        # Both count in one place.
        load.stands_at(new, "r-1", 2 * RESERVE, 0)
        assert old.is_alive()
        first.close()
        assert old.wait() == 0
        load.Run(new.path, "r-1").close()
        second.close()
    assert bank.charged() == {"r-1": 2 * RESERVE, "r-2": RESERVE}
    old.verify()


def test_what_is_under_way_is_settled_afterwards(place, origin, bank):
    """The reply to a request that was sent before comes after."""
    bank.cost = "0.0004"
    bank.hold()
    old = start(place, origin)
    run = load.Run(old.path, "r-1")
    number = run.open()
    checks.wait_until(lambda: bank.count() == 1)
    new = take_over(old)
    with ending(old, new):
        load.stands_at(new, "r-1", 0, RESERVE)
        bank.release()
        assert run.rest(number, run.head(number)).status == 200
        load.stands_at(new, "r-1", decimal.Decimal("0.0004"), 0)
        run.close()
        assert old.wait() == 0


def test_places_of_what_is_under_way_are_taken(user_place, origin):
    origin.script = shared.answer_or_stream
    old = start(user_place, origin, limits={"concurrent": 2})
    run = load.Run(old.path, "r-1")
    number, _ = run.stream()
    run.stream()
    new = take_over(old)
    with ending(old, new):
        checks.wait_until(lambda: new.show("r-1")["run.concurrent"] == 2)
        reply = run.ask()
        assert (reply.status, reply.code()) == (429, "too_many_at_once")
        run.abort(number)
        checks.wait_until(lambda: new.show("r-1")["run.concurrent"] == 1)
        assert run.ask().status == 200
        run.close()


@pytest.mark.parametrize("count", [600])
def test_many_runs(root_place, origin, bank, count):
    old = start(root_place, origin)
    runs = [load.Run(old.path, f"r-{i}") for i in range(count)]
    new = take_over(old)
    with ending(old, new):
        for few in (runs[i:i + 50] for i in range(0, count, 50)):  # as many as an origin takes
            numbers = [run.open() for run in few]
            replies = [run.rest(number, run.head(number)) for run, number in zip(few, numbers)]
            assert {reply.status for reply in replies} == {200}
        with pytest.raises(load.Refused, match="has a link already"):
            load.Run(new.path, f"r-{count - 1}")
        for run in runs:
            run.close()
        assert old.wait() == 0
    assert bank.count() == count


def test_twice(place, origin, bank):
    """Each of three counts by the store that the last one has."""
    first = start(place, origin)
    a = load.Run(first.path, "r-a")
    second = take_over(first)
    b = load.Run(second.path, "r-b")
    third = take_over(second)
    c = load.Run(third.path, "r-c")
    with ending(first, second, third):
        for run in (a, b, c):
            assert run.ask().status == 200
            load.stands_at(third, run.run_id, RESERVE, 0)
            with pytest.raises(load.Refused, match="has a link already"):
                load.Run(third.path, run.run_id)
        third.revoke("r-a")
        assert a.ask().code() == "run_revoked"
        a.close()
        assert first.wait() == 0
        assert b.ask().status == 200
        b.close()
        assert second.wait() == 0
        assert c.ask().status == 200
        c.close()
    assert bank.count() == 3 + 2


def test_twice_with_nobody_in_the_middle(place, origin, bank):
    """The one in the middle has no run of its own, and is still needed."""
    first = start(place, origin)
    run = load.Run(first.path, "r-1")
    second = take_over(first)
    third = take_over(second)
    with ending(first, second, third):
        assert run.ask().status == 200
        load.stands_at(third, "r-1", RESERVE, 0)
        run.close()
        assert first.wait() == 0
        assert second.wait() == 0
    assert bank.count() == 1


def test_news_reach_whoever_has_the_run(place, origin):
    """A run is revoked at the successor, and another's money is used up there."""
    costs = iter(["0", "0.6", "0.6"])

    def script(connection):
        for request in connection.requests():
            if b'"stream"' in request.body:
                connection.send(upstream.CHUNKED + upstream.chunk(shared.EVENT))
            else:
                connection.answer(fields=[("x-litellm-response-cost", next(costs))])

    origin.script = script
    old = start(place, origin, limits={}, account_limits={"team": {"spend": "1"}})
    revoked = load.Run(old.path, "revoked", "other")
    poor = load.Run(old.path, "poor", "team")
    streams = [(run, *run.stream()) for run in (revoked, poor)]
    new = take_over(old)
    with ending(old, new):
        rich = load.Run(new.path, "rich", "team")
        # Control: nothing is cut off because of the hand-over, or of a call.
        assert rich.ask().status == 200
        assert poor.ask().status == 200
        new.revoke("revoked")
        assert rich.ask().status == 200
        for (run, number, reply), code in zip(streams, ("run_revoked", "budget_exceeded")):
            run.rest(number, reply)
            assert not reply.is_complete
            assert f'"code":"{code}"'.encode() in reply.body, reply.body
        for run in (revoked, poor, rich):
            run.close()
        assert old.wait() == 0


# ---- under load ----

def test_under_load(root_place, origin, bank):
    """Not one request is refused or lost, of runs that there are and of those that begin."""
    keepers = [start(root_place, origin, keeper={"token_keys": {"k1": "env:TOKEN_KEY"}})]
    bank.pause = lambda: time.sleep(0.002)
    workers = load.Workers()
    numbers = iter(range(1 << 30))
    answered = []

    def ask(run):
        reply = run.ask()
        assert reply.status == 200, (reply.status, reply.body)
        answered.append(run.run_id)

    def begin():
        run = load.Run(keepers[0].path, f"short-{next(numbers)}")
        ask(run)
        run.close()

    def ask_gate():
        sign = f"X-Run-Token: {load.token('open', shared.TOKEN_KEY)}"
        reply = gate.ask(agent.post({"model": "m"}, sign))
        assert reply.status == 200, (reply.status, reply.body)
        answered.append("open")

    runs = [load.Run(keepers[0].path, f"long-{i}") for i in range(4)]
    with ending(*keepers), agent.gate(root_place, "--keeper", keepers[0].address) as gate:
        gate.wait()
        for run in runs:
            workers.repeat(lambda run=run: ask(run))
        workers.repeat(begin)
        workers.repeat(begin)
        workers.repeat(ask_gate)
        try:
            for _ in range(5):
                workers.wait_for("done", 50)
                keepers.append(take_over(keepers[-1]))
            workers.wait_for("done", 50)
        finally:
            workers.stop()
        last = keepers[-1]
        charged = bank.charged()
        assert sum(charged.values()) == RESERVE * len(answered)
        for run_id in ("open", *(run.run_id for run in runs)):
            assert charged[run_id] == RESERVE * answered.count(run_id)
            load.stands_at(last, run_id, charged[run_id], 0)
        for run in runs:
            run.close()
        assert gate.end() == 0
        for keeper in keepers[:-1]:
            assert keeper.wait() == 0
        assert last.end() == 0
        last.verify()
        for keeper in keepers:
            assert not keeper.log("store_lost"), keeper.stderr()


# ---- on the way in ----

@pytest.fixture
def door(certificates):
    """Where other machines come in: what siege wants to know of it, and the settings of its keeper."""
    holder, port = upstream.refusing_port()
    with holder:
        yield types.SimpleNamespace(port=port, ca=certificates.ca,
                                    settings=tls_settings(certificates, port))


def come_in(door, run_id, raw=None):
    caller = siege.Caller(door, siege.token_message(load.token(run_id, shared.TOKEN_KEY)), raw=raw)
    assert caller.answer() == "ready", run_id
    return caller


def start_with_door(place, origin, door, env=None):
    made = shared.Keeper(place, shared.llm(origin, **MONEY), {"SANDBOX_ENABLED": "1", **(env or {})})
    made.configure(door.settings)
    return made.start()


class Slow:
    """One of each kind who is let in, and has not said yet which run it is."""

    def __init__(self, keeper, door):
        self.raw = socket.create_connection(("127.0.0.1", door.port), timeout=20)
        self.silent = siege.Caller(door, b"")  # it has shaken hands
        self.visitor = siege.Visitor(keeper)
        for _ in range(2):  # a turn later they are all in
            keeper.get("/healthz")

    def close(self):
        for one in (self.raw, self.silent, self.visitor):
            one.close()


def test_who_is_on_the_way_in_is_not_sent_away(root_place, origin, bank, door):
    """Not even when nobody else is left there to wait for."""
    old = start_with_door(root_place, origin, door)
    slow = Slow(old, door)
    new = take_over(old)
    with ending(old, new), contextlib.closing(slow):
        # Who comes now is the successor's.
        with contextlib.closing(come_in(door, "r-late")):
            assert new.run_ids() == ["r-late"]
        first = come_in(door, "r-1", slow.raw)
        slow.silent.socket.sendall(siege.token_message(load.token("r-2", shared.TOKEN_KEY)))
        assert slow.silent.answer() == "ready"
        slow.visitor.register("run-id=r-3").until_ready()
        slow.visitor.gate.begin()
        for gate in (first.gate, slow.silent.gate, slow.visitor.gate):
            assert gate.ask(1).status == 200
        assert {line["runId"] for line in old.log("run_begun")} == {"r-1", "r-2", "r-3"}
        for run_id in ("r-1", "r-2", "r-3"):
            load.stands_at(new, run_id, RESERVE, 0)
        first.close()
        slow.close()
        assert old.wait() == 0


def test_who_never_comes_in_is_not_waited_for(root_place, origin, door):
    """At the door or at the control socket; both would have their time."""
    clock = handover.Clock(root_place.top)
    old = start_with_door(root_place, origin, door, clock.env)
    slow = Slow(old, door)
    new = take_over(old)
    with ending(old, new), contextlib.closing(slow):
        assert not old.log("draining")
        clock.put_forward(11)
        assert old.wait() == 0
        assert old.log("draining")
        with contextlib.closing(come_in(door, "r-1")):
            assert new.run_ids() == ["r-1"]


def test_runs_of_other_machines_under_load(root_place, origin, bank, door):
    """None of those that begin all the time is refused, or cut off."""
    keepers = [start_with_door(root_place, origin, door)]
    workers, numbers = load.Workers(), iter(range(1 << 30))

    def begin():
        caller = come_in(door, f"far-{next(numbers)}")
        assert caller.gate.ask(1).status == 200
        caller.close()

    with ending(*keepers):
        for _ in range(4):
            workers.repeat(begin)
        try:
            for _ in range(5):
                workers.wait_for("done")
                keepers.append(take_over(keepers[-1]))
            workers.wait_for("done")
        finally:
            workers.stop()
        for keeper in keepers[:-1]:
            assert keeper.wait() == 0
        assert keepers[-1].end() == 0
        for keeper in keepers:
            assert not keeper.log("run_refused") and not keeper.log("token_refused"), keeper.stderr()
    assert bank.count() == workers.answers["done"]


# ---- when it does not work ----

@pytest.fixture
def taken_port():
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    yield sock.getsockname()[1]
    sock.close()


def test_a_successor_that_fails_changes_nothing(root_place, origin, bank, certificates, taken_port):
    """Neither for what is under way, nor for what is asked meanwhile."""
    bank.cost = "0.0004"
    bank.hold()
    old = start(root_place, origin)
    with ending(old):
        slow = load.Run(old.path, "slow")
        number = slow.open()
        checks.wait_until(lambda: bank.count() == 1)
        bank.hold_no_more()
        run = load.Run(old.path, "r-1")
        statuses, is_over = [], threading.Event()

        def ask():
            while not is_over.is_set():
                statuses.append(run.ask().status)

        thread = threading.Thread(target=ask)
        thread.start()
        for _ in range(5):
            # That works until the store has been lent: somebody else listens there.
            new = successor(old, tls_settings(certificates, taken_port))
            new.env["SANDBOX_ENABLED"] = "1"
            new.start("--take-over", wait=False)
            assert new.wait() == 125
            assert "in use" in new.stderr(), new.stderr()
        load.Run(old.path, "r-2").close()  # it listens
        is_over.set()
        thread.join()
        bank.release()
        assert slow.rest(number, slow.head(number)).status == 200
        assert set(statuses) == {200}, {status: statuses.count(status) for status in set(statuses)}
        cost = decimal.Decimal("0.0004")
        load.stands_at(old, "slow", cost, 0)
        load.stands_at(old, "r-1", cost * len(statuses), 0)
        with pytest.raises(load.Refused, match="has a link already"):
            load.Run(old.path, "r-1")
        assert old.get("/readyz")[0] == 200
        # Control: one that does not fail takes over.
        with ending(take_over(old)):
            assert run.ask().status == 200
            slow.close()
            run.close()
            assert old.wait() == 0


def test_a_successor_that_is_killed(place, origin, bank):
    """Nobody has the store then: runs that count by it are refused, until they begin anew."""
    old = start(place, origin)
    run = load.Run(old.path, "r-1")
    new = take_over(old)
    with ending(old, new):
        assert run.ask().status == 200
        new.kill()
        old.wait_for("store_lost")
        reply = run.ask()
        assert (reply.status, reply.code()) == (503, "store_unreachable")
        assert reply.value("retry-after") == "1"
        assert bank.count() == 1
        new.start()
        run.close()
        assert old.wait() == 0
        run = load.Run(new.path, "r-1")
        assert run.ask().status == 200
        # Perhaps the first was settled, perhaps it was not any more.
        assert sum(load.amounts(new.show("r-1"))) == 2 * RESERVE
        run.close()


def test_the_one_before_is_killed(place, origin):
    """Its runs are over, their places free; what they had under way may cost something yet."""
    origin.script = shared.answer_or_stream
    old = start(place, origin, limits={"spend": "1", "concurrent": 1})
    run = load.Run(old.path, "r-1")
    new = take_over(old)
    with ending(old, new):
        run.stream()  # begun before, or after
        assert new.show("r-1")["run.concurrent"] == 1
        with pytest.raises(load.Refused, match="has a link already"):
            load.Run(new.path, "r-1")
        old.kill()
        run.close()
        checks.wait_until(lambda: new.show("r-1")["run.concurrent"] == 0)
        load.stands_at(new, "r-1", 0, RESERVE)
        again = load.Run(new.path, "r-1")
        assert again.ask().status == 200
        again.close()


def test_a_successor_that_sleeps(root_place, origin, bank):
    """Whoever waits too long is refused; what was granted too late is given back, and it goes on."""
    limits = {"spend": "1000", "concurrent": 1}
    old = start(root_place, origin, limits=limits)
    run = load.Run(old.path, "r-1")
    new = take_over(old)
    with ending(old, new):
        new.send(signal.SIGSTOP)
        begun = time.monotonic()
        reply = run.ask()
        assert (reply.status, reply.code()) == (503, "store_unreachable")
        assert 1.9 < time.monotonic() - begun < 60
        new.send(signal.SIGCONT)
        old.wait_for("store_back")
        assert bank.count() == 0
        for _ in range(3):
            assert run.ask().status == 200
        load.stands_at(new, "r-1", 3 * RESERVE, 0)
        assert new.show("r-1")["run.concurrent"] == 0
        run.close()


def try_to_end(old, run, number, count):
    """Ends a successor a moment after its start; whether that was before it had taken over."""
    new = successor(old)
    new.start("--take-over", wait=False)
    time.sleep(0.0005 * count)
    new.send(number)
    # One that has the place already is drained, and stays as long as the other needs its store.
    checks.wait_until(lambda: not new.is_alive() or old.log("handed_over"), 60)
    reply = run.ask()
    if old.log("handed_over"):
        run.close()
        new.wait()
        return False
    assert new.wait() == -number
    assert reply.status == 200, (count, old.stderr())
    load.Run(old.path, f"other-{count}").close()
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_successor_that_is_ended_before_it_serves(root_place, origin, bank, number):
    """At any moment of it: the one before goes on."""
    count = 0
    for _ in range(10):  # one that has taken over already leaves nothing to try: begin anew
        old = start(root_place, origin)
        with ending(old):
            run = load.Run(old.path, "r-1")
            while count < 40 and try_to_end(old, run, number, count):
                count += 1
            run.close()
        if count > 5:
            break
    assert count > 5


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_a_successor_that_hangs_before_it_serves(root_place, origin, bank, store):
    """It is waited for, but not for ever; then it is not there any more, and nothing has changed."""
    clock = handover.Clock(root_place.top)
    settings = {"store": "memory:"} if store == "memory" else {}
    old = shared.Keeper(root_place, shared.llm(origin, **MONEY, keeper=settings), clock.env).start()
    with ending(old):
        run = load.Run(old.path, "r-1")
        assert run.ask().status == 200
        with handover.asker(old) as (process, told):
            assert told == "."
            status, text = old.get("/readyz")
            assert status == 503 and list(json.loads(text)["reasons"]) == ["handing_over"], text
            clock.put_forward(5)
            assert old.get("/readyz")[0] == 503
            assert process.poll() is None
            clock.put_forward(16)
            old.get("/healthz")  # so that it sees what time it is
            assert process.wait(timeout=20) == -signal.SIGKILL
        load.Run(old.path, "r-2").close()
        assert run.ask().status == 200
        assert old.get("/readyz")[0] == 200
        assert old.wait_for("handover_failed")["text"] == "the successor did not serve in time"
        assert not old.log("handed_over")
        # Control: one that serves has the place.
        with ending(take_over(old)):
            assert run.ask().status == 200
            run.close()
            assert old.wait() == 0


# ---- other listeners ----

def test_all_listeners_move(root_place, origin, bank, certificates):
    holder, port = upstream.refusing_port()
    pem = {name: ssl.PEM_cert_to_DER_cert((certificates.top / f"{name}.pem").read_text())
           for name in ("keeper", "other")}
    old = shared.Keeper(root_place, shared.llm(origin, **MONEY), {"SANDBOX_ENABLED": "1"})
    old.configure(tls_settings(certificates, port))
    old.start()
    tokens = {"A": load.token("r-a", shared.TOKEN_KEY), "B": load.token("r-b", shared.TOKEN_KEY)}
    where = ("--keeper", f"tls:localhost:{port}", "--keeper-ca", str(certificates.ca), "--keeper-token")
    with holder, ending(old), agent.run(root_place, *where, "env:A", env=tokens) as run:
        assert certificate_at(port) == pem["keeper"]
        assert run.ask(agent.post({"model": "m"})).status == 200
        new = take_over(old, tls_settings(certificates, port, "other"))
        with ending(new):
            assert certificate_at(port) == pem["other"]
            assert new.get("/readyz")[0] == 200
            assert new.metrics()["warder_runs"] == 0
            assert run.ask(agent.post({"model": "m"})).status == 200
            with agent.run(root_place, *where, "env:B", env=tokens) as other:
                assert other.ask(agent.post({"model": "m"})).status == 200
                assert new.run_ids() == ["r-b"]
                assert other.end() == 0
            assert run.end() == 0
            assert old.wait() == 0
            load.stands_at(new, "r-a", 2 * RESERVE, 0)
            # One that does not listen for other machines takes over as well.
            last = take_over(new, {"keeper": {"listen": None, "cert": None, "cert_key": None}})
            with ending(last):
                with pytest.raises(ConnectionRefusedError):
                    certificate_at(port)
                load.Run(last.path, "r-c").close()


def answers(address):
    """Whether somebody listens there, and answers as a keeper's admin endpoint does."""
    try:
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()


def mode_of(keeper):
    return stat.S_IMODE(os.stat(keeper.path).st_mode)


def test_where_the_successor_listens_is_for_it_to_say(root_place, origin):
    """An address within the one before, or around it; and who may come to the control socket."""
    holder, port = upstream.refusing_port()
    keepers = [shared.Keeper(root_place, shared.llm(origin))]
    keepers[0].configure({"keeper": {"admin": f"tcp:0.0.0.0:{port}", "control_mode": "0660"}})
    keepers[0].start()
    with holder, contextlib.ExitStack() as stack:
        stack.enter_context(ending(keepers[0]))
        for address, mode in ((None, 0o660), ("127.0.0.1", 0o600), ("0.0.0.0", 0o666), ("127.0.0.2", 0o600)):
            if address:
                more = {"admin": f"tcp:{address}:{port}", "control_mode": f"{mode:04o}"}
                keepers.append(take_over(keepers[-1], {"keeper": more}))
                stack.enter_context(ending(keepers[-1]))
                assert keepers[-2].wait() == 0
            for other in ("127.0.0.1", "127.0.0.2"):
                assert answers((other, port)) == (address in (None, "0.0.0.0", other)), (address, other)
            assert mode_of(keepers[-1]) == mode
            load.Run(keepers[-1].path, "r-1").close()
    assert not os.path.exists(keepers[-1].path)


def test_a_path_that_is_left_is_removed(root_place, origin):
    first = shared.Keeper(root_place, shared.llm(origin)).start()
    before = first.admin_path
    second = successor(first, {"keeper": {"admin": f"unix:{first.top}/other.sock"}})
    second.admin_path = str(first.top / "other.sock")
    second.start("--take-over")
    with ending(first, second):
        assert first.wait() == 0
        assert not os.path.exists(before)
        assert second.get("/readyz")[0] == 200
        third = take_over(second, {"keeper": {"admin": None}})
        with ending(third):
            assert second.wait() == 0
            assert not os.path.exists(second.admin_path)
            # Control: what is listened on is there, until the last one ends.
            load.Run(third.path, "r-1").close()
        assert not os.path.exists(third.path)


def test_a_successor_that_fails_leaves_nothing_behind(root_place, origin, certificates, taken_port):
    old = shared.Keeper(root_place, shared.llm(origin)).start()
    with ending(old):
        new = successor(old, tls_settings(certificates, taken_port))
        new.configure({"keeper": {"admin": f"unix:{old.top}/other.sock", "control_mode": "0666"}})
        new.env["SANDBOX_ENABLED"] = "1"
        new.start("--take-over", wait=False)
        assert new.wait() == 125
        assert "in use" in new.stderr()
        assert not os.path.exists(old.top / "other.sock")
        assert mode_of(old) == 0o600
        assert old.get("/readyz")[0] == 200
        load.Run(old.path, "r-1").close()


# As a service manager does it: the socket is the descriptor 3, and named.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
line = sys.argv[2:]
at = line.index("-i") + 1
line[at:at] = [f"LISTEN_PID={os.getpid()}", "LISTEN_FDS=1", "LISTEN_FDNAMES=control"]
os.execvp(line[0], line)
"""


def activate(keeper, sock, *options):
    prefix = ("python3", "-I", "-S", "-c", ACTIVATE, str(sock.fileno()))
    return keeper.start(*options, prefix=prefix, pass_fds=(sock.fileno(),))


def test_the_service_managers_socket_stays_the_service_managers(root_place, origin):
    first = shared.Keeper(root_place, shared.llm(origin))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(first.path)
        os.chmod(first.path, 0o640)
        sock.listen()
        second = successor(first, {"keeper": {"control_mode": "0666"}})
        third = successor(first)
        with ending(activate(first, sock)):
            second.start("--take-over")
            first.wait_for("handed_over")
        with ending(second):
            load.Run(second.path, "r-1").close()
            assert mode_of(first) == 0o640
            third.start("--take-over")
            second.wait_for("handed_over")
        with ending(third):
            load.Run(third.path, "r-2").close()
        # Whoever comes now waits for the next one that is started.
        assert os.path.exists(first.path)
        with ending(activate(first, sock, "--take-over")):
            load.Run(first.path, "r-3").close()
        assert os.path.exists(first.path)


def test_an_open_gate_goes_to_the_successor(root_place, origin, bank):
    """It has no end by which the one before could be over."""
    first = start(root_place, origin, keeper={"drain_timeout": "1s", "token_keys": {"k1": "env:TOKEN_KEY"}})
    sign = f"X-Run-Token: {load.token('open', shared.TOKEN_KEY)}"
    with ending(first), agent.gate(root_place, "--keeper", first.address) as gate:
        gate.wait()
        assert gate.ask(agent.post({"model": "m"}, sign)).status == 200
        second = take_over(first)
        with ending(second):
            assert first.wait() == 0
            checks.wait_until(lambda: 'warder_links_total{link="open"} 1' in str(second.get("/metrics")[1]))
            assert gate.ask(agent.post({"model": "m"}, sign)).status == 200
            assert gate.end() == 0
