# SPDX-License-Identifier: MIT
"""Every kind of call with grpcio."""
import json
import os
import queue

import grpc

FIELDS = (("authorization", f"Bearer {os.environ['TOKEN']}"), ("x-bytes-bin", b"\x00\x01\xff"))
channel = grpc.secure_channel("grpc.test:443", grpc.ssl_channel_credentials(), options=[
    ("grpc.max_receive_message_length", 16 << 20)])


def method(kind, name):
    return getattr(channel, kind)(f"/warder.Test/{name}")


def metadata(pairs):
    return {key: list(value) if isinstance(value, bytes) else value for key, value in pairs if key.startswith("x-")}


def unary():
    reply, call = method("unary_unary", "Unary").with_call(b"hello", metadata=FIELDS)
    return {"reply": reply.decode(), "first": metadata(call.initial_metadata()), "last": metadata(call.trailing_metadata()),
            "code": call.code().name}


def large():
    data = os.urandom(3 << 20)
    return method("unary_unary", "Unary")(data, metadata=FIELDS) == data


def fail():
    try:
        method("unary_unary", "Fail")(b"", metadata=FIELDS)
    except grpc.RpcError as error:
        return {"code": error.code().name, "details": error.details(), "last": metadata(error.trailing_metadata())}


def unknown():
    try:
        method("unary_unary", "Nothing")(b"", metadata=FIELDS)
    except grpc.RpcError as error:
        return error.code().name


def count():
    return [message.decode() for message in method("unary_stream", "Count")(b"100", metadata=FIELDS)]


def collect():
    return method("stream_unary", "Collect")((b"x" * 1000 for _ in range(1000)), metadata=FIELDS).decode()


def converse():
    """Each message is sent when the reply to the one before has come."""
    waiting = queue.Queue()
    call = method("stream_stream", "Converse")(iter(waiting.get, None), metadata=FIELDS)
    replies = []
    for number in range(10):
        waiting.put(str(number).encode())
        replies.append(next(call).decode())
    waiting.put(None)
    return {"replies": replies, "rest": len(list(call)), "last": metadata(call.trailing_metadata())}


def deadline():
    try:
        method("unary_unary", "Linger")(b"", metadata=FIELDS, timeout=2)
    except grpc.RpcError as error:
        return error.code().name


def cancel():
    call = method("unary_stream", "Linger")(b"", metadata=FIELDS)  # tells its first metadata at once
    call.initial_metadata()  # it is under way when this has come
    call.cancel()
    return call.code().name


def many():
    calls = [method("unary_unary", "Unary").future(str(number).encode(), metadata=FIELDS) for number in range(50)]
    return [call.result().decode() for call in calls] == [str(number) for number in range(50)]


def hide():
    """The secret in a compressed message; whatever comes of it is told by who searches the output."""
    try:
        return method("unary_unary", "Hide")(b"", metadata=FIELDS).decode()
    except grpc.RpcError as error:
        return error.code().name


STEPS = (unary, large, fail, unknown, count, collect, converse, deadline, cancel, many, hide)
wanted = os.environ.get("STEP")
print(json.dumps({step.__name__: step() for step in STEPS if not wanted or step.__name__ == wanted}))
