# SPDX-License-Identifier: MIT
"""Unmounts what covers a part of /proc."""
from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities; locked mounts"
CONTROL = "userns"
EXPECT = "refused: EPERM"

MNT_DETACH = 2


def attempt():
    try:
        syscall("mount", b"none", b"/proc/sys", b"tmpfs", 0, 0)
    except OSError:
        pass  # the sandbox has covered it already
    syscall("umount2", b"/proc/sys", MNT_DETACH)
    return "uncovered /proc/sys"


main(attempt)
