# SPDX-License-Identifier: MIT
"""A thousand runs at once through one keeper: nobody's request is taken for another's, and nothing
of them is left afterwards. What they cost is printed (pytest -s)."""
import contextlib
import json
import os
import socket
import time

import checks
import crowd
import harness
import proc
import pytest

pytestmark = pytest.mark.patient

IS_ASAN = "asan" in harness.BUILD.name
RUNS = 100 if IS_ASAN else 1000  # shadow memory makes each of them ten times as large
TURNS = 5
# Of what a run costs; far above what is measured, far below what would be felt.
GATE_KIB, RUN_KIB, KEEPER_KIB = 1600, 2600, 80
BACK_KIB = 12 * 1024  # of a keeper that is at rest again, above its start


@pytest.fixture
def place():
    crowd.raise_descriptors()
    made = crowd.Place(is_user=True)
    yield made
    made.remove()


@pytest.fixture
def llm():
    made = crowd.Origin()
    yield made
    made.close()


@contextlib.contextmanager
def keeping(place, llm, **settings):
    keeper = crowd.Keeper(place, llm.url, **settings)
    try:
        yield keeper
    finally:
        status = keeper.stop()
    assert status == 0, keeper.log()[-2000:]


@contextlib.contextmanager
def gathered(place, keeper, count):
    made = crowd.Crowd(place, keeper, count)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def listed(place, keeper):
    """The runs as `warder ps` has them."""
    with place.popen("ps", "--json", "--keeper", f"unix:{keeper.control}", stdout=-1, text=True) as ps:
        out = ps.communicate()[0]
    assert ps.returncode == 0
    return out.count('"runId"')


def of_place(place):
    """Processes that were started from the programs of this place, or know its name."""
    return checks.pids_of(place.top.name)


# ---- who they are ----

def assert_identities(llm, runs, turns):
    """Each request, at the origin: its own run's, once; none is mixed up and none is missing."""
    expected = {f"{number}.{turn}": run_id for number, run_id in runs.ids.items() for turn in range(turns)}
    assert len(set(runs.ids.values())) == runs.count
    seen = {mark: (users, metadata) for mark, users, metadata, _, _ in llm.seen}
    assert len(llm.seen) == len(seen) == len(expected)
    for mark, run_id in expected.items():
        users, metadata = seen[mark]
        assert users == [f"{run_id}/0"]
        assert metadata == [{"runId": run_id, "attempt": 0}]
    for _, _, _, body, keys in llm.seen:
        assert "user" not in body and body["metadata"] == {}
        assert keys == [f"Bearer {crowd.KEY}"]


def assert_recorded(place, keeper, runs, turns):
    """The same in the audit log: so many decisions of each run, its beginning and its end."""
    counts = {}
    with open(keeper.audit, encoding="utf-8") as log:
        for line in log:
            record = json.loads(line)
            row = counts.setdefault(record.get("runId"), {})
            row[record["event"]] = row.get(record["event"], 0) + 1
    for run_id in runs.ids.values():
        own = counts.pop(run_id)
        assert (own["start"], own["decision"], own["outcome"], own["end"]) == (1, turns, turns, 1)
    assert not counts
    with place.popen("audit", "verify", str(keeper.audit), stdout=-1) as verify:
        verify.communicate()
    assert verify.returncode == 0


# ---- what they cost, and what is left ----

def assert_cost(memory, keeper_kib):
    def pss(kind):
        return memory[kind][0]

    parts = ", ".join(f"{kind} {pss(kind):.0f}" for kind in ("gate", "supervisor", "init"))
    print(f"KiB a run (PSS): {parts}; keeper {keeper_kib:.1f}")
    if IS_ASAN:
        return
    assert pss("gate") < GATE_KIB
    assert pss("gate") + pss("supervisor") + pss("init") < RUN_KIB
    assert keeper_kib < KEEPER_KIB


def taken(place, keeper):
    """What there is before anybody comes."""
    return {"rss": proc.rss_kib(keeper.pid), "descriptors": proc.descriptors(keeper.pid),
            "mounts": harness.mounts(place)}


def assert_nothing_left(place, keeper, runs, before):
    checks.wait_until(lambda: of_place(place) == [keeper.pid], 30)
    checks.wait_until(lambda: proc.descriptors(keeper.pid) == before["descriptors"])
    assert listed(place, keeper) == 0
    if not IS_ASAN:  # whose allocator keeps what was freed
        checks.wait_until(lambda: proc.rss_kib(keeper.pid) < before["rss"] + BACK_KIB)
    assert harness.mounts(place) == before["mounts"]
    assert not harness.cgroups(*runs.ids.values())
    assert sorted(os.listdir(place.workspace)) == ["crowd_agent"]
    left = {"audit.jsonl", "control.sock", "keeper.db", "keeper.db-shm", "keeper.db-wal"}
    assert set(os.listdir(place.state)) <= left


