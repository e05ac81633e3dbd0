# SPDX-License-Identifier: MIT
"""Resolves a name of the internet, which would also be a way to send data out."""
import socket

from lib import Refused, main

INVARIANT = "INV-NETWORK-DENY"
LAYER = "network namespace; no resolver"
CONTROL = "internet"
EXPECT = "refused: EAI_AGAIN"


def attempt():
    try:
        return socket.getaddrinfo("example.com", 443)[0][4][0]
    except socket.gaierror as error:
        names = {socket.EAI_AGAIN: "EAI_AGAIN", socket.EAI_NONAME: "EAI_NONAME"}
        raise Refused(names.get(error.errno, error)) from error


main(attempt)
