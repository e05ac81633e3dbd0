# SPDX-License-Identifier: MIT
"""INV-NO-REFLECTION and secrets of hosts in bodies that are encoded, both ways."""
import gzip
import json
import os
import threading
import zlib

import brotli
import egress
import origin as upstream
import pytest
import zstandard
from test_egress_secrets import ECHOES, EVERYWHERE, RAW, SECRET, assert_nowhere, bound, come_back, place, running  # noqa: F401


def bare_deflate(data):
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(data) + coder.flush()


# name: what the field says, how it is written and how it is read
CODINGS = {
    "gzip": ("gzip", gzip.compress, gzip.decompress),
    "x-gzip": ("X-GZip", gzip.compress, gzip.decompress),
    "deflate": ("deflate", zlib.compress, zlib.decompress),
    "bare deflate": ("deflate", bare_deflate, lambda data: zlib.decompress(data, -15)),
    "br": ("br", brotli.compress, brotli.decompress),
    "zstd": ("zstd", zstandard.compress, lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
}


def decoded(coding, data):
    """By what the field says: bare deflate comes out as zlib's format."""
    return zlib.decompress(data) if coding == "bare deflate" else CODINGS[coding][2](data)


def post(coding, body, *lines):
    return egress.request("POST", "/", f"Content-Encoding: {CODINGS[coding][0]}", *lines, body=body)


# ---- requests ----

@pytest.mark.parametrize("coding", CODINGS)
def test_a_placeholder_in_an_encoded_body_becomes_the_secret(place, https, coding):
    with running(place, *bound(https, *EVERYWHERE)) as it:
        text = json.dumps({"a": it.placeholder, "filling": ["x" * 9] * 9000})
        reply = it.ask(post(coding, CODINGS[coding][1](text.encode()), "Content-Type: application/json"))
        assert reply.status == 200
    request = https.requests[0]
    assert json.loads(decoded(coding, request.body)) == {"a": SECRET, "filling": ["x" * 9] * 9000}
    assert request.values("content-encoding") == [CODINGS[coding][0]]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_placeholder_in_an_encoded_body_is_refused_where_it_may_not_stand(place, https, coding):
    with running(place, *bound(https)) as it:
        encode = CODINGS[coding][1]
        egress.assert_refused(it.ask(post(coding, encode(b"<" + it.placeholder_bytes + b">"))), 403, "placeholder_misplaced")
        assert it.ask(post(coding, encode(b"<something else>"))).status == 200  # control
    assert_nowhere(https.received())


@pytest.mark.parametrize("coding", CODINGS)
def test_an_encoded_body_is_substituted_wherever_it_is_cut(place, https, coding):
    with running(place, *bound(https, *EVERYWHERE)) as it:
        wire = egress.connect(it.run)
        body = CODINGS[coding][1](b"<" + it.placeholder_bytes + b">")
        head = egress.request("POST", "/", f"Content-Encoding: {CODINGS[coding][0]}", "Transfer-Encoding: chunked")
        for cut in range(1, len(body)):
            wire.send(head + upstream.chunk(body[:cut]))
            wire.send(upstream.chunk(body[cut:]) + upstream.LAST_CHUNK)
            assert wire.reply().status == 200
    assert {decoded(coding, r.body) for r in https.requests} == {b"<" + RAW + b">"}


@pytest.mark.parametrize("encoding", ["x-unknown", "gzip, br", "gzip, gzip", "compress", "gzip;q=1"])
def test_a_body_that_cannot_be_read_is_refused(place, https, encoding):
    with running(place, *bound(https)) as it:
        body = gzip.compress(it.placeholder_bytes)
        reply = it.ask(egress.request("POST", "/", f"Content-Encoding: {encoding}", body=body))
        egress.assert_refused(reply, 415, "body_encoded")
        reply = it.ask(egress.request("POST", "/", "Content-Encoding: gzip", "Content-Encoding: gzip", body=body))
        egress.assert_refused(reply, 415, "body_encoded")
        reply = it.ask(egress.request("POST", "/", "Content-Encoding: identity", body=b"x"))
        assert reply.status == 200


@pytest.mark.parametrize("body", [b"not of that coding", gzip.compress(b"x" * 100)[:-1], gzip.compress(b"x") + b"more"],
                         ids=["garbage", "cut short", "more"])
def test_a_body_that_is_not_what_it_says_is_refused(place, https, body):
    with running(place, *bound(https)) as it:
        egress.assert_refused(it.ask(post("gzip", body)), 400, "body_encoding")


def test_without_secrets_a_body_is_not_looked_into(place, https):
    with running(place, *egress.allowed(https), "--env", "TOKEN=none") as it:
        body = b"whatever this is"
        assert it.ask(egress.request("POST", "/", "Content-Encoding: x-unknown", body=body)).status == 200
    assert https.requests[0].body == body


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_bomb_is_refused(place, https, coding):
    """Ten gigabytes of nothing in a few kilobytes, or what the coding makes of it."""
    make = {"gzip": lambda: b"".join(gzip.compress(bytes(1 << 24)) for _ in range(8)) * 10,
            "br": lambda: brotli.compress(bytes(1 << 28), quality=5),
            "zstd": lambda: zstandard.compress(bytes(1 << 28)) * 16}[coding]
    with running(place, *bound(https)) as it:
        egress.assert_refused(it.ask(post(coding, make())), 413, "body_too_large")


# ---- replies ----

def encoded_reply(coding, data, *fields, chunks=None):
    body = CODINGS[coding][1](data)
    lines = [f"Content-Encoding: {CODINGS[coding][0]}", *fields]
    if not chunks:
        return ("HTTP/1.1 200 OK\r\n" + "".join(f"{line}\r\n" for line in lines) +
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    head = ("HTTP/1.1 200 OK\r\n" + "".join(f"{line}\r\n" for line in lines) + "Transfer-Encoding: chunked\r\n\r\n").encode()
    pieces = [body[at:at + chunks] for at in range(0, len(body), chunks)]
    return head + b"".join(upstream.chunk(piece) for piece in pieces) + upstream.LAST_CHUNK


@pytest.mark.parametrize("chunks", [None, 1])
@pytest.mark.parametrize("coding", CODINGS)
def test_a_secret_does_not_come_back_encoded(place, https, coding, chunks):
    text = b"<" + b"|".join(ECHOES.values()) + b">END"
    it = come_back(place, https, encoded_reply(coding, text, chunks=chunks))
    assert_nowhere(it.seen)
    assert b"END" in it.seen and it.placeholder_bytes in it.seen and b"content-encoding" not in it.seen.lower()


@pytest.mark.parametrize("coding", CODINGS)
def test_a_large_encoded_reply_arrives_whole(place, https, coding):
    data = b"".join(b"%d %s\n" % (number, os.urandom(8).hex().encode()) for number in range(60000)) + bytes(3 << 20)
    https.script = lambda connection: [connection.send(encoded_reply(coding, data)) for _ in connection.requests()]
    with running(place, *bound(https)) as it:
        for _ in range(2):
            reply = it.ask(egress.request("GET", "/", "Accept-Encoding: gzip, deflate, br, zstd"))
            assert (reply.status, reply.body) == (200, data)
    assert https.requests[0].values("accept-encoding") == ["gzip, deflate, br, zstd"]


def test_what_is_asked_for_is_what_can_be_read(place, https):
    with running(place, *bound(https)) as it:
        it.ask(egress.request("GET", "/", "Accept-Encoding: dcb, gzip;q=0.5, compress"))
        it.ask(egress.request("GET", "/"))
        it.ask(egress.request("GET", "/", "Accept-Encoding: *"))
    assert [r.values("accept-encoding") for r in https.requests] == [["gzip;q=0.5"], ["identity"], ["identity"]]


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_an_event_in_an_encoded_stream_is_not_held_back(place, https, coding):
    coder = zlib.compressobj(wbits=31) if coding == "gzip" else zstandard.ZstdCompressor().compressobj()
    seen = threading.Semaphore(0)
    flush = (zlib.Z_SYNC_FLUSH,) if coding == "gzip" else (zstandard.COMPRESSOBJ_FLUSH_BLOCK,)

    def script(connection):
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
                        b"Content-Encoding: %s\r\n\r\n" % coding.encode())
        for event in range(3):
            connection.send(upstream.chunk(coder.compress(b"data: %d\n\n" % event) + coder.flush(*flush)))
            assert seen.acquire(timeout=10)  # the next one only when this one was seen
        connection.send(upstream.chunk(coder.flush()) + upstream.LAST_CHUNK)

    https.script = script
    with running(place, *bound(https)) as it:
        wire = egress.connect(it.run)
        wire.send(egress.request())
        for event in range(3):
            wire.until(b"data: %d\n\n" % event)
            seen.release()
        wire.until(b"0\r\n\r\n")


HIDDEN = {
    "two codings": "Content-Encoding: gzip, gzip\r\n",
    "two fields": "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
    "unknown": "Content-Encoding: compress\r\n",
    "transfer coding": "Transfer-Encoding: gzip, chunked\r\n",
    "of messages": "grpc-encoding: gzip\r\n",
}


@pytest.mark.parametrize("fields", HIDDEN.values(), ids=HIDDEN)
def test_a_reply_that_cannot_be_read_is_cut_off(place, https, fields):
    body = gzip.compress(gzip.compress(RAW))
    data = upstream.chunk(body) + upstream.LAST_CHUNK if "chunked" in fields else body
    length = "" if "chunked" in fields else f"Content-Length: {len(body)}\r\n"
    it = come_back(place, https, f"HTTP/1.1 200 OK\r\n{fields}{length}\r\n".encode() + data)
    assert body not in it.seen and b"upstream_garbage" in it.seen


@pytest.mark.parametrize("fields", ["Content-Encoding: identity\r\nContent-Encoding: gzip\r\n",
                                    "Content-Encoding: identity, gzip\r\n", "content-encoding: GZIP\r\n"])
def test_a_coding_is_found_however_it_is_written(place, https, fields):
    body = gzip.compress(RAW)
    it = come_back(place, https, f"HTTP/1.1 200 OK\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert_nowhere(it.seen)
    assert it.placeholder_bytes in it.seen


@pytest.mark.parametrize("body", [gzip.compress(RAW * 9)[:-9], gzip.compress(RAW)[:20] + b"\0" * 30], ids=["cut short", "broken"])
def test_a_broken_coding_is_no_whole_reply(place, https, body):
    def script(connection):
        connection.request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    https.script = script
    done = egress.bash(place, "curl -sS --http1.1 https://api.test/", bound(https), env={"TOKEN": SECRET})
    assert done.returncode in (18, 52, 56), done
    assert_nowhere(done.stdout.encode() + done.stderr.encode())
