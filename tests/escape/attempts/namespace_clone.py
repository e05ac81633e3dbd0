# SPDX-License-Identifier: MIT
"""Makes new namespaces with clone."""
import os
import signal

from lib import NAMESPACES, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"


def clone(flags):
    pid = syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def attempt():
    return try_each({
        name: lambda f=flag: clone(f) for name, flag in NAMESPACES.items() if name != "time"
    })


main(attempt)
