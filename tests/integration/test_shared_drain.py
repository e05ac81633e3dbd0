# SPDX-License-Identifier: MIT
"""A shared keeper that is to end: what goes on meanwhile, what is refused, and when it is over."""
import contextlib
import signal

import agent
import checks
import load
import origin as upstream
import pytest
import shared

BODY = {"model": "m"}
POST = agent.post(BODY)
LONG = {"drain_timeout": "1h"}  # whoever waits for that has not ended by itself
OPEN = {**LONG, "token_keys": {"k1": "env:TOKEN_KEY"}}


def sign(run_id):
    return f"X-Run-Token: {load.token(run_id, shared.TOKEN_KEY)}"


def ask(gate, run_id):
    return gate.ask(agent.post(BODY, sign(run_id)))


def open_stream(gate, run_id):
    wire = gate.connect()
    wire.send(agent.post({**BODY, "stream": True}, sign(run_id)))
    assert wire.head().status == 200
    wire.until(shared.EVENT + b"\r\n")
    return wire


@contextlib.contextmanager
def open_gate(keeper):
    with agent.gate(keeper.place, "--keeper", keeper.address) as made:
        yield made.wait()


def by_signal(keeper):
    keeper.send(signal.SIGTERM)
    return lambda: ""


def by_verb(keeper):
    drain = keeper.drain()
    return lambda: drain.communicate(timeout=20)[1]


BEGIN = pytest.mark.parametrize("begin", [by_signal, by_verb])


def assert_drained(keeper, said):
    """It has ended by itself, because the last run has; who asked for that by a verb knows."""
    assert keeper.wait() == 0 and not said()
    assert [line["event"] for line in keeper.log()][-2:] == ["drained", "stopped"]


# ---- open gates ----

@BEGIN
def test_an_idle_open_gate_holds_nothing_up(user_place, origin, begin):
    with shared.keeper(user_place, shared.llm(origin, keeper=OPEN)) as keeper, open_gate(keeper) as gate:
        assert ask(gate, "r-1").status == 200  # it is known, and idle
        said = begin(keeper)
        assert_drained(keeper, said)
        # And the gate finds the next one by itself.
        keeper.start()
        checks.wait_until(lambda: keeper.ps())
        assert ask(gate, "r-1").status == 200
        assert gate.end() == 0


@BEGIN
def test_what_is_under_way_in_an_open_gate_goes_on(user_place, origin, begin):
    origin.script = shared.answer_or_stream
    with shared.keeper(user_place, shared.llm(origin, keeper=OPEN)) as keeper, open_gate(keeper) as gate:
        wire = open_stream(gate, "known")
        assert ask(gate, "early").status == 200  # the control: runs begin
        said = begin(keeper)
        keeper.wait_for("draining")
        # A run that has begun goes on; no other begins.
        assert ask(gate, "known").status == ask(gate, "early").status == 200
        reply = ask(gate, "late")
        assert (reply.status, reply.code()) == (503, "keeper_draining")
        assert reply.value("retry-after") == "1"
        assert [r["reason"] for r in keeper.records("decision") if not r["allowed"]] == ["keeper_draining"]
        assert keeper.metrics()["warder_refusals_total", "code", "keeper_draining"] == 1
        assert keeper.is_alive() and not keeper.log("drained")
        origin.connections[0].send(upstream.chunk(b"data: last\n\n") + upstream.LAST_CHUNK)
        assert b"data: last" in wire.until(upstream.LAST_CHUNK)
        assert_drained(keeper, said)
        gate.end()
    keeper.verify()


@BEGIN
def test_a_run_beside_an_open_gate_is_waited_for(user_place, origin, begin):
    with shared.keeper(user_place, shared.llm(origin, keeper=OPEN)) as keeper, open_gate(keeper) as gate:
        with keeper.run() as run:
            said = begin(keeper)
            keeper.wait_for("draining")
            assert run.ask(POST).status == 200
            assert keeper.is_alive() and keeper.ps()
        assert_drained(keeper, said)
        gate.end()


# ---- runs ----

@BEGIN
def test_a_keeper_without_runs_ends_at_once(user_place, origin, begin):
    with shared.keeper(user_place, shared.llm(origin, keeper=LONG)) as keeper:
        said = begin(keeper)
        assert_drained(keeper, said)
        assert len(keeper.log("draining")) == 1


def test_one_that_is_told_twice_has_not_drained(user_place, origin):
    with shared.keeper(user_place, shared.llm(origin, keeper=LONG)) as keeper, keeper.run():
        keeper.send(signal.SIGTERM)
        keeper.wait_for("draining")
        keeper.send(signal.SIGTERM)
        assert keeper.wait() == 0
        assert not keeper.log("drained") and keeper.log("stopped")
