# SPDX-License-Identifier: MIT
"""Keepers that take each other's place."""
import contextlib
import copy
import os
import socket
import ssl
import struct
import subprocess
import time

import harness
import shared

# Asks for the place of the keeper at argv[1], takes what it is given, and does no more.
_ASKER = """
import socket, sys, time
keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
keeper.connect(sys.argv[1])
keeper.send(b"H")
kept, letter = [], b"L"
while letter == b"L":
    packet, fds, _, _ = socket.recv_fds(keeper, 512, 1)
    kept, letter = kept + fds, packet[:1]
print(packet.decode(), flush=True)
time.sleep(600)
"""


def successor(keeper, more=None):
    """Another keeper for the same place, with settings of its own; it is not started."""
    made = copy.copy(keeper)
    made.process = made._log = None  # pylint: disable=protected-access
    made.file = keeper.top / f"successor-{time.monotonic_ns()}.json"
    made.config = copy.deepcopy(keeper.config)
    made.env = dict(keeper.env)
    made.configure(more or {})
    return made


@contextlib.contextmanager
def ending(*keepers):
    """Whoever of them is left at the end is killed; until then nothing has gone wrong in them."""
    try:
        yield
        for keeper in keepers:
            if keeper.process and keeper.is_alive():
                assert keeper.end() == 0, keeper.stderr()
    finally:
        for keeper in keepers:
            if keeper.process:
                keeper.kill()


def take_over(keeper, more=None):
    """A successor that serves."""
    made = successor(keeper, more)
    made.start("--take-over")
    keeper.wait_for("handed_over")
    return made


def tls_settings(certificates, port, name="keeper"):
    """Of a keeper for other machines."""
    return {"keeper": {"listen": f"tls:127.0.0.1:{port}", "cert": str(certificates.top / f"{name}.pem"),
                       "cert_key": f"file:{certificates.top}/{name}.key",
                       "link_keys": {"k1": "env:TOKEN_KEY"}}}


@contextlib.contextmanager
def asker(keeper):
    """A process that asks for a keeper's place and hangs; what it was told last."""
    line = ["python3", "-I", "-S", "-c", _ASKER, keeper.path]
    with subprocess.Popen(keeper.place.command(line), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().rstrip("\n")
        finally:
            if process.poll() is None:
                process.kill()


class Clock:
    """That of a keeper which has its `env`: it can be put forward."""

    def __init__(self, top):
        self._file = top / f"clock-{time.monotonic_ns()}"
        self._file.write_bytes(struct.pack("<qq", 0, 0))
        self._file.chmod(0o644)
        library = harness.BUILD / "tests" / "support" / "libshift_clock.so"
        self.env = {"LD_PRELOAD": str(library), "SHIFT_CLOCK": str(self._file)}
        if shared.IS_SANITIZED:
            self.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"

    def put_forward(self, seconds):
        with open(self._file, "r+b") as file:  # written over: it is mapped
            file.write(struct.pack("<qq", seconds, 0))


def certificate_at(port):
    """Whom one meets there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["warder/1"])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock, \
            context.wrap_socket(sock) as wrapped:
        return wrapped.getpeercert(binary_form=True)
