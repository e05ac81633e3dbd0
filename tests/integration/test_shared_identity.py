# SPDX-License-Identifier: MIT
"""INV-RUN-IDENTITY in a shared keeper: gates that are no longer ours, and visitors that never were.

The gate of every run here is played by the test, so that it can say anything on a link that is
rightly registered. Whatever it says, what reaches the origin is its own run's, or its link ends;
other runs of the same keeper do not notice.
"""
import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import checks
import fault
import harness
import link
import origin as upstream
import pytest
import siege

BODY = b'{"model":"m"}'
HUGE = 0xffffffff


@pytest.fixture
def keeper(origin):
    with siege.keeper(origin) as made:
        yield made


def identity(request):
    return request.values(siege.IDENTITY)


def metadata(request):
    found = request.values("x-litellm-spend-logs-metadata")
    assert len(found) == 1
    return json.loads(found[0], object_pairs_hook=lambda pairs: pairs)


# ---- a gate that claims to be another run's ----

CLAIMS = [
    ("x-litellm-end-user-id", "victim/0"), ("X-LiteLLM-End-User-Id", "victim/0"),
    ("x_litellm_end_user_id", "victim/0"), ("x-litellm-customer-id", "victim"),
    ("x-litellm-spend-logs-metadata", '{"runId":"victim","attempt":0}'),
    ("x-litellm-tags", "victim"), ("x-litellm-anything", "victim"), ("x-pass-user", "victim"),
    ("x-run-token", siege.token("victim")), ("X_Run_Token", siege.token("victim")),
    ("authorization", "Bearer victim"), ("x-api-key", "victim"), ("api-key", "victim"),
    ("cookie", "user=victim"), ("proxy-authorization", "Basic victim"),
]


@pytest.mark.parametrize("field", CLAIMS, ids=[f"{i}-{c[0]}" for i, c in enumerate(CLAIMS)])
def test_no_field_makes_it_another_run(keeper, origin, field):
    run = siege.join(keeper, "liar", "attempt=3")
    # The control: the same way, a field that means nothing reaches the origin as it is.
    assert run.gate.ask(1, items=[field, ("x-other", "victim")]).status == 200
    seen = origin.requests[0]
    assert seen.values("x-other") == ["victim"]
    assert identity(seen) == ["liar/3"]
    assert metadata(seen) == [("runId", "liar"), ("attempt", 3)]
    assert seen.head.replace(b"x-other: victim", b"").count(b"victim") == 0
    keeper.wait_for_record(event="outcome", runId="liar", attempt=3, exchange=1)
    assert not keeper.records(runId="victim")
    run.close()


@pytest.mark.parametrize("member", [
    '"user":"victim"', '"metadata":{"user_id":"victim"}', '"litellm_metadata":{"runId":"victim"}',
    '"safety_identifier":"victim"', '"\\u0075ser":"victim"',
    '"metadata":{"user_id":"victim","user_id":"victim"}'])
def test_no_member_of_a_body_does(keeper, origin, member):
    run = siege.join(keeper, "liar")
    body = ('{"model":"m",%s,"other":"harmless"}' % member).encode()
    assert run.gate.ask(1, body).status == 200
    seen = origin.requests[0]
    assert b"harmless" in seen.body and b"victim" not in seen.body
    assert identity(seen) == ["liar/0"]
    run.close()


def test_a_trailer_says_nothing(keeper, origin):
    run = siege.join(keeper, "liar")
    run.gate.open(1, None)
    run.gate.send(link.DATA, 1, BODY)
    run.gate.send(link.END, 1, link.fields([(siege.IDENTITY, "victim/0"),
                                            ("x-run-token", siege.token("victim"))]))
    assert run.gate.reply(1).status == 200
    assert identity(origin.requests[0]) == ["liar/0"]
    assert b"victim" not in origin.received()
    run.close()


