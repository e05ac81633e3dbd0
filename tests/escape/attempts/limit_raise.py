# SPDX-License-Identifier: MIT
"""Raises the limits on its processes and files."""
import errno
import resource

from lib import main, try_each

INVARIANT = "INV-BOUNDED"
LAYER = "hard limits; no capabilities"
OPTIONS = ["--pids", "64", "--files", "64"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--pids", "256", "--files", "256"]
EXPECT = "refused: EPERM"


def raise_to(limit, value):
    try:
        resource.setrlimit(limit, (value, value))
    except ValueError as error:  # what Python makes of EPERM here
        raise OSError(errno.EPERM, str(error)) from error


def attempt():
    return try_each({
        "processes": lambda: raise_to(resource.RLIMIT_NPROC, 128),
        "files": lambda: raise_to(resource.RLIMIT_NOFILE, 128),
    })


main(attempt)
