# SPDX-License-Identifier: MIT
"""Limits of runs, accounts and hosts, from an agent to an origin that counts what reaches it."""
import contextlib
import decimal
import json
import struct
import threading
import time

import agent
import checks
import egress
import link
import load
import origin as upstream
import pytest
import shared

POST = agent.post({"model": "m"})
RARE = "1/m"  # so that no test waits for the next one


def money(shown, name):
    return decimal.Decimal(str(shown[name]))


def assert_limited(reply, code, scope="run", most=3600):
    """429, with a reason and a time in whole seconds."""
    assert (reply.status, reply.code()) == (429, code), (reply.head, reply.body)
    assert reply.json()["error"]["hint"] == f"it is a limit of the {scope}"
    assert 1 <= int(reply.value("retry-after")) <= most


def egress_head(size=0):
    """An OPEN for the host of shared.host()."""
    return link.head("/x", framing=link.LENGTH if size else link.NONE, length=size, kind=1,
                     host="api.test:443", is_tls=1)


def refusals(keeper):
    return [r["reason"] for r in keeper.records("decision") if not r["allowed"]]


def answer_cost(cost):
    """A script whose every reply names its cost, or none; streams name it in their last event."""
    def script(connection):
        for request in connection.requests():
            fields = () if cost is None else (("x-litellm-response-cost", cost),)
            if b'"stream"' not in request.body:
                connection.answer(fields=fields)
                continue
            last = b"data: [DONE]\n\n"
            if cost is not None:
                last = b'data: {"usage":{"total_tokens":7,"cost":%s}}\n\n%s' % (cost.encode(), last)
            connection.send(upstream.CHUNKED + upstream.chunk(shared.EVENT) + upstream.chunk(last) +
                            upstream.LAST_CHUNK)

    return script


def leave(connection, wire):
    """A client goes away: that it is not only silent from now on shows when it is spoken to."""
    wire.close()
    connection.send(upstream.chunk(shared.EVENT))
    with contextlib.suppress(upstream.Gone):
        connection.send(upstream.chunk(shared.EVENT))


@contextlib.contextmanager
def limited(place, origin, *, run_options=("--run-id", "r-1"), **settings):
    """A run of a shared keeper with these settings; (keeper, run)."""
    with shared.keeper(place, shared.llm(origin, **settings)) as keeper, \
            keeper.run(*run_options) as run:
        yield keeper, run


# ---- requests ----

def test_requests_of_a_run(place, origin):
    with limited(place, origin, limits={"requests": RARE, "burst": 3}) as (keeper, run):
        assert [run.ask(POST).status for _ in range(3)] == [200] * 3
        for _ in range(2):
            assert_limited(run.ask(POST), "rate_limited", most=60)
        # Control: another run has its own.
        with keeper.run() as other:
            assert [other.ask(POST).status for _ in range(3)] == [200] * 3
        assert len(origin.requests) == 6
        assert refusals(keeper) == ["rate_limited"] * 2
        assert keeper.log("limit_reached")[0]["meter"] == "run:r-1"
        samples = keeper.metrics()
        assert samples["warder_limited_total", "limit", "rate", "scope", "run"] == 2
    keeper.verify()


def test_requests_come_back_when_retry_after_says(user_place, origin):
    with limited(user_place, origin, limits={"requests": "1", "burst": 1}) as (_, run):
        for _ in range(100):  # of two within a second the other one is refused, as soon as there are two
            reply = run.ask(POST)
            if reply.status != 200:
                break
        assert_limited(reply, "rate_limited", most=1)
        time.sleep(int(reply.value("retry-after")))
        assert run.ask(POST).status == 200


def test_a_burst_is_a_seconds_requests_by_default(user_place, origin):
    with limited(user_place, origin, limits={"requests": RARE}) as (_, run):  # at least one
        assert run.ask(POST).status == 200
        assert_limited(run.ask(POST), "rate_limited", most=63)
    with limited(user_place, origin, limits={"requests": "600/m"}) as (_, run):
        begun = time.monotonic()
        found = race(run, 40, 1)
        assert 10 <= found.count(200) <= 11 + 10 * (time.monotonic() - begun)


def test_what_was_refused_before_costs_nothing(user_place, origin):
    with limited(user_place, origin, limits={"requests": RARE, "burst": 1}) as (_, run):
        for _ in range(3):
            assert run.ask(agent.get("/v2/nothing")).status == 404
        assert run.ask(POST).status == 200


