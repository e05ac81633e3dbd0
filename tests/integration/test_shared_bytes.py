# SPDX-License-Identifier: MIT
"""Limits of bytes where nobody knows how many there will be: they hold nevertheless."""
import base64
import gzip
import hashlib
import secrets
import struct

import link
import load
import pytest
import shared

LIMIT = 100000
LIMITS = pytest.mark.parametrize("limit", [LIMIT, 10 * LIMIT], ids=["limit", "control"])


def ask(run, payload):
    """An exchange that begins with this OPEN, and its reply to the end."""
    run.send(link.OPEN, 1, payload)
    return run.rest(1, run.head(1))


def test_a_reply_ends_where_the_bytes_do(user_place, origin):
    origin.script = lambda connection: [connection.answer(b"x" * 3000) for _ in connection.requests()]
    with shared.keeper(user_place, shared.llm(origin, limits={"bytes": "4000"})) as keeper:
        run = load.Run(keeper.path, "r-1")
        replies = [run.ask() for _ in range(2)]
        assert [reply.is_complete for reply in replies] == [True, False]
        # What might begin a secret was held back.
        assert 4000 - len(shared.KEY) * 4 < sum(13 + len(reply.body) for reply in replies) <= 4000
        assert [r["ended"] for r in keeper.outcomes(2)] == ["complete", "bytes_used_up"]
        assert keeper.show("r-1")["run.bytes"] == 4000
        assert run.ask().code() == "bytes_used_up"
        run.close()


@pytest.mark.parametrize("limit", [1 << 20, None], ids=["limit", "control"])
def test_bytes_however_many_are_under_way(user_place, origin, limit):
    """Nobody knows how long the replies are; together they end where the limit is."""
    origin.script = load.together(20, b"x" * 300000)
    limits = {"team": {"bytes": str(limit)} if limit else {"concurrent": 100}}
    with shared.keeper(user_place, shared.llm(origin, account_limits=limits)) as keeper:
        runs = [load.Run(keeper.path, f"r-{n}", "team") for n in range(20)]
        replies = load.ask_at_once(runs)
        moved = sum(13 + len(reply.body) for reply in replies)
        if limit:
            assert 0.9 * limit < moved <= limit
            assert [reply.status for reply in replies] == [200] * 20
            assert moved <= keeper.show("r-1")["account.bytes"] <= limit
            assert {line["meter"] for line in keeper.log("limit_reached")} == {"account:team"}
        else:
            assert all(reply.is_complete for reply in replies) and moved == 20 * 300013
        for run in runs:
            run.close()


@pytest.mark.parametrize("limit", [200000, 2000000], ids=["limit", "control"])
def test_a_body_whose_length_nobody_knows(user_place, origin, https, limit):
    https.script = lambda connection: [connection.answer() for _ in connection.requests()]
    config = shared.merge(shared.host(https, secret=False), {"limits": {"bytes": str(limit)}})
    head = link.head("/x", framing=link.CHUNKED, kind=1, host="api.test:443", is_tls=1)
    with shared.keeper(user_place, shared.merge(shared.llm(origin), config)) as keeper:
        run = load.Run(keeper.path, "r-1")
        run.send(link.OPEN, 1, head)
        credit, sent, replies = 65536, 0, {}
        while sent < 1000000 and not replies:
            while credit >= 10000 and sent < 1000000:
                run.send(link.DATA, 1, b"x" * 10000)
                sent, credit = sent + 10000, credit - 10000
            kind, number, payload = run.receive()
            if number == 1 and kind == link.CREDIT:
                credit += struct.unpack("<I", payload)[0]
            elif number == 1:
                replies[1] = load.Reply(payload)
        if limit == 2000000:
            run.send(link.END, 1, link.fields(()))
        reply = run.rest(1, replies.get(1) or run.head(1))
        if limit == 200000:
            assert (reply.status, reply.code()) == (429, "bytes_used_up")
            assert limit < sent <= limit + 65536 + 10000
        else:
            assert (reply.status, sent) == (200, 1000000)
            assert len(https.requests[0].body) == sent
        run.close()


@LIMITS
def test_a_tunnel(user_place, origin, limit):
    def script(connection):
        connection.send(b"x" * 3 * LIMIT)
        connection.socket.close()

    origin.script = script
    config = {"allow": ["tcp://db.test:9"], "connect_to": {"db.test:9": f"127.0.0.1:{origin.port}"},
              "limits": {"bytes": str(limit)}}
    with shared.keeper(user_place, shared.merge(shared.llm(origin), config)) as keeper:
        run = load.Run(keeper.path, "r-1")
        reply = ask(run, link.head("/", method="CONNECT", framing=link.CHUNKED, kind=3, host="db.test:9"))
        if limit == LIMIT:
            assert (len(reply.body), reply.is_complete) == (LIMIT, False)
        else:
            assert (len(reply.body), reply.is_complete) == (3 * LIMIT, True)
        run.close()


@LIMITS
def test_a_websocket(user_place, origin, https, limit):
    def script(connection):
        key = connection.request().values("sec-websocket-key")[0].encode()
        digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        connection.send(b"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                        b"Sec-WebSocket-Accept: %s\r\n\r\n" % base64.b64encode(digest))
        connection.send((b"\x82\x7e" + struct.pack(">H", 1000) + b"x" * 1000) * (3 * LIMIT // 1000))
        connection.send(b"\x88\x02\x03\xe8")

    https.script = script
    config = shared.merge(shared.host(https, secret=False), {"limits": {"bytes": str(limit)}})
    items = [("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-version", "13"),
             ("sec-websocket-key", base64.b64encode(b"0123456789abcdef").decode())]
    with shared.keeper(user_place, shared.merge(shared.llm(origin), config)) as keeper:
        run = load.Run(keeper.path, "r-1")
        reply = ask(run, link.head("/", method="GET", framing=link.CHUNKED, kind=2, host="api.test:443",
                                   is_tls=1, items=items))
        ended, = [record["ended"] for record in keeper.outcomes(1)]
        if limit == LIMIT:
            assert LIMIT <= len(reply.body) <= LIMIT + 65536 and ended == "bytes_used_up"
        else:
            assert len(reply.body) > 3 * LIMIT and ended == "complete"
        run.close()


@LIMITS
def test_a_reply_that_is_decoded(user_place, origin, limit):
    """It counts as it came."""
    body = secrets.token_hex(2 * LIMIT).encode()
    packed = gzip.compress(body)
    assert LIMIT < len(packed) < 10 * LIMIT
    origin.script = lambda connection: [connection.answer(packed, fields=[("content-encoding", "gzip")])
                                        for _ in connection.requests()]
    with shared.keeper(user_place, shared.llm(origin, limits={"bytes": str(limit)})) as keeper:
        run = load.Run(keeper.path, "r-1")
        reply = run.ask()
        assert reply.is_complete == (limit > LIMIT)
        if limit == LIMIT:
            assert keeper.show("r-1")["run.bytes"] <= LIMIT + 65536 and len(reply.body) < len(body)
        else:
            assert reply.body == body and keeper.show("r-1")["run.bytes"] == 13 + len(packed)
        run.close()
