# SPDX-License-Identifier: MIT
"""Sends datagrams to an address of the internet."""
import socket

from lib import main, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace: no route"
CONTROL = "internet"
EXPECT = "refused: ENETUNREACH"


def send(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(b"question", (address, 443))
        client.recv(100)


def attempt():
    return try_each({
        "IPv4": lambda: send(socket.AF_INET, "198.51.100.1"),
        "IPv6": lambda: send(socket.AF_INET6, "2001:db8::1"),
        "multicast": lambda: send(socket.AF_INET, "224.0.0.251"),
    })


main(attempt)