def test_metadata_of_a_registration_cannot_name_another(origin):
    """The keeper's own members are there once; the operator's are not the run's to change."""
    with siege.keeper(origin, metadata={"team": "search"}) as keeper:
        for word in ("metadata.runId=victim", "metadata.attempt=7", "metadata.=x", "metadata.a",
                     "metadata.a=x\r\ny", "account=a\r\nb", "account=", "attempt=-1", "attempt= 1",
                     "attempt=4294967296", "run-id=second", "unknown=1"):
            visitor = siege.Visitor(keeper).register("run-id=liar", word)
            assert word.split("=")[0].split("\r")[0] in visitor.failure(), word
            assert not visitor.gate  # there is no link for it
            visitor.close()
        for word in ("run-id=liar", "attempt=1", "account=a", "metadata.a=x"):  # each name once
            visitor = siege.Visitor(keeper).register(*{"run-id=liar": 0, word: 0}, word)
            assert word.split("=", maxsplit=1)[0] in visitor.failure(), word
            visitor.close()
        run = siege.join(keeper, "liar", "metadata.team=other", "metadata.own=mine")
        assert run.gate.ask(1).status == 200
        assert metadata(origin.requests[0]) == [("runId", "liar"), ("attempt", 0),
                                                ("team", "search"), ("own", "mine")]
        run.close()


def test_metadata_on_the_command_line_neither(user_place, origin):
    checks.assert_refused(user_place, ("--llm", origin.url, "--metadata", "runId=victim"), "--metadata")


def test_numbers_of_others_are_nobodys(keeper, origin):
    """Two runs with the same number under way: what one says of it is about its own."""
    go_on = threading.Event()

    def slowly(connection):
        for request in connection.requests():
            if identity(request) == ["honest/0"]:
                assert go_on.wait(upstream.WAIT)
            connection.answer(b'{"for":"%s"}' % identity(request)[0].encode())

    origin.script = slowly
    honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
    honest.gate.open(77)
    origin.next_request()
    # Nothing of that number is under way on this link: it is about nothing.
    for kind, payload in ((link.DATA, b"x" * 1000), (link.END, link.fields(())),
                          (link.CREDIT, struct.pack("<I", 65536)), (link.ABORT, b"")):
        liar.gate.send(kind, 77, payload)
    assert liar.gate.ask(77).body == b'{"for":"liar/0"}'
    liar.gate.send(link.ABORT, 77)
    assert liar.gate.ask(78).status == 200
    go_on.set()
    assert honest.gate.reply(77).body == b'{"for":"honest/0"}'
    for run in (honest, liar):
        run.close()


def test_what_a_gate_says_it_refused_is_on_its_own_account(keeper):
    honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
    liar.gate.send(link.REFUSED, 5, b"".join(map(link.text, (
        "token_of_another_run", "GET", "honest.example:443", "/honest?runId=honest"))))
    record, = keeper.wait_for_record(event="decision", reason="token_of_another_run")
    assert (record["runId"], record["attempt"], record["allowed"]) == ("liar", 0, False)
    assert not keeper.records(event="decision", runId="honest")
    assert honest.gate.ask(5).status == 200
    for run in (honest, liar):
        run.close()


# ---- a gate that breaks the rules ----

@pytest.mark.parametrize("texts", [
    ("made_up", "GET", "a.test", "/" + '"' * 4000), ("made_up", "GET", "a.test", "/" + "\\" * 4000),
    ("made_up", "GET", "a.test", "/" + "x" * 4000), ("made_up" * 550, "GET", "a.test", "/"),
    ("made_up", "G" * 4000, "a.test", "/")])
def test_a_record_that_a_gate_makes_large_is_its_own(keeper, texts):
    """What others have asked for in the same turn is decided, recorded and done."""
    honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
    keeper.process.send_signal(signal.SIGSTOP)  # they are heard in one turn
    liar.gate.send(link.REFUSED, 1, b"".join(map(link.text, texts)))
    honest.gate.open(1)
    keeper.process.send_signal(signal.SIGCONT)
    assert honest.gate.reply(1).status == 200
    for record in keeper.wait_for_record(event="decision", runId="liar", allowed=False):
        for key, text in zip(("reason", "method", "host", "path"), texts):
            assert text.startswith(record[key]) and record[key]
    assert not keeper.notices("audit_failed")
    for run in (honest, liar):
        run.close()


def open_and(*messages):
    return lambda gate: [gate.send(link.OPEN, 1, link.head(framing=link.CHUNKED, items=[
        ("content-type", "application/json")])), *[gate.send(*m) for m in messages]]


def raw(data):
    return lambda gate: gate.socket.sendall(data)


def of(kind, exchange, payload=b""):
    return raw(siege.message(kind, exchange, payload))


