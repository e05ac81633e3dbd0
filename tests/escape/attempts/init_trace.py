# SPDX-License-Identifier: MIT
"""Traces PID 1."""
from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; init is not dumpable"
CONTROL = "userns"
EXPECT = "refused: EPERM"

PTRACE_SEIZE, PTRACE_ATTACH = 0x4206, 16


def attempt():
    return try_each({
        "seize": lambda: syscall("ptrace", PTRACE_SEIZE, 1, 0, 0),
        "attach": lambda: syscall("ptrace", PTRACE_ATTACH, 1, 0, 0),
    })


main(attempt)
