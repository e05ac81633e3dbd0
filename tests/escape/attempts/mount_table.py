# SPDX-License-Identifier: MIT
"""Looks in the mount table for the root file system of the host."""
from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "the old root is unmounted"
PREPARE = "host_root"
CONTROL = "host"
EXPECT = "refused: not there"


def attempt(device):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        for line in table:
            fields = line.split()
            if fields[2] == device and fields[3] == "/":
                return line.strip()
    raise Refused("not there")


main(attempt)
