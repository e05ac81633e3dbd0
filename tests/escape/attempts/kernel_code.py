# SPDX-License-Identifier: MIT
"""Loads code into the kernel: a map for BPF programs, a module."""
import struct

from lib import main, reached, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "root"
EXPECT = "refused: EPERM"

BPF_MAP_CREATE, BPF_MAP_TYPE_ARRAY = 0, 2


def attempt():
    array = struct.pack("5I", BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0) + bytes(100)
    return try_each({
        "bpf": lambda: syscall("bpf", BPF_MAP_CREATE, array, len(array)),
        "init_module": lambda: reached(syscall, "init_module", 0, 0, b""),
        "finit_module": lambda: reached(syscall, "finit_module", -1, b"", 0),
        "delete_module": lambda: reached(syscall, "delete_module", b"no-such-module", 0),
    })


main(attempt)
