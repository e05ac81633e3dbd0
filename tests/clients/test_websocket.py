# SPDX-License-Identifier: MIT
"""WebSocket, by Upgrade and over HTTP/2: messages of every kind come back, and the secret does not."""
import hashlib

import clients
import pytest


def python(script):
    return [str(clients.need("python") / "bin/python"), clients.path_of(script)], {}


def node(*options, undici=False):
    clients.need_program("node")
    env = ({"UNDICI": f"{clients.need('undici')}/node_modules/undici/index.js"} if undici else
           {"MODULES": f"{clients.need('node')}/"})
    return ["node", clients.path_of("ws_talk.mjs"), *options], env


def java():
    clients.need_program("java")
    return ["java", "-cp", str(clients.need("java")), "WebSocketTalk"], {}


TALKERS = {
    "websockets": lambda: python("websockets_talk.py"),
    "aiohttp": lambda: python("aiohttp_talk.py"),
    "ws": node,
    "undici": lambda: node(undici=True),
    "undici, h2": lambda: node("h2", undici=True),
    "h2 and wsproto": lambda: python("h2_talk.py"),
    "java": java,
}
BINARY = bytes(range(256)) * 300


def talk(place, name, origin, *options, **env):
    argv, more = TALKERS[name]()
    return clients.run(place, argv, origin, "ws.test", env={"BASE": "wss://ws.test/ws", **more, **env}, options=options)


@pytest.mark.parametrize("kind", ["h1_origin", "origin"])
@pytest.mark.parametrize("name", TALKERS)
def test_messages_come_back(place, request, name, kind):
    origin = request.getfixturevalue(kind)
    done = talk(place, name, origin)
    said = clients.answers(done)[0]
    assert (said["hello"], said["who"]) == ("hello", f"Bearer {done.placeholder}")
    assert said["large"] is True and said["binary"] is True
    assert said["closed"] == (None if name == "undici, h2" else 1000)
    opened, *messages = origin.wait(5)
    assert opened["headers"]["authorization"] == f"Bearer {clients.SECRET}"
    assert (opened["host"], opened["path"]) == ("ws.test", "/ws")
    assert "permessage-deflate" not in opened["headers"].get("sec-websocket-extensions", "")
    assert [message["message"] for message in messages[:2]] == ["hello", "who am I?"]
    assert messages[2]["sha256"] == hashlib.sha256(b"0123456789" * 20000).hexdigest()
    assert messages[3]["length"] == len(BINARY)


def test_a_message_in_pieces_and_a_ping(place, h1_origin):
    done = talk(place, "websockets", h1_origin)
    said = clients.answers(done)[0]
    assert said["pieces"] == "one two three" and said["pong"] is True
    assert said["reflected"] == f"Bearer {done.placeholder}"


def test_a_placeholder_in_a_message(place, h1_origin):
    done = talk(place, "websockets", h1_origin, "--secret-in", "TOKEN=header,websocket", SAY="I am PLACEHOLDER.")
    assert clients.answers(done)[0]["said"] == f"I am {done.placeholder}."
    assert h1_origin.wait(1, lambda record: record.get("message") == f"I am {clients.SECRET}.")


def test_a_placeholder_in_a_message_where_it_may_not_stand(place, h1_origin):
    """The test above is the control: there it is received."""
    said = clients.answers(talk(place, "websockets", h1_origin, SAY="I am PLACEHOLDER."))[0]
    assert said["hello"] == "hello" and said["said"] is None
    assert not [record for record in h1_origin.records if "I am" in str(record.get("message"))]
