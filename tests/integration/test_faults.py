# SPDX-License-Identifier: MIT
"""INV-FAIL-CLOSED: whichever system call fails, no command runs with a protection missing."""
import collections
import re

import harness
import pytest

# Everything the way into the sandbox consists of. Each call fails once at each place.
CALLS = """
capset chdir clone clone3 close_range dup dup2 execve fchdir fsconfig fsmount fsopen getrandom
ioctl landlock_add_rule landlock_create_ruleset landlock_restrict_self mkdirat mount_setattr
move_mount newfstatat open_tree openat openat2 pipe2 pivot_root poll prctl prlimit64 read recvmsg
rt_sigprocmask seccomp sendmsg setgroups sethostname setresgid setresuid setsid signalfd4 socket
socketpair symlinkat umount2 unshare write
""".split()

PLACES_MAX = 6  # of the occurrences of one call: these many, spread evenly

# What the command checks about itself before it says that all is well.
CHECK = r"""
set -e
grep -q '^CapBnd:.0000000000000000$' /proc/self/status
grep -q '^CapPrm:.0000000000000000$' /proc/self/status
grep -q '^NoNewPrivs:.1$' /proc/self/status
grep -q '^Seccomp:.2$' /proc/self/status
grep -q '^Seccomp_filters:.2$' /proc/self/status
test "$(cat /proc/sys/kernel/hostname)" = warder
test "$(grep -c : /proc/net/dev)" = 1
test "$(id -u)" != 0
test "$$" -le 3
test ! -e /proc/1/environ -o ! -r /proc/1/environ
test "$(ulimit -c)" = 0 -o "$(ulimit -c)" = 1
! touch /usr/x 2>/dev/null
! touch /x 2>/dev/null
! touch /etc/x 2>/dev/null
! (echo x >/proc/sys/kernel/domainname) 2>/dev/null
! unshare --mount true 2>/dev/null
test ! -e /sys/kernel
echo intact >/workspace/ran
"""


def strace(place, inject, *extra):
    """A run under strace, which makes the named call fail."""
    log = place.top / "trace"
    marker = place.workspace / "ran"
    marker.unlink(missing_ok=True)
    command = ["strace", "-f", "-qq", "-o", str(log), *inject, place.binary, "run", "-q", *extra,
               "--", "sh", "-c", CHECK]
    done = place.host(command, env={"ASAN_OPTIONS": "detect_leaks=0"}, timeout=60)
    return done, marker.read_text() if marker.exists() else None


@pytest.fixture
def traced_place(place):
    place.own(place.top)  # strace writes its log there
    return place


def test_no_failing_call_leaves_a_command_with_less_protection(traced_place):
    done, ran = strace(traced_place, ["-e", "trace=" + ",".join(CALLS)])
    assert (done.returncode, ran) == (0, "intact\n"), done.stderr  # control: without a fault
    # What follows the second exec is the command's own doing.
    trace = (traced_place.top / "trace").read_text()
    execs = [found.start() for found in re.finditer(r"^\d+ +execve\(", trace, re.M)]
    seen = collections.Counter(re.findall(r"^\d+ +(\w+)\(", trace[:execs[1]], re.M))
    seen["execve"] = 2

    outcomes = collections.Counter()
    for call in CALLS:
        count = seen[call]
        step = max(1, count // PLACES_MAX)
        for number in list(range(1, count + 1, step))[:PLACES_MAX]:
            fault = f"inject={call}:error=EIO:when={number}"
            done, ran = strace(traced_place, ["-e", "trace=" + call, "-e", fault])
            what = f"{fault}: status {done.returncode}, {done.stderr.strip()[-300:]}"
            if ran is not None:
                assert ran == "intact\n", what
                outcomes["ran, intact"] += 1
            elif re.search(r"^(sh|grep|id|cat|touch|test|unshare|error while)\b.*(Input/output|"
                           r"I/O|loading)", done.stderr, re.M) or "sh: " in done.stderr:
                outcomes["the command was hit itself"] += 1  # faults count in every process
            else:
                # A check that finds a protection missing ends with status 1.
                assert done.returncode in (124, 125, 126, 127, 128 + 6), what
                assert done.stderr.strip() or call == "write", what  # ... its own message
                outcomes["refused"] += 1
    assert outcomes["refused"] > 60, outcomes  # control: the faults did hit
    left = [line for line in harness.processes().values() if str(traced_place.top) in line]
    assert left == []
