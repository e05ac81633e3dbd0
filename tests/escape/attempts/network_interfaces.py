# SPDX-License-Identifier: MIT
"""Looks for a network interface besides the loopback."""
import socket

from lib import Refused, main

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace"
CONTROL = "host"
EXPECT = "refused: only lo"


def attempt():
    names = [name for _, name in socket.if_nameindex()]
    with open("/proc/net/dev", encoding="ascii") as table:
        names += [line.split(":")[0].strip() for line in table.readlines()[2:]]
    if set(names) - {"lo"}:
        return ", ".join(sorted(set(names)))
    raise Refused("only lo")


main(attempt)