# ---- at once ----

def test_places_of_a_run(place, origin):
    origin.script = shared.answer_or_stream
    with limited(place, origin, limits={"concurrent": 2}) as (keeper, run):
        wires = [shared.open_stream(run) for _ in range(2)]
        assert_limited(run.ask(POST), "too_many_at_once")
        assert keeper.show("r-1")["run.concurrent"] == 2
        with keeper.run() as other:
            assert other.ask(POST).status == 200
        # One ends in order, the other because its client is gone.
        origin.connections[0].send(upstream.LAST_CHUNK)
        wires[0].until(upstream.LAST_CHUNK)
        assert run.ask(POST).status == 200
        leave(origin.connections[1], wires[1])
        checks.wait_until(lambda: keeper.show("r-1")["run.concurrent"] == 0)
        assert run.ask(POST).status == 200


# ---- bytes ----

def test_bytes_of_a_run(user_place, origin):
    with limited(user_place, origin, limits={"bytes": "2000"}) as (keeper, run):
        # Their replies have 11 bytes; what is sent is known before.
        large = agent.post({"model": "m", "x": "y" * 900})
        assert run.ask(large).status == 200
        assert run.ask(large).status == 200
        assert_limited(run.ask(large), "bytes_used_up")
        assert 1800 < keeper.show("r-1")["run.bytes"] <= 2000
        assert refusals(keeper) == ["bytes_used_up"]
    assert len(origin.requests) == 2


def test_bytes_of_replies_count(user_place, origin):
    origin.script = lambda connection: [connection.answer(b"x" * 3000) for _ in connection.requests()]
    size = 3000 + len(json.dumps({"model": "m"}))
    with limited(user_place, origin, limits={"bytes": str(2 * size)}) as (keeper, run):
        assert [len(run.ask(POST).body) for _ in range(2)] == [3000] * 2  # to the last byte
        assert_limited(run.ask(POST), "bytes_used_up")
        assert keeper.show("r-1")["run.bytes"] == 2 * size
    assert len(origin.requests) == 2


def test_a_reply_of_more_than_a_limit_is_cut(place, origin):
    origin.script = shared.answer_or_stream
    with limited(place, origin, limits={"bytes": "4000"}) as (keeper, run):
        wire = shared.open_stream(run)
        for _ in range(8):
            origin.connections[0].send(upstream.chunk(b"data: " + b"x" * 492 + b"\n\n"))
        shared.assert_cut(wire, "bytes_used_up")
        assert_limited(run.ask(POST), "bytes_used_up")
    with limited(place, origin, limits={"bytes": "8000"}) as (_, run):  # control
        wire = shared.open_stream(run)
        for _ in range(8):
            origin.connections[1].send(upstream.chunk(b"data: " + b"x" * 492 + b"\n\n"))
        origin.connections[1].send(upstream.LAST_CHUNK)
        assert wire.until(upstream.LAST_CHUNK).count(b"data: ") == 8


@pytest.mark.parametrize("limits", [{"requests": "1000"}, {"bytes": "4000"}], ids=["none", "some"])
def test_no_announcement_uses_up_bytes(user_place, origin, https, limits):
    """A run says that it will send more than there is; the others of its host go on."""
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    config.update(host_limits={"api.test": limits})
    with shared.keeper(user_place, config) as keeper:
        runs = [load.Run(keeper.path, f"r-{n}") for n in range(2)]
        for number, size in enumerate((2**62, 2**62 - 4), 1):
            runs[0].send(link.OPEN, number, egress_head(size))
        for run in runs:
            run.send(link.OPEN, 9, egress_head(10))
            run.send(link.DATA, 9, b"0123456789")
            run.send(link.END, 9, link.fields(()))
            reply = run.rest(9, run.head(9))
            assert (reply.status, reply.is_complete) == (200, True)
            run.close()


# ---- money ----

@pytest.mark.parametrize("body", [{"model": "m"}, {"model": "m", "stream": True}],
                         ids=["plain", "stream"])
