# SPDX-License-Identifier: MIT
"""Connects to a service of the host on an abstract unix socket."""
import socket

from lib import main

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace; Landlock scope"
PREPARE = "unix_sockets"
CONTROL = "host"
EXPECT = "refused: ECONNREFUSED"


def attempt(abstract, **_):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + abstract)
        return client.recv(100).decode()


main(attempt)
