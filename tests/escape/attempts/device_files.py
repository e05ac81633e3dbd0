# SPDX-License-Identifier: MIT
"""Opens memory, the kernel's log, disks and terminals of the host in /dev."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "mount namespace: /dev has six devices"
CONTROL = "root"
EXPECT = "refused: ENOENT"

NAMES = ("mem", "kmem", "port", "kmsg", "vda", "sda", "nvme0n1", "loop0", "loop-control",
         "mapper/control", "net/tun", "fuse", "kvm", "vsock", "console", "tty0", "tty1", "ttyS0",
         "userfaultfd", "snapshot", "input/event0", "dri/card0")


def attempt():
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    return try_each({name: lambda n=name: touch(f"/dev/{n}", flags) for name in NAMES})


main(attempt)
