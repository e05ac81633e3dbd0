# SPDX-License-Identifier: MIT
"""What the kernel tells of a process."""
import os
import pathlib


def _stat(pid):
    """The fields of its stat from the third on: what is before them may hold anything."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def is_alive(pid):
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def parent(pid):
    return int(_stat(pid)[1])


def cpu_s(pid):
    """How long it has had a processor."""
    return (int(_stat(pid)[11]) + int(_stat(pid)[12])) / os.sysconf("SC_CLK_TCK")


def rss_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def descriptors(pid):
    """How many it has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
