# SPDX-License-Identifier: MIT
"""Plants a set-user-id file with fchmodat2, a call that is newer than most filters."""
import os

from lib import AT_FDCWD, UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = ["refused: EPERM", "refused: ENOSYS"]  # a libseccomp that does not know it closes it

NAME = b"planted"


def attempt():
    os.close(os.open(NAME, os.O_CREAT | os.O_WRONLY, 0o755))
    try:
        return try_each({
            f"{mode:o}": lambda m=mode: syscall("fchmodat2", AT_FDCWD, NAME, m, 0)
            for mode in (0o4755, 0o2755, 0o4755 | UPPER_BITS)
        })
    finally:
        os.unlink(NAME)


main(attempt)
