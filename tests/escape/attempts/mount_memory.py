# SPDX-License-Identifier: MIT
"""Mounts a file system over the workspace and over /proc."""
from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"


def attempt():
    return try_each({
        "tmpfs": lambda: syscall("mount", b"none", b".", b"tmpfs", 0, 0),
        "proc": lambda: syscall("mount", b"none", b"/proc", b"proc", 0, 0),
    })


main(attempt)
