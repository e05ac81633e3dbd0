# SPDX-License-Identifier: MIT
"""Makes the kernel create a socket of a forbidden family by asking for a pair of them."""
import ctypes
import errno

from lib import low, main, syscall, syscall32, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EAFNOSUPPORT"

SOCK_STREAM, SOCK_DGRAM = 1, 2
SOCKETPAIR_32 = 360
FAMILIES = {"vsock": 40, "tipc": 30, "bluetooth": 31, "alg": 38, "smc": 43}


def make_pair(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        # Two sockets were made, and then found to be of a family that knows no pairs.
        if error.errno != errno.EOPNOTSUPP:
            raise


def attempt():
    pair, low_pair = (ctypes.c_int * 2)(), low(bytes(8))
    calls = {}
    for name, family in FAMILIES.items():
        for kind in (SOCK_STREAM, SOCK_DGRAM):
            calls[f"{name} {kind}"] = lambda f=family, k=kind: make_pair(
                syscall, "socketpair", f, k, 0, pair)
            calls[f"{name} {kind}, 32-bit"] = lambda f=family, k=kind: make_pair(
                syscall32, SOCKETPAIR_32, f, k, 0, low_pair)
    return try_each(calls)


main(attempt)
