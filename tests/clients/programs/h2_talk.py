# SPDX-License-Identifier: MIT
"""WebSocket over HTTP/2 as RFC 8441 has it, with the libraries h2 and wsproto."""
import json
import os
import socket
import ssl
import urllib.parse

import h2.config
import h2.connection
import h2.events
import h2.settings
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, TextMessage

address = urllib.parse.urlsplit(os.environ["BASE"])
context = ssl.create_default_context()
context.set_alpn_protocols(["h2"])
wire = context.wrap_socket(socket.create_connection((address.hostname, address.port or 443)), server_hostname=address.hostname)
http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
frames = Connection(ConnectionType.CLIENT)
said = {}
waiting = []  # data of the stream that has come


def flush():
    wire.sendall(http.data_to_send())


def turn():
    """Reads once, and returns what has happened."""
    data = wire.recv(65536)
    if not data:
        raise SystemExit("the connection ended")
    events = http.receive_data(data)
    for event in events:
        if isinstance(event, h2.events.DataReceived):
            http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            waiting.append(event.data)
        elif isinstance(event, h2.events.StreamReset):
            raise SystemExit(f"the stream was reset: {event.error_code}")
    flush()
    return events


def await_event(kind):
    while True:
        for event in turn():
            if isinstance(event, kind):
                return event


def send(data):
    while data:
        room = min(http.local_flow_control_window(stream), http.max_outbound_frame_size)
        if room == 0:
            turn()
            continue
        http.send_data(stream, data[:room])
        data = data[room:]
        flush()


def receive():
    """The next message, or how it was closed."""
    whole = None
    while True:
        while waiting:
            frames.receive_data(waiting.pop(0))
        for event in frames.events():
            if isinstance(event, CloseConnection):
                return event
            whole = event.data if whole is None else whole + event.data
            if event.message_finished:
                return whole
        turn()


def say(event):
    send(frames.send(event))
    return receive()


http.initiate_connection()
flush()
while not http.remote_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL):
    turn()
stream = http.get_next_available_stream_id()
http.send_headers(stream, [
    (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", address.netloc),
    (":path", address.path), ("sec-websocket-version", "13"), ("authorization", f"Bearer {os.environ['TOKEN']}")])
flush()
said["status"] = dict(await_event(h2.events.ResponseReceived).headers)[":status"]
said["hello"] = say(TextMessage("hello"))
said["who"] = say(TextMessage("who am I?"))
said["large"] = say(TextMessage("0123456789" * 20000)) == "0123456789" * 20000
said["binary"] = say(BytesMessage(bytes(range(256)) * 300)) == bytes(range(256)) * 300
said["closed"] = say(CloseConnection(1000)).code
print(json.dumps(said))
