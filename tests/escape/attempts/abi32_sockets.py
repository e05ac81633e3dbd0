# SPDX-License-Identifier: MIT
"""Opens a socket to the hypervisor through the 32-bit ABI's socket call."""
from lib import main, syscall32, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp, for both ABIs"
CONTROL = "host"
EXPECT = "refused: EAFNOSUPPORT"

SOCKET = 359
FAMILIES = {"vsock": 40, "alg": 38, "packet": 17, "key": 15}


def attempt():
    return try_each({
        f"{name}, type {kind}": lambda f=family, k=kind: syscall32(SOCKET, f, k, 0)
        for name, family in FAMILIES.items() for kind in (1, 2, 3)
    })


main(attempt)
