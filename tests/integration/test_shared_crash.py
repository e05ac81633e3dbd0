# SPDX-License-Identifier: MIT
"""A keeper that is killed under load, again and again: money, records, and what is left."""
import contextlib
import decimal
import os
import random
import time

import agent
import checks
import load
import origin as upstream
import pytest
import shared

pytestmark = pytest.mark.patient

KILLS = 40 if shared.IS_SANITIZED else 100
LIMIT = decimal.Decimal("0.05")
RESERVE = decimal.Decimal("0.001")
WORKERS = 4  # of each kind


def paths(name):
    """No two requests have the same one, so that each is found in the log."""
    number = 0
    while True:
        number += 1
        yield f"/v1/load/{name}/{number}"


def note_reply(workers, reply):
    """Whether the budget of the run is used up. Nothing but money, or the store, is refused for."""
    workers.note(reply.status)
    assert reply.status in (200, 429), (reply.status, reply.body)
    if reply.status == 429:
        assert reply.code() == "budget_exceeded"
    return reply.status == 429


def ask_through_gate(gate):
    """A worker at an open gate: one run after another, each until its money is used up."""
    def work(workers, number):
        count = 0
        while not workers.is_over():
            run_id = f"gate-{number}-{count}"
            count += 1
            sign = f"X-Run-Token: {load.token(run_id, shared.TOKEN_KEY)}"
            for path in paths(run_id):
                if workers.is_over():
                    return
                try:
                    reply = gate.ask(agent.post({"model": "m"}, sign, target=path))
                # The keeper was killed: its gate ends whatever was under way, and answers nothing itself.
                except (OSError, AssertionError):
                    workers.note("broken")
                    continue
                if note_reply(workers, reply):
                    break
    return work


def open_link(keeper, run_id, workers):
    while not workers.is_over():
        try:
            return load.Run(keeper.path, run_id)
        except (OSError, load.Refused) as error:
            assert not isinstance(error, load.Refused), error
            time.sleep(0.003)
    return None


def ask_through_links(keeper):
    """A worker with a link of its own, which goes on as the same run when the keeper is back."""
    def work(workers, number):
        count, run_id, names = 0, f"link-{number}-0", paths(f"link-{number}-0")
        while not workers.is_over():
            run = open_link(keeper, run_id, workers)
            with contextlib.suppress(load.Ended):
                while run and not workers.is_over():
                    if note_reply(workers, run.ask(next(names))):
                        count += 1
                        run_id, names = f"link-{number}-{count}", paths(f"link-{number}-{count}")
                        break
            if run:
                run.close()
    return work


def is_dear(run_id):
    """Runs with calls that cost more than is reserved for one: the first of every worker."""
    return run_id.endswith("-0")


def cost_of(request):
    run_id = request.target.split("/")[3]
    return str(random.choice([RESERVE, RESERVE, decimal.Decimal("0.0003"), *[2 * RESERVE] * is_dear(run_id)]))


def kill_again_and_again(keeper, bank, dice):
    """Each time at another moment: while it starts, as soon as it serves, or under load."""
    for _ in range(KILLS):
        kind = dice.random()
        before = bank.count()
        if kind < 0.1:
            time.sleep(dice.uniform(0, 0.02))
        else:
            keeper.wait_for("ready")
            if kind > 0.2:
                checks.wait_until(lambda seen=before: bank.count() > seen)
                time.sleep(dice.uniform(0, 0.5 if kind > 0.4 else 0.02))
        keeper.kill()
        keeper.start(wait=False)
    keeper.wait_for("ready")


