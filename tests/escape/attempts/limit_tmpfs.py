# SPDX-License-Identifier: MIT
"""Fills a file system in memory that the caller asked for."""
import os

from lib import main

INVARIANT = "INV-BOUNDED"
LAYER = "size of the mount"
OPTIONS = ["--tmpfs", "/cache:1M"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--tmpfs", "/cache:8M"]
EXPECT = "refused: ENOSPC"

MIB = 1 << 20


def attempt():
    with open("/cache/big", "wb", buffering=0) as file:
        for _ in range(4):
            file.write(b"x" * MIB)
    if os.stat("/cache/big").st_size == 4 * MIB:
        return "4 MiB"
    raise OSError("short")


main(attempt)
