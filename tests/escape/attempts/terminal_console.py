# SPDX-License-Identifier: MIT
"""Sends a terminal the request that pastes on a console, TIOCLINUX."""
import os

from lib import UPPER_BITS, main, reached, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

TIOCLINUX = 0x541C


def attempt():
    _, terminal_fd = os.openpty()
    return try_each({
        "plain": lambda: reached(syscall, "ioctl", terminal_fd, TIOCLINUX, b"\x06"),
        "upper bits":
            lambda: reached(syscall, "ioctl", terminal_fd, TIOCLINUX | UPPER_BITS, b"\x06"),
    })


main(attempt)
