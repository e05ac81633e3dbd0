# SPDX-License-Identifier: MIT
"""Takes memory without end."""
from lib import main

INVARIANT = "INV-BOUNDED"
LAYER = "memory control group"
WHO = ["root"]
OPTIONS = ["--memory", "64M"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--memory", "512M"]
EXPECT = "status: 137"

MIB = 1 << 20


def attempt():
    blocks = [b"x" * MIB for _ in range(128)]
    return f"{len(blocks)} MiB"


main(attempt)
