# SPDX-License-Identifier: MIT
"""Plants a set-user-id file by creating it with that mode."""
import os

from lib import AT_FDCWD, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: EPERM"

NAME = b"planted"
CREATE = os.O_CREAT | os.O_WRONLY
TEMPORARY = os.O_TMPFILE | os.O_WRONLY


def attempt():
    os.umask(0)
    calls = {}
    for mode in (0o4755, 0o2755, 0o6755):
        calls |= {
            f"open {mode:o}": lambda m=mode: syscall("open", NAME, CREATE, m),
            f"openat {mode:o}": lambda m=mode: syscall("openat", AT_FDCWD, NAME, CREATE, m),
            f"creat {mode:o}": lambda m=mode: syscall("creat", NAME, m),
            f"temporary {mode:o}": lambda m=mode: syscall("open", b".", TEMPORARY, m),
            f"temporary at {mode:o}":
                lambda m=mode: syscall("openat", AT_FDCWD, b".", TEMPORARY, m),
        }
    try:
        return try_each(calls)
    finally:
        if os.path.exists(NAME):
            os.unlink(NAME)


main(attempt)