def test_a_thousand_runs_at_once(place, llm):
    limits = {"limits": {"requests": "1000/s", "spend": "1"}, "spend_reserve": "0.01"}
    with keeping(place, llm, store=f"sqlite:{place.state}/keeper.db", **limits) as keeper:
        before = taken(place, keeper)
        began = time.monotonic()
        with gathered(place, keeper, RUNS) as runs:
            print(f"\n{RUNS} runs, started in {time.monotonic() - began:.1f} s")
            idle_kib = (proc.rss_kib(keeper.pid) - before["rss"]) / RUNS
            assert_cost(runs.memory(), idle_kib)
            assert listed(place, keeper) == RUNS
            # Nothing is answered before everybody has asked: all are under way at the same time.
            llm.gather = RUNS
            assert runs.ask(1) == []
            assert llm.most_waiting == RUNS
            assert runs.ask(TURNS - 1) == []
            print(f"keeper with all of them: {proc.rss_kib(keeper.pid)} KiB, "
                  f"{proc.descriptors(keeper.pid)} descriptors")
            assert runs.end() == {0}
            assert_nothing_left(place, keeper, runs, before)
            print(f"keeper afterwards: {proc.rss_kib(keeper.pid)} KiB, at first {before['rss']}")
        assert_identities(llm, runs, TURNS)
        assert_recorded(place, keeper, runs, TURNS)


def test_killed_at_once_they_leave_nothing(place, llm):
    count = RUNS // 10
    with keeping(place, llm) as keeper:
        before = taken(place, keeper)
        with gathered(place, keeper, count) as runs:
            assert runs.ask(1) == []
            for run in runs.runs:
                run.kill()
            assert {run.wait(crowd.WAIT) for run in runs.runs} == {-9}
            assert_nothing_left(place, keeper, runs, before)


# ---- more than there is room for ----

DESCRIPTORS = 128


def test_without_room_runs_are_refused_and_the_others_go_on(place, llm):
    """A quarter of the descriptors is left for the requests of those that are there."""
    links = []
    with keeping(place, llm, descriptors_max=DESCRIPTORS) as keeper, \
            gathered(place, keeper, 10) as runs:
        answer = "+"
        while answer == "+":
            assert len(links) < DESCRIPTORS
            links.append(crowd.Link(keeper, f"link-{len(links)}"))
            answer = links[-1].answer()
        assert answer.startswith(f"!the keeper has no room for another run: of its {DESCRIPTORS}")
        assert proc.descriptors(keeper.pid) > DESCRIPTORS * 2 // 3
        assert runs.ask(2) == []  # control: there is still room for them
        place_run = place.popen("run", "-q", "--keeper", f"unix:{keeper.control}", "--", "true",
                                stderr=-1, text=True)
        assert "no room for another run" in place_run.communicate()[1] and place_run.returncode == 125
        refused = [json.loads(line) for line in keeper.audit.read_text().splitlines()
                   if '"too_many_runs"' in line]
        assert [r["runId"] for r in refused][:1] == [f"link-{len(links) - 1}"] and len(refused) == 2
        for link in links:
            link.close()
        again = crowd.Link(keeper, "again")  # and when they are gone, there is room again
        checks.wait_until(lambda: proc.descriptors(keeper.pid) < DESCRIPTORS // 2)
        assert again.answer() == "+"
        again.close()
        assert runs.end() == {0}


def test_whoever_knocks_without_room_waits(place, llm):
    """Connections that ask for nothing, as many as there are descriptors: the keeper does not spin,
    its runs go on, and when they are gone it hears again."""
    visitors = []
    with keeping(place, llm, descriptors_max=DESCRIPTORS) as keeper, gathered(place, keeper, 4) as runs:
        assert runs.ask(1) == []
        for _ in range(DESCRIPTORS):
            visitors.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            visitors[-1].connect(str(keeper.control))
        checks.wait_until(lambda: proc.descriptors(keeper.pid) >= DESCRIPTORS)
        busy, began = keeper.busy_s(), time.monotonic()
        assert runs.ask(1) == []  # on the connections that they have
        time.sleep(max(0, began + 1 - time.monotonic()))  # a second of which it needs next to nothing
        assert keeper.busy_s() - busy < 0.5 * (time.monotonic() - began)
        for visitor in visitors:
            visitor.close()
        checks.wait_until(lambda: listed(place, keeper) == 4)
        assert runs.end() == {0}
