# SPDX-License-Identifier: MIT
"""A person at a terminal: types, waits for what appears, changes the window."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time


class Terminal:
    """A pseudo terminal with a command on it whose controlling terminal it is."""

    def __init__(self, rows=24, columns=80):
        self.master, self.slave = pty.openpty()
        self.seen = b""  # all that has appeared
        self.process = None
        self.resize(rows, columns)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    def start(self, command, **options):
        """Starts a command with this terminal as its stdin, stdout and stderr."""
        options = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave, **options}

        def take_terminal():
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(command, start_new_session=True, preexec_fn=take_terminal,
                                        pass_fds=(self.slave,), **options)

    def resize(self, rows, columns):
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def mode(self):
        """The settings of the terminal; tests compare them."""
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.mode()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def type(self, text):
        os.write(self.master, text.encode())

    def _read(self, seconds):
        if select.select([self.master], [], [], max(seconds, 0))[0]:
            self.seen += os.read(self.master, 65536)

    def wait_for(self, text, seconds=10):
        """Waits until `text` appears, and forgets everything up to it."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not appear in {self.seen!r}"
            self._read(left)
        before, self.seen = self.seen.split(text.encode(), 1)
        return before.decode(errors="replace")

    def end(self, seconds=10):
        """Waits for the command; returns its status. What it printed last is in `seen`."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on; seen: {self.seen!r}"
            self._read(0.01)
        while select.select([self.master], [], [], 0)[0]:
            self._read(0)
        return self.process.returncode

    def hang_up(self):
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)
        self.master = self.slave = -1
