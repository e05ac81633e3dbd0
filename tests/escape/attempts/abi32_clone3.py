# SPDX-License-Identifier: MIT
"""Calls what the filter hides entirely through the 32-bit ABI: clone3 and openat2."""
from lib import main, reached, syscall32, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, for both ABIs"
CONTROL = "host"
EXPECT = "refused: ENOSYS"

CLONE3, OPENAT2 = 435, 437


def attempt():
    return try_each({
        "clone3": lambda: reached(syscall32, CLONE3, 0, 0),
        "openat2": lambda: reached(syscall32, OPENAT2, 0, 0, 0, 0),
    })


main(attempt)
