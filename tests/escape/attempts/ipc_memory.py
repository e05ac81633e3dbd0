# SPDX-License-Identifier: MIT
"""Attaches to a System V shared memory segment of the host."""
import ctypes

from lib import libc, main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "IPC namespace"
PREPARE = "shared_memory"
CONTROL = "host"
EXPECT = "refused: ENOENT"

SHM_RDONLY = 0o10000


def attempt(key):
    segment = syscall("shmget", key, 0, 0)
    libc.shmat.restype = ctypes.c_void_p
    return ctypes.string_at(libc.shmat(segment, None, SHM_RDONLY)).decode()


main(attempt)
