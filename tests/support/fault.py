# SPDX-License-Identifier: MIT
"""Reads that hang: memory that is not there until somebody provides it, and descriptors whose end takes time."""
import contextlib
import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct

SYS_USERFAULTFD = 323
API, REGISTER, ZEROPAGE = 0xc018aa3f, 0xc020aa00, 0xc020aa04
MISSING = 1

libc = ctypes.CDLL(None, use_errno=True)


class Page:
    """A page; whoever touches it waits."""

    def __init__(self):
        self._fd = libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        fcntl.ioctl(self._fd, API, struct.pack("<QQQ", 0xAA, 0, 0))
        fcntl.ioctl(self._fd, REGISTER, struct.pack("<QQQQ", self._address, mmap.PAGESIZE, MISSING, 0))

    def receive(self, sock):
        """Reads a byte into it."""
        libc.recv(sock.fileno(), ctypes.c_void_p(self._address), 1, 0)

    def wait_until_read(self, seconds=30):
        assert select.select([self._fd], [], [], seconds)[0]

    def provide(self):
        fcntl.ioctl(self._fd, ZEROPAGE, struct.pack("<QQQQ", self._address, mmap.PAGESIZE, 0, 0))


def peek(sock):
    """Looks at what has come, without waiting for anything."""
    libc.recv(sock.fileno(), ctypes.create_string_buffer(1), 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)


def lingering(seconds):
    """A connection that waits for so long, when it is closed, for its last bytes to be taken."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(bytes(65536), socket.MSG_DONTWAIT)
    return sock, other


def receive(sock):
    """Reads a byte, and leaves what came along to the kernel."""
    libc.recv(sock.fileno(), ctypes.create_string_buffer(1), 1, 0)
