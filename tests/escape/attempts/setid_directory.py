# SPDX-License-Identifier: MIT
"""Plants a set-group-id directory, so that files in it get another group."""
import os

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "setid_check"
CONTROL = "host"
EXPECT = "refused: EPERM"


def attempt():
    os.umask(0)
    os.mkdir("planted", 0o2777)  # the kernel takes no such bit here
    try:
        if not os.stat("planted").st_mode & 0o6000:
            os.chmod("planted", 0o2777)
        if os.stat("planted").st_mode & 0o6000:
            return oct(os.stat("planted").st_mode)
        raise Refused("without an error")
    finally:
        os.rmdir("planted")


main(attempt)
