# SPDX-License-Identifier: MIT
"""Reads a secret from the keyring of the user who started the run."""
import ctypes

from lib import main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp"
PREPARE = "user_key"
CONTROL = "host"
EXPECT = "refused: EPERM"

KEY_SPEC_USER_KEYRING = -4
KEYCTL_SEARCH, KEYCTL_READ = 10, 11


def attempt(name):
    key = syscall("keyctl", KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, b"user", name.encode(), 0)
    buffer = ctypes.create_string_buffer(100)
    syscall("keyctl", KEYCTL_READ, key, buffer, len(buffer), 0)
    return buffer.value.decode()


main(attempt)
