# SPDX-License-Identifier: MIT
"""Writes into the pipe that is its standard input, for the next process that reads from it."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a pipe of our own stands before it; Landlock does not see pipes"
PREPARE = "input_pipe"
CONTROL = "host"
EXPECT = "refused: another pipe"


def attempt(inode):
    if os.fstat(0).st_ino != inode:
        raise Refused("another pipe")
    fd = os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, b"injected")
    return "written"


main(attempt)
