# SPDX-License-Identifier: MIT
"""Who may start runs at a shared keeper, and what users of another name can ask of it."""
import contextlib
import json
import pwd
import subprocess

import agent
import checks
import handover
import harness
import origin as upstream
import pytest
import shared

POST = agent.post({"model": "m"})
ENVIRON = "import os; result = dict(os.environ)"
NAMED = next(user for user in pwd.getpwall() if user.pw_name in ("games", "daemon", "bin"))
NUMBERED = 23456  # without an entry in any database
ENABLED = {"SANDBOX_ENABLED": "1"}

pytestmark = pytest.mark.skipif(not harness.IS_ROOT, reason="needs root to be several users")


class Stranger(harness.Place):
    """A place of yet another user."""

    def __init__(self, uid, binary):
        self.uid = uid
        super().__init__("user", binary)

    def own(self, path):
        harness.os.chown(path, self.uid, self.uid)
        return path

    def become(self):
        ids = f"--reuid={self.uid}", f"--regid={self.uid}"
        return ["setpriv", *ids, "--clear-groups", "--"]


@pytest.fixture
def named(binary):
    made = Stranger(NAMED.pw_uid, binary)
    yield made
    made.remove()


@pytest.fixture
def numbered(binary):
    made = Stranger(NUMBERED, binary)
    yield made
    made.remove()


def control(origin, mode=None, users=()):
    """Settings with an LLM and users."""
    settings = {"control_mode": mode, "control_users": list(users) or None}
    return shared.llm(origin, keeper=settings)


@pytest.fixture
def keeper(user_place, origin):
    """One that two other users may use, and whoever can become root."""
    origin.script = shared.answer_or_stream
    config = control(origin, "0666", [NAMED.pw_name, str(NUMBERED)])
    with shared.keeper(user_place, config, env=ENABLED) as made:
        yield made


def verbs(keeper, place):
    """Everything that can be asked, as the user of that place."""
    run = place.run(*checks.LEAVE_MARKER, options=("--keeper", keeper.address))
    gate = place.warder("gate", "--listen", f"unix:{place.workspace}/g.sock", "--keeper", keeper.address,
                        timeout=20)
    others = [keeper.warder(*words, place=place)
              for words in (("ps",), ("ps", "r-1"), ("revoke", "r-1"), ("drain",))]
    return [run, gate, *others]


# ---- strangers ----

def test_the_socket_is_its_owners_alone(user_place, named, root_place, origin):
    with shared.keeper(user_place, control(origin)) as keeper, keeper.run("--run-id", "r-1"):
        assert (keeper.top / "control.sock").stat().st_mode & 0o777 == 0o600
        for done in verbs(keeper, named):
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, "connect to the keeper", "Permission denied")
        assert not (named.workspace / checks.MARKER).exists()
        # Control: the owner may, and root.
        assert keeper.run_ids() == keeper.run_ids(root_place) == ["r-1"]
        done = root_place.run("true", options=("--keeper", keeper.address))
        assert done.returncode == 0, done.stderr


def test_who_comes_in_is_known_by_the_kernels_word(user_place, named, root_place, origin):
    """A socket that everybody can connect to makes nobody welcome."""
    with shared.keeper(user_place, control(origin, "0666")) as keeper, keeper.run("--run-id", "r-1"):
        for done in verbs(keeper, named):
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, "this keeper is not for you")
        line = keeper.wait_for("run_refused")
        assert (line["code"], line["uid"]) == ("not_welcome", NAMED.pw_uid)
        assert not (named.workspace / checks.MARKER).exists()
        assert keeper.run_ids() == keeper.run_ids(root_place) == ["r-1"]
        assert keeper.is_alive() and "draining" not in keeper.stderr()


# ---- the flag ----

OPENINGS = {
    "--control-user": lambda *_: {"keeper": {"control_users": [NAMED.pw_name]}},
    "--token-key": lambda *_: {"keeper": {"token_keys": {"k1": "env:TOKEN_KEY"}}},
    "--listen": handover.tls_settings,
}


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("value", [None, "", "0", "yes", "11"])
def test_whatever_lets_others_start_runs_is_off_by_default(root_place, origin, certificates, opening, value):
    holder, port = upstream.refusing_port()
    with holder:
        config = shared.merge(shared.llm(origin), OPENINGS[opening](certificates, port))
        made = shared.Keeper(root_place, config, {"SANDBOX_ENABLED": value})
        made.start(wait=False)
        assert made.process.wait(timeout=20) == 125
        checks.assert_one_line(made.stderr(), opening, "SANDBOX_ENABLED=1")
        assert not (made.top / "control.sock").exists()
        # Control: it is the flag alone.
        made.env["SANDBOX_ENABLED"] = "1"
        made.start()
        assert made.end() == 0


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_flag_turns_them_on(user_place, named, origin, value):
    config = control(origin, "0666", [NAMED.pw_name])
    with shared.keeper(user_place, config, env={"SANDBOX_ENABLED": value}) as keeper:
        done = named.run("true", options=("--keeper", keeper.address))
        assert done.returncode == 0, done.stderr


