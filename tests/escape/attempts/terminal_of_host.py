# SPDX-License-Identifier: MIT
"""Opens a terminal of the host by its name, and the one that controls the caller."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a devpts and a session of its own"
PREPARE = "host_terminal"
OPTIONS = ["--no-tty"]
CONTROL = "host"
EXPECT = "refused: name ENOENT, controlling ENXIO"


def attempt(path, **_):
    return try_each({
        "name": lambda: touch(path, os.O_RDWR | os.O_NOCTTY),
        "controlling": lambda: touch("/dev/tty", os.O_RDWR | os.O_NOCTTY),
    })


main(attempt)
