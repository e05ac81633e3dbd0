# SPDX-License-Identifier: MIT
"""Limits hold, reaching one is reported, and one that cannot be armed is refused."""
import contextlib
import errno
import os
import pathlib
import subprocess
import time
import uuid

import pytest

import harness
from checks import assert_one_line, assert_refused, running, wait_for_file, wait_until

MIB = 1 << 20
PYTHON = "/usr/bin/python3"


def eat(mebibytes):
    """A command that touches that much memory, and says so when it could."""
    return PYTHON, "-c", f"x = b'x' * ({mebibytes} << 20); print('done')"


# ---- time ----


def test_a_deadline_ends_the_run_with_124(place):
    start = time.monotonic()
    done = place.run("sleep", "60", options=("-q", "--timeout", "200ms"))
    assert done.returncode == 124
    assert_one_line(done.stderr, "deadline", "200 ms")
    assert 0.2 <= time.monotonic() - start < 20


def test_before_the_deadline_nothing_happens(place):
    done = place.run("sh", "-c", "sleep 0.1; exit 3", options=("-q", "--timeout", "20s"))
    assert (done.returncode, done.stderr) == (3, "")


def test_the_deadline_is_told_with_term_first(place):
    script = "trap 'echo got-term; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    done = place.run("sh", "-c", script, options=("-q", "-t", "1s", "--grace", "20s"))
    assert done.stdout == "ready\ngot-term\n"
    assert done.returncode == 124


def test_who_ignores_term_is_killed_after_the_grace_time(place):
    script = "trap 'echo got-term' TERM; echo ready; while :; do sleep 0.02; done"
    start = time.monotonic()
    done = place.run("sh", "-c", script, options=("-q", "-t", "1s", "--grace", "300ms"))
    assert 1.3 <= time.monotonic() - start < 20
    assert done.stdout == "ready\ngot-term\n"
    assert done.returncode == 124


def test_one_that_has_stopped_itself_still_hears_of_the_deadline(place):
    script = "trap 'echo got-term; exit 0' TERM; kill -STOP $$; echo continued"
    done = place.run("sh", "-c", script, options=("-q", "-t", "1s", "--grace", "20s"))
    assert done.stdout.startswith("got-term\n")
    assert done.returncode == 124


def test_one_that_stops_itself_for_good_is_killed(place):
    script = "trap '' TERM; while :; do kill -STOP $$; done"
    done = place.run("sh", "-c", script, options=("-q", "-t", "200ms", "--grace", "200ms"))
    assert done.returncode == 124