def test_money_of_a_run_is_what_the_upstream_says(place, origin, body):
    origin.script = answer_cost("0.04")
    settings = {"limits": {"spend": "0.10"}, "spend_reserve": "0.05"}
    with limited(place, origin, **settings) as (keeper, run):
        assert [run.ask(agent.post(body)).status for _ in range(2)] == [200] * 2
        shown = keeper.show("r-1")
        assert (money(shown, "run.spent"), money(shown, "run.reserved")) == (decimal.Decimal("0.08"), 0)
        assert_limited(run.ask(agent.post(body)), "budget_exceeded")
        assert len(origin.requests) == 2
        assert [r["cost"] for r in keeper.outcomes(2)] == ["0.04"] * 2
        # Control: another run has its own money.
        with keeper.run() as other:
            assert other.ask(POST).status == 200
    keeper.verify()


def test_small_costs_are_added_up(user_place, origin):
    origin.script = answer_cost("1.5e-06")
    settings = {"limits": {"spend": "0.10"}, "spend_reserve": "0.05"}
    with limited(user_place, origin, **settings) as (keeper, run):
        assert [run.ask(POST).status for _ in range(10)] == [200] * 10
        assert money(keeper.show("r-1"), "run.spent") == decimal.Decimal("0.000015")


@pytest.mark.parametrize("cost", [None, "-1", "free", "NaN", "1e99", ""])
def test_what_is_not_known_stays_reserved(user_place, origin, cost):
    origin.script = answer_cost(cost)
    settings = {"limits": {"spend": "0.10"}, "spend_reserve": "0.05"}
    with limited(user_place, origin, **settings) as (keeper, run):
        assert [run.ask(POST).status for _ in range(2)] == [200] * 2
        shown = keeper.show("r-1")
        assert (money(shown, "run.spent"), money(shown, "run.reserved")) == (0, decimal.Decimal("0.1"))
        assert_limited(run.ask(POST), "budget_exceeded")
        assert len(origin.requests) == 2


def test_what_was_never_sent_costs_nothing(user_place):
    sock, port = upstream.refusing_port()
    config = {"llm": {"upstream": f"http://127.0.0.1:{port}", "key": "env:LLM_KEY"},
              "limits": {"spend": "0.05"}, "spend_reserve": "0.05"}
    with sock, shared.keeper(user_place, config) as keeper, keeper.run("--run-id", "r-1") as run:
        for _ in range(3):
            reply = run.ask(POST)
            assert (reply.status, reply.code()) == (502, "upstream_refused")
        shown = keeper.show("r-1")
        assert (money(shown, "run.spent"), money(shown, "run.reserved")) == (0, 0)


def test_a_client_that_leaves_a_stream_has_not_saved_money(place, origin):
    origin.script = shared.answer_or_stream
    settings = {"limits": {"spend": "0.10"}, "spend_reserve": "0.05"}
    with limited(place, origin, **settings) as (keeper, run):
        for _ in range(2):
            wire = shared.open_stream(run)
            leave(origin.connections[-1], wire)
        checks.wait_until(lambda: keeper.show("r-1")["exchanges"] == 0)
        shown = keeper.show("r-1")
        assert (money(shown, "run.spent"), money(shown, "run.reserved")) == (0, decimal.Decimal("0.1"))
        assert_limited(run.ask(POST), "budget_exceeded")


@pytest.mark.parametrize("cost, is_cut", [("0.10", True), ("0.05", False)])
def test_money_that_another_call_spends_ends_streams_under_way(place, origin, cost, is_cut):
    answer = answer_cost(cost)

    def script(connection):
        (shared.answer_or_stream if connection.number < 2 else answer)(connection)

    origin.script = script
    settings = {"limits": {"spend": "0.10"}, "spend_reserve": "0.01"}
    with limited(place, origin, **settings) as (keeper, run):
        wires = [shared.open_stream(run) for _ in range(2)]
        with keeper.run() as other:
            bystander = run if not is_cut else other
            assert run.ask(POST).status == 200
            if is_cut:
                for wire in wires:
                    shared.assert_cut(wire, "budget_exceeded")
                assert_limited(run.ask(POST), "budget_exceeded")
            else:  # the control
                for at, wire in enumerate(wires):
                    origin.connections[at].send(upstream.LAST_CHUNK)
                    wire.until(upstream.LAST_CHUNK)
            assert bystander.ask(POST).status == 200
        ended = [r["ended"] for r in keeper.outcomes(3, "r-1")]
        assert ended.count("budget_exceeded") == (2 if is_cut else 0)
    keeper.verify()


