# SPDX-License-Identifier: MIT
"""Follows the magic links of PID 1 to the old root and to descriptors of the supervisor."""
import os

from lib import main, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "init is not dumpable"
CONTROL = "userns"
EXPECT = "refused: EACCES"


def attempt():
    calls = {name: lambda n=name: os.stat(f"/proc/1/{n}") for name in ("root", "cwd", "exe")}
    calls |= {name: lambda n=name: os.listdir(f"/proc/1/{n}") for name in ("fd", "map_files")}
    calls["ns"] = lambda: os.stat("/proc/1/ns/mnt")
    return try_each(calls)


main(attempt)