def test_a_user_who_is_not_there_is_a_mistake(user_place, origin):
    made = shared.Keeper(user_place, control(origin, None, ["nobody-of-this-name"]), ENABLED)
    made.start(wait=False)
    assert made.process.wait(timeout=20) == 125
    checks.assert_one_line(made.stderr(), "there is no user 'nobody-of-this-name'")


# ---- users who may ----

@pytest.mark.parametrize("who", ["named", "numbered"])
def test_another_user_runs_under_a_name_of_the_keepers_choice(keeper, origin, request, who):
    place = request.getfixturevalue(who)
    account = {"named": NAMED.pw_name, "numbered": str(NUMBERED)}[who]
    with keeper.run("--billing-account", "team-7", "--attempt", "9", place=place) as run:
        run_id = run.python(ENVIRON)["RUN_ID"]
        assert run.ask(POST).status == 200
        assert origin.requests[0].values("x-litellm-end-user-id") == [account]
        assert run_id in origin.requests[0].values("x-litellm-spend-logs-metadata")[0]
        shown = keeper.show(run_id)
        assert (shown["account"], shown["attempt"], shown["allowed"]) == (account, 0, 1)
    with keeper.run(place=place) as run:
        assert run.python(ENVIRON)["RUN_ID"] != run_id
    # Control: the owner chooses.
    with keeper.run("--run-id", "r-1", "--billing-account", "team-7", "--attempt", "9"):
        shown = keeper.show("r-1")
        assert (shown["account"], shown["attempt"]) == ("team-7", 9)
    assert {r["runId"] for r in keeper.records("start")} >= {run_id, "r-1"}


def test_another_user_cannot_choose_a_runs_name(keeper, named):
    done = named.run(*checks.LEAVE_MARKER, options=("--keeper", keeper.address, "--run-id", "r-1"))
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "--run-id", "leave the option away")
    assert not (named.workspace / checks.MARKER).exists()
    checks.wait_until(lambda: not keeper.run_ids())
    assert "r-1" not in {r["runId"] for r in keeper.records()}


def test_users_see_their_own_runs_only(keeper, named, numbered, root_place):
    with keeper.run("--run-id", "r-1"), keeper.run(place=named) as one, \
            keeper.run(place=numbered) as other:
        mine, foreign = (run.python(ENVIRON)["RUN_ID"] for run in (one, other))
        assert keeper.run_ids(named) == [mine]
        assert keeper.run_ids(numbered) == [foreign]
        for run_id in ("r-1", foreign, "never-seen"):
            done = keeper.warder("ps", run_id, place=named)
            assert done.returncode == 125 and not done.stdout
            checks.assert_one_line(done.stderr, "there is no such run")
        assert keeper.ps(mine, place=named)[0]["runId"] == mine
        # Control: those who run the keeper see all of them.
        everything = sorted(["r-1", mine, foreign])
        assert keeper.run_ids() == keeper.run_ids(root_place) == everything


def test_users_can_revoke_their_own_runs_only(keeper, named, numbered, origin):
    with keeper.run("--run-id", "r-1") as owners, keeper.run(place=named) as one, \
            keeper.run(place=numbered) as other:
        mine, foreign = (run.python(ENVIRON)["RUN_ID"] for run in (one, other))
        wires = [shared.open_stream(run) for run in (owners, other)]
        for run_id in ("r-1", foreign, "never-seen"):
            done = keeper.revoke(run_id, place=named)
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, "that is no run")
        for at, wire in enumerate(wires):
            origin.connections[at].send(upstream.chunk(b"data: 2\n\n") + upstream.LAST_CHUNK)
            assert b"data: 2" in wire.until(upstream.LAST_CHUNK)
        # Control: their own they can.
        wire = shared.open_stream(one)
        assert keeper.revoke(mine, place=named).returncode == 0
        shared.assert_cut(wire, "run_revoked")
        assert other.ask(POST).status == 200 and one.ask(POST).status == 403


def test_users_can_neither_drain_nor_open_gates(keeper, named):
    with keeper.run("--run-id", "r-1"):
        done = keeper.warder("drain", place=named)
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "that is not for you to ask of this keeper")
        done = named.warder("gate", "--listen", f"unix:{named.workspace}/g.sock", "--keeper",
                            keeper.address, timeout=20)
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "that is not for you to ask of this keeper")
        assert keeper.is_alive() and "draining" not in keeper.stderr()
        # Control: the owner can.
        drain = keeper.drain()
        keeper.wait_for("draining")
    assert drain.wait(timeout=20) == 0 and keeper.wait() == 0
    drain.communicate()


