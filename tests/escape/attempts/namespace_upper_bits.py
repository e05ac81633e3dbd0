# SPDX-License-Identifier: MIT
"""Makes new namespaces with clone and flags whose upper half the kernel cuts off."""
import os
import signal

from lib import NAMESPACES, UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, which looks at the lower half"
CONTROL = "host"
EXPECT = "refused: EPERM"


def clone(flags):
    pid = syscall("clone", flags | signal.SIGCHLD | UPPER_BITS, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def attempt():
    return try_each({
        name: lambda f=flag: clone(f) for name, flag in NAMESPACES.items() if name != "time"
    })


main(attempt)
