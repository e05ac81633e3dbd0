# SPDX-License-Identifier: MIT
"""Opens sockets through the 32-bit ABI's socketcall, whose arguments no filter can read."""
import struct

from lib import main, syscall32, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp, for both ABIs"
CONTROL = "host"
EXPECT = "refused: ENOSYS"

SOCKETCALL, SYS_SOCKET = 102, 1
FAMILIES = {"vsock": 40, "IPv4": 2, "packet": 17}


def attempt():
    return try_each({
        name: lambda f=family: syscall32(SOCKETCALL, SYS_SOCKET, struct.pack("III", f, 1, 0))
        for name, family in FAMILIES.items()
    })


main(attempt)