BREAKS = {
    "hello": of(link.HELLO, 0, struct.pack("<I", 0) + link.text("victim")),
    "hello of an exchange": of(link.HELLO, 1, struct.pack("<I", 0) + link.text("victim")),
    "names": of(link.NAMES, 0, b"\0\1\0\0"),
    "tunnels": of(link.TUNNELS, 0, b"\0\0"),
    "notice": of(link.NOTICE, 0, b"=0 0 /tmp/x"),
    "reply": of(link.REPLY, 1, struct.pack("<IBQ", 200, 0, 0) + link.text("OK") + link.fields(())),
    "token": of(link.TOKEN, 0, b"\1\0" + link.text(siege.token("victim"))),
    "token of an exchange": of(link.TOKEN, 1, b"\1\0" + link.text(siege.token("victim"))),
    "bye": of(link.BYE, 0),
    "bye with words": of(link.BYE, 0, b"x"),
    "type 0": of(0, 0),
    "type 14": of(14, 1),
    "type 255": of(255, 1),
    "type beyond a byte": of(0x100 | link.OPEN, 1, link.head()),
    "garbage": raw(bytes(range(255, 0, -1)) * 8),
    "http": raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "open of exchange 0": of(link.OPEN, 0, link.head()),
    "open, huge": raw(struct.pack("<III", link.OPEN, 1, HUGE)),
    "data, huge": raw(struct.pack("<III", link.DATA, 1, HUGE)),
    "data, a byte too many": raw(struct.pack("<III", link.DATA, 1, 32769)),
    "data, empty": of(link.DATA, 1),
    "refused, huge": raw(struct.pack("<III", link.REFUSED, 1, HUGE)),
    "end, huge": raw(struct.pack("<III", link.END, 1, HUGE)),
    "credit, short": of(link.CREDIT, 1, b"\1\0\0"),
    "credit, long": of(link.CREDIT, 1, b"\1\0\0\0\0"),
    "abort with words": of(link.ABORT, 1, b"x"),
    "open, empty": of(link.OPEN, 1, b"\0" * 16),
    "open, text beyond its end": of(link.OPEN, 1, link.head()[:12] + struct.pack("<I", HUGE) + b"POST"),
    "open, words after it": of(link.OPEN, 1, link.head() + b"x"),
    "open, a field too many": of(link.OPEN, 1, link.head()[:-2] + b"\xff\xff"),
    "open, a line in a value": of(link.OPEN, 1, link.head(items=[("a", "b\r\nx-run: victim")])),
    "open, a line in a name": of(link.OPEN, 1, link.head(items=[("a\r\nb", "c")])),
    "open, a line in a method": of(link.OPEN, 1, link.head(method="GET / HTTP/1.1\r\nx")),
    "open, a space in a path": of(link.OPEN, 1, link.head(path="/v1/x HTTP/1.1\r\nx: y")),
    "open, of another kind": of(link.OPEN, 1, link.head(kind=4)),
    "open, a length and no body": of(link.OPEN, 1, link.head(framing=link.NONE, length=5)),
    "open twice": open_and((link.OPEN, 1, link.head(framing=link.CHUNKED))),
    "the 16,385th place": open_and((link.OPEN, 1 + 16384, link.head(framing=link.CHUNKED))),
    "credit of nothing": open_and((link.CREDIT, 1, struct.pack("<I", 0))),
    "credit too large": open_and((link.CREDIT, 1, struct.pack("<I", 65537))),
    "credit for what was not sent": open_and((link.CREDIT, 1, struct.pack("<I", 1))),
    "more than its length": lambda gate: [
        gate.send(link.OPEN, 1, link.head(length=3, items=[("content-type", "application/json")])),
        gate.send(link.DATA, 1, b'{"model"')],
    "less than its length": lambda gate: [
        gate.send(link.OPEN, 1, link.head(length=30, items=[("content-type", "application/json")])),
        gate.send(link.DATA, 1, b'{"model"'), gate.send(link.END, 1, link.fields(()))],
}


