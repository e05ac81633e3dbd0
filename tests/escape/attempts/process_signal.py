# SPDX-License-Identifier: MIT
"""Signals a process of the host, by its number and by a descriptor for it."""
import os

from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "PID namespace; Landlock scope"
PREPARE = "victim"
CONTROL = "host"
EXPECT = "refused: ESRCH"


def attempt(pid, **_):
    return try_each({
        "kill": lambda: os.kill(pid, 0),
        "pidfd": lambda: syscall("pidfd_send_signal", syscall("pidfd_open", pid, 0), 0, 0, 0),
    })


main(attempt)
