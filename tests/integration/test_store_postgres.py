# SPDX-License-Identifier: MIT
"""Several keepers and one PostgreSQL, which goes away and comes back."""
import contextlib
import os
import re
import signal
import subprocess
import time

import checks
import harness
import postgres
import pytest

pytestmark = pytest.mark.patient

GRANTED, IS_REVOKED, HAS_LINK, UNREACHABLE = 0, 5, 6, 7
PRICE = 5  # of a request in store_client's load
# How long an answer may take: where it must come, and where it will not come.
PATIENT_MS, HASTY_MS = 30000, 300
ALIVE_MS = 5000  # who says every third of it that it lives does so in time, also on a busy machine


class Client:
    """A keeper that is nothing but its store (tests/support/store_client.c)."""

    def __init__(self, url, run="run", alive_ms=15000, answer_ms=PATIENT_MS):
        self.process = subprocess.Popen(
            [harness.BUILD / "tests/support/store_client", url, run, str(alive_ms), str(answer_ms)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self):
        text = self.process.stdout.readline().strip()
        return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", text)} or text

    def ask(self, text):
        self.say(text)
        return self.hear()

    def up(self):
        assert self.ask("wait")["reachable"] == 1
        return self

    @contextlib.contextmanager
    def hasty(self):
        """Does not wait long for what it asks in here."""
        self.ask(f"answer {HASTY_MS}")
        yield
        self.ask(f"answer {PATIENT_MS}")

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self):
        """In order; a sanitizer that found something says so now."""
        _, errors = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, errors


@pytest.fixture(scope="module")
def running_server():
    server = postgres.Server().start()
    yield server
    server.remove()


@pytest.fixture
def server(running_server):
    """One for many tests, each of which begins with nothing in it."""
    running_server.psql("DROP SCHEMA IF EXISTS warder CASCADE")
    return running_server


@pytest.fixture
def own_server():
    """One that may be stopped."""
    server = postgres.Server().start()
    yield server
    server.remove()


@pytest.fixture
def start(request):
    """Starts clients, which are ended in order unless the test killed them."""
    clients = []

    def start_one(*arguments):
        clients.append(Client(*arguments))
        return clients[-1]
    yield start_one
    for client in clients:
        if client.process.poll() is None:
            client.end()


def rows(server, sql):
    return [row.split("|") for row in server.psql(sql)]


def meter(server, name="account:shared"):
    return tuple(map(int, rows(server, "SELECT spent, reserved, held_bytes FROM warder.meters "
                                       f"WHERE name = '{name}'")[0]))


# ---- several keepers ----

@pytest.mark.parametrize("places,limit,spend", [(10, 0, 0), (0, 50, 5)])
def test_a_thousand_of_two_processes_race_for_ten(server, start, places, limit, spend):
    url = server.url()
    clients = [start(url, f"run{i}").up() for i in range(2)]
    for client in clients:
        client.say(f"reserve 500 {places} {limit} {spend}")
    answers = [client.hear() for client in clients]
    assert sum(a["done"] for a in answers) == 1000
    assert sum(a["granted"] for a in answers) == 10
    assert sum(a["no_place" if places else "no_money"] for a in answers) == 990
    assert rows(server, "SELECT count(*) FROM warder.holds") == [["10"]]
    # What is given back can be had again, by either.
    for client in clients:
        client.ask("settle 0")
        client.ask("read account:shared")
    assert clients[0].ask(f"reserve 20 {places} {limit} {spend}")["granted"] == 10


def test_without_a_limit_all_thousand_are_granted(server, start):
    url = server.url()
    clients = [start(url, f"run{i}").up() for i in range(2)]
    for client in clients:
        client.say("reserve 500 0 0 5")
    assert sum(client.hear()["granted"] for client in clients) == 1000
    assert meter(server) == (0, 5000, 0)


