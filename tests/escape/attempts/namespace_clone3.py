# SPDX-License-Identifier: MIT
"""Makes a user namespace with clone3, whose flags no filter can read."""
import ctypes
import os
import signal

from lib import NAMESPACES, main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: ENOSYS"


def attempt():
    arguments = (ctypes.c_uint64 * 8)(NAMESPACES["user"], 0, 0, 0, signal.SIGCHLD)
    pid = syscall("clone3", arguments, ctypes.sizeof(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "a user namespace"


main(attempt)
