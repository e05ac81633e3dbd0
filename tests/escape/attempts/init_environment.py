# SPDX-License-Identifier: MIT
"""Reads the environment of PID 1, which began as a copy of the caller's process."""
from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "init is not dumpable"
PREPARE = "caller_secret"
CONTROL = "userns"
EXPECT = "refused: EACCES"


def attempt(marker):
    with open("/proc/1/environ", "rb") as environ:
        if marker.encode() in environ.read():
            return marker
    raise Refused("readable, but not there")


main(attempt)
