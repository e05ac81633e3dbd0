# SPDX-License-Identifier: MIT
"""Both sides of the link, spoken by a test: another implementation of link.h."""
import json
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


class Messages:
    """Messages of either side on a socket."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(60)

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

    def send(self, kind, exchange, payload=b""):
        self.socket.sendall(struct.pack("<III", kind, exchange, len(payload)) + payload)


class Keeper(Messages):
    """The keeper's end."""

    def __init__(self, sock):
        super().__init__(sock)
        self.send(NAMES, 0, b"\0\1\0\0")  # no rules: the gate may listen

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


class Reply:
    """What became of an exchange: a whole reply, half of one, or none."""

    def __init__(self):
        self.status, self.fields, self.body = None, [], b""
        self.is_complete = False

    def value(self, name):
        found = [v for n, v in self.fields if n.lower() == name]
        return found[0] if found else None

    def code(self):
        return json.loads(self.body)["error"]["code"]


def head(path="/v1/chat/completions", items=(), method="POST", framing=LENGTH, length=0, kind=0,
         host="", is_tls=0):
    """The payload of an OPEN."""
    return (struct.pack("<BBBBQ", kind, is_tls, 1, framing, length) + text(method) + text(host) +
            text(path) + fields(items))


class Gate(Messages):
    """The gate's end, which need not say what a gate would."""

    def __init__(self, sock):
        super().__init__(sock)
        self.run_id = self.attempt = None
        self.others = []  # what was read while something else was waited for

    def begin(self):
        """Reads what a keeper says first. Who we are is its to say."""
        while True:
            kind, _, payload = self.receive()
            if kind == HELLO:
                reader = Reader(payload)
                self.attempt, self.run_id = reader.number(4), reader.text()
            if kind == NAMES and payload[1]:
                return self
            assert kind in (HELLO, NAMES, TUNNELS, NOTICE), kind

    def open(self, exchange, body=b'{"model":"m"}', items=(), **how):
        """A whole request; `body` None leaves it open."""
        items = [("content-type", "application/json"), *items]
        how.setdefault("length", len(body) if body is not None else 0)
        how.setdefault("framing", LENGTH if how["length"] else NONE if body == b"" else CHUNKED)
        self.send(OPEN, exchange, head(items=items, **how))
        if body:
            self.send(DATA, exchange, body)
        if body is not None:
            self.send(END, exchange, fields(()))

    def next(self, exchange):
        """The next message of that exchange; those of others are kept aside."""
        while True:
            kind, number, payload = self.receive()
            if number == exchange and kind != CREDIT:
                return kind, payload
            self.others.append((kind, number, payload))

    def reply(self, exchange):
        """A reply up to its end, whole or not; credit is granted as it comes."""
        got = Reply()
        while True:
            kind, payload = self.next(exchange)
            if kind == REPLY:
                reader = Reader(payload)
                got.status = reader.number(4)
                reader.number(9)
                reader.text()
                got.fields = reader.fields()
            elif kind == DATA:
                got.body += payload
                self.send(CREDIT, exchange, struct.pack("<I", len(payload)))
            else:
                assert kind in (END, ABORT), kind
                got.is_complete = kind == END
                return got

    def ask(self, exchange, *args, **how):
        self.open(exchange, *args, **how)
        return self.reply(exchange)

    def is_ended(self):
        """Whether the keeper ends the link; what it says before is read."""
        try:
            while True:
                self.receive()
        except (EOFError, ConnectionError):
            return True
        except TimeoutError:
            return False


def packet_of(control):
    """The next packet at a keeper's control socket, and the end of a link if that came along."""
    data, fds, _, _ = socket.recv_fds(control, 1 << 19, 1)
    return data, socket.socket(fileno=fds[0]) if fds else None


def pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
