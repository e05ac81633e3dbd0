# SPDX-License-Identifier: MIT
"""Opens a packet socket, which sees and sends whole frames."""
import socket

from lib import UPPER_BITS, main, syscall, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "seccomp"
CONTROL = "userns"
EXPECT = "refused: EAFNOSUPPORT"

AF_PACKET, ETH_P_ALL = 17, 0x300


def attempt():
    return try_each({
        "raw": lambda: syscall("socket", AF_PACKET, socket.SOCK_RAW, ETH_P_ALL),
        "datagram": lambda: syscall("socket", AF_PACKET, socket.SOCK_DGRAM, ETH_P_ALL),
        "upper bits": lambda: syscall("socket", AF_PACKET | UPPER_BITS, socket.SOCK_RAW, 0),
    })


main(attempt)
