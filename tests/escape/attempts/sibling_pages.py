# SPDX-License-Identifier: MIT
"""Moves and advises on the pages of another process."""
import ctypes
import os

from lib import Child, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

MADV_COLD = 20

page = ctypes.create_string_buffer(8192)


def attempt():
    aligned = ctypes.addressof(page) + 4095 & ~4095
    vector = (ctypes.c_size_t * 2)(aligned, 4096)
    nodes = (ctypes.c_ulong * 1)(1)
    with Child() as pid:
        pidfd = os.pidfd_open(pid)
        return try_each({
            "process_madvise": lambda: syscall("process_madvise", pidfd, vector, 1, MADV_COLD, 0),
            "move_pages": lambda: syscall("move_pages", pid, 0, 0, 0, 0, 0),
            "migrate_pages": lambda: syscall("migrate_pages", pid, 64, nodes, nodes),
        })


main(attempt)
