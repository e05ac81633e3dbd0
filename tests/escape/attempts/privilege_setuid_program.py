# SPDX-License-Identifier: MIT
"""Executes a set-user-id program of root in a directory that the caller shows."""
import subprocess

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "nosuid mounts; no_new_privs"
PREPARE = "setuid_program"
CONTROL = "user"
EXPECT = "refused: no rights gained"


def attempt(path):
    shown = subprocess.run([path, "-u"], capture_output=True, text=True, check=True).stdout
    if shown.strip() == "0":
        return "effective uid 0"
    raise Refused("no rights gained")


main(attempt)
