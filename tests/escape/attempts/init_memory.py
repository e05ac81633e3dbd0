# SPDX-License-Identifier: MIT
"""Opens the memory of PID 1, to read the caller's secrets there or to write code into it."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "init is not dumpable"
CONTROL = "userns"
EXPECT = "refused: EACCES"


def attempt():
    return try_each({
        "read": lambda: touch("/proc/1/mem", os.O_RDONLY),
        "write": lambda: touch("/proc/1/mem", os.O_RDWR),
    })


main(attempt)
