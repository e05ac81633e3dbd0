# SPDX-License-Identifier: MIT
"""Plants a set-user-id file through the 32-bit ABI."""
import os

from lib import main, syscall32, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, for both ABIs"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: EPERM"

OPEN, CREAT, MKNOD, CHMOD, FCHMOD, OPENAT, MKNODAT, FCHMODAT = 5, 8, 14, 15, 94, 295, 297, 306
AT_FDCWD = -100
CREATE = os.O_CREAT | os.O_WRONLY


def attempt():
    os.umask(0)
    fd = os.open("ordinary", CREATE, 0o755)
    calls = {}
    for mode in (0o4755, 0o2755):
        calls |= {
            f"chmod {mode:o}": lambda m=mode: syscall32(CHMOD, b"ordinary", m),
            f"fchmod {mode:o}": lambda m=mode: syscall32(FCHMOD, fd, m),
            f"fchmodat {mode:o}": lambda m=mode: syscall32(FCHMODAT, AT_FDCWD, b"ordinary", m),
            f"open {mode:o}": lambda m=mode: syscall32(OPEN, b"planted", CREATE, m),
            f"openat {mode:o}": lambda m=mode: syscall32(OPENAT, AT_FDCWD, b"planted", CREATE, m),
            f"creat {mode:o}": lambda m=mode: syscall32(CREAT, b"planted", m),
            f"mknod {mode:o}": lambda m=mode: syscall32(MKNOD, b"planted", m, 0),
            f"mknodat {mode:o}": lambda m=mode: syscall32(MKNODAT, AT_FDCWD, b"planted", m, 0),
        }
    try:
        return try_each(calls)
    finally:
        for name in ("ordinary", "planted"):
            if os.path.exists(name):
                os.unlink(name)


main(attempt)
