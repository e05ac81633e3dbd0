# SPDX-License-Identifier: MIT
"""Opens a performance counter."""
import struct

from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "root"
EXPECT = "refused: EPERM"

PERF_TYPE_SOFTWARE, PERF_ATTR_SIZE = 1, 128


def attempt():
    attributes = struct.pack("II", PERF_TYPE_SOFTWARE, PERF_ATTR_SIZE) + bytes(120)
    return try_each({
        "of itself": lambda: syscall("perf_event_open", attributes, 0, -1, -1, 0),
        "of a processor": lambda: syscall("perf_event_open", attributes, -1, 0, -1, 0),
    })


main(attempt)
