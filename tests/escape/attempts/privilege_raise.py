# SPDX-License-Identifier: MIT
"""Puts capabilities back into its sets, and into those of what it executes."""
import ctypes

from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "all capabilities are dropped, also from the bounding set"
CONTROL = "userns"
EXPECT = "refused: EPERM"

CAPABILITY_VERSION_3 = 0x20080522
CAP_SYS_ADMIN = 21
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2


def set_all():
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    bit = 1 << CAP_SYS_ADMIN
    syscall("capset", header, (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0))


def attempt():
    return try_each({
        "ambient": lambda: syscall("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE,
                                   CAP_SYS_ADMIN, 0, 0),
        "capset": set_all,
    })


main(attempt)
