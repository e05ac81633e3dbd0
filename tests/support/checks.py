# SPDX-License-Identifier: MIT
"""What many tests of the real binary look at: refusals, trees, and waiting without guessing."""
import contextlib
import os
import signal
import subprocess
import time

import harness

# A command that leaves a trace in the workspace if it is ever started.
MARKER = "started"
LEAVE_MARKER = ("touch", f"/workspace/{MARKER}")


def assert_one_line(stderr, *words):
    """One line, by warder, with these words in it."""
    assert stderr.startswith("warder: "), stderr
    assert stderr.count("\n") == 1 and stderr.endswith("\n"), stderr
    for word in words:
        assert word in stderr, stderr


def assert_refused(place, options, *words, command=LEAVE_MARKER, **kwargs):
    """Status 125 and one line of reason; nothing was started and nothing was changed."""
    before = tree(place.top)
    done = place.run(*command, options=options, **kwargs)
    assert done.returncode == 125, done
    assert_one_line(done.stderr, *words)
    assert tree(place.top) == before
    return done


def tree(top):
    """Every path below `top` with its kind, mode, owner and size, directories' sizes aside."""
    found = {}
    for root, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(root, name)
            st = os.lstat(path)
            size = 0 if name in dirs else st.st_size
            found[path] = (oct(st.st_mode), st.st_uid, st.st_gid, size)
    return found


WAIT = 30  # seconds: nothing that is waited for takes that long, on a machine that is busy, unless it hangs


def wait_until(is_true, seconds=WAIT, pause_s=0.005):
    """Polls until `is_true` returns something true, and returns that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = is_true()
        if value:
            return value
        time.sleep(pause_s)
    raise AssertionError("it did not happen in time")


def wait_for_file(path, text="", seconds=WAIT):
    """Waits until a file is there and holds `text`."""

    def holds():
        try:
            return text in path.read_text()
        except OSError:
            return False

    wait_until(holds, seconds)


def fill(path):
    """Writes a file until nothing more fits beside it."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 512):
            pass


def pids_of(marker):
    """The processes of this machine that have `marker` in their command line."""
    return [pid for pid, line in harness.processes().items() if marker in line]


def wait_until_gone(marker, seconds=WAIT):
    wait_until(lambda: not pids_of(marker), seconds)


def send(process, number):
    """Signals the warder behind a Place.popen, which may be a child of sudo."""
    if harness.IS_ROOT or os.stat(f"/proc/{process.pid}").st_uid == os.geteuid():
        os.kill(process.pid, number)
        return
    children = ["pgrep", "-P", str(process.pid)]
    pid = subprocess.run(children, capture_output=True, text=True, check=True).stdout.split()[0]
    subprocess.run(["sudo", "-n", "kill", f"-{int(number)}", pid], check=True)


@contextlib.contextmanager
def running(place, *argv, options=("-q",), **kwargs):
    """A run that goes on, with pipes for stdin and stdout; it is gone when the block is left."""
    kwargs = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, **kwargs}
    process = place.popen(*argv, options=options, **kwargs)
    try:
        yield process
    finally:
        if process.poll() is None:
            send(process, signal.SIGKILL)
        process.communicate(timeout=60)  # whoever is left behind may hold the pipes


def assert_says(process, line):
    assert process.stdout.readline() == line + "\n"