def test_who_is_taken_out_has_no_business_here_any_more(keeper, named, numbered, origin):
    """At a reload: what they had under way ends, and nothing begins."""
    with keeper.run("--run-id", "r-1") as owners, keeper.run(place=named) as one, \
            keeper.run(place=numbered) as other:
        run_id = one.python(ENVIRON)["RUN_ID"]
        wires = [shared.open_stream(run) for run in (owners, other)]
        wire = shared.open_stream(one)
        keeper.reload({"dns": "explain"})  # the control: it is not the reload that ends them
        assert len(keeper.run_ids()) == 3
        keeper.reload({"keeper": {"control_users": [str(NUMBERED)]}})
        assert not shared.read_to_end(wire)[1]
        checks.wait_until(lambda: run_id not in keeper.run_ids())
        assert [line["code"] for line in keeper.log("run_ended")] == ["user_removed"]
        for done in verbs(keeper, named):
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, "this keeper is not for you")
        assert not (named.workspace / checks.MARKER).exists()
        # The others' go on.
        assert len(keeper.run_ids()) == 2
        for at, wire in enumerate(wires):
            origin.connections[at].send(upstream.chunk(b"data: 2\n\n") + upstream.LAST_CHUNK)
            assert b"data: 2" in wire.until(upstream.LAST_CHUNK)
        # And back again.
        keeper.reload({"keeper": {"control_users": [str(NUMBERED), NAMED.pw_name]}})
        assert named.run("true", options=("--keeper", keeper.address)).returncode == 0


@pytest.mark.parametrize("users, env, words", [
    (["nobody-of-this-name"], ENABLED, "there is no user 'nobody-of-this-name'"),
    ([NAMED.pw_name], {"SANDBOX_ENABLED": None}, "SANDBOX_ENABLED=1"),
])
def test_users_who_cannot_be_let_in_change_nothing(user_place, origin, users, env, words):
    with shared.keeper(user_place, control(origin), env=env) as keeper, keeper.run() as run:
        settings = {"llm": None, "keeper": {"control_users": users}}
        assert words in keeper.reload(settings, event="reload_failed")["text"]
        assert run.ask(POST).status == 200
        assert not keeper.log("reloaded")


def test_a_users_account_has_its_own_limits(user_place, named, numbered, origin):
    config = shared.merge(control(origin, "0666", [NAMED.pw_name, str(NUMBERED)]),
                          {"account_limits": {NAMED.pw_name: {"requests": "1/m", "burst": 1}}})
    with shared.keeper(user_place, config, env=ENABLED) as keeper, \
            keeper.run("--billing-account", "somebody-else", place=named) as one, \
            keeper.run(place=named) as two, keeper.run(place=numbered) as other:
        assert one.ask(POST).status == 200
        assert [run.ask(POST).status for run in (one, two)] == [429, 429]
        assert [other.ask(POST).status for _ in range(3)] == [200] * 3


# ---- users who want everything (INV-BOUNDED) ----

CROWD = """
import json, os, socket, sys
path, count, uids = sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3:]]
kept, told = [], {}
for uid in uids:
    os.seteuid(uid)
    for _ in range(count):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(20)
        sock.connect(path)
        try:
            sock.send(b"L")
            answer = sock.recv(1000)
        except (BrokenPipeError, ConnectionResetError):  # told once, before the last words
            answer = sock.recv(1000)
        kept.append(sock)
        told.setdefault(uid, []).append(answer.decode())
    os.seteuid(0)
print(json.dumps(told), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def crowd(keeper, count, *uids):
    """So many connections of each user; what each is told, by user."""
    line = ["/usr/bin/python3", "-c", CROWD, keeper.path, str(count), *map(str, uids)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield {int(uid): told for uid, told in json.loads(process.stdout.readline()).items()}
        finally:
            process.stdin.close()


FDS = 256
SHARE = FDS // 16
LET_IN = "."
SHARE_IS_TAKEN = "!you have as many connections to this keeper as a user may have; wait until a run of " \
                 "yours has ended"


LEAVERS = """
import json, os, select, socket, sys, time
path, count, uid, does_read = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
os.seteuid(uid)
kept, told = [], []

def receive(sock, *flags):
    try:
        return sock.recv(65536, *flags)
    except ConnectionResetError:  # told once, before the last words
        return sock.recv(65536, *flags)

