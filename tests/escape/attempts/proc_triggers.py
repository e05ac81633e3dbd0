# SPDX-License-Identifier: MIT
"""Opens files of /proc that act on the machine, or tell about its memory and keys."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "masks over files of /proc"
CONTROL = "root"
EXPECT = "refused: EACCES"

READ = ("kcore", "key-users", "keys", "kmsg", "kpagecount", "kpageflags", "timer_list", "scsi",
        "acpi")
WRITE = ("sysrq-trigger", "irq/default_smp_affinity")


def exists(name):
    return os.path.exists(f"/proc/{name}")


def attempt():
    flags = os.O_RDONLY | os.O_NONBLOCK
    calls = {n: lambda n=n: touch(f"/proc/{n}", flags) for n in READ if exists(n)}
    calls |= {n: lambda n=n: touch(f"/proc/{n}", os.O_WRONLY) for n in WRITE if exists(n)}
    return try_each(calls)


main(attempt)
