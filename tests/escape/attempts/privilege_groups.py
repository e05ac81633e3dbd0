# SPDX-License-Identifier: MIT
"""Keeps the supplementary groups of the root user who started the run."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "init drops the caller's groups"
PREPARE = "extra_groups"
CONTROL = "host"
WHO = ["root"]
EXPECT = "refused: none"


def attempt():
    if os.getgroups():
        return f"groups {os.getgroups()}"
    raise Refused("none")


main(attempt)
