# SPDX-License-Identifier: MIT
"""Changes the root with chroot, the first half of the classic way out of one."""
from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"


def attempt():
    syscall("chroot", b".")
    return "changed the root"


main(attempt)