@pytest.mark.parametrize("durability", ["write", "fsync"])
def test_killed_under_load(root_place, durability):
    """INV-FAIL-CLOSED: money is not spent twice, and nothing happens unseen.

    That a record is written before its request is sent (INV-AUDIT-FIRST) is what a full disk shows, in
    test_shared_admin.py; here a request without a record would be one that was lost by a kill."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}, {KILLS} kills")
    dice = random.Random(seed)
    bank = load.Bank(cost_of)
    bank.pause = lambda: time.sleep(random.choice([0, 0, 0.002, 0.02]))
    origin = upstream.Origin(bank.script)
    settings = shared.llm(origin, limits={"spend": str(LIMIT)}, spend_reserve=str(RESERVE),
                          audit={"durability": durability},
                          keeper={"token_keys": {"k1": "env:TOKEN_KEY"}})
    keeper = shared.Keeper(root_place, settings)
    workers = load.Workers()
    keeper.start()
    try:
        with agent.gate(root_place, "--keeper", keeper.address) as gate:
            gate.wait()
            for _ in range(WORKERS):
                workers.start(ask_through_gate(gate))
                workers.start(ask_through_links(keeper))
            begun = time.monotonic()
            kill_again_and_again(keeper, bank, dice)
            # However slow the machine is: budgets are used up, more of them than there are workers.
            workers.wait_for(429, 2 * WORKERS + 1 - workers.answers[429])
            print(f"{time.monotonic() - begun:.0f} s, {bank.count()} calls, {workers.answers}")
            workers.stop()
            assert gate.end() == 0
        check_money(keeper, bank)
        assert keeper.end() == 0
        check_records(keeper, bank)
        check_nothing_left(root_place, keeper)
    finally:
        keeper.kill()
        origin.close()


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_what_was_spent_is_known_after_a_kill(user_place, store):
    """With a control: where nothing is written down, the budget is there once more."""
    bank = load.Bank(str(RESERVE))
    origin = upstream.Origin(bank.script)
    keeper = shared.Keeper(user_place, shared.llm(origin, limits={"spend": str(LIMIT)},
                                                  spend_reserve=str(RESERVE)))
    if store == "memory":
        keeper.configure({"keeper": {"store": "memory:"}})
    try:
        for _ in range(2):
            keeper.start()
            run = load.Run(keeper.path, "r-1")
            while (reply := run.ask()).status == 200:
                assert bank.count() < 1000
            assert (reply.status, reply.code()) == (429, "budget_exceeded")
            run.close()
            keeper.kill()
        assert bank.charged() == {"r-1": LIMIT * (2 if store == "memory" else 1)}
        keeper.start()  # which removes what was half written
        assert keeper.end() == 0
        keeper.verify()
    finally:
        keeper.kill()
        origin.close()


def check_money(keeper, bank):
    """What is counted is never less than what was charged, and that never more than the limit, but for
    what a call may cost above its reserve."""
    charged = bank.charged()
    full = 0
    assert len(charged) > 2 * WORKERS, "no run has come to its limit"
    for run_id, sum_of_run in charged.items():
        spent, reserved = load.amounts(keeper.show(run_id))
        told = (run_id, sum_of_run, spent, reserved)
        # Above its reserve: one call that was under way at the limit, and each whose end nobody saw.
        above, unseen = (RESERVE, reserved) if is_dear(run_id) else (0, 0)
        assert spent + reserved <= LIMIT + above, told
        assert sum_of_run <= spent + reserved + unseen, told
        assert spent <= sum_of_run, "something was counted that was never charged"
        full += spent + reserved > LIMIT - RESERVE
    assert full > 2, "no budget was used up"
    assert any(is_dear(run_id) and sum_of_run > RESERVE for run_id, sum_of_run in charged.items())


def check_records(keeper, bank):
    """Every request that the origin has seen was allowed on record, once, in the name of its run."""
    keeper.verify()
    print(f"{len(keeper.records('torn'))} records were half written")
    allowed = {}
    for record in keeper.records("decision"):
        if record["allowed"]:
            allowed.setdefault(record["path"], []).append((record["runId"], record["callId"]))
    seen = {}
    for call in bank.calls:
        seen.setdefault(call["path"], []).append((call["run"], call["id"]))
        assert call["user"] == f"{call['run']}/0"
    assert len(seen) > KILLS
    for path, runs in seen.items():
        assert runs == allowed.get(path), (path, runs, allowed.get(path))
        assert path.split("/")[3] == runs[0][0]
    assert len({call["id"] for call in bank.calls}) == len(bank.calls)


def check_nothing_left(place, keeper):
    checks.wait_until_gone(str(place.top))
    assert sorted(os.listdir(keeper.top)) == ["audit.jsonl", "keeper.json", "store.db"]
    assert not os.path.exists(place.workspace / "llm.sock")
