# SPDX-License-Identifier: MIT
"""Asks for core dumps, which the host may pipe to a program outside."""
import errno
import resource

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "RLIMIT_CORE of 1"
CONTROL = "host"
NEEDS = "a hard limit that allows core dumps, which sudo takes away"
EXPECT = ["refused: no effect", "refused: EPERM"]


def attempt():
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
    except ValueError as error:
        raise OSError(errno.EPERM, str(error)) from error
    if resource.getrlimit(resource.RLIMIT_CORE) != (1 << 20, 1 << 20):
        raise Refused("no effect")
    return "core dumps of 1 MiB"


main(attempt)
