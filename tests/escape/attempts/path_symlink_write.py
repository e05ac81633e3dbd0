# SPDX-License-Identifier: MIT
"""Creates a file outside the workspace through a symbolic link to a directory."""
import os

from lib import main, touch, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "mount namespace"
PREPARE = "links_out"
CONTROL = "host"
EXPECT = "refused: ENOENT"


def attempt(**_):
    return try_each({
        "create": lambda: touch("link-to-dir/new", os.O_CREAT | os.O_WRONLY),
        "replace": lambda: os.rename("own", "link-to-dir/own"),
        "link": lambda: os.link("own", "link-to-dir/linked"),
    })


main(attempt)
