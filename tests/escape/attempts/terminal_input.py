# SPDX-License-Identifier: MIT
"""Types into its controlling terminal with TIOCSTI."""
from lib import main, on_terminal, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

TIOCSTI = 0x5412


def attempt():
    on_terminal(lambda: syscall("ioctl", 0, TIOCSTI, b"x"))
    return "typed"


main(attempt)
