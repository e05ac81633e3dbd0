# SPDX-License-Identifier: MIT
"""Connects to the caller's agents on unix sockets with a path."""
import socket

from lib import main, try_each

INVARIANT = "INV-NETWORK-DENY"
LAYER = "mount namespace"
PREPARE = "unix_sockets"
CONTROL = "host"
EXPECT = "refused: ENOENT"

USUAL = ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
         "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/user/1000/bus",
         "/run/podman/podman.sock", "/run/libvirt/libvirt-sock", "/dev/log", "/tmp/.X11-unix/X0")


def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def attempt(path, **_):
    return try_each({p: lambda p=p: connect(p) for p in (path, *USUAL)})


main(attempt)
