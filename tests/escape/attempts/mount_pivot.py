# SPDX-License-Identifier: MIT
"""Changes the root with pivot_root."""
import os

from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"


def attempt():
    os.makedirs("root", exist_ok=True)
    try:
        syscall("mount", b"none", b"root", b"tmpfs", 0, 0)
    except OSError:
        pass  # pivot_root itself is the question
    os.chdir("root")
    syscall("pivot_root", b".", b".")
    return "changed the root"


main(attempt)
