# SPDX-License-Identifier: MIT
"""Opens a release agent, a limit or a member list of a control group for writing."""
import os

from lib import Refused, main, touch

INVARIANT = "INV-BOUNDED"
LAYER = "mount namespace: no cgroup file system"
CONTROL = "root"
EXPECT = "refused: not there"

NAMES = ("release_agent", "cgroup.procs", "tasks", "memory.limit_in_bytes", "memory.max")


def attempt():
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        tops = [line.split()[4] for line in table if " - cgroup" in line]
    for top in [*tops, "/sys/fs/cgroup"]:
        for name in NAMES:
            path = f"{top}/{name}"
            if os.path.exists(path):
                touch(path, os.O_WRONLY)
                return path
    raise Refused("not there")


main(attempt)
