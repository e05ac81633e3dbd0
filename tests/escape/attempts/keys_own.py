# SPDX-License-Identifier: MIT
"""Adds a key to a keyring, which no namespace holds."""
from lib import main, syscall, try_each

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
CONTROL = "host"
EXPECT = "refused: EPERM"

KEY_SPEC_PROCESS_KEYRING = -2
KEYCTL_GET_KEYRING_ID = 0


def attempt():
    return try_each({
        "add": lambda: syscall("add_key", b"user", b"warder", b"x", 1, KEY_SPEC_PROCESS_KEYRING),
        "keyring": lambda: syscall("keyctl", KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1),
        "request": lambda: syscall("request_key", b"user", b"warder", 0, 0),
    })


main(attempt)
