# SPDX-License-Identifier: MIT
"""Gives a read-only file of the host a second, writable name in the workspace."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "separate mounts"
PREPARE = "shown_file"
CONTROL = "host"
EXPECT = "refused: link EXDEV, rename EXDEV, write EROFS, through a symbolic link EROFS"


def attempt(path):
    def through_symlink():
        os.symlink(path, "alias")
        touch("alias", os.O_WRONLY)

    def link():
        os.link(path, "second")
        touch("second", os.O_WRONLY)

    return try_each({
        "link": link,
        "rename": lambda: os.rename(path, "second"),
        "write": lambda: touch(path, os.O_WRONLY),
        "through a symbolic link": through_symlink,
    })


main(attempt)
