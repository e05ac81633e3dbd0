# SPDX-License-Identifier: MIT
"""Fills the memory of the kernel with empty files, each of which takes no space of its own."""
import os

from lib import main

INVARIANT = "INV-BOUNDED"
LAYER = "size of the root file system"
OPTIONS = ["--scratch", "8M"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--scratch", "1G"]
EXPECT = "refused: ENOSPC"

COUNT = 32768  # at a good kilobyte each, four times the size that was granted


def attempt():
    for i in range(COUNT):
        os.mknod(f"/tmp/{i}")
    return f"{COUNT} files"


main(attempt)
