# SPDX-License-Identifier: MIT
"""Reads a private key in the caller's home directory."""
from lib import main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "mount namespace: home is empty memory"
PREPARE = "home_secret"
CONTROL = "host"
EXPECT = "refused: ENOENT"


def attempt(path):
    with open(path, encoding="ascii") as key:
        return key.read().strip()


main(attempt)