@pytest.mark.parametrize("options", [(), ("--output", "1G")], ids=["direct", "relayed"])
def test_a_reader_that_stalls_does_not_stop_the_clock(place, options):
    limits = ("-q", "-t", "300ms", "--grace", "200ms", *options)
    process = place.popen("cat", "/dev/zero", options=limits, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.wait(timeout=20) == 124
    process.stdout.close()


def test_children_that_ignore_everything_end_with_the_deadline(place):
    script = "(trap '' TERM HUP INT; setsid sleep 61 & sleep 61) & wait"
    start = time.monotonic()
    done = place.run("sh", "-c", script, options=("-q", "-t", "200ms", "--grace", "200ms"))
    assert done.returncode == 124
    assert time.monotonic() - start < 20


def test_a_command_that_ends_well_after_term_has_still_timed_out(place):
    result = place.json("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.02; done",
                        options=("-t", "200ms"))
    assert (result["ok"], result["exitCode"], result["errorCode"]) == (False, 124, "timeout")


# ---- memory ----


def test_a_run_within_its_memory_is_left_alone(root_place):
    result = root_place.json(*eat(8), options=("--memory", "256M", "--cgroup", "v1"))
    assert (result["stdout"], result["exitCode"], result["cgroup"]) == ("done\n", 0, "v1")
    assert 8 * MIB < result["memoryPeakBytes"] < 256 * MIB


@pytest.mark.parametrize("backend", ["v1", "auto"])
def test_a_run_beyond_its_memory_is_killed_with_137(root_place, backend):
    options = ("-m", "32M", "--cgroup", backend)
    done = root_place.run(*eat(200), options=("-q", *options))
    assert (done.returncode, done.stdout) == (137, "")
    assert_one_line(done.stderr, "memory", str(32 * MIB))
    result = root_place.json(*eat(200), options=options)
    assert (result["ok"], result["exitCode"], result["errorCode"]) == (False, 137, "oom_killed")
    assert result["memoryPeakBytes"] <= 32 * MIB


def test_a_childs_memory_ends_the_whole_run(root_place):
    python = " ".join([PYTHON, "-c", "\"x = b'x' * (200 << 20)\""])
    script = f"{python}; echo survived; sleep 60"
    result = root_place.json("sh", "-c", script, options=("-m", "32M", "-t", "4s"))
    assert (result["exitCode"], result["errorCode"]) == (137, "oom_killed")
    assert result["durationMs"] < 3000, "it went on without its child"


def test_files_in_tmp_are_memory(root_place):
    fill = ("sh", "-c", "head -c 100M /dev/zero >/tmp/file; sleep 60")
    result = root_place.json(*fill, options=("-m", "32M", "-t", "20s"))
    assert result["errorCode"] == "oom_killed", result


@pytest.mark.parametrize("option, word", [(("--memory", "64M"), "memory"), (("--cpu", "1"), "CPU")])
def test_a_user_without_delegation_is_told_what_would_help(user_place, option, word):
    assert_refused(user_place, ("-q", *option), word, "v2", "systemd", "v1", "warder doctor")


@pytest.mark.parametrize("option, word", [(("--memory", "64M"), "memory"), (("--cpu", "1"), "CPU")])
def test_without_a_control_group_memory_and_cpu_are_refused(place, option, word):
    assert_refused(place, ("-q", "--cgroup", "none", *option), word)


@pytest.mark.parametrize("backend", ["v2", "systemd"])
def test_a_backend_that_this_machine_lacks_is_refused(place, backend):
    assert_refused(place, ("-q", "--cgroup", backend, "--memory", "64M"))


# ---- processes ----

FORK = """
import errno, os, signal
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as e:
    print(count, errno.errorcode[e.errno])
"""


@pytest.mark.parametrize("limit", [1, 2, 17])
def test_the_count_of_processes_is_limited(place, limit):
    done = place.run(PYTHON, "-c", FORK, options=("-q", "--pids", str(limit)))
    assert done.stdout == f"{limit - 1} EAGAIN\n"


def test_within_the_count_of_processes_all_start(place):
    done = place.run(PYTHON, "-c", FORK, options=("-q", "--pids", "201"))
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_count_of_processes_holds_in_a_control_group_too(root_place):
    done = root_place.run(PYTHON, "-c", FORK, options=("-q", "-p", "17", "--cgroup", "v1"))
    assert done.stdout == "16 EAGAIN\n"


def test_threads_count_as_processes(place):
    script = "import threading\n" \
             "def start(): threading.Thread(target=threading.Event().wait, daemon=True).start()\n" \
             "for i in range(50): start()\n"
    done = place.run(PYTHON, "-c", script, options=("-q", "--pids", "10"))
    assert done.returncode == 1 and "can't start new thread" in done.stderr
    assert place.run(PYTHON, "-c", script, options=("-q", "--pids", "60")).returncode == 0


def test_two_runs_do_not_share_their_count(place):
    script = "echo up; cat >/dev/null"
    first = place.popen("sh", "-c", script, options=("-q", "--pids", "3"),
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "up\n"
    done = place.run("sh", "-c", "sh -c 'echo fine; true'; true", options=("-q", "--pids", "2"))
    first.communicate()
    assert (done.stdout, first.returncode) == ("fine\n", 0)


# ---- processor ----

BUSY = """
import resource, time
end = time.monotonic() + 1
while time.monotonic() < end: pass
use = resource.getrusage(resource.RUSAGE_SELF)
print(use.ru_utime + use.ru_stime)
"""


def test_the_processor_is_limited(root_place):
    limited = float(root_place.run(PYTHON, "-c", BUSY, options=("-q", "--cpu", "0.2")).stdout)
    assert limited < 0.45


def cpu_stat(mark):
    """What the kernel says of a run's share of the processor: how often it was told to wait."""
    for group in harness.cgroups(mark):
        with contextlib.suppress(OSError):
            words = pathlib.Path(group, "cpu.stat").read_text().split()
            return {name: int(value) for name, value in zip(words[::2], words[1::2])}
    return {}


@pytest.mark.parametrize("cpu", ["0.05", "64"])
def test_only_a_limit_makes_it_wait(root_place, cpu):
    """The control: a share that others leave to it is less as well, but then nobody tells it to wait."""
    mark = f"mark-{uuid.uuid4().hex}"
    options = ("-q", "--cpu", cpu, "--run-id", mark)
    with running(root_place, PYTHON, "-c", "while True: pass", options=options):
        wait_until(lambda: cpu_stat(mark).get("nr_periods", 0) > 5, 60)
        if cpu == "0.05":
            wait_until(lambda: cpu_stat(mark)["nr_throttled"] > 0, 60)
        else:
            assert cpu_stat(mark)["nr_throttled"] == 0


# ---- files, scratch ----


@pytest.mark.parametrize("limit", [16, 32, 1000])
def test_open_files_are_limited(place, limit):
    script = "import os, errno\ntry:\n  while True: n = os.dup(0)\n" \
             "except OSError as e: print(n + 1, errno.errorcode[e.errno])"
    done = place.run(PYTHON, "-c", script, options=("-q", "--files", str(limit)))
    assert done.stdout == f"{limit} EMFILE\n"


def test_scratch_is_limited_as_a_whole(place):
    fill = "head -c 700K /dev/zero >/tmp/a; head -c 700K /dev/zero >/dev/shm/b"
    done = place.run("sh", "-c", fill, options=("-q", "--scratch", "1M"))
    assert done.stderr.count("No space left") == 1
    assert place.run("sh", "-c", fill, options=("-q", "--scratch", "2M")).stderr == ""


# ---- output ----

TWO = "\u00e9"  # as many bytes in UTF-8 as the name says
THREE = "\u4e2d"
FOUR = "\U0001f600"


@pytest.mark.parametrize("limit", range(1, 20))
@pytest.mark.parametrize("unit", ["x", TWO, THREE, FOUR, f"a{FOUR}{TWO}{THREE}"])
def test_output_is_cut_between_characters(user_place, unit, limit):
    text = unit * 20
    user_place.write("workspace/text", text)
    result = user_place.json("cat", "text", options=("--output", str(limit)))
    expected = text.encode()[:limit].decode(errors="ignore")
    assert result["stdout"] == expected
    assert (result["outputTruncated"], result["errorCode"]) == (True, "output_truncated")
    assert result["exitCode"] == 0


@pytest.mark.parametrize("limit", range(1, 9))
def test_output_written_byte_by_byte_is_cut_between_characters_too(user_place, limit):
    script = f"import os, time\nfor b in '{FOUR * 3}'.encode(): os.write(1, bytes([b])); " \
             "time.sleep(0.002)"
    result = user_place.json(PYTHON, "-c", script, options=("--output", str(limit)))
    assert result["stdout"] == FOUR * (limit // 4)


def test_output_is_counted_over_both_streams(place):
    script = "printf 12345; printf abcdef >&2; printf 67890"
    result = place.json("sh", "-c", script, options=("--output", "8"))
    out, err = result["stdout"], result["stderr"]
    assert len(out) + len(err) == 8
    assert "1234567890".startswith(out) and "abcdef".startswith(err)
    assert result["outputTruncated"] is True


def test_output_that_just_fits_is_not_cut(place):
    result = place.json("sh", "-c", "printf 12345; printf 678 >&2", options=("--output", "8"))
    assert (result["stdout"], result["stderr"]) == ("12345", "678")
    assert result["outputTruncated"] is False and "errorCode" not in result


def test_a_captured_flood_is_cut_at_two_mebibytes_and_does_not_stop_the_command(place):
    script = "head -c 5M /dev/zero | tr '\\0' x; echo end >done; exit 4"
    result = place.json("sh", "-c", script)
    assert result["stdout"] == "x" * (2 * MIB)
    assert (result["exitCode"], result["errorCode"]) == (4, "output_truncated")
    assert place.workspace.joinpath("done").exists()


def test_without_a_result_there_is_no_limit_unless_asked_for(place):
    flood = ("sh", "-c", "head -c 5M /dev/zero; exit 4")
    free = place.run(*flood, text=False)
    cut = place.run(*flood, options=("-q", "--output", "1K"), text=False)
    assert (len(free.stdout), free.returncode, free.stderr) == (5 * MIB, 4, b"")
    assert (cut.stdout, cut.returncode) == (bytes(1024), 4)
    assert_one_line(cut.stderr.decode(), "output", "1024")


# ---- a user whom root has given a control group (v1) ----

DELEGATED = [pathlib.Path("/sys/fs/cgroup", name, f"warder.{harness.USER_ID}")
             for name in ("memory", "pids", "cpu")]


@pytest.fixture
def delegated(user_place):
    """v1 groups that belong to the user, as an administrator would make them."""
    if not harness.IS_ROOT:
        pytest.skip("needs root to delegate a control group")
    for path in DELEGATED:
        path.mkdir(exist_ok=True)
        for file in (path, *path.iterdir()):
            with contextlib.suppress(OSError):
                os.chown(file, harness.USER_ID, harness.USER_ID)
    yield user_place
    for path in DELEGATED:
        for below in path.glob("warder-*"):
            below.rmdir()
        wait_until(lambda p=path: remove(p))


def remove(path):
    try:
        path.rmdir()
    except OSError as e:
        assert e.errno == errno.EBUSY
        return False
    return True


def test_in_a_delegated_group_a_user_may_limit_memory(delegated):
    result = delegated.json(*eat(200), options=("--memory", "32M"))
    assert (result["errorCode"], result["cgroup"]) == ("oom_killed", "v1")
    assert delegated.json(*eat(8), options=("--memory", "256M"))["stdout"] == "done\n"


def test_in_a_delegated_group_a_user_may_limit_everything(delegated):
    options = ("-q", "--memory", "256M", "--pids", "17", "--cpu", "0.2")
    assert delegated.run(PYTHON, "-c", FORK, options=options).stdout == "16 EAGAIN\n"
    assert float(delegated.run(PYTHON, "-c", BUSY, options=options).stdout) < 0.45


def test_a_delegated_group_is_empty_after_the_run(delegated):
    process = delegated.popen("sh", "-c", "echo >up; cat", options=("-q", "-m", "64M"),
                              stdin=subprocess.PIPE)
    wait_for_file(delegated.workspace / "up", "\n")
    assert len(list(DELEGATED[0].glob("warder-*"))) == 1
    process.communicate()
    assert process.returncode == 0
    assert not list(DELEGATED[0].glob("warder-*"))


def test_the_agent_is_in_the_group_and_sees_none_of_its_name(root_place):
    options = ("-q", "-m", "64M", "-p", "9", "--cpu", "1", "--run-id", "name-of-this-run")
    text = root_place.run("cat", "/proc/self/cgroup", options=options).stdout
    assert "memory:/\n" in text and "pids:/\n" in text
    assert "name-of-this-run" not in text


def test_the_result_tells_which_limit_was_reached_first(root_place):
    result = root_place.json("sh", "-c", "echo out; sleep 60",
                             options=("-m", "64M", "-p", "9", "-t", "1s"))
    assert (result["errorCode"], result["stdout"]) == ("timeout", "out\n")
