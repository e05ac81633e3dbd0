# SPDX-License-Identifier: MIT
"""Makes page faults wait at will with userfaultfd."""
from lib import main, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

UFFD_USER_MODE_ONLY = 1


def attempt():
    return try_each({
        "user mode": lambda: syscall("userfaultfd", UFFD_USER_MODE_ONLY),
        "kernel mode": lambda: syscall("userfaultfd", 0),
    })


main(attempt)
