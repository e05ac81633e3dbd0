# SPDX-License-Identifier: MIT
"""Opens message queues of the host, of System V and of POSIX."""
import os

from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "IPC namespace"
PREPARE = "message_queues"
CONTROL = "host"
EXPECT = "refused: ENOENT"


def attempt(key, name):
    return try_each({
        "System V": lambda: syscall("msgget", key, 0),
        "POSIX": lambda: syscall("mq_open", name.encode(), os.O_RDONLY, 0, 0),
    })


main(attempt)
