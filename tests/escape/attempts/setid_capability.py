# SPDX-License-Identifier: MIT
"""Plants a file with capabilities in the workspace."""
import os
import struct

from lib import main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "no capabilities"
CONTROL = "root"
EXPECT = "refused: EPERM"

REVISION_2_EFFECTIVE = 0x02000001
CAP_NET_RAW = 1 << 13


def attempt():
    os.close(os.open("planted", os.O_CREAT | os.O_WRONLY, 0o755))
    value = struct.pack("<5I", REVISION_2_EFFECTIVE, CAP_NET_RAW, 0, 0, 0)
    try:
        os.setxattr("planted", "security.capability", value)
        return os.getxattr("planted", "security.capability").hex()
    finally:
        os.unlink("planted")


main(attempt)