def test_what_is_no_message_ends_that_link_and_no_other(keeper, origin):
    honest = siege.join(keeper, "honest")
    assert honest.gate.ask(1).status == 200  # its connection to the origin is kept
    fds = keeper.fds_at_rest()
    for number, (name, act) in enumerate(BREAKS.items()):
        liar = siege.join(keeper, f"liar-{number}")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            act(liar.gate)
        assert liar.gate.is_ended(), name
        # Its owner hears of the end, as of any other; the record of the run is closed.
        while (told := liar.told()) and told[0] != "=":
            pass
        assert told, name
        keeper.wait_for_record(event="end", runId=f"liar-{number}")
        assert honest.gate.ask(number + 2).status == 200, name
        liar.close()
    assert b"victim" not in origin.received()
    assert {identity(r)[0] for r in origin.requests} == {"honest/0"}
    keeper.wait_for_fds(fds)
    assert keeper.notices("link_broken")
    assert len(keeper.runs()) == 1
    honest.close()


def test_more_than_the_credit_ends_that_link(keeper, origin):
    """An origin that takes nothing gives no credit back; what the kernel holds for it is less than this."""
    is_over = threading.Event()

    def take_nothing(connection):
        connection.head()
        is_over.wait(upstream.WAIT)

    honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
    assert honest.gate.ask(1).status == 200
    origin.script = take_nothing
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        open_and(*[(link.DATA, 1, b" " * 32768)] * 1024)(liar.gate)
    assert liar.gate.is_ended()
    is_over.set()
    keeper.wait_for_record(event="end", runId="liar")
    assert honest.gate.ask(2).status == 200
    for run in (honest, liar):
        run.close()


def test_a_link_that_is_rightly_used_lives(keeper, origin):
    """The control of the one above: what is just within the rules."""
    large = b"x" * 200000
    origin.script = lambda connection: [connection.answer(large) for _ in connection.requests()]
    run = siege.join(keeper, "honest")
    run.gate.open(1, None)
    run.gate.send(link.DATA, 1, BODY.ljust(32768))
    run.gate.send(link.DATA, 1, b" " * 32768)
    run.gate.send(link.END, 1, link.fields(()))
    # Nearly all that the credit is for, some of which may be held back; and that much again.
    assert run.gate.next(1)[0] == link.REPLY
    got = 0
    while got < 60000:
        kind, payload = run.gate.next(1)
        assert kind == link.DATA
        got += len(payload)
    run.gate.send(link.CREDIT, 1, struct.pack("<I", got))
    assert got + len(run.gate.reply(1).body) == len(large)
    assert run.gate.ask(2 + 16384).status == 200
    assert run.gate.ask(0xffffffff).status == 200
    run.close()


def test_messages_cut_off_anywhere_are_only_an_end(keeper):
    whole = siege.message(link.OPEN, 1, link.head(items=[("content-type", "application/json")],
                                                  length=len(BODY)))
    whole += siege.message(link.DATA, 1, BODY)
    honest = siege.join(keeper, "honest")
    for size in range(0, len(whole), 3):
        liar = siege.join(keeper, "liar")
        liar.gate.socket.sendall(whole[:size])
        liar.gate.socket.shutdown(socket.SHUT_WR)
        assert liar.gate.is_ended()
        while (told := liar.told()) and told[0] != "=":
            pass
        liar.close()
    assert honest.gate.ask(1).status == 200
    honest.close()


def test_bodies_of_any_length_are_only_announced(origin, https):
    """Together they are more than a number holds; none of it is ever sent."""
    hosts = {"allow": ["api.test"], "connect_to": {"api.test:443": f"127.0.0.1:{https.port}"},
             "upstream_ca": https.ca}
    with siege.keeper(origin, **hosts) as keeper:
        honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
        for number in range(1, 8):
            liar.gate.send(link.OPEN, number, link.head("/x", kind=1, host="api.test:443", is_tls=1,
                                                        length=1 << 62))
        for number in range(1, 8):
            liar.gate.send(link.ABORT, number)
        assert liar.gate.ask(8, b"x", path="/x", kind=1, host="api.test:443", is_tls=1).status == 200
        assert honest.gate.ask(1).status == 200
        for run in (honest, liar):
            run.close()


def test_a_gate_that_opens_and_never_listens_is_bounded(keeper, origin):
    """As many exchanges as it likes, with replies that it never takes."""
    origin.script = lambda connection: [connection.answer(b"x" * 60000)
                                        for _ in connection.requests()]
    honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
    before = keeper.rss()
    liar.gate.socket.settimeout(1)
    with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
        for number in range(1, 3000):
            liar.gate.open(number)
    assert honest.gate.ask(1).status == 200
    assert keeper.rss() - before < (400 if siege.IS_SANITIZED else 100) << 20
    for run in (honest, liar):
        run.close()


