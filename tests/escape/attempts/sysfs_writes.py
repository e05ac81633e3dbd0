# SPDX-License-Identifier: MIT
"""Opens settings of the kernel and of devices in /sys for writing."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "mount namespace: no /sys"
CONTROL = "root"
EXPECT = "refused: ENOENT"

NAMES = ("kernel/uevent_helper", "kernel/mm/transparent_hugepage/enabled", "power/state",
         "module/printk/parameters/time", "kernel/debug/x", "kernel/tracing/tracing_on")


def attempt():
    return try_each({name: lambda n=name: touch(f"/sys/{n}", os.O_WRONLY) for name in NAMES})


main(attempt)
