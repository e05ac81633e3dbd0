# SPDX-License-Identifier: MIT
"""Uses a directory that the caller had open when it started the run."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "descriptors above 2 are closed"
PREPARE = "open_directory"
CONTROL = "host"
EXPECT = "refused: no such descriptor"


def attempt():
    for fd in range(3, 1024):
        try:
            return os.read(os.open("secret", os.O_RDONLY, dir_fd=fd), 100).decode()
        except OSError:
            pass
    raise Refused("no such descriptor")


main(attempt)
