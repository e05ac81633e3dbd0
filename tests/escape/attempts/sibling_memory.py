# SPDX-License-Identifier: MIT
"""Reads and writes the memory of another process of the same sandbox."""
import ctypes

from lib import Child, main, read_memory, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

buffer = ctypes.create_string_buffer(b"at the same address in a forked child")


def write_memory(pid):
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), len(buffer))
    syscall("process_vm_writev", pid, vector, 1, vector, 1, 0)


def attempt():
    with Child() as pid:
        return try_each({
            "read": lambda: read_memory(pid, ctypes.addressof(buffer), len(buffer)),
            "write": lambda: write_memory(pid),
        })


main(attempt)
