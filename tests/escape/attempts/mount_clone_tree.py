# SPDX-License-Identifier: MIT
"""Copies the tree with open_tree, makes the copy writable and moves it about."""
import ctypes

from lib import AT_FDCWD, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"

OPEN_TREE_CLONE = 1
MOUNT_ATTR_RDONLY = 1


def clear_readonly():
    attributes = (ctypes.c_uint64 * 4)(0, MOUNT_ATTR_RDONLY, 0, 0)
    syscall("mount_setattr", AT_FDCWD, b"/usr", 0, attributes, 32)


def attempt():
    return try_each({
        "open_tree": lambda: syscall("open_tree", AT_FDCWD, b"/usr", OPEN_TREE_CLONE),
        "mount_setattr": clear_readonly,
        "move_mount": lambda: syscall("move_mount", AT_FDCWD, b"/usr", AT_FDCWD, b"/tmp", 0),
    })


main(attempt)
