# SPDX-License-Identifier: MIT
"""The keeper's side of the link, spoken by a test: another implementation of link.h."""
import socket
import struct

HELLO, OPEN, REPLY, DATA, END, CREDIT, ABORT, REFUSED, TUNNELS, NAMES = range(1, 11)
TOKEN, NOTICE, BYE = range(11, 14)  # of a remote link
NONE, LENGTH, CHUNKED, CLOSE = range(4)


def text(value):
    value = value if isinstance(value, bytes) else value.encode("latin-1")
    return struct.pack("<I", len(value)) + value


def fields(items):
    return bytes([len(items), 0]) + b"".join(text(k) + text(v) for k, v in items)


class Reader:
    """Takes numbers and texts off a payload."""

    def __init__(self, payload):
        self.payload = payload

    def number(self, size):
        value, self.payload = self.payload[:size], self.payload[size:]
        return int.from_bytes(value, "little")

    def text(self):
        size = self.number(4)
        value, self.payload = self.payload[:size], self.payload[size:]
        return value.decode("latin-1")

    def fields(self):
        return [(self.text(), self.text()) for _ in range(self.number(2))]


class Request:
    """An OPEN, taken apart."""

    def __init__(self, exchange, payload):
        reader = Reader(payload)
        self.exchange = exchange
        self.kind, self.is_tls, self.minor, self.framing = (reader.number(1) for _ in range(4))
        self.length = reader.number(8)
        self.method, self.host, self.path = (reader.text() for _ in range(3))
        self.fields = reader.fields()
        assert reader.payload == b""


class Keeper:
    """One end of the link."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(10)
        self.send(NAMES, 0, b"\0\1\0\0")  # no rules: the gate may listen

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def receive(self):
        """The next message: (type, exchange, payload)."""
        kind, exchange, size = struct.unpack("<III", self._read(12))
        return kind, exchange, self._read(size)

    def request(self):
        kind, exchange, payload = self.receive()
        assert kind == OPEN, kind
        return Request(exchange, payload)

    def refused(self):
        """What the gate refused by itself: (code, method, host, path)."""
        kind, _, payload = self.receive()
        assert kind == REFUSED, kind
        reader = Reader(payload)
        return reader.text(), reader.text(), reader.text(), reader.text()

    def body(self):
        """The body that follows a request, and its trailer; credit is granted as it comes."""
        data = b""
        while True:
            kind, exchange, payload = self.receive()
            if kind == END:
                return data, Reader(payload).fields()
            assert kind == DATA, kind
            data += payload
            self.send(CREDIT, exchange, struct.pack("<I", len(payload)))

    def send(self, kind, exchange, payload=b""):
        self.socket.sendall(struct.pack("<III", kind, exchange, len(payload)) + payload)

    def hello(self, run_id="r-1", attempt=0):
        self.send(HELLO, 0, struct.pack("<I", attempt) + text(run_id))

    def reply(self, exchange, status=200, items=(), framing=NONE, length=0):
        self.send(REPLY, exchange, struct.pack("<IBQ", status, framing, length) + text("Fine") +
                  fields(items))

    def data(self, exchange, data):
        self.send(DATA, exchange, data)

    def end(self, exchange, items=()):
        self.send(END, exchange, fields(items))

    def answer(self, exchange, body=b"", items=()):
        """A whole reply."""
        self.reply(exchange, 200, items, LENGTH if body else NONE, len(body))
        if body:
            self.data(exchange, body)
        self.end(exchange)


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
