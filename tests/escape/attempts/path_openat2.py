# SPDX-License-Identifier: MIT
"""Opens a file with openat2, whose mode no filter can read."""
import ctypes
import os

from lib import AT_FDCWD, main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: ENOSYS"


def attempt():
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    fd = syscall("openat2", AT_FDCWD, b"planted", how, 24)
    os.unlink("planted")
    return f"mode {os.fstat(fd).st_mode:o}"


main(attempt)
