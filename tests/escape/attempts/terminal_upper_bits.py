# SPDX-License-Identifier: MIT
"""Types into its controlling terminal with a request whose upper half the kernel cuts off."""
from lib import UPPER_BITS, main, on_terminal, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, which looks at the lower half"
CONTROL = "host"
EXPECT = "refused: EPERM"

TIOCSTI = 0x5412


def attempt():
    on_terminal(lambda: syscall("ioctl", 0, TIOCSTI | UPPER_BITS, b"x"))
    return "typed"


main(attempt)
