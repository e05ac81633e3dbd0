# SPDX-License-Identifier: MIT
"""Signals, endings of every kind, and that nothing is left behind."""
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import time
import uuid

import pytest

import harness
from checks import (LEAVE_MARKER, MARKER, assert_one_line, assert_refused, assert_says, pids_of,
                    running, send, tree, wait_for_file, wait_until, wait_until_gone)

PYTHON = "/usr/bin/python3"
CONTROLLER = "memory/" if os.path.isdir("/sys/fs/cgroup/memory") else ""  # of version 1


@pytest.fixture
def mark():
    """A word that no other process of this machine has in its command line."""
    return f"mark-{uuid.uuid4().hex}"


def state_of(pid):
    """The letter that /proc has for the state of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def assert_nothing_new(place, mark, before):
    """Of this place, and of its runs, which have the mark in their ids."""
    wait_until(lambda: not harness.traces(place, mark) - before)


def groups_of(name):
    return sorted(harness.cgroups(name))


# ---- signals ----

FORWARDED = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
             signal.SIGUSR2]


@pytest.mark.parametrize("number", FORWARDED, ids=lambda s: s.name)
def test_a_signal_to_warder_reaches_the_agent(place, number):
    name = number.name[3:]
    script = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
    with running(place, "sh", "-c", script) as process:
        assert_says(process, "ready")
        send(process, number)
        assert_says(process, f"got {name}")
        assert process.wait(timeout=30) == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_a_signal_nobody_catches_ends_the_run_as_it_would_the_command(place, number):
    # exec: a shell that is just starting a child may lose SIGINT, with or without a sandbox.
    with running(place, "sh", "-c", "echo ready; exec sleep 60") as process:
        assert_says(process, "ready")
        send(process, number)
        assert process.wait(timeout=30) == 128 + number


def test_a_signal_in_the_first_moments_is_not_lost(place):
    for delay_ms in range(0, 12, 2):
        with running(place, "sleep", "60", stderr=subprocess.DEVNULL) as process:
            time.sleep(delay_ms / 1000)
            send(process, signal.SIGTERM)
            # Before warder has begun to listen, the signal ends warder itself.
            assert process.wait(timeout=30) in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_stop_and_continue_reach_the_agent(place, mark):
    ticks = place.workspace / "ticks"
    # Without children: a shell whose child is stopped between vfork and exec is not stopped, it waits.
    script = f"while :; do echo {mark} >>ticks; done"
    with running(place, "sh", "-c", script) as process:
        wait_for_file(ticks, mark)
        agent = next(pid for pid, line in harness.processes().items() if line.startswith("sh -c")
                     and mark in line)
        send(process, signal.SIGTSTP)
        wait_until(lambda: state_of(process.pid) == "T" and state_of(agent) == "T")
        size = ticks.stat().st_size
        send(process, signal.SIGCONT)
        wait_until(lambda: state_of(process.pid) != "T" and state_of(agent) != "T")
        wait_until(lambda: ticks.stat().st_size > size)
    wait_until_gone(mark)


def test_a_continue_without_a_stop_does_no_harm(place):
    with running(place, "sh", "-c", "echo ready; read x; exit 9") as process:
        assert_says(process, "ready")
        send(process, signal.SIGCONT)
        process.communicate("end\n")
        assert process.returncode == 9


# ---- orphans ----


def test_orphans_are_reaped_while_the_run_goes_on(place):
    script = "for i in 1 2 3 4 5; do (sh -c 'sleep 0.01' & ) ; done; sleep 0.3; " \
             "cat /proc/[0-9]*/stat | grep -c ') Z '"
    assert place.run("sh", "-c", script).stdout == "0\n"


SLEEP = "sh -c \"sleep 61; : MARK\""


@pytest.mark.parametrize("start", [
    f"setsid {SLEEP} &",
    f"(setsid sh -c 'trap : TERM HUP; {SLEEP}' &)",
    f"nohup {SLEEP} &",
    "sh -c 'kill -STOP $$; : MARK' &",
], ids=["session", "double fork", "nohup", "stopped"])
def test_a_daemon_ends_with_the_run(place, mark, start):
    script = f"({start}) >/dev/null 2>&1; echo up; read x".replace("MARK", mark)
    with running(place, "sh", "-c", script) as process:
        assert_says(process, "up")
        daemon = wait_until(lambda: [pid for pid, line in harness.processes().items()
                                     if mark in line and "echo up" not in line])
        process.communicate("end\n")
        assert process.returncode == 0
    assert not pids_of(mark)
    assert not [pid for pid in daemon if os.path.exists(f"/proc/{pid}")]


def test_a_daemon_that_holds_the_output_does_not_hold_the_run(place, mark):
    start = time.monotonic()
    done = place.run("sh", "-c", f"echo out; setsid sh -c 'sleep 61; : {mark}' & exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    result = place.json("sh", "-c", f"echo out; setsid sh -c 'sleep 61; : {mark}' & exit 3")
    assert (result["exitCode"], result["stdout"]) == (3, "out\n")
    assert time.monotonic() - start < 10


# ---- the supervisor is killed ----


def test_everything_dies_with_a_supervisor_that_is_killed_at_any_moment(place, mark):
    before, files = harness.traces(place, mark), tree(place.workspace)
    chance = random.Random(7)
    script = f"(setsid sleep 62; : {mark}) & sleep 62; : {mark}"
    for i in range(30):
        with running(place, "sh", "-c", script, options=("-q", "--run-id", f"{mark}-{i}"),
                     stderr=subprocess.DEVNULL) as process:
            time.sleep(chance.uniform(0, 0.015) if i % 3 else chance.uniform(0.015, 0.06))
            send(process, signal.SIGKILL)
    wait_until_gone(mark)
    assert_nothing_new(place, mark, before)
    assert tree(place.workspace) == files


def test_a_run_that_is_up_dies_with_its_supervisor(place, mark):
    script = f"trap '' TERM HUP INT; setsid sh -c 'echo up; sleep 62; : {mark}'; : {mark}"
    with running(place, "sh", "-c", script) as process:
        assert_says(process, "up")
        assert len(pids_of(mark)) >= 3
        send(process, signal.SIGKILL)
    wait_until_gone(mark)


def kill_a_limited_run(place, name):
    """Leaves the control groups of a run without a supervisor."""
    options = ("-q", "--memory", "64M", "--pids", "20", "--cpu", "1", "--run-id", name)
    with running(place, "sh", "-c", f"echo up; sleep 62; : {name}", options=options) as process:
        assert_says(process, "up")
        assert len(groups_of(name)) == 3
        send(process, signal.SIGKILL)
    wait_until_gone(name)


@pytest.mark.parametrize("options", [("-q",), ("-q", "--memory", "64M"), ("-q", "--json")],
                         ids=["without limits", "with limits", "captured"])
def test_the_groups_of_a_killed_run_are_swept_by_the_next(root_place, mark, options):
    kill_a_limited_run(root_place, mark)
    root_place.run("true", options=options)
    assert not groups_of(mark)


def is_empty(group):
    try:
        return pathlib.Path(group, "cgroup.procs").read_text() == ""
    except FileNotFoundError:
        return True


def test_groups_of_runs_killed_at_any_moment_are_swept_at_once(root_place, mark):
    chance = random.Random(11)
    options = ("-q", "--memory", "64M", "--pids", "20", "--run-id", mark)
    seen = set()
    for _ in range(30):
        with running(root_place, "sleep", "62", options=options) as process:
            time.sleep(chance.uniform(0, 0.015))
            send(process, signal.SIGKILL)
        seen.update(groups_of(mark))
    assert seen, "no run was killed while it had a group"
    wait_until(lambda: all(is_empty(group) for group in groups_of(mark)))
    root_place.run("true")
    assert not groups_of(mark)


def test_a_run_that_fails_to_start_sweeps_too(root_place, mark):
    kill_a_limited_run(root_place, mark)
    assert root_place.run("no-such-command").returncode == 127
    assert not groups_of(mark)


def test_the_group_of_a_run_that_goes_on_is_not_swept(root_place, mark):
    options = ("-q", "--memory", "64M", "--run-id", mark)
    with running(root_place, "sh", "-c", "echo up; read x; exit 5", options=options) as process:
        assert_says(process, "up")
        for _ in range(5):
            root_place.run("sleep", "0.01", options=("-q", "--memory", "64M"))
        assert len(groups_of(mark)) == 1
        process.communicate("end\n")
        assert process.returncode == 5
    assert not groups_of(mark)


# ---- endings ----


@pytest.mark.parametrize("argv, options", [
    (("true",), ()),
    (("false",), ()),
    (("no-such-command",), ()),
    (("sh", "-c", "kill -9 $$"), ()),
    (("sleep", "62"), ("-t", "100ms")),
    (("true",), ("--ro", "/usr:/workspace/missing")),
    (("true",), ("--workspace", "/missing")),
], ids=["success", "failure", "not found", "signal", "timeout", "refused inside",
        "refused outside"])
@pytest.mark.parametrize("limits", [(), ("--memory", "64M", "--pids", "20", "--cpu", "1")],
                         ids=["plain", "limited"])
def test_nothing_is_left_after_any_ending(root_place, mark, argv, options, limits):
    before, files = harness.traces(root_place, mark), tree(root_place.top)
    root_place.run(*argv, options=("-q", "--run-id", mark, *limits, *options))
    assert not groups_of(mark)
    assert_nothing_new(root_place, mark, before)
    assert tree(root_place.top) == files


def test_nothing_is_left_after_memory_ran_out(root_place, mark):
    before = harness.traces(root_place, mark)
    script = "x = b'x' * (200 << 20)"
    done = root_place.run(PYTHON, "-c", script, options=("-q", "--memory", "32M", "--run-id", mark))
    assert done.returncode == 137
    assert_nothing_new(root_place, mark, before)


@contextlib.contextmanager
def directory(path, who=0):
    os.mkdir(path)
    os.chown(path, who, who)
    try:
        yield
    finally:
        os.rmdir(path)


@contextlib.contextmanager
def mounted(top):
    subprocess.run(["mount", "-t", "tmpfs", "none", top], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", top], check=True)


@pytest.mark.skipif(not harness.IS_ROOT, reason="leaves things behind as root would")
def test_what_would_be_left_would_be_noticed(place, mark):
    """And what others leave would not."""
    left = [directory(f"/tmp/warder-{mark}"), directory(f"/dev/shm/{place.top.name}-x"),
            directory(f"/sys/fs/cgroup/{CONTROLLER}warder-{mark}"), mounted(place.workspace)]
    if place.who == "user":
        left.append(directory(f"/var/tmp/{uuid.uuid4()}", harness.USER_ID))
    before = harness.traces(place, mark)
    for each in left:
        with each:
            assert harness.traces(place, mark) - before
        assert harness.traces(place, mark) == before
    with directory(f"/tmp/warder-place-{uuid.uuid4()}"), directory(f"/dev/shm/PostgreSQL.{uuid.uuid4()}"), \
            directory(f"/sys/fs/cgroup/{CONTROLLER}warder-{uuid.uuid4()}"):
        assert harness.traces(place, mark) == before
    with directory(other := f"/tmp/warder-place-{uuid.uuid4()}"), mounted(other):
        assert harness.traces(place, mark) == before


def test_a_refusal_from_inside_always_says_why(place):
    """The reason crosses from a process that is about to be gone."""
    for _ in range(60):
        assert_refused(place, ("-q", "--ro", "/usr:/workspace/missing"), "/workspace/missing")


def test_a_command_that_is_missing_is_always_127(place):
    assert {place.run("no-such-command").returncode for _ in range(60)} == {127}


# ---- many at once ----


def expected_of(kind, number):
    """A kind of run: its options, its script, and how it must end."""
    return [
        ((), f"exit {number % 100}", number % 100),
        ((), "kill -9 $$", 137),
        (("-t", "500ms"), "sleep 62", 124),
        ((), "(setsid sleep 62 &) ; echo > file.$RUN_ID; exit 1", 1),
    ][kind]


def test_two_hundred_runs_at_once_leave_nothing(place, mark):
    before = harness.traces(place, mark)
    runs = []
    for i in range(200):
        options, script, status = expected_of(i % 4, i)
        if place.who == "root" and i % 5 == 0:
            options = (*options, "--memory", "64M", "--pids", "30")
        line = ("--json", "-q", "--run-id", f"{mark}-{i}", *options)
        process = place.popen("sh", "-c", f": {mark}; {script}", options=line,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        runs.append((process, i, status))
    for process, i, status in runs:
        out, err = process.communicate(timeout=60)
        result = json.loads(out)
        assert (result["runId"], result["exitCode"]) == (f"{mark}-{i}", status), err
        assert process.returncode == status
    assert not pids_of(mark)
    assert not groups_of(mark)
    assert_nothing_new(place, mark, before)
    expected = [f"file.{mark}-{i}" for i in range(3, 200, 4)]
    assert sorted(os.listdir(place.workspace)) == sorted(expected)


# ---- odd callers ----


def limited(**limits):
    """A preexec function that lowers this process's limits for good."""

    def apply():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), value)

    return apply


