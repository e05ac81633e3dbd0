# SPDX-License-Identifier: MIT
"""Traces a process of the host that belongs to the same user."""
from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; PID namespace"
PREPARE = "victim"
CONTROL = "host"
EXPECT = "refused: EPERM"

PTRACE_SEIZE, PTRACE_ATTACH = 0x4206, 16


def attempt(pid, **_):
    return try_each({
        "seize": lambda: syscall("ptrace", PTRACE_SEIZE, pid, 0, 0),
        "attach": lambda: syscall("ptrace", PTRACE_ATTACH, pid, 0, 0),
    })


main(attempt)