def test_money_of_an_account_ends_the_streams_of_all_its_runs(user_place, origin):
    origin.script = lambda connection: (shared.answer_or_stream if connection.number < 3
                                        else answer_cost("0.10"))(connection)
    config = shared.llm(origin, account_limits={"team-7": {"spend": "0.10"}}, spend_reserve="0.01")
    with shared.keeper(user_place, config) as keeper, \
            keeper.run("--billing-account", "team-7") as one, \
            keeper.run("--billing-account", "team-7") as two, \
            keeper.run("--billing-account", "team-8") as other:
        cut = [shared.open_stream(run) for run in (one, two)]
        bystander = shared.open_stream(other)
        assert one.ask(POST).status == 200
        for wire in cut:
            shared.assert_cut(wire, "budget_exceeded")
        for run in (one, two):
            assert_limited(run.ask(POST), "budget_exceeded", "account")
        origin.connections[2].send(upstream.LAST_CHUNK)  # the control
        bystander.until(upstream.LAST_CHUNK)


def test_hosts_cost_no_money(user_place, origin, https):
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    config.update(limits={"spend": "0.05"}, spend_reserve="0.05")
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        assert run.ask(POST).status == 200
        assert_limited(run.ask(POST), "budget_exceeded")
        assert [egress.ask(run).status for _ in range(2)] == [200] * 2


def test_hosts_and_llms_in_one_turn_when_the_money_is_used_up(user_place, origin, https):
    """What costs no money says nothing of how much there is: the news of it is told, and once."""
    origin.script = answer_cost("1")
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    config.update(limits={"spend": "0.5"}, spend_reserve="0.25")
    with shared.keeper(user_place, config) as keeper:
        run = load.Run(keeper.path, "r-1")
        assert run.ask().status == 200
        assert run.ask().code() == "budget_exceeded"
        body = b'{"model":"m"}'
        llm = [(link.OPEN, link.head(items=[("content-type", "application/json")], length=len(body))),
               (link.DATA, body), (link.END, link.fields(()))]
        host = [(link.OPEN, egress_head()), (link.END, link.fields(()))]
        for first in range(100, 200, 4):  # all four are in one piece, and so in one turn
            run.socket.sendall(b"".join(
                struct.pack("<III", kind, first + at, len(payload)) + payload
                for at, request in enumerate((host, llm, host, llm)) for kind, payload in request))
            replies = {}
            while sum(reply.is_complete for reply in replies.values()) < 4:
                run.receive_into(replies)
            assert [replies[first + at].status for at in range(4)] == [200, 429, 200, 429]
        run.close()
    keeper.verify()


@pytest.mark.parametrize("has_host", [True, False], ids=["host", "control"])
def test_a_host_does_not_keep_streams_from_being_cut(user_place, origin, https, has_host):
    origin.script = lambda connection: (shared.answer_or_stream if connection.number == 0
                                        else answer_cost("0.10"))(connection)
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    config.update(limits={"spend": "0.10"}, spend_reserve="0.01")
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        stream, wire = shared.open_stream(run), run.connect()
        ready, go = threading.Event(), threading.Event()
        original = origin.script

        def script(connection):
            ready.set()
            go.wait(20)
            original(connection)

        origin.script = script
        wire.send(POST)
        assert ready.wait(20)
        if has_host:  # between the claim and the bill of what uses the money up
            assert egress.ask(run).status == 200
        go.set()
        shared.assert_cut(stream, "budget_exceeded")


# ---- time ----

def test_time_of_a_run(user_place, origin):
    before = time.monotonic()
    with limited(user_place, origin, limits={"duration": "2s"}) as (keeper, run):
        wait_for_its_end(run)
        assert time.monotonic() - before > 1.9
        # Control: one that begins now has time; a machine that is slower than that may try again.
        checks.wait_until(lambda: has_time(keeper))
        run.end()
        # It does not begin anew with another link.
        checks.wait_until(lambda: "r-1" not in keeper.run_ids())
        with keeper.run("--run-id", "r-1") as again:
            assert again.ask(POST).code() == "run_time_over"
        assert set(refusals(keeper)) == {"run_time_over"}


def wait_for_its_end(run):
    """Until its time is over; it is served up to then."""
    while (reply := run.ask(POST)).status == 200:
        time.sleep(0.05)
    assert (reply.status, reply.code()) == (429, "run_time_over")