STUCK = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import fault, siege
class Made: path = sys.argv[2]
rude = siege.join(Made, "rude")
rude.gate.socket.settimeout(None)
page = fault.Page()
threading.Thread(target=page.receive, args=[rude.gate.socket], daemon=True).start()
rude.gate.open(1)
page.wait_until_read()
# The control: whoever else reads at this end waits for the one that hangs, whatever it asks for.
other = threading.Thread(target=fault.peek, args=[rude.gate.socket], daemon=True)
other.start()
other.join(1)
print("waits" if other.is_alive() else "does not wait", flush=True)
sys.stdin.readline()
page.provide()
other.join()
"""


def test_a_read_that_hangs_in_a_page_fault_is_the_runs_own_affair(keeper):
    """At one end of a link reads wait for each other; so nobody but the keeper has its end."""
    honest = siege.join(keeper, "honest")
    with subprocess.Popen([sys.executable, "-c", STUCK, str(harness.TOP / "tests" / "support"), str(keeper.path)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as rude:
        assert rude.stdout.readline() == "waits\n"
        assert honest.gate.ask(1).status == 200
        assert len(keeper.runs()) == 2
        rude.stdin.write("\n")
    assert rude.returncode == 0
    honest.close()


# ---- a second link ----

def test_a_second_link_of_a_run_is_refused_wherever_it_comes(origin, certificates):
    with siege.keeper(origin, certificates) as keeper:
        def local():
            visitor = siege.Visitor(keeper).register("run-id=twin")
            got = visitor.told()
            if got[0] == "W":
                visitor.until_ready()
                return visitor, "ready"
            return visitor, got[1].decode()

        def remote():
            caller = siege.call(keeper, siege.token("twin"))
            return caller, caller.answer()

        count = 0
        for first in (local, remote):
            for second in (local, remote):
                holder, answer = first()
                assert answer == "ready"
                for _ in range(3):
                    other, answer = second()
                    assert "has a link already" in answer, (first, second)
                    assert not other.gate or other.gate.is_ended()  # it has none, or that is over
                    other.close()
                    count += 1
                # The one that was there first is not disturbed.
                assert holder.gate.ask(1).status == 200
                holder.close()
                # And the control: once it is gone, the same attempt succeeds.
                keeper.wait_for_record(2 * (count // 3) - 1, event="end", runId="twin")
                other, answer = second()
                assert answer == "ready"
                other.close()
                keeper.wait_for_record(2 * (count // 3), event="end", runId="twin")
        refused = keeper.refusals("run_has_link")
        assert len(refused) == count and {r["runId"] for r in refused} == {"twin"}
        assert sum("host" in r for r in refused) == count // 2  # where it came from, if from afar


# ---- revoked in the middle ----

def test_a_revoked_run_is_cut_and_stays_out(keeper, origin):
    origin.script = upstream.stream_for_ever
    honest, liar = siege.join(keeper, "honest"), siege.join(keeper, "liar")
    for run in (honest, liar):
        run.gate.open(1)
        assert run.gate.next(1)[0] == link.REPLY
        assert run.gate.next(1)[0] == link.DATA
    # One whose body is not there yet, and which has not been judged.
    liar.gate.open(2, None)
    liar.gate.send(link.DATA, 2, b'{"mod')
    assert len(keeper.runs()) == 2
    keeper.revoke("liar")
    cut = liar.gate.reply(1)
    assert not cut.is_complete and b"event: error" in cut.body and b"run_revoked" in cut.body
    assert liar.gate.reply(2).code() == "run_revoked"
    # It does not take no for an answer.
    for number in range(3, 8):
        refused = liar.gate.ask(number)
        assert (refused.status, refused.code()) == (403, "run_revoked")
    keeper.wait_for_record(event="outcome", runId="liar", exchange=1, ended="run_revoked")
    assert {r["exchange"] for r in keeper.refusals("run_revoked")} == {2, 3, 4, 5, 6, 7}
    assert not keeper.records(event="outcome", runId="liar", exchange=2)
    liar.close()
    keeper.wait_for_record(event="end", runId="liar")
    again = siege.Visitor(keeper).register("run-id=liar", "attempt=1")
    assert again.failure() == "run liar was revoked"
    assert keeper.wait_for_record(event="decision", method="LINK", reason="run_revoked", runId="liar")
    revoked, = keeper.notices("run_revoked")
    assert revoked["runId"] == "liar"
    # Nobody else has noticed.
    assert honest.gate.next(1)[0] == link.DATA
    for run in (again, honest):
        run.close()


# ---- visitors at the control socket ----

def send_along(visitor, packet, fds):
    """With these descriptors, or without them where the kernel refuses that for the keeper."""
    try:
        visitor.send(packet, fds)
    except PermissionError:
        visitor.send(packet)


def test_nothing_is_taken_from_a_visitor(keeper):
    """Who knocks cannot fill the keeper's table of descriptors, nor have it use one that others have."""
    honest = siege.join(keeper, "honest")
    fds = keeper.fds_at_rest()
    for packet in (b"Rrun-id=odd\0", b"O", b"L", b"Shonest\0", b"?", b"Xodd two\0"):
        for count in (1, 2, 10, 250):
            visitor = siege.Visitor(keeper)
            ends = [link.pair() for _ in range(count)]
            send_along(visitor, packet, [end[1].fileno() for end in ends])
            assert visitor.told()
            for pair in ends:
                pair[1].close()
                assert pair[0].recv(1) == b""
                pair[0].close()
            visitor.close()
            keeper.wait_for_fds(fds)
    assert honest.gate.ask(1).status == 200
    honest.close()


