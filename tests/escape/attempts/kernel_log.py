# SPDX-License-Identifier: MIT
"""Reads the kernel's log."""
from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "root"
EXPECT = "refused: EPERM"

SYSLOG_ACTION_SIZE_UNREAD, SYSLOG_ACTION_SIZE_BUFFER = 9, 10


def attempt():
    return try_each({
        "size": lambda: syscall("syslog", SYSLOG_ACTION_SIZE_BUFFER, 0, 0),
        "unread": lambda: syscall("syslog", SYSLOG_ACTION_SIZE_UNREAD, 0, 0),
    })


main(attempt)
