# SPDX-License-Identifier: MIT
"""Reads what others wrote before into the pipe that is its standard output."""
import os
import sys

from lib import main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a pipe of our own stands before it; Landlock does not see pipes"
PREPARE = "output_pipe"
CONTROL = "host"
EXPECT = "refused: EAGAIN"  # its own pipe, and empty


def attempt():
    fd = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    return os.read(fd, 100).decode()


main(attempt, out=sys.stderr)
