# SPDX-License-Identifier: MIT
"""Reaches a process of the host through its directory in /proc."""
import os

from lib import main, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "PID namespace"
PREPARE = "victim"
CONTROL = "host"
EXPECT = "refused: ENOENT"


def attempt(pid, **_):
    names = ("environ", "mem", "maps", "root", "cwd", "exe", "fd/0", "ns/net")
    return try_each({n: lambda n=n: os.stat(f"/proc/{pid}/{n}") for n in names})


main(attempt)
