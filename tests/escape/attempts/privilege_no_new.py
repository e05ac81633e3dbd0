# SPDX-License-Identifier: MIT
"""Finds no_new_privs unset, or clears it."""
from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "no_new_privs"
CONTROL = "host"
EXPECT = "refused: EINVAL"

PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 38, 39


def attempt():
    if syscall("prctl", PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0:
        return "it is not set"
    syscall("prctl", PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
    return "it could be cleared"


main(attempt)
