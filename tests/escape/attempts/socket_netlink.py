# SPDX-License-Identifier: MIT
"""Opens netlink sockets other than routing: audit, netfilter, device events, generic."""
import socket

from lib import UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

PROTOCOLS = {"netfilter": 12, "audit": 9, "device events": 15, "generic": 16, "diag": 4,
             "xfrm": 6, "crypto": 21, "connector": 11, "netfilter, upper bits": 12 | UPPER_BITS,
             "routing, upper bits": UPPER_BITS}


def attempt():
    return try_each({
        name: lambda p=protocol: syscall("socket", socket.AF_NETLINK, socket.SOCK_RAW, p)
        for name, protocol in PROTOCOLS.items()
    })


main(attempt)
