# SPDX-License-Identifier: MIT
"""Makes system calls that are newer than the list of those it may make."""
from lib import main, reached, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp: what is not listed does not exist"
CONTROL = "host"
NEEDS = "a system call that is newer than the list (Linux 6.17)"
EXPECT = "refused: ENOSYS"

# file_getattr, file_setattr and what followed; then numbers that nobody has.
NUMBERS = [*range(468, 480), 511, 1000, 2**31 - 1]


def attempt():
    bad = -1
    return try_each({
        str(number): lambda n=number: reached(syscall, n, bad, bad, bad, bad, bad)
        for number in NUMBERS
    })


main(attempt)