def has_time(keeper):
    run = load.Run(keeper.path, f"r-{time.monotonic_ns()}")
    try:
        return run.ask().status == 200
    finally:
        run.close()


def test_a_stream_ends_with_the_time_of_its_run(place, origin):
    origin.script = shared.answer_or_stream
    config = shared.llm(origin, limits={"duration": "3s"})
    with shared.keeper(place, config) as keeper:
        for number in range(10):  # until one was faster than its time
            before = time.monotonic()  # the run begins between this and what follows
            with keeper.run("--run-id", f"r-{number}") as run:
                wire = run.connect()
                wire.send(agent.post({"model": "m", "stream": True}))
                if wire.head().status != 200:
                    continue
                shared.assert_cut(wire, "run_time_over")
                assert time.monotonic() - before > 2.9
                break
        checks.wait_until(lambda: [r["ended"] for r in keeper.records("outcome")] == ["run_time_over"])


# ---- accounts and hosts ----

@pytest.mark.parametrize("name", ["team-7", "*"])
def test_runs_of_an_account_share_its_limits(user_place, origin, name):
    config = shared.llm(origin, account_limits={name: {"requests": RARE, "burst": 3}})
    with shared.keeper(user_place, config) as keeper, \
            keeper.run("--billing-account", "team-7") as one, \
            keeper.run("--billing-account", "team-7") as two, \
            keeper.run("--billing-account", "team-8") as other, keeper.run() as nobodys:
        assert [run.ask(POST).status for run in (one, two, one)] == [200] * 3
        for run in (one, two):
            assert_limited(run.ask(POST), "rate_limited", "account", 60)
        assert [run.ask(POST).status for run in (other, nobodys)] == [200] * 2
        meters = {line["meter"] for line in keeper.log("limit_reached")}
        assert meters == {"account:team-7"}


@pytest.mark.parametrize("name", ["api.test", "*.test"])
def test_all_runs_share_the_limits_of_a_host(user_place, https, name):
    config = shared.merge(shared.host(https, secret=False), shared.host(https, "other.test", False))
    config["allow"] = ["api.test", "other.test"]
    config["host_limits"] = {name: {"requests": RARE, "burst": 3}}
    with shared.keeper(user_place, config) as keeper, keeper.run() as one, keeper.run() as two:
        assert [egress.ask(run).status for run in (one, two, one)] == [200] * 3
        for run in (one, two):
            assert_limited(egress.ask(run), "rate_limited", "host", 60)
        status = egress.ask(one, host="other.test").status
        assert status == (200 if name == "api.test" else 429)
        assert {line["meter"] for line in keeper.log("limit_reached")} == {f"host:{name}"}


def test_bytes_of_an_account(user_place, origin):
    config = shared.llm(origin, account_limits={"team-7": {"bytes": "2000"}})
    large = agent.post({"model": "m", "x": "y" * 900})
    with shared.keeper(user_place, config) as keeper, \
            keeper.run("--billing-account", "team-7") as one, \
            keeper.run("--billing-account", "team-7") as two, \
            keeper.run("--billing-account", "team-8") as other:
        assert [run.ask(large).status for run in (one, two)] == [200] * 2
        for run in (one, two):
            assert_limited(run.ask(large), "bytes_used_up", "account")
        assert other.ask(large).status == 200  # the control
        assert {line["meter"] for line in keeper.log("limit_reached")} == {"account:team-7"}
    assert len(origin.requests) == 3


def test_bytes_of_a_host(user_place, https):
    https.script = lambda connection: [connection.answer(b"x" * 1500) for _ in connection.requests()]
    config = shared.merge(shared.host(https, secret=False), shared.host(https, "other.test", False))
    config["allow"] = ["api.test", "other.test"]
    config["host_limits"] = {"api.test": {"bytes": "3000"}}
    with shared.keeper(user_place, config) as keeper, keeper.run() as one, keeper.run() as two:
        assert [egress.ask(run).status for run in (one, two)] == [200] * 2
        for run in (one, two):
            assert_limited(egress.ask(run), "bytes_used_up", "host")
        assert egress.ask(one, host="other.test").status == 200  # the control
        assert {line["meter"] for line in keeper.log("limit_reached")} == {"host:api.test"}
    assert len(https.requests) == 3


