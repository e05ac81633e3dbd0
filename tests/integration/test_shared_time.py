# SPDX-License-Identifier: MIT
"""The time of a run that tokens name: it begins once, and goes on without the gate and the keeper that saw
it first. What two keepers of one store say about it is in test_shared_stores.py."""
import contextlib

import handover
import link
import origin as upstream
import pytest
import run_token
import shared
import siege

MINUTE = 60


class Gate:
    """An open gate of its own: each request has a token, which names its run."""

    def __init__(self, keeper):
        self._visitor = siege.Visitor(keeper)
        self._gate = self._visitor.open_gate()
        self._last = 0

    def _open(self, run_id, attempt, body):
        self._last += 1
        self._gate.open(self._last, body, items=[("x-run-token", run_token.token(run_id, shared.TOKEN_KEY, attempt))])
        return self._last

    def ask(self, run_id, attempt=0):
        """How a request of that run is answered: its status, and why not."""
        reply = self._gate.reply(self._open(run_id, attempt, b'{"model":"m"}'))
        return reply.status, reply.status != 200 and reply.code()

    def stream(self, run_id, attempt=0):
        """Begins one, which is all that this gate then has."""
        number = self._open(run_id, attempt, b'{"model":"m","stream":true}')
        while (got := self._gate.next(number))[0] != link.DATA:
            assert got[0] == link.REPLY, got
        return self

    def rest(self):
        """What is left of the stream: whether it is whole, and its text."""
        reply = self._gate.reply(self._last)
        return reply.is_complete, reply.body

    def close(self):
        self._visitor.close()


OVER = (429, "run_time_over")
GOOD = (200, False)


@pytest.fixture
def gates():
    """Makes gates, and closes them."""
    with contextlib.ExitStack() as stack:
        yield lambda keeper: stack.enter_context(contextlib.closing(Gate(keeper)))


@pytest.fixture
def clock(root_place):
    return handover.Clock(root_place.top)


@contextlib.contextmanager
def serving(place, origin, clock, **config):
    """A keeper for open gates whose clock is the test's; a stream that is silent lasts."""
    settings = shared.merge({"keeper": {"token_keys": {"k1": "env:TOKEN_KEY"}}, "timeouts": {"idle": "24h"}}, config)
    origin.script = shared.answer_or_stream
    with shared.keeper(place, shared.llm(origin, **settings), env=clock.env) as keeper:
        yield keeper


def begin_again(keeper):
    keeper.kill()
    keeper.start()


def finish(origin, run_id):
    """The origin ends what is left of a run's streams."""
    for connection in origin.connections:
        if run_id.encode() + b"/0" in connection.received:
            connection.send(upstream.LAST_CHUNK)


def assert_cut(gate):
    is_whole, text = gate.rest()
    assert not is_whole and b'"code":"run_time_over"' in text, text


def assert_as_old(keeper, origin, clock, gates):
    """"old" began fifty minutes ago, at another keeper; its hour ends while one that begins now goes on."""
    streams = {run: gates(keeper).stream(run) for run in ("new", "old")}
    clock.put_forward(65 * MINUTE)
    gate = gates(keeper)
    assert gate.ask("old") == gate.ask("old", attempt=1) == OVER
    assert gate.ask("new") == GOOD
    assert_cut(streams["old"])
    finish(origin, "new")
    assert streams["new"].rest() == (True, b"")
    assert [r["ended"] for r in keeper.outcomes(1, "old")][-1] == "run_time_over"


def test_it_goes_on_while_there_is_no_keeper(root_place, origin, clock, gates):
    with serving(root_place, origin, clock, limits={"duration": "1h"}) as keeper:
        assert gates(keeper).ask("old") == GOOD
        clock.put_forward(50 * MINUTE)
        begin_again(keeper)
        assert_as_old(keeper, origin, clock, gates)
        begin_again(keeper)
        assert gates(keeper).ask("old") == OVER
        assert gates(keeper).ask("new") == GOOD
        keeper.verify()


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_it_goes_on_with_a_keeper_in_the_place_of_the_other(root_place, origin, clock, gates, store):
    """Also where nothing is written down: whoever knows the run tells its successor."""
    config = {"keeper": {"store": "memory:"}} if store == "memory" else {}
    with serving(root_place, origin, clock, limits={"duration": "1h"}, **config) as keeper:
        stays = gates(keeper)
        assert stays.ask("old") == GOOD
        clock.put_forward(50 * MINUTE)
        second = handover.take_over(keeper)
        with handover.ending(second):
            assert stays.ask("late") == GOOD  # asked of the successor's store by the one before
            assert_as_old(second, origin, clock, gates)
            clock.put_forward(115 * MINUTE)
            assert gates(second).ask("late") == OVER