@pytest.mark.parametrize("count", [8, 12, 20])
def test_too_few_descriptors_are_a_clear_error(place, count):
    lower = limited(NOFILE=(count, count))
    assert_refused(place, ("-q",), "Too many open files", preexec_fn=lower)


def test_no_process_to_spare_is_a_clear_error(user_place):
    """As many processes as the user has already: not even the sandbox's own can start."""
    done = user_place.run(*LEAVE_MARKER, preexec_fn=limited(NPROC=(0, 0)))
    assert done.returncode != 0 and "Resource temporarily unavailable" in done.stderr
    assert not user_place.workspace.joinpath(MARKER).exists()


@pytest.mark.parametrize("limits", [{"NPROC": (500, 500)}, {"CORE": (0, 0)}, {"CORE": (1, 1)},
                                    {"STACK": (1 << 20, 1 << 20)}, {"NOFILE": (256, 256)}],
                         ids=["500 processes", "no core dumps", "core pipes only", "small stack",
                              "256 files"])
def test_a_callers_own_hard_limits_do_no_harm(place, limits):
    done = place.run("echo", "fine", preexec_fn=limited(**limits))
    assert (done.returncode, done.stdout) == (0, "fine\n"), done


def test_a_callers_own_hard_limit_of_processes_still_holds(place):
    script = "import os, signal\ntry:\n  for i in range(60): os.fork() or signal.pause()\n" \
             "except OSError as e: print(e.errno)"
    done = place.run(PYTHON, "-c", script, preexec_fn=limited(NPROC=(40, 40)))
    assert done.stdout == "11\n", done