def visit(number):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(20)
    sock.connect(path)
    try:
        sock.send(b"Rrun-id=r-%d\\0" % number)
    except BrokenPipeError:
        pass  # sent away before it could ask
    select.select([sock], [], [])
    letter = receive(sock, socket.MSG_PEEK)[:1].decode()
    sock.shutdown(socket.SHUT_WR)
    while does_read and receive(sock):
        pass
    gone = select.poll()
    gone.register(sock, 0)
    gone.poll(20000)  # by now the keeper has nothing more to say
    kept.append(sock)
    return letter

for number in range(count):
    told.append(visit(number))
    for _ in range(100 if does_read else 0):  # the places of those that have read come back
        if told[-1] == "k":
            break
        time.sleep(0.05)
        told[-1] = visit(number)
print(json.dumps(told), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("does_read", [False, True])
def test_a_link_that_is_not_taken_counts_as_its_users(user_place, named, numbered, origin, does_read):
    """It is in flight, on the account of the keeper's own user, when whoever asked for it has left."""
    config = control(origin, "0666", [NAMED.pw_name, str(NUMBERED)])
    with shared.keeper(user_place, config, env=ENABLED, prefix=("prlimit", f"--nofile={FDS}:{FDS}")) as keeper:
        line = ["/usr/bin/python3", "-c", LEAVERS, keeper.path, str(FDS + 50), str(NAMED.pw_uid), str(does_read)]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            told = json.loads(process.stdout.readline())
            others = numbered.run("true", options=("-q", "--keeper", keeper.address))
            process.stdin.close()
        if does_read:  # the control: nothing is left of who has read
            assert told == ["k"] * (FDS + 50)
        else:
            assert told == ["k"] * SHARE + ["!"] * (FDS + 50 - SHARE)
        assert others.returncode == 0, others.stderr
        checks.wait_until(lambda: named.run("true", options=("-q", "--keeper", keeper.address)).returncode == 0)


def test_a_user_has_no_more_than_a_share(user_place, named, numbered, origin):
    config = control(origin, "0666", [NAMED.pw_name, str(NUMBERED)])
    with shared.keeper(user_place, config, env=ENABLED, prefix=("prlimit", f"--nofile={FDS}:{FDS}")) as keeper:
        with crowd(keeper, FDS + 50, NAMED.pw_uid) as told:
            assert told[NAMED.pw_uid] == [LET_IN] * SHARE + [SHARE_IS_TAKEN] * (FDS + 50 - SHARE)
            done = named.run("true", options=("--keeper", keeper.address))
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, SHARE_IS_TAKEN[1:])
            # It is its own share only that is taken.
            with keeper.run(place=numbered) as run, keeper.run("--run-id", "r-1"):
                assert run.ask(POST).status == 200
                assert "r-1" in keeper.run_ids()
        # Control: it was these connections that stood against it.
        checks.wait_until(lambda: named.run("true", options=("--keeper", keeper.address)).returncode == 0)


def test_a_user_has_no_more_runs_than_that(user_place, named, origin):
    fds = 64
    config = control(origin, "0666", [NAMED.pw_name])
    with shared.keeper(user_place, config, env=ENABLED, prefix=("prlimit", f"--nofile={fds}:{fds}")) as keeper:
        with contextlib.ExitStack() as stack:
            for _ in range(fds // 16):
                stack.enter_context(keeper.run(place=named))
            done = named.run("true", options=("--keeper", keeper.address))
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, SHARE_IS_TAKEN[1:])
            # Control: it is the user's number, not the keeper's.
            done = user_place.run("true", options=("--keeper", keeper.address))
            assert done.returncode == 0, done.stderr


def test_many_users_leave_room_for_the_owner(user_place, origin):
    uids = list(range(NUMBERED, NUMBERED + 16))
    config = control(origin, "0666", map(str, uids))
    with shared.keeper(user_place, config, env=ENABLED, prefix=("prlimit", f"--nofile={FDS}:{FDS}")) as keeper, \
            crowd(keeper, SHARE, *uids) as told:
        assert told[uids[0]] == [LET_IN] * SHARE
        assert set(told[uids[-1]]) == {"!the keeper has no room for another connection; wait until runs have ended"}
        assert FDS // 2 < sum(answers.count(LET_IN) for answers in told.values()) < FDS * 3 // 4
        assert keeper.run_ids() == []


def test_a_user_does_not_get_anothers_descriptors_or_log(keeper, named):
    """What a user's own processes hold is the user's; the keeper's files are not."""
    with keeper.run(place=named) as run:
        assert run.ask(POST).status == 200
    done = named.host(["cat", str(keeper.audit)])
    assert done.returncode != 0 and "Permission denied" in done.stderr
    done = named.host(["cat", str(keeper.file), str(keeper.top / "store.db")])
    assert done.returncode != 0 and not done.stdout