SO_PASSRIGHTS = 83


def can_refuse_descriptors():
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            return False
    return True


def give_away(sock, data, seconds):
    """Sends a descriptor whose last holder waits for so long when it closes it; returns its other end."""
    lingering, other = fault.lingering(seconds)
    try:
        socket.send_fds(sock, [data], [lingering.fileno()])
    except OSError:
        other.close()  # there is nothing to wait for then
        raise
    finally:
        lingering.close()
    return other


@pytest.mark.skipif(not can_refuse_descriptors(), reason="this kernel lets descriptors come along anywhere")
def test_a_descriptor_whose_end_takes_long_is_not_let_in(keeper):
    ours, theirs = link.pair()
    other = give_away(ours, b"x", 3)
    reader = threading.Thread(target=fault.receive, args=[theirs])
    reader.start()
    reader.join(1)
    assert reader.is_alive()  # the control: who reads, and does not want it, waits for its end
    honest, rude = siege.join(keeper, "honest"), siege.join(keeper, "rude")
    visitor = siege.Visitor(keeper)
    for sock in (visitor.socket, rude.gate.socket):
        with pytest.raises(PermissionError):
            give_away(sock, b"L", 60)
    assert honest.gate.ask(1).status == 200
    assert len(keeper.runs()) == 2
    reader.join()
    for thing in (ours, theirs, other, honest, rude, visitor):
        thing.close()


def test_packets_that_are_none(keeper):
    honest = siege.join(keeper, "honest")
    fds = keeper.fds_at_rest()
    whole = b"Rrun-id=cut\0attempt=1\0account=a\0metadata.team=x\0"
    control = siege.Visitor(keeper)
    control.send(whole)
    assert control.told()[0] == "W"  # the control: it is right when it is whole
    control.close()
    keeper.wait_for_record(event="end", runId="cut")
    packets = [whole[:size] for size in range(1, len(whole)) if whole[size - 1:size] != b"\0"]
    packets += [b"\0", b"\xff" * 100, b"R" * 1000, b"R" + b"\0" * 1000, b"R=" * 3000, b"S", b"S\0",
                b"S" + b"x" * 200 + b"\0", b"Sa\0b\0", b"S../x\0", b"X", b"X\0", b"Xa", b"Xa\0b\0",
                b"Rrun-id=a\0" + b"metadata.a%d=\0" * 1 % 1 + b"metadata.b=" + b"x" * 5000 + b"\0",
                b"Rrun-id=a\0" + b"".join(b"metadata.a%d=1\0" % i for i in range(33)),
                b"Rrun-id=a\0" + b"x" * 65000]
    visitor = siege.Visitor(keeper)
    for packet in packets:
        visitor.send(packet)
        told = visitor.told()
        assert told and told[0] == "!" and re.fullmatch(rb"[ -~\xc0-\xff\x80-\xbf]+", told[1]), packet
    visitor.close()
    # One that is too long ends the conversation; so does one that is empty.
    for packet in (b"L" * 65537, b"R" * 100000, b""):
        visitor = siege.Visitor(keeper)
        visitor.send(packet)
        assert visitor.told() is None
        visitor.close()
    keeper.wait_for_fds(fds)
    assert len(keeper.runs()) == 1
    assert honest.gate.ask(1).status == 200
    honest.close()


