# SPDX-License-Identifier: MIT
"""Reads a secret from the memory of a process of the host."""
from lib import Refused, main, read_memory

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; PID namespace"
PREPARE = "victim"
CONTROL = "host"
EXPECT = "refused: EPERM"


def attempt(pid, address, marker):
    if read_memory(pid, address, len(marker)) == marker.encode():
        return marker
    raise Refused("readable, but not there")


main(attempt)
