# SPDX-License-Identifier: MIT
"""Plants a set-user-id file with mknod."""
import os
import stat

from lib import AT_FDCWD, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: EPERM"

NAME = b"planted"


def attempt():
    calls = {}
    for bits in (stat.S_IFREG | 0o4755, stat.S_IFREG | 0o2755, 0o4755):
        calls[f"mknod {bits:o}"] = lambda b=bits: syscall("mknod", NAME, b, 0)
        calls[f"mknodat {bits:o}"] = lambda b=bits: syscall("mknodat", AT_FDCWD, NAME, b, 0)
    try:
        return try_each(calls)
    finally:
        if os.path.exists(NAME):
            os.unlink(NAME)


main(attempt)
