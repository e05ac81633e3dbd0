# SPDX-License-Identifier: MIT
"""Sends a datagram to a service on the host's loopback, and waits for the answer."""
import socket

from lib import main

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace"
PREPARE = "loopback_services"
CONTROL = "host"
EXPECT = "refused: ECONNREFUSED"


def attempt(udp4, **_):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect(("127.0.0.1", udp4))
        client.send(b"question")
        return client.recv(100).decode()


main(attempt)
