# SPDX-License-Identifier: MIT
"""`warder gate`: one that serves agents whom nobody started, and is told by tokens whose they are."""
import contextlib
import signal
import ssl
import subprocess
import time

import agent
import checks
import harness

BODY = {"model": "m"}


class Gate:
    """The real one, on a socket of the keeper's directory."""

    def __init__(self, keeper, listen=None, proxy=False):
        self.path = keeper.top / f"gate.{time.monotonic_ns()}.sock"
        self.proxy, self.ca = keeper.top / "proxy.sock", keeper.top / "proxy.pem"
        options = ["--proxy", f"unix:{self.proxy}", "--ca-out", self.ca] if proxy else []
        self.address = str(self.path)
        self.process = subprocess.Popen(
            [harness.BUILD / "src" / "warder", "gate", "--listen", listen or f"unix:{self.path}", "--keeper",
             f"unix:{keeper.path}", *options], env=keeper.env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            text=True)
        if listen:
            host, port = listen.removeprefix("tcp:").rsplit(":", 1)
            self.address = (host, int(port))
        checks.wait_until(self.is_there)
        if proxy:  # the certificate is written before the gate gets its socket
            checks.wait_until(lambda: self.ca.exists() and self.proxy.exists())

    def is_there(self):
        assert self.process.poll() is None, self.process.stderr.read()
        try:
            agent.SocketWire(self.address).close()
        except OSError:
            return False
        return True

    def wire(self):
        return agent.SocketWire(self.address)

    def tunnel(self, *lines, host="api.test"):
        """A connection to a host through the proxy, by CONNECT."""
        wire = agent.SocketWire(str(self.proxy))
        wire.send(b"CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n%s\r\n" % (
            host.encode(), host.encode(), b"".join(line.encode() + b"\r\n" for line in lines)))
        assert wire.head().status == 200
        return wire

    def socks(self, host="api.test"):
        """The same by SOCKS."""
        wire = agent.SocketWire(str(self.proxy))
        wire.send(b"\5\1\0")
        assert wire.exactly(2) == b"\5\0"
        wire.send(b"\5\1\0\3%c%s" % (len(host), host.encode()) + (443).to_bytes(2, "big"))
        assert wire.exactly(10)[:2] == b"\5\0"
        return wire

    def connect(self, *lines, host="api.test", alpn="http/1.1", way=None):
        """A connection to a host through the proxy, with TLS as its clients speak it."""
        wire = (way or self.tunnel)(*lines, host=host)
        context = ssl.create_default_context(cafile=str(self.ca))
        context.set_alpn_protocols([alpn])
        wire.socket = context.wrap_socket(wire.socket, server_hostname=host)
        assert wire.socket.selected_alpn_protocol() == alpn
        return wire

    def ask(self, *lines, body=None):
        with contextlib.closing(self.wire()) as wire:
            return wire.ask(agent.post(body or BODY, *lines))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0, self.process.stderr.read()
        assert not self.path.exists()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@contextlib.contextmanager
def started(keeper):
    """A gate that serves, and ends with the block, in order."""
    made = Gate(keeper)
    try:
        yield made
        made.stop()
    finally:
        made.close()
