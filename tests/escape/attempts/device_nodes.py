# SPDX-License-Identifier: MIT
"""Makes a device node in the workspace."""
import os
import stat

from lib import AT_FDCWD, UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities; nodev mounts"
CONTROL = "root"
EXPECT = "refused: EPERM"

NULL, DISK = os.makedev(1, 3), os.makedev(7, 200)


def attempt():
    calls = {}
    for name, kind, device in (("character", stat.S_IFCHR, NULL), ("block", stat.S_IFBLK, DISK)):
        for extra in (0, UPPER_BITS):
            mode = kind | 0o600 | extra
            calls |= {
                f"mknod {name} {extra:x}":
                    lambda m=mode, d=device: syscall("mknod", b"device", m, d),
                f"mknodat {name} {extra:x}":
                    lambda m=mode, d=device: syscall("mknodat", AT_FDCWD, b"device", m, d),
            }
    try:
        return try_each(calls)
    finally:
        if os.path.lexists("device"):
            os.unlink("device")


main(attempt)
