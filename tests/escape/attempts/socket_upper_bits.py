# SPDX-License-Identifier: MIT
"""Hides the family of a socket behind bits that the kernel cuts off."""
from lib import UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EAFNOSUPPORT"

FAMILIES = {"vsock": 40, "alg": 38, "bluetooth": 31, "packet": 17, "key": 15, "ax25": 3}


def attempt():
    return try_each({
        f"{name}, type {kind}": lambda f=family, k=kind: syscall("socket", f | UPPER_BITS, k, 0)
        for name, family in FAMILIES.items() for kind in (1, 2, 3, 5)
    })


main(attempt)
