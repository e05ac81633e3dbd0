# SPDX-License-Identifier: MIT
"""Joins a namespace by a descriptor for it."""
import os

from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "userns"
EXPECT = "refused: EPERM"


def join(name):
    fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    syscall("setns", fd, 0)


def attempt():
    return try_each({name: lambda n=name: join(n) for name in ("net", "mnt", "uts", "pid")})


main(attempt)
