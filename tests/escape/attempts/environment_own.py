# SPDX-License-Identifier: MIT
"""Finds a secret of the caller in the environment it is given."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "the environment is a list of allowed names"
PREPARE = "caller_secret"
CONTROL = "host"
EXPECT = "refused: not there"


def attempt(marker):
    with open("/proc/self/environ", "rb") as environ:
        if marker.encode() in environ.read() or marker in str(dict(os.environ)):
            return marker
    raise Refused("not there")


main(attempt)
