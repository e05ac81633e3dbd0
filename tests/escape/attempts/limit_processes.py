# SPDX-License-Identifier: MIT
"""Starts processes without end."""
import os
import signal

from lib import main

INVARIANT = "INV-BOUNDED"
LAYER = "RLIMIT_NPROC; pids control group"
OPTIONS = ["--pids", "64"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--pids", "256"]
EXPECT = "refused: EAGAIN"

ENOUGH = 128


def attempt():
    children = []
    try:
        while len(children) < ENOUGH:
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
        return f"{len(children)} processes"
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


main(attempt)
