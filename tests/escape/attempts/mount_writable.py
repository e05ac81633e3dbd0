# SPDX-License-Identifier: MIT
"""Makes the read-only system writable by a remount."""
from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"

MS_REMOUNT, MS_BIND = 32, 4096


def attempt():
    try:
        syscall("mount", b"/usr", b"/usr", 0, MS_BIND, 0)
    except OSError:
        pass  # it may be a mount already
    syscall("mount", 0, b"/usr", 0, MS_REMOUNT | MS_BIND, 0)
    return "remounted /usr"


main(attempt)
