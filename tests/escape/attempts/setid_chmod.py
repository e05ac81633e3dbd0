# SPDX-License-Identifier: MIT
"""Plants a set-user-id file in the workspace with chmod and its kin."""
import os

from lib import AT_FDCWD, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: EPERM"

NAME = b"planted"


def attempt():
    fd = os.open(NAME, os.O_CREAT | os.O_WRONLY, 0o755)
    calls = {}
    for mode in (0o4755, 0o2755, 0o6755, 0o104755):
        calls[f"chmod {mode:o}"] = lambda m=mode: syscall("chmod", NAME, m)
        calls[f"fchmod {mode:o}"] = lambda m=mode: syscall("fchmod", fd, m)
        calls[f"fchmodat {mode:o}"] = lambda m=mode: syscall("fchmodat", AT_FDCWD, NAME, m)
    try:
        return try_each(calls)
    finally:
        os.unlink(NAME)


main(attempt)
