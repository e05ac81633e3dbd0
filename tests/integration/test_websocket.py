# SPDX-License-Identifier: MIT
"""WebSocket to allowed hosts, with HTTP/1.1 and HTTP/2 on the agent's side; frame by frame."""
import base64
import hashlib
import json
import os
import struct
import textwrap

import egress
import origin as upstream
import pytest
from test_egress_secrets import PLAIN, RAW, SECRET, assert_nowhere, bound, place, running  # noqa: F401

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
IN_FRAMES = ("--secret-in", "TOKEN=websocket,header")


def accept_of(key):
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def frame(opcode, payload=b"", fin=True, key=None):
    """One frame, masked when there is a key."""
    size = len(payload)
    head = bytes([(0x80 if fin else 0) | opcode])
    bit = 0x80 if key is not None else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if key is None:
        return head + payload
    return head + key + bytes(b ^ key[i % 4] for i, b in enumerate(payload))


class Reader:
    """Messages out of bytes, so many of which `exactly` brings."""

    def __init__(self, exactly):
        self.exactly = exactly
        self.opcode, self.payload = None, b""

    def frame(self):
        first, second = self.exactly(2)
        size = second & 127
        if size == 126:
            size, = struct.unpack(">H", self.exactly(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.exactly(8))
        key = self.exactly(4) if second & 128 else None
        payload = self.exactly(size)
        if key:
            payload = bytes(b ^ key[i % 4] for i, b in enumerate(payload))
        assert first & 0x70 == 0
        return first & 15, bool(first & 128), payload, key is not None

    def message(self):
        """The next message or control frame; fragments are joined."""
        while True:
            opcode, whole, payload, self.masked = self.frame()
            if opcode >= CLOSE:
                assert whole
                return opcode, payload
            assert (opcode == 0) == (self.opcode is not None)
            self.opcode = opcode or self.opcode
            self.payload += payload
            if whole:
                got, self.opcode, self.payload = (self.opcode, self.payload), None, b""
                return got


def upgrade(*lines, key=KEY, version="13"):
    return egress.request("GET", "/chat", "Upgrade: websocket", "Connection: keep-alive, Upgrade",
                          f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Version: {version}", *lines)


def confirm(connection, *lines):
    """The origin's part of the handshake; returns the reader of what follows."""
    request = connection.request()
    key, = request.values("sec-websocket-key")
    connection.send("\r\n".join(["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
                                 f"Sec-WebSocket-Accept: {accept_of(key)}", *lines, "", ""]).encode())
    return Reader(connection.take)


def echo(connection):
    """Sends back what it gets, until it is closed."""
    reader = confirm(connection)
    connection.origin.messages = []
    while True:
        opcode, payload = reader.message()
        assert reader.masked
        connection.origin.messages.append((opcode, payload))
        if opcode == PING:
            connection.send(frame(PONG, payload))
        else:
            connection.send(frame(opcode, payload))
        if opcode == CLOSE:
            return


class Socket:
    """The agent's end."""

    def __init__(self, it, *lines):
        self.wire = egress.connect(it.run)
        self.wire.send(upgrade(*lines))
        self.head = self.wire.until(b"\r\n\r\n").decode()
        self.reader = Reader(self.wire.exactly)

    def send(self, opcode, payload=b"", fin=True, key=b"\x01\x02\x03\x04"):
        self.wire.send(frame(opcode, payload, fin, key))

    def message(self):
        got = self.reader.message()
        assert not self.reader.masked
        return got


@pytest.fixture
def chat(https):
    https.script = echo
    return https


def test_messages_go_both_ways(place, chat):
    with running(place, *bound(chat)) as it:
        socket = Socket(it, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
        assert socket.head.startswith("HTTP/1.1 101 ") and f"sec-websocket-accept: {accept_of(KEY)}" in socket.head
        assert "extensions" not in socket.head.lower() and socket.head.lower().count("sec-websocket-accept") == 1
        for opcode, payload in ((TEXT, b"hello"), (BINARY, bytes(range(256)) * 400), (TEXT, b""), (PING, b"are you there"),
                                (TEXT, "ü€𝄞".encode()), (BINARY, os.urandom(300_000))):
            socket.send(opcode, payload)
            assert socket.message() == (PONG if opcode == PING else opcode, payload)
        socket.send(CLOSE, struct.pack(">H", 1000) + b"bye")
        assert socket.message() == (CLOSE, struct.pack(">H", 1000) + b"bye")
        assert socket.wire.more() == b""
    request = chat.requests[0]
    assert request.values("sec-websocket-key") != [KEY]  # the handshake is our own
    assert request.values("sec-websocket-extensions") == [] and request.values("sec-websocket-version") == ["13"]


def test_fragments_and_splits_make_the_same_message(place, chat):
    with running(place, *bound(chat)) as it:
        socket = Socket(it)
        whole = frame(TEXT, b"one ", False, b"abcd") + frame(PING, b"x", True, b"efgh") + frame(0, b"two", True, b"ijkl")
        for cut in range(1, len(whole)):
            socket.wire.send(whole[:cut])
            socket.wire.send(whole[cut:])
            got = [socket.message(), socket.message()]
            assert sorted(got) == [(TEXT, b"one two"), (PONG, b"x")]


@pytest.mark.parametrize("payload", [PLAIN, json.dumps({"token": PLAIN, "n": 1})])
def test_a_placeholder_in_a_text_message_becomes_the_secret(place, chat, payload):
    with running(place, *bound(chat, *IN_FRAMES, source="PLAIN")) as it:
        text = payload.replace(PLAIN, it.placeholder).encode()
        socket = Socket(it)
        for cut in range(1, len(text), 7):
            socket.send(TEXT, text[:cut], fin=False)
            socket.send(0, text[cut:])
            assert socket.message() == (TEXT, text)  # and it does not come back
    assert {payload.encode()} == {got for _, got in chat.messages}


def test_a_secret_in_json_is_escaped(place, chat):
    with running(place, *bound(chat, *IN_FRAMES)) as it:
        socket = Socket(it)
        socket.send(TEXT, json.dumps({"a": it.placeholder}).encode())
        assert json.loads(socket.message()[1]) == {"a": it.placeholder}
    assert json.loads(chat.messages[0][1]) == {"a": SECRET}


@pytest.mark.parametrize("opcode", [TEXT, BINARY, PING])
@pytest.mark.parametrize("options", [(), IN_FRAMES], ids=["header", "websocket"])
def test_a_misplaced_placeholder_ends_it(place, chat, options, opcode):
    with running(place, *bound(chat, *options)) as it:
        socket = Socket(it)
        socket.send(TEXT, b"fine")
        assert socket.message() == (TEXT, b"fine")
        socket.send(opcode, b"<" + it.placeholder_bytes + b">")
        if opcode == TEXT and options:
            assert socket.message()[0] == TEXT  # control
            return
        assert socket.message() == (CLOSE, struct.pack(">H", 1008))
        assert socket.wire.more() == b""
    assert_nowhere(chat.received())
    assert it.placeholder_bytes not in b"".join(payload for _, payload in chat.messages)


def test_a_secret_does_not_come_back_in_frames(place, https):
    """In one frame, in fragments cut at every byte, in a ping and in a close frame."""
    def script(connection):
        reader = confirm(connection)
        reader.message()
        connection.send(frame(TEXT, b"<" + RAW + b">"))
        for cut in range(len(RAW)):
            connection.send(frame(BINARY, b"<" + RAW[:cut], fin=False))
            connection.send(frame(0, RAW[cut:] + b">"))
        connection.send(frame(PING, RAW[:100]))
        connection.send(frame(CLOSE, struct.pack(">H", 1000) + RAW[:100]))

    https.script = script
    with running(place, *bound(https)) as it:
        socket = Socket(it)
        socket.send(TEXT, b"begin")
        wanted = b"<" + it.placeholder_bytes + b">"
        assert socket.message() == (TEXT, wanted)
        for _ in range(len(RAW)):
            assert socket.message() == (BINARY, wanted)
        assert socket.message() == (PING, it.placeholder_bytes)
        assert socket.message() == (CLOSE, struct.pack(">H", 1000) + it.placeholder_bytes)


def test_a_message_is_not_held_back(place, https):
    """However it ends: its end is known."""
    def script(connection):
        reader = confirm(connection)
        for number in range(5):
            connection.send(frame(TEXT, PLAIN[:number + 1].encode()))
            reader.message()  # the next one only when this one was seen

    https.script = script
    with running(place, *bound(https, source="PLAIN")) as it:
        socket = Socket(it)
        for number in range(5):
            assert socket.message() == (TEXT, PLAIN[:number + 1].encode())
            socket.send(TEXT, b"go on")


def many(connection):
    reader = confirm(connection)
    for _ in range(300):
        connection.send(frame(BINARY, os.urandom(10_000)) + frame(TEXT, b"x"))
    reader.message()


def test_a_slow_reader_slows_the_origin(place, https):
    https.script = many
    with running(place, *bound(https)) as it:
        socket = Socket(it)
        for _ in range(300):
            assert [len(socket.message()[1]), len(socket.message()[1])] == [10_000, 1]
        socket.send(TEXT, b"done")


# ---- what is no WebSocket ----

REFUSED = {
    "another protocol": ("Upgrade: h2c", "Connection: Upgrade"),
    "two protocols": ("Upgrade: websocket, h2c", "Connection: Upgrade"),
    "two fields": ("Upgrade: websocket", "Upgrade: websocket", "Connection: Upgrade"),
    "no connection": ("Upgrade: websocket",),
    "no key": ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
    "two keys": ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}",
                 f"Sec-WebSocket-Key: {KEY}"),
    "short key": ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="),
    "old version": ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 8", f"Sec-WebSocket-Key: {KEY}"),
}


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED)
def test_what_is_no_upgrade_is_refused(place, chat, lines):
    with running(place, *bound(chat)) as it:
        egress.assert_refused(it.ask(egress.request("GET", "/chat", *lines)), 400, "upgrade_refused")
        assert Socket(it).head.startswith("HTTP/1.1 101 ")  # control
    assert len(chat.requests) == 1


