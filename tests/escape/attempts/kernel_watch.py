# SPDX-License-Identifier: MIT
"""Watches every access to whole file systems with fanotify."""
from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "root"
EXPECT = "refused: EPERM"


def attempt():
    return f"descriptor {syscall('fanotify_init', 0, 0)}"


main(attempt)