def test_requests_one_by_one_of_four_processes_never_exceed(server, start):
    """Many small transactions on the same meters, in every order that there is."""
    url = server.url()
    clients = [start(url, f"run{i}").up() for i in range(4)]
    for _ in range(25):
        for client in clients:
            client.say("reserve 3 0 250 5")
        for client in clients:
            assert client.hear()["unreachable"] == 0
    assert meter(server) == (0, 250, 0)
    assert rows(server, "SELECT deadlocks FROM pg_stat_database "
                        "WHERE datname = current_database()") == [["0"]]


def test_a_clock_that_steps_back_costs_no_more_than_the_rate(server, start):
    client = start(server.url()).up()
    once_a_second = "reserve 1 0 0 0 3600000"
    assert client.ask(once_a_second)["granted"] == 1
    # As it would look to a clock that was put back by a year.
    server.psql("UPDATE warder.meters SET level_at = level_at + 31536000::bigint * 1000000")
    assert client.ask(once_a_second)["no_rate"] == 1
    deadline = time.monotonic() + 20
    while client.ask(once_a_second)["granted"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_who_waits_for_a_minute_is_served_once_a_minute(server, start):
    client = start(server.url()).up()
    once_a_minute = "reserve 1 0 0 0 60000"
    assert client.ask(once_a_minute)["granted"] == 1
    # Time passes quicker where the bucket was filled earlier.
    server.psql("UPDATE warder.meters SET level_at = level_at - 30000")
    assert client.ask(once_a_minute)["no_rate"] == 1
    server.psql("UPDATE warder.meters SET level_at = level_at - 30000")
    assert client.ask(once_a_minute)["granted"] == 1


def test_the_schema_is_made_once_by_many_at_once(server, start):
    url = server.url()
    clients = [start(url, f"run{i}") for i in range(8)]
    for client in clients:
        client.up()
    assert rows(server, "SELECT version FROM warder.version") == [["1"]]
    assert rows(server, "SELECT count(*) FROM warder.keepers") == [["8"]]


def wait_for_its_death(is_dead):
    """Of a keeper that is killed now: when it has not said for a while that it lives, and not before."""
    killed = time.monotonic()
    checks.wait_until(is_dead, 60, 0.1)
    assert time.monotonic() - killed > ALIVE_MS / 1000 / 2


@pytest.mark.waits
def test_a_keeper_that_is_killed_leaves_its_money_and_no_places(server, start):
    url = server.url()
    doomed, other = (start(url, f"run{i}", ALIVE_MS).up() for i in range(2))
    assert doomed.ask("reserve 10 10 100 5")["granted"] == 10
    time.sleep(1.2 * ALIVE_MS / 1000)
    assert other.ask("reserve 1 10 100 5")["no_place"] == 1  # it lives, as long as it is there
    doomed.kill()
    wait_for_its_death(lambda: other.ask("reserve 20 10 0 5")["granted"] == 10)
    assert other.ask("read account:shared") == {
        "verdict": 0, "bytes": 0, "spent": 0, "reserved": 100, "concurrent": 10}
    assert other.ask("reserve 1 0 104 5")["no_money"] == 1
    assert other.ask("reserve 1 0 105 5")["granted"] == 1


def test_of_a_keeper_that_ended_long_ago_only_the_money_stays(server, start):
    url = server.url()
    lives = start(url, "lives").up()  # the control: it holds as little
    assert lives.ask("reserve 1 10 100 0")["granted"] == 1
    for run, spend in (("poor", 0), ("rich", 5)):
        doomed = start(url, run).up()
        assert doomed.ask(f"open {run}")["verdict"] == GRANTED
        assert doomed.ask(f"reserve 3 10 100 {spend}")["granted"] == 3
        doomed.kill()
    server.psql("UPDATE warder.holds SET bytes = 7; "
                "UPDATE warder.meters SET held_bytes = 21 WHERE name LIKE 'run:%'; "
                "UPDATE warder.keepers SET seen_at = seen_at - interval '2 hours' WHERE id IN "
                "(SELECT keeper FROM warder.holds WHERE run_id <> 'lives')")
    # One that left without having settled.
    server.psql("INSERT INTO warder.holds VALUES ('h', 'nobody', 'left', '', 1, '{}', 7, 0, now())")
    start(url, "late").up()  # who comes tidies up
    deadline = time.monotonic() + 20
    while rows(server, "SELECT count(*) FROM warder.keepers") != [["3"]]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert rows(server, "SELECT run_id, count(*) FROM warder.holds GROUP BY 1 ORDER BY 1") == [
        ["lives", "1"], ["rich", "3"]]
    # What it had of bytes may have been used.
    assert rows(server, "SELECT name, bytes, held_bytes, reserved FROM warder.meters "
                        "WHERE name LIKE 'run:%' ORDER BY 1") == [
        ["run:lives", "0", "21", "0"], ["run:poor", "21", "0", "0"], ["run:rich", "0", "21", "15"]]
    assert rows(server, "SELECT id FROM warder.runs WHERE keeper IS NULL") == [["poor"]]
    # When that is settled, or reconciled, the rest goes as well.
    server.psql("DELETE FROM warder.holds WHERE run_id = 'rich'")
    start(url, "later").up()
    deadline = time.monotonic() + 20
    while rows(server, "SELECT count(*) FROM warder.runs WHERE keeper IS NOT NULL") != [["0"]]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert rows(server, "SELECT sum(taken) FROM warder.places") == [["2"]]
    assert rows(server, "SELECT count(*) FROM warder.keepers") == [["3"]]


@pytest.mark.waits
def use_run(client, run, spend=5):
    """The client's own run has a link, and uses something."""
    assert client.ask(f"open {run}")["verdict"] == GRANTED
    assert client.ask(f"reserve 1 0 0 {spend}")["granted"] == 1
    return client


def known_runs(server):
    return [[row[0] for row in rows(server, sql)] for sql in (
        "SELECT id FROM warder.runs ORDER BY 1", "SELECT name FROM warder.meters ORDER BY 1")]


def test_runs_that_are_over_are_forgotten_with_their_meters(server, start):
    url = server.url()
    for run in ("old", "old-as-a-run", "old-as-a-meter", "young", "free"):
        client = use_run(start(url, run).up(), run)
        client.ask("settle 1")
        client.ask(f"close {run}")
        client.end()
    held = use_run(start(url, "held").up(), "held")
    held.ask("close held")
    busy = use_run(start(url, "busy").up(), "busy", 0)  # holds a place, and nothing else
    busy.ask("close busy")
    linked = use_run(start(url, "linked").up(), "linked")
    linked.ask("settle 1")
    linked.ask("read run:linked")
    assert linked.ask("revoke old")["verdict"] == GRANTED
    for run in ("named", "named-again"):
        assert linked.ask(f"begin {run}")["verdict"] == GRANTED
    server.psql("DELETE FROM warder.runs WHERE id = 'free'; "  # only ever used by tokens
                "UPDATE warder.runs SET used_day = used_day - 367 WHERE id NOT IN ('young', 'old-as-a-meter'); "
                "UPDATE warder.meters SET used_day = used_day - 367 WHERE name <> 'run:old-as-a-run'; "
                "UPDATE warder.meters SET used_day = used_day + 1 WHERE name = 'run:young'; "
                "INSERT INTO warder.calls (id, run_id, account, attempt, counted, is_reconciled, counted_day) "
                "VALUES ('c1', 'old', '', 1, 5, true, CURRENT_DATE - 31), "
                "('c2', 'old', '', 1, 5, true, CURRENT_DATE - 30)")
    assert linked.ask("begin named-again")["verdict"] == GRANTED
    late = start(url, "late").up()  # who comes tidies up
    deadline = time.monotonic() + 20
    while "old" in known_runs(server)[0]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kept = ["busy", "held", "linked", "old-as-a-meter", "old-as-a-run", "young"]
    assert known_runs(server) == [sorted([*kept, "named-again"]), ["account:shared", *(f"run:{run}" for run in kept)]]
    assert rows(server, "SELECT id FROM warder.calls") == [["c2"]]
    assert rows(server, "SELECT count(*) FROM warder.places WHERE meter IN ('run:old', 'run:free')") == [["0"]]
    assert late.ask("open old")["verdict"] == IS_REVOKED
    assert late.ask("open old-as-a-run")["verdict"] == GRANTED


def test_a_run_that_is_used_again_while_it_is_forgotten_is_a_new_one(server, start):
    """It was there, and somebody who had it locked has deleted it."""
    client = use_run(start(server.url(), "run", 15000, 20000).up(), "run")
    client.ask("settle 1")
    client.ask("close run")
    assert client.ask("read run:run")["spent"] == 1
    for table, name, question in (("runs", "id", "open run"), ("meters", "name", "reserve 1 0 0 5")):
        other = Locker(server)
        other.say(f"SELECT 'locked' FROM warder.{table} WHERE {name} IN ('run', 'run:run') FOR UPDATE;")
        assert other.process.stdout.readline() == "locked\n"
        client.say(question)
        while not waiting(server):
            pass
        other.process.communicate(f"DELETE FROM warder.{table} WHERE {name} IN ('run', 'run:run'); COMMIT;\n")
        answer = client.hear()
        assert answer.get("verdict") == GRANTED or answer["granted"] == 1
    assert rows(server, "SELECT count(*) FROM warder.runs WHERE keeper IS NOT NULL") == [["1"]]
    assert client.ask("read run:run") == {
        "verdict": 0, "bytes": 0, "spent": 0, "reserved": 5, "concurrent": 1}


def test_a_run_has_one_link_among_those_that_live(server, start):
    url = server.url()
    first, second = (start(url, f"run{i}", ALIVE_MS).up() for i in range(2))
    assert first.ask("open r1")["verdict"] == GRANTED
    assert second.ask("open r1")["verdict"] == HAS_LINK
    assert second.ask("open r2")["verdict"] == GRANTED
    time.sleep(1.2 * ALIVE_MS / 1000)
    assert second.ask("open r1")["verdict"] == HAS_LINK
    first.kill()
    wait_for_its_death(lambda: second.ask("open r1")["verdict"] == GRANTED)


def test_a_keeper_that_ends_in_order_leaves_no_link_and_no_hold(server, start):
    url = server.url()
    first, second = (start(url, f"run{i}").up() for i in range(2))
    assert first.ask("open r1")["verdict"] == GRANTED
    assert first.ask("reserve 5 0 0 5")["granted"] == 5
    assert first.ask("open r2")["verdict"] == GRANTED
    first.say("settle 1")
    first.say("close r1")
    first.end()  # r2 is not closed: it goes with its keeper
    checks.wait_until(lambda: rows(server, "SELECT count(*) FROM warder.holds") == [["0"]])
    assert meter(server) == (5, 0, 0)
    assert second.ask("open r1")["verdict"] == GRANTED
    assert second.ask("open r2")["verdict"] == GRANTED
    assert rows(server, "SELECT count(*) FROM warder.keepers") == [["1"]]


def test_a_revocation_is_news_elsewhere(server, start):
    url = server.url()
    first, second = (start(url, f"run{i}").up() for i in range(2))
    assert first.ask("open r1")["verdict"] == GRANTED
    assert first.ask("news 1200") == "none"
    assert second.ask("revoke r1")["verdict"] == GRANTED
    assert first.ask("news 60000") == "revoked r1"
    assert second.ask("open r1")["verdict"] == IS_REVOKED


# ---- a server that goes and comes ----

# A crash; like one, but told; and in order.
STOPS = [signal.SIGKILL, signal.SIGQUIT, signal.SIGINT, signal.SIGKILL]


def until_more_is_spent(server, runs):
    """Every run gets something through again."""
    before = [meter(server, f"run:{run}")[0] for run in runs]
    checks.wait_until(lambda: all(meter(server, f"run:{run}")[0] > spent for run, spent in zip(runs, before)), 60, 0.1)


def test_stopped_and_started_under_load_the_sums_are_right(own_server, start):
    runs = ["run0", "run1"]
    clients = [start(own_server.url(), run).up() for run in runs]
    for client in clients:
        client.ask("reserve 1 0 0 0")  # makes the meters
        client.ask("settle 0")
        client.say("load")
    for sig in STOPS:
        until_more_is_spent(own_server, runs)
        own_server.end(sig)
        time.sleep(0.3)
        own_server.start()
    until_more_is_spent(own_server, runs)
    answers = [client.ask("enough") for client in clients]
    for run, answer in zip(runs, answers):
        assert answer["outages"] >= len(STOPS) and answer["unreachable"] > 0, answer
        assert meter(own_server, f"run:{run}") == (answer["spent"], answer["held"], 0)
        assert rows(own_server, f"SELECT count(*) FROM warder.holds WHERE run_id = '{run}'") == [
            [str(answer["held"] // PRICE)]]
    spent, held = (sum(answer[k] for answer in answers) for k in ("spent", "held"))
    assert meter(own_server) == (spent, held, 0)
    # Places: exactly those of what is held.
    assert rows(own_server,
                "SELECT sum(taken) FROM warder.places WHERE meter = 'account:shared'") == [[str(held // PRICE)]]


def test_what_got_no_answer_is_undone_even_if_it_is_done_later(own_server, start):
    """The server sleeps with requests in its socket, and does them when nobody waits any more."""
    client = start(own_server.url(), "run").up()
    assert client.ask("reserve 1 0 0 5")["granted"] == 1  # makes the meters
    for _ in range(5):
        own_server.signal_all(signal.SIGSTOP)
        with client.hasty():
            assert client.ask("reserve 10 0 0 5")["unreachable"] == 10
            assert client.ask("reserve 10 0 0 5")["unreachable"] == 10  # at once
        own_server.signal_all(signal.SIGCONT)
        client.up()
        assert client.ask("read account:shared")["reserved"] == 5
    client.ask("settle 0")
    client.ask("read account:shared")
    assert meter(own_server) == (0, 0, 0)
    assert rows(own_server, "SELECT count(*) FROM warder.holds") == [["0"]]
    client.end()
    # The control: some of those holds were really made, after they had been given up.
    inserts = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'holds'"
    checks.wait_until(lambda: int(own_server.psql(inserts)[0]) >= 11, pause_s=0.2)


def test_an_old_connection_can_do_nothing_once_there_is_a_new_one(own_server, start):
    """Only its process sleeps: the keeper is back, and has undone, before what it asked is begun."""
    client = start(own_server.url(), "run").up()
    assert client.ask("reserve 1 0 0 5")["granted"] == 1
    old = int(own_server.psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'warder'")[0])
    os.kill(old, signal.SIGSTOP)
    with client.hasty():
        assert client.ask("reserve 10 0 0 5")["unreachable"] == 10
    client.up()
    assert client.ask("read account:shared")["reserved"] == 5
    os.kill(old, signal.SIGCONT)
    checks.wait_until(lambda: not os.path.exists(f"/proc/{old}"))
    assert "this keeper has connected anew" in (own_server.top / "log").read_text()
    assert meter(own_server) == (0, 5, 0)
    assert rows(own_server, "SELECT count(*) FROM warder.holds") == [["1"]]


def test_an_opening_that_got_no_answer_is_closed_again(own_server, start):
    client = start(own_server.url(), "run").up()
    own_server.signal_all(signal.SIGSTOP)
    with client.hasty():
        assert client.ask("open r1")["verdict"] == UNREACHABLE
        assert client.ask("open r1")["verdict"] == UNREACHABLE
    own_server.signal_all(signal.SIGCONT)
    client.up()
    assert client.ask("open r1")["verdict"] == GRANTED
    assert client.ask("open r1")["verdict"] == HAS_LINK


def test_a_question_without_a_link_that_got_no_answer_leaves_the_link_alone(own_server, start):
    client = start(own_server.url(), "run").up()
    assert client.ask("open r1")["verdict"] == GRANTED
    own_server.signal_all(signal.SIGSTOP)
    with client.hasty():
        assert client.ask("begin r1")["verdict"] == UNREACHABLE
    own_server.signal_all(signal.SIGCONT)
    client.up()
    assert client.ask("begin r1")["verdict"] == GRANTED
    assert client.ask("open r1")["verdict"] == HAS_LINK


@pytest.mark.waits
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_server_that_was_away_is_no_keeper_that_has_died(own_server, start, comes_back):
    slow, quick = (start(own_server.url(), run, ALIVE_MS).up() for run in ("slow", "quick"))
    assert slow.ask("open r1")["verdict"] == GRANTED
    assert slow.ask("reserve 10 10 0 5")["granted"] == 10
    slow.process.send_signal(signal.SIGSTOP)
    own_server.end(signal.SIGKILL)
    quick.ask("down")
    time.sleep(1.5 * ALIVE_MS / 1000)
    own_server.start()
    quick.up()
    assert quick.ask("open r1")["verdict"] == HAS_LINK
    assert quick.ask("reserve 1 10 0 5")["no_place"] == 1
    slow.process.send_signal(signal.SIGCONT if comes_back else signal.SIGKILL)
    if comes_back:
        time.sleep(1.2 * ALIVE_MS / 1000)
        assert quick.ask("open r1")["verdict"] == HAS_LINK
        assert quick.ask("reserve 1 10 0 5")["no_place"] == 1
    else:
        checks.wait_until(lambda: quick.ask("open r1")["verdict"] == GRANTED, 60, 0.1)
        assert quick.ask("reserve 1 10 0 5")["granted"] == 1


def test_what_is_settled_meanwhile_waits(own_server, start):
    client = start(own_server.url(), "run").up()
    assert client.ask("open r1")["verdict"] == GRANTED
    assert client.ask("reserve 10 0 0 5")["granted"] == 10
    own_server.end(signal.SIGKILL)
    client.ask("down")
    assert client.ask("reserve 10 0 0 5")["unreachable"] == 10
    client.ask("settle 2")
    client.ask("close r1")
    own_server.start()
    client.up()
    assert client.ask("read account:shared") == {
        "verdict": 0, "bytes": 100, "spent": 20, "reserved": 0, "concurrent": 0}
    assert client.ask("open r1")["verdict"] == GRANTED


class Locker:
    """Somebody else in the database, with a mind of their own."""

    def __init__(self, server):
        self.process = subprocess.Popen([postgres.programs() / "psql", "-XAtq", server.url()], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.say("BEGIN;")

    def say(self, sql):
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()

    def lock(self, name):
        self.say(f"SELECT 'locked' FROM warder.meters WHERE name = '{name}' FOR UPDATE;")
        assert self.process.stdout.readline() == "locked\n"

    def end(self):
        self.process.communicate("ROLLBACK;\n")


def waiting(server):
    return server.psql("SELECT count(*) FROM pg_locks WHERE NOT granted") != ["0"]


def test_who_waits_in_a_circle_tries_again(own_server, start):
    own_server.end(signal.SIGINT)
    own_server.start("deadlock_timeout=1s")
    client = start(own_server.url(), "run", 15000, 20000).up()
    assert client.ask("reserve 1 0 0 5")["granted"] == 1
    other = Locker(own_server)
    other.say("SET LOCAL deadlock_timeout = '60s';")  # not who notices
    other.lock("run:run")
    client.say("reserve 10 0 0 5")  # has the account's meter, and waits for the run's
    checks.wait_until(lambda: waiting(own_server))
    other.lock("account:shared")  # answered once the client has given way
    other.end()
    assert client.hear()["granted"] == 10
    assert meter(own_server) == (0, 55, 0)
    assert own_server.psql("SELECT deadlocks > 0 FROM pg_stat_database WHERE datname = 'postgres'") == ["t"]


def test_a_transaction_that_is_locked_out_is_given_up_and_leaves_nothing(own_server, start):
    client = start(own_server.url(), "run", 15000, 5000).up()  # which the server is told, too
    assert client.ask("reserve 1 0 0 5")["granted"] == 1
    locker = Locker(own_server)
    locker.lock("run:run")
    assert client.ask("reserve 10 0 0 5")["unreachable"] == 10
    locker.end()
    client.up()
    assert client.ask("read account:shared")["reserved"] == 5
    assert client.ask("reserve 10 0 0 5")["granted"] == 10


# ---- what is said, and to whom ----

def test_a_fault_has_no_password_in_it(server, start):
    for url, word in [
            (server.url(password="hunter%32"), "hunter2"),
            (f"postgresql://warder:hunter2@/x?host={server.top}/none", "hunter2"),
            ("postgresql://warder:hunter2@127.0.0.1:1/x", "hunter2"),
            ("postgresql://warder@127.0.0.1:1/x?password=hunter2&sslpassword=hunter3", "hunter")]:
        client = start(url)
        fault = checks.wait_until(lambda client=client: "none was made yet" not in (text := client.ask("fault")) and text)
        assert fault.startswith("PostgreSQL: no connection: "), fault
        assert word not in fault
        assert client.ask("reserve 3 0 0 0")["unreachable"] == 3


@pytest.mark.parametrize("url", [
    "postgresql://warder:hunter/2@host/db", "postgresql://warder:hunter?2@host/db",
    "postgresql://warder:hunter@2@host/db", "postgresql://warder:hunter2/db",
    "host=/tmp password=hunter2", "mysql://warder:hunter2@host/db", "postgresql://h/db?hunter2=x",
    "postgresql://h/db?x=%hunter2"])
def test_a_url_that_cannot_be_read_is_not_repeated(url):
    done = subprocess.run([harness.BUILD / "tests/support/store_client", url, "run"], check=False,
                          capture_output=True, text=True, input="")
    assert done.returncode == 1
    assert done.stderr.startswith("the URL of the PostgreSQL store cannot be read; write ")
    assert "hunter" not in done.stderr and done.stderr.count("\n") == 1


def test_a_newer_schema_is_refused(server, start):
    url = server.url()
    start(url).up()
    server.psql("UPDATE warder.version SET version = 2")
    client = start(url)
    checks.wait_until(lambda: "version 2" in client.ask("fault"))
    assert client.ask("reserve 1 0 0 0")["unreachable"] == 1
    server.psql("UPDATE warder.version SET version = 1")
    client.up()


def test_a_role_without_the_right_to_make_a_schema_uses_one_that_is_there(server, start):
    server.psql("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    url = f"postgresql://guest:guest@/postgres?host={server.top}"
    client = start(url)
    checks.wait_until(lambda: "permission denied" in client.ask("fault"))
    start(server.url()).up()
    server.psql("GRANT USAGE ON SCHEMA warder TO guest; "
                "GRANT ALL ON ALL TABLES IN SCHEMA warder TO guest; "
                "GRANT ALL ON ALL SEQUENCES IN SCHEMA warder TO guest")
    client.up()
    assert client.ask("reserve 1 0 0 5")["granted"] == 1


def test_nothing_is_left_of_the_server():
    """The fixtures end what they started, and take their directories with them."""
    server = postgres.Server().start()
    family, top = server.family(), server.top
    server.remove()
    assert not top.exists()
    assert not [pid for pid in family if os.path.exists(f"/proc/{pid}")]
