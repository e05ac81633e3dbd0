# SPDX-License-Identifier: MIT
"""Changes its user, its group and its supplementary groups to root's."""
import os

from lib import main, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "user namespace with one id; no capabilities"
CONTROL = "userns"
EXPECT = "refused: uid EINVAL, gid EINVAL, all uids EINVAL, groups EPERM"


def attempt():
    return try_each({
        "uid": lambda: os.setuid(0),
        "gid": lambda: os.setgid(0),
        "all uids": lambda: os.setresuid(0, 0, 0),
        "groups": lambda: os.setgroups([0]),
    })


main(attempt)
