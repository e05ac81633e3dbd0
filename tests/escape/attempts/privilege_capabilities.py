# SPDX-License-Identifier: MIT
"""Looks for a capability in any of its sets."""
from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "all capabilities are dropped, also from the bounding set"
CONTROL = "host"
EXPECT = "refused: CapInh 0, CapPrm 0, CapEff 0, CapBnd 0, CapAmb 0"


def attempt():
    with open("/proc/self/status", encoding="ascii") as status:
        lines = [line.split(":") for line in status if line.startswith("Cap")]
    sets = ", ".join(f"{name} {int(value, 16):x}" for name, value in lines)
    if any(int(value, 16) for _, value in lines):
        return sets
    raise Refused(sets)


main(attempt)
