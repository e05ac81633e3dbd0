# SPDX-License-Identifier: MIT
"""A gRPC server over TLS, of the library as it is, with a line of JSON on stdout for each call.

The messages are bytes, so no schema is needed. Every call shows the caller's authorization in its
first and its last metadata.
"""
import concurrent.futures
import json
import pathlib
import sys
import threading
import time

import grpc

LOCK = threading.Lock()


def tell(record):
    with LOCK:
        print(json.dumps(record), flush=True)


def begin(context, method):
    fields = dict(context.invocation_metadata())
    shown = fields.get("authorization", "")
    left = context.time_remaining()
    tell({"method": method, "metadata": {k: v for k, v in fields.items() if isinstance(v, str)},
          "remaining": None if left is None or left > 1e6 else left})
    context.send_initial_metadata((("x-first", shown),))
    context.set_trailing_metadata((("x-last", shown), ("x-bytes-bin", b"\x00\x01\xff")))
    return shown


def unary(data, context):
    begin(context, "unary")
    return data


def fail(data, context):
    shown = begin(context, "fail")
    context.abort(grpc.StatusCode.PERMISSION_DENIED, f"not you, {shown}: ü%")


def count(data, context):
    """As many messages as the request says, each when it is made."""
    shown = begin(context, "count")
    for number in range(int(data)):
        yield f"{number} {shown}".encode()


def collect(messages, context):
    begin(context, "collect")
    return str(sum(len(message) for message in messages)).encode()


def converse(messages, context):
    begin(context, "converse")
    for message in messages:
        yield b"you said " + message


def linger(data, context):
    """Answers never; tells when the client has given up."""
    begin(context, "linger")
    ended = threading.Event()
    context.add_callback(ended.set)
    tell({"method": "lingered", "cancelled": ended.wait(60)})
    return b""


def hide(data, context):
    """The caller's authorization where a search of the bytes does not find it."""
    context.set_compression(grpc.Compression.Gzip)
    shown = begin(context, "hide")
    return f"{shown} ".encode() * 20


HANDLERS = {
    "Hide": grpc.unary_unary_rpc_method_handler(hide),
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Linger": grpc.unary_unary_rpc_method_handler(linger),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Collect": grpc.stream_unary_rpc_method_handler(collect),
    "Converse": grpc.stream_stream_rpc_method_handler(converse),
}


def main(certificate, key):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16),
                         options=[("grpc.max_receive_message_length", 16 << 20)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("warder.Test", HANDLERS),))
    pair = pathlib.Path(key).read_bytes(), pathlib.Path(certificate).read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    tell({"port": port})
    while True:
        time.sleep(3600)


main(*sys.argv[1:])
