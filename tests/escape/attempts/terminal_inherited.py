# SPDX-License-Identifier: MIT
"""Looks whether one of its standard descriptors is the caller's terminal."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a pipe stands between the caller's terminal and the agent"
PREPARE = "host_terminal"
OPTIONS = ["--no-tty"]
CONTROL = "host"
EXPECT = "refused: none"


def attempt(device, **_):
    for fd in range(3):
        if os.isatty(fd) and os.fstat(fd).st_rdev == device:
            return f"descriptor {fd} is {os.readlink(f'/proc/self/fd/{fd}')}"
    raise Refused("none")


main(attempt)
