# SPDX-License-Identifier: MIT
"""Finds a process of the host in /proc by its command line."""
import glob
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "PID namespace"
PREPARE = "victim"
CONTROL = "host"
EXPECT = "refused: not there"


def attempt(marker, **_):
    for path in set(glob.glob("/proc/[0-9]*/cmdline")) - {f"/proc/{os.getpid()}/cmdline"}:
        try:
            with open(path, "rb") as cmdline:
                if marker.encode() in cmdline.read():
                    return path
        except OSError:
            pass
    raise Refused("not there")


main(attempt)
