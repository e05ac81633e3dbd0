# SPDX-License-Identifier: MIT
"""Connects to services that the host offers on its own loopback addresses."""
import socket

from lib import main, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace"
PREPARE = "loopback_services"
CONTROL = "host"
EXPECT = "refused: ECONNREFUSED"


def attempt(tcp4, tcp6, **_):
    return try_each({
        "IPv4": lambda: socket.create_connection(("127.0.0.1", tcp4), timeout=5).close(),
        "IPv6": lambda: socket.create_connection(("::1", tcp6), timeout=5).close(),
    })


main(attempt)
