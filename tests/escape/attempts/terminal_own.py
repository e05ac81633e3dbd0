# SPDX-License-Identifier: MIT
"""Finds the caller's terminal behind the one that the run was given."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "a new terminal on a devpts of its own"
PREPARE = "host_terminal"
OPTIONS = ["--tty"]
CONTROL = "host"
EXPECT = "refused: another one"


def attempt(filesystem, **_):
    if os.fstat(0).st_dev == filesystem:
        return "on the host's devpts"
    raise Refused("another one")


main(attempt)
