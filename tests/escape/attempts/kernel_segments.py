# SPDX-License-Identifier: MIT
"""Reads its table of 16-bit segments, an interface with a history of holes."""
import ctypes

from lib import main, syscall

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

READ_LDT = 0


def attempt():
    return f"{syscall('modify_ldt', READ_LDT, ctypes.create_string_buffer(16), 16)} bytes"


main(attempt)