def test_a_visitor_has_one_run(keeper):
    run = siege.join(keeper, "first")
    run.register("run-id=second")
    assert "does not understand" in run.failure()
    run.send(b"O")
    assert "does not understand" in run.failure()
    assert run.gate.ask(1).status == 200
    assert [r["runId"] for r in keeper.runs()] == ["first"]
    run.close()


def test_many_questions_at_once_are_answered_one_by_one(keeper):
    run = siege.join(keeper, "first", "account=a")
    visitor = siege.Visitor(keeper)
    count = 100
    for _ in range(count):
        visitor.send(b"Sfirst\0")
        visitor.send(b"S../no\0")
    letters = [visitor.told()[0] for _ in range(3 * count)]
    assert letters == ["r", ".", "!"] * count
    visitor.close()
    run.close()


def test_a_thousand_runs_that_come_and_go_leave_nothing(keeper):
    siege.join(keeper, "warm").close()
    keeper.wait_for_record(event="end", runId="warm")
    fds, before = keeper.fds_at_rest(), None
    for number in range(1000):
        visitor = siege.Visitor(keeper).register(f"run-id=run-{number % 7}-{number}")
        if number % 3 == 0:
            visitor.until_ready()
        elif number % 3 == 1:
            visitor.told()
        visitor.close()
        if number == 200:
            keeper.wait_for_fds(fds)
            before = keeper.rss()
    keeper.wait_for_fds(fds)
    # A sanitizer keeps what was freed, up to 256 MB of it.
    assert keeper.rss() - before < (320 if siege.IS_SANITIZED else 8) << 20
    assert keeper.runs() == []
    checks.wait_until(lambda: len(keeper.records(event="end")) == len(keeper.records(event="start")))
    assert len(keeper.records(event="start")) >= 1001 - 334


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 15000:
        pytest.skip(f"needs 15,000 descriptors; the hard limit is {before[1]}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_visitors(keeper):
    honest = siege.join(keeper, "honest")
    fds = keeper.fds_at_rest()
    visitors = [siege.Visitor(keeper) for _ in range(10000)]
    for visitor in visitors[::10]:
        visitor.send(b"L")  # and never reads the answer
    assert honest.gate.ask(1).status == 200
    assert len(keeper.runs()) == 1
    for visitor in visitors:
        visitor.close()
    keeper.wait_for_fds(fds)
    assert honest.gate.ask(2).status == 200
    honest.close()


def test_more_visitors_than_descriptors(origin):
    """Those who wait outside cost nothing, and whoever is inside goes on."""
    prefix = ["prlimit", "--nofile=60:60", "--"]
    made = siege.Keeper(origin)
    made.kill()
    made.start(prefix=prefix)
    try:
        honest = siege.join(made, "honest")
        visitors = [siege.Visitor(made) for _ in range(80)]
        checks.wait_until(lambda: made.fds() >= 59)
        before, begun = made.cpu(), time.monotonic()
        time.sleep(1)
        assert made.cpu() - before < 0.3 * (time.monotonic() - begun)
        assert made.process.poll() is None
        for visitor in visitors:
            visitor.close()
        assert honest.gate.ask(1).status == 200
        assert len(made.runs()) == 1
        honest.close()
        made.stop()
    finally:
        made.close()


def is_sent_away(visitor):
    """Whether the keeper has ended the conversation; nothing of it is read for that."""
    poll = select.poll()
    poll.register(visitor.socket, 0)
    return bool(poll.poll(0))


def test_who_never_reads_is_not_waited_for(keeper):
    """And whoever is only slow gets all of it."""
    runs = [siege.join(keeper, f"run-{i}") for i in range(400)]
    rude = siege.Visitor(keeper)
    slow = siege.Visitor(keeper)
    rude.socket.settimeout(1)
    with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
        for _ in range(10000):
            rude.send(b"L")
    slow.send(b"L")
    before = keeper.rss()
    assert runs[0].gate.ask(1).status == 200
    seen = []
    while (told := slow.told())[0] == "r":
        seen.append(told[1].split(b"\0")[0])
        if len(seen) % 50 == 0:
            time.sleep(0.01)
    assert told[0] == "." and sorted(seen) == sorted(b"runId=run-%d" % i for i in range(400))
    assert keeper.rss() - before < 64 << 20
    checks.wait_until(lambda: is_sent_away(rude), 60)
    assert not is_sent_away(slow)  # the control
    for visitor in (*runs, rude, slow):
        visitor.close()


# ---- users of another name ----

ASK = """
import array, json, socket, sys
sys.path.insert(0, sys.argv[1])
import siege
class Made: path = sys.argv[2]
answers = []
for packet in json.loads(sys.argv[3]):
    visitor = siege.Visitor(Made)
    try:
        visitor.send(packet.encode())
    except BrokenPipeError:
        pass  # sent away before we could ask
    got, words = visitor.told(), []
    while got and got[0] in "Wr":
        words += got[1].decode().split(chr(0))[:-1]
        got = visitor.told()
    reply = None
    if got and got[0] == "+":
        visitor.gate.begin().ask(1, items=[("x-litellm-end-user-id", "victim/0")])
    answers.append([got and got[0], got and got[1].decode(), words])
    visitor.close()
print(json.dumps(answers))
"""


def ask_as_another(keeper, *packets):
    uid = str(harness.USER_ID)
    support = str(harness.TOP / "tests" / "support")
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        os.chmod(top, 0o755)
        for name in os.listdir(support):
            if name.endswith(".py"):
                with open(os.path.join(support, name), "rb") as source:
                    path = os.path.join(top, name)
                    with open(path, "wb") as copy:
                        copy.write(source.read())
                    os.chmod(path, 0o644)
        done = subprocess.run(
            ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--",
             "/usr/bin/python3", "-c", ASK, top, str(keeper.path), json.dumps(packets)],
            capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@pytest.mark.skipif(not harness.IS_ROOT, reason="becomes another user")
def test_another_user_gets_a_run_of_its_own_and_pays_itself(origin):
    keeper_config = {"control_users": [str(harness.USER_ID)], "control_mode": "0666"}
    with siege.keeper(origin, keeper=keeper_config) as keeper:
        honest = siege.join(keeper, "victim")
        answers = ask_as_another(
            keeper, "Rrun-id=victim\0attempt=7\0account=victim\0metadata.team=mine\0",
            "Rrun-id=victim\0metadata.runId=victim\0", "O", "D", "L", "Svictim\0", "Xvictim\0")
        registered, forged, open_gate, drain, listed, shown, revoked = answers
        assert registered[0] == "+"
        words = dict(zip(registered[2][::2], registered[2][1::2]))
        assert words["--run-id"] != "victim" and words["--attempt"] == "0"
        seen = origin.requests[0]
        assert identity(seen) == [str(harness.USER_ID)]
        assert metadata(seen) == [("runId", words["--run-id"]), ("attempt", 0), ("team", "mine")]
        assert forged[0] == "!" and "metadata.runId" in forged[1]
        assert open_gate[0] == drain[0] == "!" and "not for you" in open_gate[1]
        assert listed == [".", "", []]
        assert shown[0] == "!" and revoked[0] == "!"
        assert honest.gate.ask(1).status == 200
        assert not keeper.records(runId="victim", attempt=7)
        honest.close()


@pytest.mark.skipif(not harness.IS_ROOT, reason="becomes another user")
def test_a_user_who_is_not_named_gets_nothing(origin):
    with siege.keeper(origin, keeper={"control_mode": "0666"}) as keeper:
        answer, = ask_as_another(keeper, "Rrun-id=a\0")
        assert answer == ["!", "this keeper is not for you", []]
        assert not keeper.records(event="start")
        binary = shutil.copytree(harness.BUILD / "src", keeper.top / "bin",
                                 ignore=lambda _, names: [n for n in names if n != "warder"])
        for _ in range(20):  # whichever of the two is faster
            done = subprocess.run(["setpriv", f"--reuid={harness.USER_ID}", "--clear-groups", "--",
                                   binary / "warder", "ps", "--keeper", f"unix:{keeper.path}"],
                                  capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, "ps: this keeper is not for you")
