# SPDX-License-Identifier: MIT
"""Looks for a secret of the caller in the environment and arguments of every other process."""
import glob
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "PID namespace; init wipes what it copied from the caller"
PREPARE = "caller_secret"
CONTROL = "userns"
EXPECT = "refused: not there"


def attempt(marker):
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        if path.startswith(f"/proc/{os.getpid()}/"):
            continue  # it was told the marker, to know it when it sees it
        try:
            with open(path, "rb") as file:
                if marker.encode() in file.read():
                    return path
        except OSError:
            pass
    raise Refused("not there")


main(attempt)
