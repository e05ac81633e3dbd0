# SPDX-License-Identifier: MIT
"""Takes a descriptor out of another process, and compares what two processes hold."""
import os

from lib import Child, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

KCMP_FILES = 2


def attempt():
    with Child() as pid:
        pidfd = os.pidfd_open(pid)
        return try_each({
            "pidfd_getfd": lambda: syscall("pidfd_getfd", pidfd, 1, 0),
            "kcmp": lambda: syscall("kcmp", os.getpid(), pid, KCMP_FILES, 0, 0),
        })


main(attempt)
