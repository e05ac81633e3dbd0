# SPDX-License-Identifier: MIT
"""Writes to the file that is its standard input, opened for reading only."""
import os
import stat

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a pipe of our own stands before the file"
PREPARE = "input_file"
CONTROL = "host"
EXPECT = "refused: not the file"


def attempt():
    for path in ("/proc/self/fd/0", "/dev/stdin"):
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return path
    raise Refused("not the file")


main(attempt)