def test_places_of_a_host(user_place, origin, https):
    origin.script = shared.answer_or_stream
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    config["host_limits"] = {"127.0.0.1": {"concurrent": 2}}
    with shared.keeper(user_place, config) as keeper, keeper.run() as one, keeper.run() as two:
        wires = [shared.open_stream(run) for run in (one, two)]
        for run in (one, two):
            assert_limited(run.ask(POST), "too_many_at_once", "host")
        assert egress.ask(one).status == 200  # the control: another host has room
        origin.connections[0].send(upstream.LAST_CHUNK)
        wires[0].until(upstream.LAST_CHUNK)
        checks.wait_until(lambda: two.ask(POST).status == 200)
        assert {line["meter"] for line in keeper.log("limit_reached")} == {"host:127.0.0.1"}


def test_the_llm_is_a_host_too(user_place, origin):
    config = shared.llm(origin, host_limits={"127.0.0.1": {"requests": RARE, "burst": 1}})
    with shared.keeper(user_place, config) as keeper, keeper.run() as one, keeper.run() as two:
        assert one.ask(POST).status == 200
        assert_limited(two.ask(POST), "rate_limited", "host", 60)


def test_the_narrowest_of_several_limits_counts_and_nothing_is_taken_from_the_others(user_place, origin):
    config = shared.llm(origin, limits={"requests": RARE, "burst": 2},
                        account_limits={"team-7": {"requests": RARE, "burst": 3}})
    with shared.keeper(user_place, config) as keeper, \
            keeper.run("--billing-account", "team-7") as one, \
            keeper.run("--billing-account", "team-7") as two:
        assert [one.ask(POST).status for _ in range(2)] == [200] * 2
        for _ in range(5):  # what the run's limit refuses, the account does not pay
            assert_limited(one.ask(POST), "rate_limited", "run", 60)
        assert two.ask(POST).status == 200
        assert_limited(two.ask(POST), "rate_limited", "account", 60)


# ---- what outlives the keeper ----

@pytest.mark.parametrize("store, is_kept", [(None, True), ("memory:", False)])
def test_what_was_used_is_known_to_the_next_keeper(user_place, origin, store, is_kept):
    origin.script = shared.answer_or_stream
    config = shared.llm(origin, limits={"spend": "0.10"}, spend_reserve="0.05")
    if store:
        config["keeper"] = {"store": store}
    with shared.keeper(user_place, config) as keeper:
        with keeper.run("--run-id", "r-1") as run:
            assert run.ask(POST).status == 200  # its cost is not known
            shared.open_stream(run)
            keeper.kill()
        keeper.start()
        with keeper.run("--run-id", "r-1") as run:
            if is_kept:
                assert_limited(run.ask(POST), "budget_exceeded")
            else:
                assert run.ask(POST).status == 200
    keeper.verify()


# ---- races ----

RACE = """
import asyncio

async def ask(request, each):
    reader, writer = await asyncio.open_connection("127.0.0.1", 8080)
    found = []
    for _ in range(each):
        writer.write(request)
        head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().lower()
        found.append(int(head.split()[1]))
        await reader.readexactly(int(head.split("content-length: ")[1].split()[0]))
    writer.close()
    return found

async def race(request, count, each):
    return sum(await asyncio.gather(*(ask(request, each) for _ in range(count))), [])

result = asyncio.run(race({request!r}, {count}, {each}))
"""


def race(run, count, each):
    """So many connections with so many requests each; the statuses."""
    return run.python(RACE.format(request=POST, count=count, each=each))


LAST_TEN = [
    {"limits": {"requests": RARE, "burst": 10}},
    {"limits": {"spend": "0.50"}, "spend_reserve": "0.05"},
]


@pytest.mark.parametrize("settings", LAST_TEN, ids=["requests", "spend"])
def test_a_thousand_requests_of_a_run_race_for_ten_places(user_place, origin, settings):
    with limited(user_place, origin, **settings) as (keeper, run):
        found = race(run, 200, 5)
        assert (found.count(200), found.count(429)) == (10, 990)
        assert len(origin.requests) == 10
        decided = [r["allowed"] for r in keeper.records("decision")]
        assert (decided.count(True), decided.count(False)) == (10, 990)
    keeper.verify()


