# SPDX-License-Identifier: MIT
"""Renames the machine."""
from lib import main, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"


def attempt():
    return try_each({
        "host name": lambda: syscall("sethostname", b"mine", 4),
        "domain name": lambda: syscall("setdomainname", b"mine", 4),
    })


main(attempt)
