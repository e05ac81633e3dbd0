# SPDX-License-Identifier: MIT
"""Opens raw IP sockets and the old SOCK_PACKET, with flags and upper bits in the type."""
import socket

from lib import UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"

SOCK_PACKET = 10
IPPROTO_RAW = 255


def attempt():
    types = {"raw": socket.SOCK_RAW, "raw, close on exec": socket.SOCK_RAW | socket.SOCK_CLOEXEC,
             "raw, upper bits": socket.SOCK_RAW | UPPER_BITS}
    calls = {f"{name} {family.name}":
             lambda f=family, k=kind: syscall("socket", f, k, IPPROTO_RAW)
             for name, kind in types.items() for family in (socket.AF_INET, socket.AF_INET6)}
    calls["packet"] = lambda: syscall("socket", socket.AF_INET, SOCK_PACKET, 0x300)
    return try_each(calls)


main(attempt)
