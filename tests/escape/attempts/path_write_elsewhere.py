# SPDX-License-Identifier: MIT
"""Creates files in directories of the system."""
import errno
import os

from lib import REFUSALS, Refused, main, touch

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "read-only mounts; Landlock"
CONTROL = "userns"
EXPECT = "refused: everywhere"

# /opt first: the control has memory of its own there, and stops at the first that works.
DIRECTORIES = ("/opt", "/", "/usr", "/usr/bin", "/usr/local/bin", "/etc", "/etc/ssl/certs", "/var",
               "/bin", "/sbin", "/lib", "/dev", "/dev/pts", "/proc", "/proc/sys",
               "/workspace/..", "/home", "/root", os.path.dirname(__file__))


def attempt():
    for directory in DIRECTORIES:
        path = f"{directory}/planted"
        try:
            touch(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except OSError as error:
            if error.errno not in (*REFUSALS, errno.EROFS, errno.ENOENT):
                raise
        else:
            os.unlink(path)
            return path
    raise Refused("everywhere")


main(attempt)
