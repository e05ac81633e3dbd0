# SPDX-License-Identifier: MIT
"""Gives the file that is its standard input a name in the workspace."""
import ctypes
import os

from lib import libc, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "separate mounts; Landlock"
PREPARE = "input_file"
CONTROL = "host"
EXPECT = ["refused: EXDEV", "refused: EACCES"]

AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


def attempt():
    if libc.linkat(AT_FDCWD, b"/proc/self/fd/0", AT_FDCWD, b"second", AT_SYMLINK_FOLLOW) < 0:
        raise OSError(ctypes.get_errno(), "linkat")
    return os.stat("second").st_ino


main(attempt)
