# SPDX-License-Identifier: MIT
"""Lowers the limit on core dumps to 0, at which a dump is piped to the host's handler again."""
import errno
import resource

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = ["refused: no effect", "refused: EPERM"]


def attempt():
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except ValueError as error:
        raise OSError(errno.EPERM, str(error)) from error
    if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0):
        raise Refused("no effect")
    return "a limit of 0"


main(attempt)
