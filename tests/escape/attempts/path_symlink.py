# SPDX-License-Identifier: MIT
"""Follows a symbolic link in the workspace to a file outside of it."""
from lib import main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "mount namespace"
PREPARE = "links_out"
CONTROL = "host"
EXPECT = "refused: ENOENT"


def attempt(**_):
    with open("link-to-file", encoding="ascii") as secret:
        return secret.read().strip()


main(attempt)
