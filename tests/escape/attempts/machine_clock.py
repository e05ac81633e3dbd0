# SPDX-License-Identifier: MIT
"""Sets the clock; each call is such that it would change nothing."""
import ctypes

from lib import main, reached, syscall, try_each

INVARIANT = "INV-FAIL-CLOSED"
LAYER = "seccomp; no capabilities"
CONTROL = "root"
EXPECT = "refused: EPERM"

CLOCK_REALTIME = 0


def attempt():
    timex = ctypes.create_string_buffer(256)  # no modes: a query
    impossible = (ctypes.c_long * 2)(0, -1)
    return try_each({
        "settimeofday": lambda: syscall("settimeofday", 0, 0),
        "clock_settime": lambda: reached(syscall, "clock_settime", CLOCK_REALTIME, impossible),
        "adjtimex": lambda: syscall("adjtimex", timex),
        "clock_adjtime": lambda: syscall("clock_adjtime", CLOCK_REALTIME, timex),
    })


main(attempt)
