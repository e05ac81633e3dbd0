# SPDX-License-Identifier: MIT
"""Opens a file of the host by its handle, past every mount."""
import ctypes
import os

from lib import AT_FDCWD, main, syscall

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "seccomp; no capabilities"
CONTROL = "root"
EXPECT = "refused: EPERM"


class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_char * 128)]


def attempt():
    handle, mount_id = Handle(size=128), ctypes.c_int()
    syscall("name_to_handle_at", AT_FDCWD, b".", ctypes.byref(handle), ctypes.byref(mount_id), 0)
    syscall("open_by_handle_at", os.open(".", os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY)
    return "opened by handle"


main(attempt)
