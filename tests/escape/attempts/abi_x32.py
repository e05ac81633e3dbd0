# SPDX-License-Identifier: MIT
"""Makes system calls of the x32 ABI, which have numbers of their own."""
from lib import NUMBERS, main, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp: an ABI that is not listed has no calls"
CONTROL = "host"
NEEDS = "the x32 ABI (CONFIG_X86_X32_ABI)"
EXPECT = "refused: ENOSYS"

X32 = 0x40000000


def attempt():
    return try_each({
        "getpid": lambda: syscall(X32 | NUMBERS["getpid"]),
        "unshare": lambda: syscall(X32 | NUMBERS["unshare"], 0x10000000),
        "ptrace": lambda: syscall(X32 | 521, 16, 1, 0, 0),
        "socket": lambda: syscall(X32 | NUMBERS["socket"], 40, 1, 0),
    })


main(attempt)
