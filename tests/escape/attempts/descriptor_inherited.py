# SPDX-License-Identifier: MIT
"""Looks for any open descriptor besides the standard three."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "descriptors above 2 are closed"
PREPARE = "open_directory"
CONTROL = "host"
EXPECT = "refused: none"


def attempt():
    found = []
    for fd in range(3, 4096):
        try:
            found.append(f"{fd} {os.fstat(fd).st_mode:o}")
        except OSError:
            pass
    if found:
        return ", ".join(found)
    raise Refused("none")


main(attempt)
