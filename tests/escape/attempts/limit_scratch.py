# SPDX-License-Identifier: MIT
"""Fills each writable directory in memory, and then all of them together."""
import os

from lib import main, try_each

INVARIANT = "INV-BOUNDED"
LAYER = "size of the root file system"
OPTIONS = ["--scratch", "8M"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--scratch", "64M"]
EXPECT = "refused: ENOSPC"

MIB = 1 << 20
DIRECTORIES = ("/tmp", "/run", os.environ["HOME"], "/dev/shm")


def fill(directory, count):
    """Writes `count` MiB; returns the name."""
    path = f"{directory}/big"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for _ in range(count):
            os.write(fd, b"x" * MIB)
            if os.fstat(fd).st_size % MIB:  # a short write: the next one would fail
                os.write(fd, b"x" * MIB)
    finally:
        os.close(fd)
    return path


def alone(directory):
    try:
        fill(directory, 16)
    finally:
        os.unlink(f"{directory}/big")


def together():
    for directory in DIRECTORIES:
        fill(directory, 4)


def attempt():
    return try_each({
        **{directory: lambda d=directory: alone(d) for directory in DIRECTORIES},
        "together": together,
    })


main(attempt)
