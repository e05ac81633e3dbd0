# SPDX-License-Identifier: MIT
"""Sets up an io_uring, which runs system calls that no filter sees."""
import ctypes

from lib import main, syscall

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"


def attempt():
    return f"descriptor {syscall('io_uring_setup', 1, ctypes.create_string_buffer(120))}"


main(attempt)
