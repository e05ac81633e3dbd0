# SPDX-License-Identifier: MIT
"""Chooses the number of the next process."""
import os

from lib import main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "read-only mount of /proc/sys"
CONTROL = "userns"
EXPECT = "refused: EROFS"


def attempt():
    fd = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
    os.write(fd, b"5000")
    return "written"


main(attempt)
