# SPDX-License-Identifier: MIT
"""Opens sockets of families that lead past IP: to the hypervisor, to drivers, to radio."""
import socket

from lib import main, syscall, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EAFNOSUPPORT"

ALLOWED = (0, socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
HIGHEST = 50  # AF_VSOCK is 40, AF_ALG 38, AF_BLUETOOTH 31


def attempt():
    return try_each({
        f"family {family}, type {kind}": lambda f=family, k=kind: syscall("socket", f, k, 0)
        for family in range(HIGHEST) if family not in ALLOWED for kind in (1, 2, 5)
    })


main(attempt)