NOT_CONFIRMED = {
    "wrong accept": "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept_of(KEY),
    "no accept": "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade",
    "other protocol": "HTTP/1.1 101 Go\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}",
    "no connection": "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}",
    "extension": "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
                 "Sec-WebSocket-Extensions: permessage-deflate",
}


@pytest.mark.parametrize("reply", NOT_CONFIRMED.values(), ids=NOT_CONFIRMED)
def test_an_upgrade_that_the_origin_did_not_confirm_is_none(place, https, reply):
    def script(connection):
        key, = connection.request().values("sec-websocket-key")
        connection.send((reply.replace("{accept}", accept_of(key)) + "\r\n\r\n").encode() + frame(TEXT, RAW))

    https.script = script
    with running(place, *bound(https)) as it:
        egress.assert_refused(it.ask(upgrade()), 502, "upstream_garbage")


def test_switching_protocols_unasked_is_refused(place, https):
    https.script = lambda connection: (connection.request(), connection.send(
        b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + frame(TEXT, RAW)))
    with running(place, *bound(https)) as it:
        egress.assert_refused(it.ask(egress.request()), 502, "upstream_garbage")


def test_a_refused_upgrade_is_an_ordinary_reply(place, https):
    https.script = lambda connection: [connection.answer(b"not here", 403) for _ in connection.requests()]
    with running(place, *bound(https)) as it:
        reply = it.ask(upgrade())
        assert (reply.status, reply.body) == (403, b"not here")


