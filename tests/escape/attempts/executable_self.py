# SPDX-License-Identifier: MIT
"""Overwrites the program it was started from, once that no longer runs."""
import json
import os
import sys

from lib import main, touch

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "read-only mount; Landlock"
PREPARE = "shown_interpreter"
CONTROL = "host"
EXPECT = "refused: EROFS"


def attempt(interpreter=None, fd=None):
    if interpreter:
        os.execv(interpreter, [interpreter, "-S", *sys.argv[:1]])
    if fd is None:
        fd = os.open("/proc/self/exe", os.O_PATH)
        os.set_inheritable(fd, True)
        again = json.dumps({"fd": fd})
        os.execv("/usr/bin/python3", ["python3", "-S", sys.argv[0], again])
    touch(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_APPEND)
    return "open for writing"


main(attempt)
