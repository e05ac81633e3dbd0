# SPDX-License-Identifier: MIT
"""Finds the caller's ssh-agent through the variable that names its socket."""
import os
import socket

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "the environment is a list of allowed names"
PREPARE = "unix_sockets"
CONTROL = "host"
EXPECT = "refused: no variable"


def attempt(**_):
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        raise Refused("no variable")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    return path


main(attempt)
