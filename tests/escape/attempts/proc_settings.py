# SPDX-License-Identifier: MIT
"""Opens settings of the kernel for writing."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "read-only mount of /proc/sys"
CONTROL = "root"
EXPECT = ["refused: EROFS", "refused: EACCES"]

NAMES = ("kernel/core_pattern", "kernel/hostname", "vm/drop_caches", "vm/overcommit_memory",
         "net/ipv4/ip_forward", "fs/file-max")


def attempt():
    return try_each({n: lambda n=n: touch(f"/proc/sys/{n}", os.O_WRONLY) for n in NAMES})


main(attempt)
