# SPDX-License-Identifier: MIT
"""Climbs out of the workspace with '..', by name and from an open directory."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "mount namespace"
PREPARE = "links_out"
CONTROL = "host"
EXPECT = "refused: ENOENT"


def attempt(relative, absolute):
    top_fd = os.open(".", os.O_RDONLY)
    up = "../" * 40

    def from_above():
        os.chdir(up)
        touch(absolute.lstrip("/"), os.O_RDONLY)

    return try_each({
        "name": lambda: touch(relative, os.O_RDONLY),
        "descriptor": lambda: os.close(os.open(relative, os.O_RDONLY, dir_fd=top_fd)),
        "long": lambda: touch(up + absolute, os.O_RDONLY),
        "chdir": from_above,
    })


main(attempt)