def test_the_policy_judges_an_upgrade(place, chat):
    options = ("--allow-net", f"GET {egress.HOST}/chat", "--deny-net", f"{egress.HOST}/chat/no", *egress.mapped(chat), *egress.trusted(chat))
    with running(place, *options, "--env", "TOKEN=none") as it:
        egress.assert_refused(it.ask(upgrade().replace(b"/chat", b"/chat/no")), 403, "denied")
        assert Socket(it).head.startswith("HTTP/1.1 101 ")


BROKEN = {
    "unmasked": frame(TEXT, b"x"),
    "reserved bit": b"\xc1\x81\0\0\0\0x",
    "reserved opcode": b"\x83\x81\0\0\0\0x",
    "fragmented ping": b"\x09\x81\0\0\0\0x",
    "long ping": frame(PING, b"x" * 126, True, b"abcd"),
    "continuation of nothing": frame(0, b"x", True, b"abcd"),
    "http": b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_frame_ends_it(place, chat, data):
    with running(place, *bound(chat)) as it:
        socket = Socket(it)
        socket.send(TEXT, b"fine")
        assert socket.message() == (TEXT, b"fine")
        socket.wire.send(data)
        assert socket.message()[0] == CLOSE
    assert b"smuggled" not in chat.received()


@pytest.mark.parametrize("data", [frame(TEXT, b"x", True, b"abcd"), b"\xc1\x01x", b"\x81\x7e\x00\x01x", b"HTTP/1.1 200 OK\r\n\r\n"],
                         ids=["masked", "compressed", "long length", "http"])
def test_what_is_no_frame_of_a_server_ends_it(place, https, data):
    def script(connection):
        confirm(connection)
        connection.send(frame(TEXT, b"fine") + data)

    https.script = script
    with running(place, *bound(https)) as it:
        socket = Socket(it)
        assert [socket.message(), socket.message()[0]] == [(TEXT, b"fine"), CLOSE]


def test_frames_sent_ahead_wait_for_the_origin(place, https):
    """Whatever follows the request is not sent before the upgrade is confirmed."""
    def script(connection):
        connection.request()
        connection.answer(b"no", 403)
        connection.take(1)

    https.script = script
    with running(place, *bound(https)) as it:
        wire = egress.connect(it.run)
        wire.send(upgrade() + frame(TEXT, b"GET /smuggled HTTP/1.1\r\n\r\n", True, b"\0\0\0\0"))
        assert wire.reply().status == 403
    assert b"smuggled" not in https.received()


# ---- over HTTP/2 (RFC 8441) ----

CLIENT = textwrap.dedent("""
    import json, os, socket, ssl, struct, sys
    import h2.config, h2.connection, h2.events, h2.settings
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    sock = context.wrap_socket(socket.create_connection(("api.test", 443)), server_hostname="api.test")
    assert sock.selected_alpn_protocol() == "h2"
    conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, validate_outbound_headers=False))
    conn.initiate_connection()
    sock.sendall(conn.data_to_send())

    def events():
        while True:
            data = sock.recv(65536)
            if not data:
                return
            for event in conn.receive_data(data):
                yield event
            sock.sendall(conn.data_to_send())

    stream = events()
    for event in stream:
        if isinstance(event, h2.events.RemoteSettingsChanged):
            setting = event.changed_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL)
            assert setting and setting.new_value == 1, event
            break
    conn.send_headers(1, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/chat"),
                          (":authority", "api.test"), ("sec-websocket-version", "13")] + json.loads(os.environ["FIELDS"]))
    sock.sendall(conn.data_to_send())
    status, got = None, b""
    for event in stream:
        if isinstance(event, h2.events.ResponseReceived):
            status = dict(event.headers)[b":status"].decode()
            accept = dict(event.headers).get(b"sec-websocket-accept", b"").decode()
            key = b"abcd"
            payload = json.dumps({"a": os.environ["TOKEN"]}).encode()
            masked = bytes(b ^ key[i % 4] for i, b in enumerate(payload))
            conn.send_data(1, b"\\x81" + bytes([128 | len(payload)]) + key + masked)
            sock.sendall(conn.data_to_send())
        elif isinstance(event, h2.events.DataReceived):
            got += event.data
            conn.acknowledge_received_data(event.flow_controlled_length, 1)
            if len(got) >= 2 and len(got) - 2 >= got[1]:
                break
    print(json.dumps([status, accept, got[2:].decode(), os.environ["TOKEN"]]))
""")


@pytest.mark.parametrize("fields", [[], [["sec-websocket-key", KEY]]], ids=["as it should", "with a key"])
def test_websocket_over_http2(place, chat, fields):
    options = bound(chat, *IN_FRAMES, "--env", f"FIELDS={json.dumps(fields)}", source="PLAIN")
    status, accept, text, placeholder = egress.result_of(place, CLIENT, options, env={"PLAIN": PLAIN})
    assert status == "200" and json.loads(text) == {"a": placeholder}
    assert accept == (accept_of(KEY) if fields else "")
    assert json.loads(chat.messages[0][1]) == {"a": PLAIN}
