# SPDX-License-Identifier: MIT
"""Learns or keeps a run id of the caller's environment instead of the run's own."""
import os

from lib import Refused, main

INVARIANT = "INV-RUN-IDENTITY"
LAYER = "RUN_ID is set last"
PREPARE = "forged_run_id"
CONTROL = "host"
EXPECT = "refused: the run's own"


def attempt(forged):
    if os.environ["RUN_ID"] == forged:
        return forged
    raise Refused("the run's own")


main(attempt)