def test_core_dumps_are_off_inside(place):
    done = place.run("sh", "-c", "ulimit -Hc; kill -SEGV $$")
    assert done.stdout in ("0\n", "1\n")
    assert os.listdir(place.workspace) == []


def test_a_caller_that_ignores_its_children_does_no_harm(place):
    ignore = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); " \
             "os.execv(sys.argv[1], sys.argv[1:])"
    script = "sh -c 'exit 3'; echo $?; exit 5"
    done = place.host([PYTHON, "-c", ignore, place.binary, "run", "-q", "--", "sh", "-c", script])
    assert (done.returncode, done.stdout, done.stderr) == (5, "3\n", "")


def test_a_caller_that_blocks_every_signal_does_no_harm(place):
    block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, " \
            "signal.valid_signals()); os.execv(sys.argv[1], sys.argv[1:])"
    script = "trap 'exit 9' TERM; touch ready; while :; do sleep 0.02; done"
    run = [place.binary, "run", "-q", "-t", "20s", "--", "sh", "-c", script]
    line = place.command([PYTHON, "-c", block, *run])
    with subprocess.Popen(line, cwd=place.workspace) as process:
        wait_for_file(place.workspace / "ready")
        send(process, signal.SIGTERM)
        assert process.wait(timeout=25) == 9


def test_a_caller_in_a_directory_that_is_gone_is_told(place):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = place.host(["sh", "-c", script, "sh", place.binary, "run", "-q", "--", "true"])
    assert done.returncode == 125
    assert_one_line(done.stderr)


def test_a_run_inside_a_run_is_refused_and_not_half_done(place):
    # A leak check would trace the process, which is refused in here, too.
    options = ("-q", "--ro", f"{place.binary}:/warder", "--env", "ASAN_OPTIONS=detect_leaks=0")
    done = place.run("/warder", "run", "-q", "--", "true", options=options)
    assert done.returncode == 125
    assert_one_line(done.stderr, "namespaces")


def test_the_last_words_of_a_process_that_ends_are_kept(place):
    """Output written in the last moment is not lost, however the run is read."""
    for _ in range(20):
        result = place.json("sh", "-c", "printf %65536s x; printf end >&2; exit 3")
        assert (len(result["stdout"]), result["stderr"]) == (65536, "end")
