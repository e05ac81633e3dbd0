# SPDX-License-Identifier: MIT
"""Adds an address and a route to its own network namespace by routing netlink."""
import socket
import struct

from lib import main

INVARIANT = "INV-NETWORK-DENY"
LAYER = "no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"

RTM_NEWADDR, NLM_REQUEST_ACK_CREATE = 20, 0x405
IFA_LOCAL = 2


def attempt():
    body = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, socket.if_nametoindex("lo"))
    body += struct.pack("HH4s", 8, IFA_LOCAL, socket.inet_aton("198.51.100.7"))
    head = struct.pack("IHHII", 16 + len(body), RTM_NEWADDR, NLM_REQUEST_ACK_CREATE, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as routing:
        routing.bind((0, 0))
        routing.send(head + body)
        error = -struct.unpack_from("i", routing.recv(4096), 16)[0]
    if error:
        raise OSError(error, "RTM_NEWADDR")
    return "an address"


main(attempt)
