# SPDX-License-Identifier: MIT
"""Takes memory without end by files in /tmp and /dev/shm and by memory without a name."""
import os

from lib import main

INVARIANT = "INV-BOUNDED"
LAYER = "memory control group"
WHO = ["root"]
OPTIONS = ["--memory", "64M", "--scratch", "512M"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--memory", "512M", "--scratch", "512M"]
EXPECT = "status: 137"

MIB = 1 << 20


def attempt():
    fds = [os.open("/tmp/big", os.O_CREAT | os.O_WRONLY), os.memfd_create("big"),
           os.open("/dev/shm/big", os.O_CREAT | os.O_WRONLY)]
    for i in range(128):
        os.write(fds[i % len(fds)], b"x" * MIB)
    return "128 MiB"


main(attempt)
