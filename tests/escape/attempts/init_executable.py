# SPDX-License-Identifier: MIT
"""Opens the program that PID 1 runs, warder's own file on the host, as the way to overwrite it."""
import os

from lib import main, touch

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "init is not dumpable"
CONTROL = "userns"
EXPECT = "refused: EACCES"


def attempt():
    touch("/proc/1/exe", os.O_RDONLY)
    return "open"


main(attempt)
