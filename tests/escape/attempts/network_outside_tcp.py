# SPDX-License-Identifier: MIT
"""Connects to an address of the internet."""
import socket

from lib import main, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace: no route"
CONTROL = "internet"
EXPECT = "refused: ENETUNREACH"


def connect(address, port):
    socket.create_connection((address, port), timeout=5).close()


def attempt():
    return try_each({
        "IPv4": lambda: connect("198.51.100.1", 443),
        "IPv6": lambda: connect("2001:db8::1", 443),
        "IPv4 in IPv6": lambda: connect("::ffff:198.51.100.1", 443),
    })


main(attempt)
