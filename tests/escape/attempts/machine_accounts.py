# SPDX-License-Identifier: MIT
"""Changes swap, quotas, accounting and ports; the files it names are not there."""
from lib import main, reached, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp; no capabilities"
CONTROL = "root"
EXPECT = "refused: EPERM"

NOWHERE = b"/no/such/file"
Q_SYNC = 0x800001 << 8


def attempt():
    return try_each({
        "swapon": lambda: reached(syscall, "swapon", NOWHERE, 0),
        "swapoff": lambda: reached(syscall, "swapoff", NOWHERE),
        "acct": lambda: reached(syscall, "acct", NOWHERE),
        "quotactl": lambda: reached(syscall, "quotactl", Q_SYNC, 0, 0, 0),
        "iopl": lambda: reached(syscall, "iopl", 99),
        "ioperm": lambda: reached(syscall, "ioperm", 0, 0, 0),
    })


main(attempt)
