# SPDX-License-Identifier: MIT
"""An agent that plays with the other ends of its pipes gains nothing by it."""
import json
import os
import subprocess
import time

import pytest

PYTHON = "/usr/bin/python3"

# Takes back, from its own standard error, what it has just written: the reader finds nothing
# where it was told that there is something.
TAKE_BACK = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
again = os.open("/proc/self/fd/2", os.O_RDONLY | os.O_NONBLOCK)
while True:
    os.write(2, b"x")
    try:
        os.read(again, 1)
    except BlockingIOError:
        pass
"""

# Fills its own standard input, which only the supervisor should write to.
FILL = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
again = os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK)
while True:
    try:
        os.write(again, b"x" * 4096)
        os.read(0, 100)
    except BlockingIOError:
        pass
"""


@pytest.mark.parametrize("script", [TAKE_BACK, FILL], ids=["take back", "fill"])
def test_the_deadline_holds_whatever_is_done_to_the_pipes(place, script):
    start = time.monotonic()
    with open("/dev/zero", "rb") as zeros:
        result = place.json(PYTHON, "-S", "-c", script, stdin=zeros,
                            options=("-t", "2s", "--grace", "100ms", "--output", "1K"), timeout=60)
    assert result["errorCode"] == "timeout"
    assert time.monotonic() - start < 30


SEND = """
import array, socket, sys, time
print("mine", flush=True)
client = socket.socket(socket.AF_UNIX)
client.connect("/workspace/meet")
client.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
client.recv(1)
"""

RECEIVE = """
import array, os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind("/workspace/meet")
server.listen()
client, _ = server.accept()
_, ancillary, _, _ = client.recvmsg(1, 100)
fd = array.array("i", ancillary[0][2][:4])[0]
os.write(fd, b"lent\\n")
client.send(b"x")
client.recv(1)
time.sleep(0.5)
try:
    while True:
        os.write(fd, b"forged\\n")
        time.sleep(0.01)
except OSError:
    pass
time.sleep(80)
"""


def test_another_run_cannot_write_into_the_output_of_one_that_has_ended(place):
    receiver = place.popen(PYTHON, "-S", "-c", RECEIVE, options=("-q", "-t", "80s"))
    try:
        deadline = time.monotonic() + 30
        while not (place.workspace / "meet").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        start = time.monotonic()
        result = place.json(PYTHON, "-S", "-c", SEND)
    finally:
        subprocess.run(["kill", str(receiver.pid)], check=False)
        receiver.wait()
    assert result["stdout"] == "mine\nlent\n"  # control: while it ran, the other could
    assert time.monotonic() - start < 30  # long before the other one ends


def test_a_result_in_place_of_a_pipe_that_nobody_reads_is_refused_at_once(place):
    os.mkfifo(place.workspace / "result.json")
    place.own(place.workspace / "result.json")
    done = place.run("true", options=("-q", "--result", "result.json"), timeout=10)
    assert done.returncode == 125 and "--result" in done.stderr


def test_a_planted_link_is_replaced_and_not_followed(place):
    victim = place.write("victim", "untouched")
    for target in (str(victim), "/dev/null", "/dev/full"):
        link = place.workspace / "result.json"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert place.run("true", options=("-q", "--result", "result.json")).returncode == 0
        assert not link.is_symlink() and json.loads(link.read_text())["ok"] is True
    assert victim.read_text() == "untouched"


def test_what_the_agent_does_not_read_of_a_file_is_left_for_the_caller(place):
    path = place.write("input", "one\ntwo\nthree\n")
    with open(path, "rb", buffering=0) as file:
        late = place.run("sh", "-c", "sleep 0.2; head -c 4", stdin=file)
        assert (late.stdout, file.read()) == ("one\n", b"two\nthree\n")
