# SPDX-License-Identifier: MIT
"""Makes a mount by descriptors: fsopen, fsconfig, fsmount, move_mount, fspick."""
from lib import AT_FDCWD, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"

FSCONFIG_CMD_CREATE = 6
MOVE_MOUNT_F_EMPTY_PATH = 4


def make_and_attach():
    fs_fd = syscall("fsopen", b"tmpfs", 0)
    syscall("fsconfig", fs_fd, FSCONFIG_CMD_CREATE, 0, 0, 0)
    mount_fd = syscall("fsmount", fs_fd, 0, 0)
    syscall("move_mount", mount_fd, b"", AT_FDCWD, b".", MOVE_MOUNT_F_EMPTY_PATH)


def attempt():
    return try_each({
        "all four": make_and_attach,
        "fsconfig": lambda: syscall("fsconfig", 0, FSCONFIG_CMD_CREATE, 0, 0, 0),
        "fsmount": lambda: syscall("fsmount", 0, 0, 0),
        "fspick": lambda: syscall("fspick", AT_FDCWD, b"/", 0),
    })


main(attempt)
