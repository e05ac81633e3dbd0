# SPDX-License-Identifier: MIT
"""Empties the file that is its standard output through its name."""
import os
import sys

from lib import main, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a pipe of our own stands before the file"
PREPARE = "output_file"
CONTROL = "host"
EXPECT = "refused: EINVAL"  # a pipe has no size


def attempt():
    return try_each({
        "descriptor": lambda: os.ftruncate(1, 0),
        "path": lambda: os.truncate("/proc/self/fd/1", 0),
        "device": lambda: os.truncate("/dev/stdout", 0),
    })


main(attempt, out=sys.stderr)
