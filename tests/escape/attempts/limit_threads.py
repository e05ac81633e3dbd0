# SPDX-License-Identifier: MIT
"""Starts threads without end."""
import threading

from lib import Refused, main

INVARIANT = "INV-BOUNDED"
LAYER = "RLIMIT_NPROC; pids control group"
OPTIONS = ["--pids", "64"]
CONTROL = "sandbox"
CONTROL_OPTIONS = ["--pids", "256"]
EXPECT = "refused: can't start new thread"

ENOUGH = 128


def attempt():
    end = threading.Event()
    try:
        for _ in range(ENOUGH):
            threading.Thread(target=end.wait, daemon=True).start()
        return f"{ENOUGH} threads"
    except RuntimeError as error:
        raise Refused(error) from error
    finally:
        end.set()


main(attempt)
