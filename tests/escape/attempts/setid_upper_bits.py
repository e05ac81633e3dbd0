# SPDX-License-Identifier: MIT
"""Plants a set-user-id file with modes whose upper half the kernel cuts off."""
import os
import stat

from lib import AT_FDCWD, UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp, which looks at the lower half"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: EPERM"

MODE = 0o4755 | UPPER_BITS
CREATE = os.O_CREAT | os.O_WRONLY


def attempt():
    fd = os.open("ordinary", CREATE, 0o755)
    try:
        return try_each({
            "chmod": lambda: syscall("chmod", b"ordinary", MODE),
            "fchmod": lambda: syscall("fchmod", fd, MODE),
            "fchmodat": lambda: syscall("fchmodat", AT_FDCWD, b"ordinary", MODE),
            "creat": lambda: syscall("creat", b"planted", MODE),
            "open": lambda: syscall("open", b"planted", CREATE | UPPER_BITS, MODE),
            "openat": lambda: syscall("openat", AT_FDCWD, b"planted", CREATE | UPPER_BITS, MODE),
            "mknod": lambda: syscall("mknod", b"planted", stat.S_IFREG | MODE, 0),
            "mknodat": lambda: syscall("mknodat", AT_FDCWD, b"planted", stat.S_IFREG | MODE, 0),
        })
    finally:
        for name in ("ordinary", "planted"):
            if os.path.exists(name):
                os.unlink(name)


main(attempt)
