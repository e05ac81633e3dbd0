# SPDX-License-Identifier: MIT
"""Executes the system's set-user-id programs and looks whether they run as root."""
import fcntl
import os
import stat
import subprocess
import time

from lib import Refused, main

INVARIANT = "INV-SECRETS-HOST-ONLY"
LAYER = "nosuid mounts; no_new_privs"
CONTROL = "user"
EXPECT = "refused: no rights gained"

PROGRAMS = ("su", "passwd", "chsh", "chfn", "newgrp", "gpasswd", "mount", "umount")


def full_pipe():
    """A pipe that blocks whoever writes to it."""
    read_fd, write_fd = os.pipe()
    fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, 4096)
    os.write(write_fd, b" " * 4096)
    return read_fd, write_fd


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)


def effective_uid(path):
    """The effective uid of the program while it waits to print its help; -1 if it did not."""
    read_fd, write_fd = full_pipe()
    with subprocess.Popen([path, "--help"], stdin=subprocess.DEVNULL, stdout=write_fd,
                          stderr=write_fd) as program:
        status = status_of(program.pid)
        while status.get("State", "Z")[0] not in "SZX":
            time.sleep(0.001)
            status = status_of(program.pid)
        program.kill()
    os.close(read_fd)
    os.close(write_fd)
    return int(status["Uid"].split()[1]) if status["State"][0] == "S" else -1


def attempt():
    paths = [f"/usr/bin/{name}" for name in PROGRAMS]
    paths = [p for p in paths if os.path.exists(p) and os.stat(p).st_mode & stat.S_ISUID]
    for path in paths:
        if effective_uid(path) == 0:
            return f"{path} ran with effective uid 0"
    raise Refused("no rights gained" if paths else "no such programs")


main(attempt)