def test_a_run_is_as_old_at_every_gate_whatever_it_comes_by(root_place, origin, clock, gates):
    with serving(root_place, origin, clock, limits={"duration": "1h"}) as keeper:
        linked = siege.join(keeper, "linked")
        assert linked.gate.ask(1).status == 200
        assert gates(keeper).ask("token") == GOOD
        clock.put_forward(50 * MINUTE)
        first, second = gates(keeper).stream("token", attempt=1), gates(keeper).stream("linked")
        clock.put_forward(65 * MINUTE)
        again = siege.join(keeper, "token")  # its first link
        assert again.gate.ask(1).code() == linked.gate.ask(2).code() == "run_time_over"
        assert_cut(first)
        assert_cut(second)
        assert gates(keeper).ask("new") == GOOD
        again.close()
        linked.close()


def test_a_limit_that_comes_with_a_reload(root_place, origin, clock, gates):
    """It counts from when the run was first seen, and not from the reload; at the next keeper, too."""
    with serving(root_place, origin, clock) as keeper:
        stream, gate = gates(keeper).stream("old"), gates(keeper)
        assert gate.ask("idle") == GOOD
        clock.put_forward(50 * MINUTE)
        keeper.reload({"limits": {"duration": "1h"}})
        assert gate.ask("idle") == gate.ask("new") == GOOD
        clock.put_forward(65 * MINUTE)
        assert gate.ask("old") == gate.ask("idle") == OVER
        assert gate.ask("new") == GOOD
        assert_cut(stream)
        begin_again(keeper)
        gate = gates(keeper)
        assert gate.ask("old") == gate.ask("idle") == OVER
        assert gate.ask("new") == GOOD


@pytest.mark.parametrize("is_first", [True, False])
def test_a_limit_that_comes_with_a_reload_counts_from_the_first_gate(root_place, origin, clock, gates, is_first):
    """Whichever of two gates, which saw the run at different times, the store hears of first."""
    with serving(root_place, origin, clock) as keeper:
        early, late = [gates(keeper) for _ in range(2)][::1 if is_first else -1]
        early.stream("old")
        clock.put_forward(50 * MINUTE)
        late.stream("old")
        control = gates(keeper).stream("new")
        keeper.reload({"limits": {"duration": "1h"}})
        clock.put_forward(65 * MINUTE)
        gate = gates(keeper)
        assert gate.ask("old") == OVER
        assert gate.ask("new") == GOOD
        assert_cut(early)
        assert_cut(late)
        finish(origin, "new")
        assert control.rest() == (True, b"")


def test_a_link_of_a_run_that_a_gate_has_seen(root_place, origin, clock, gates):
    """Without a limit its link is the first that the store hears of."""
    with serving(root_place, origin, clock) as keeper:
        stream = gates(keeper).stream("old")
        clock.put_forward(50 * MINUTE)
        linked, control = siege.join(keeper, "old"), siege.join(keeper, "new")
        keeper.reload({"limits": {"duration": "1h"}})
        assert linked.gate.ask(1).status == control.gate.ask(1).status == 200
        clock.put_forward(65 * MINUTE)
        assert linked.gate.ask(2).code() == "run_time_over"
        assert control.gate.ask(2).status == 200
        assert_cut(stream)
        linked.close()
        control.close()


def test_without_a_limit_nothing_is_asked(root_place, origin, clock, gates):
    with serving(root_place, origin, clock) as keeper:
        assert gates(keeper).ask("any") == GOOD
        clock.put_forward(400 * 24 * 60 * MINUTE)
        assert gates(keeper).ask("any") == GOOD
        begin_again(keeper)
        keeper.reload({"limits": {"duration": "1h"}})
        assert gates(keeper).ask("any") == GOOD  # no gate that is there has seen it before


def test_a_run_that_was_revoked_before_it_was_seen(root_place, origin, clock, gates):
    with serving(root_place, origin, clock, limits={"duration": "1h"}) as keeper:
        assert keeper.revoke("gone").returncode == 0
        assert gates(keeper).ask("gone") == (403, "run_revoked")
        assert gates(keeper).ask("here") == GOOD


def test_a_request_that_is_held_waits_no_longer_than_its_run_may(root_place, origin, clock, gates):
    """Its body has not come, so nothing was asked yet."""
    with serving(root_place, origin, clock, limits={"duration": "1h"}) as keeper:
        visitor = siege.Visitor(keeper)
        gate = visitor.open_gate()
        gate.open(1, None, items=[("x-run-token", run_token.token("slow", shared.TOKEN_KEY))])
        gate.send(link.DATA, 1, b'{"mod')
        assert gates(keeper).ask("other") == GOOD  # the turn of the first is over
        clock.put_forward(65 * MINUTE)
        assert gates(keeper).ask("other") == OVER
        reply = gate.reply(1)
        assert (reply.status, reply.code()) == OVER
        visitor.close()
