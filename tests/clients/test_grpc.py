# SPDX-License-Identifier: MIT
"""gRPC: every kind of call, as grpcio and grpc-js make them, with a server of grpcio."""
import gzip
import struct
import subprocess

import clients
import pytest


def grpcio():
    return [str(clients.need("python") / "bin/python"), clients.path_of("grpc_calls.py")], {}


def grpc_js():
    clients.need_program("node")
    return ["node", clients.path_of("grpc_calls.mjs")], {"MODULES": f"{clients.need('node')}/"}


@pytest.fixture(params=[grpcio, grpc_js], ids=["grpcio", "grpc-js"])
def call(request, place, grpc_origin):
    """Makes the call of that name; what it returned and the client's placeholder."""
    argv, env = request.param()

    def made(step, **more):
        done = clients.run(place, argv, grpc_origin, "grpc.test", env={"STEP": step, **env, **more})
        return clients.answers(done)[0][step], f"Bearer {done.placeholder}"

    return made


def assert_called(origin, method, count=1):
    records = origin.wait(count, lambda record: record["method"] == method)
    assert len(records) == count
    for record in records:
        assert record["metadata"]["authorization"] == f"Bearer {clients.SECRET}"
    return records


BYTES = [0, 1, 255]


def test_a_call_with_metadata_and_trailers(call, grpc_origin):
    said, key = call("unary")
    assert said == {"reply": "hello", "code": "OK", "first": {"x-first": key}, "last": {"x-last": key, "x-bytes-bin": BYTES}}
    assert_called(grpc_origin, "unary")


def test_a_message_of_megabytes(call, grpc_origin):
    assert call("large")[0] is True
    assert_called(grpc_origin, "unary")


def test_a_status_with_a_message(call, grpc_origin):
    said, key = call("fail")
    assert said == {"code": "PERMISSION_DENIED", "details": f"not you, {key}: ü%",
                    "last": {"x-last": key, "x-bytes-bin": BYTES}}
    assert_called(grpc_origin, "fail")


def test_a_method_that_is_not_there(call):
    assert call("unknown")[0] == "UNIMPLEMENTED"


def test_the_server_streams(call, grpc_origin):
    said, key = call("count")
    assert said == [f"{number} {key}" for number in range(100)]
    assert_called(grpc_origin, "count")


def test_the_client_streams(call, grpc_origin):
    assert call("collect")[0] == "1000000"
    assert_called(grpc_origin, "collect")


def test_both_stream_in_turns(call, grpc_origin):
    said, key = call("converse")
    assert said == {"replies": [f"you said {number}" for number in range(10)], "rest": 0,
                    "last": {"x-last": key, "x-bytes-bin": BYTES}}
    assert_called(grpc_origin, "converse")


def test_a_deadline_is_the_servers_as_well(call, grpc_origin):
    assert call("deadline")[0] == "DEADLINE_EXCEEDED"
    assert 0 < assert_called(grpc_origin, "linger")[0]["remaining"] <= 2
    assert grpc_origin.wait(1, lambda record: record["method"] == "lingered")[0]["cancelled"]


def test_a_cancelled_call_is_cancelled_there(call, grpc_origin):
    assert call("cancel")[0] == "CANCELLED"
    assert_called(grpc_origin, "linger")
    assert grpc_origin.wait(1, lambda record: record["method"] == "lingered")[0]["cancelled"]


def test_many_calls_at_once(call, grpc_origin):
    assert call("many")[0] is True
    assert_called(grpc_origin, "unary", 50)


def test_a_compressed_message_does_not_carry_the_secret(call, grpc_origin):
    """clients.run has searched what the client printed."""
    said, key = call("hide")
    assert_called(grpc_origin, "hide")
    assert key in said or said in ("INTERNAL", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN", "CANCELLED")


def test_the_server_does_compress(grpc_origin):
    """The control of the test above: what a client gets that reaches the server without warder."""
    reply = subprocess.run(
        ["curl", "-sS", "--http2", "--cacert", grpc_origin.ca, "--connect-to", f"grpc.test:443:127.0.0.1:{grpc_origin.port}",
         "-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "grpc-accept-encoding: gzip",
         "-H", f"authorization: {clients.SECRET}", "--data-binary", "@-", "https://grpc.test/warder.Test/Hide"],
        input=bytes(5), capture_output=True, check=True).stdout
    is_compressed, length = struct.unpack(">BI", reply[:5])
    assert is_compressed and length == len(reply) - 5
    assert clients.SECRET.encode() in gzip.decompress(reply[5:])
