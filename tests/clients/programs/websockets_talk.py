# SPDX-License-Identifier: MIT
"""The websockets library."""
import json
import os

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

TOKEN = os.environ["TOKEN"]

with connect(os.environ["BASE"], additional_headers={"Authorization": f"Bearer {TOKEN}"}, max_size=1 << 22) as socket:
    said = {}
    for name, text in (("hello", "hello"), ("who", "who am I?"), ("large", "0123456789" * 20000),
                       ("binary", bytes(range(256)) * 300), ("pieces", ["one ", "two ", "three"])):
        socket.send(text)
        got = socket.recv()
        said[name] = got if name in ("hello", "who", "pieces") else got == text
    said["pong"] = socket.ping().wait(10)
    if "SAY" in os.environ:
        socket.send(os.environ["SAY"].replace("PLACEHOLDER", TOKEN))
        try:
            said["said"] = socket.recv(timeout=10)
        except ConnectionClosed:
            said["said"] = None
    said["reflected"] = socket.response.headers.get("X-Reflected")
said["closed"] = socket.close_code
print(json.dumps(said))
