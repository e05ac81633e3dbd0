# SPDX-License-Identifier: MIT
"""Ends the machine or starts another kernel; the arguments are wrong on purpose."""
from lib import main, reached, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp; no capabilities"
CONTROL = "root"
EXPECT = "refused: EPERM"


def attempt():
    return try_each({
        "reboot": lambda: reached(syscall, "reboot", 0, 0, 0, 0),  # the magic numbers are missing
        "kexec_load": lambda: reached(syscall, "kexec_load", 0, 9999, 0, 0),
        "kexec_file_load": lambda: reached(syscall, "kexec_file_load", -1, -1, 0, 0, 0),
    })


main(attempt)