ACCOUNT_TEN = [
    {"account_limits": {"team-7": {"requests": RARE, "burst": 10}}},
    {"account_limits": {"team-7": {"spend": "0.50"}}, "spend_reserve": "0.05"},
    {"host_limits": {"127.0.0.1": {"requests": RARE, "burst": 10}}},
]


@pytest.mark.parametrize("settings", ACCOUNT_TEN, ids=["requests", "spend", "host"])
def test_a_thousand_requests_of_several_runs_race_for_ten_places(user_place, origin, settings):
    with shared.keeper(user_place, shared.llm(origin, **settings)) as keeper, \
            contextlib.ExitStack() as stack:
        runs = [stack.enter_context(keeper.run("--billing-account", "team-7")) for _ in range(5)]
        words = json.dumps(["python", RACE.format(request=POST, count=50, each=4)]) + "\n"
        for run in runs:  # all of them at the same time
            run.process.stdin.write(words)
            run.process.stdin.flush()
        found = []
        for run in runs:
            how, result = json.loads(run.process.stdout.readline())
            assert how == "ok", result
            found += result
        assert (found.count(200), found.count(429)) == (10, 990)
        assert len(origin.requests) == 10
    keeper.verify()


def test_no_more_than_ten_are_under_way_at_once(user_place, origin):
    under_way, most = [], []

    def script(connection):
        for _ in connection.requests():
            under_way.append(1)
            most.append(len(under_way))
            time.sleep(0.01)
            under_way.pop()
            connection.answer()

    origin.script = script
    with limited(user_place, origin, limits={"concurrent": 10}) as (keeper, run):
        found = race(run, 100, 10)
        assert found.count(200) + found.count(429) == 1000 and found.count(200) >= 10
        assert max(most) <= 10 and found.count(200) == len(origin.requests)
        assert found.count(429) > 0
        checks.wait_until(lambda: keeper.show("r-1")["run.concurrent"] == 0)


# ---- a keeper of one run ----

@pytest.mark.parametrize("limit, code", [
    (("--limit", "run:requests=1/m,burst=2"), "rate_limited"),
    (("--limit", "run:bytes=50"), "bytes_used_up"),
    (("--limit", "run:spend=0.10", "--spend-reserve", "0.05"), "budget_exceeded"),
    (("--limit", "host=127.0.0.1:requests=1/m,burst=2"), "rate_limited"),
    (("--billing-account", "team-7", "--limit", "account=team-7:requests=1/m,burst=2"),
     "rate_limited"),
])
def test_a_private_keeper_has_limits_too(place, origin, limit, code):
    with agent.run(place, *agent.llm(origin, *limit)) as run:
        assert [run.ask(POST).status for _ in range(2)] == [200] * 2
        scope = limit[-1].split(":")[0].split("=")[0] if "--limit" == limit[-2] else "run"
        assert_limited(run.ask(POST), code, scope)
        assert len(origin.requests) == 2
        assert run.end() == 0
        assert "3 requests, 1 refused" in run.stderr()
    # Control: without the option, and in another run, which does not pay for it.
    with agent.run(place, *agent.llm(origin)) as run:
        assert [run.ask(POST).status for _ in range(3)] == [200] * 3
    with agent.run(place, *agent.llm(origin, *limit)) as run:
        assert run.ask(POST).status == 200


def test_a_private_keepers_places_and_time(user_place, origin):
    origin.script = shared.answer_or_stream
    with agent.run(user_place, *agent.llm(origin, "--limit", "run:concurrent=1,duration=1h")) as run:
        wire = shared.open_stream(run)
        assert_limited(run.ask(POST), "too_many_at_once")
        leave(origin.connections[0], wire)
        checks.wait_until(lambda: run.ask(POST).status == 200)
    before = time.monotonic()
    with agent.run(user_place, *agent.llm(origin, "--limit", "run:concurrent=1,duration=2s")) as run:
        wait_for_its_end(run)
        assert time.monotonic() - before > 1.9


def test_a_private_keepers_money_ends_streams(user_place, origin):
    origin.script = lambda connection: (shared.answer_or_stream if connection.number < 1
                                        else answer_cost("0.10"))(connection)
    limit = ("--limit", "run:spend=0.10", "--spend-reserve", "0.01")
    with agent.run(user_place, *agent.llm(origin, *limit)) as run:
        wire = shared.open_stream(run)
        assert run.ask(POST).status == 200
        shared.assert_cut(wire, "budget_exceeded")
