# SPDX-License-Identifier: MIT
"""Attaches to a process of the same sandbox that did not ask to be traced."""
from lib import Child, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

REQUESTS = {
    "seize": 0x4206, "attach": 16, "attach, upper bits": 16 | 1 << 32,
    "seize, upper bits": 0x4206 | 1 << 32,
}


def attempt():
    with Child() as pid:
        return try_each({
            name: lambda r=request: syscall("ptrace", r, pid, 0, 0)
            for name, request in REQUESTS.items()
        })


main(attempt)
