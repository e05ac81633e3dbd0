# SPDX-License-Identifier: MIT
"""Makes namespaces and mounts through the 32-bit ABI."""
import os
import signal

from lib import NAMESPACES, main, syscall32, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, for both ABIs"
CONTROL = "host"
EXPECT = "refused: EPERM"

MOUNT, UMOUNT, PTRACE, CHROOT, CLONE, PIVOT_ROOT, UNSHARE, SETNS = (
    21, 52, 26, 61, 120, 217, 310, 346)
PTRACE_ATTACH = 16


def clone(flags):
    pid = syscall32(CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def attempt():
    return try_each({
        "unshare": lambda: syscall32(UNSHARE, NAMESPACES["user"]),
        "clone": lambda: clone(NAMESPACES["user"]),
        "setns": lambda: syscall32(SETNS, 0, 0),
        "mount": lambda: syscall32(MOUNT, b"none", b".", b"tmpfs", 0, 0),
        "umount": lambda: syscall32(UMOUNT, b"/proc", 2),
        "chroot": lambda: syscall32(CHROOT, b"."),
        "pivot_root": lambda: syscall32(PIVOT_ROOT, b".", b"."),
        "ptrace": lambda: syscall32(PTRACE, PTRACE_ATTACH, os.getppid(), 0, 0),
    })


main(attempt)
