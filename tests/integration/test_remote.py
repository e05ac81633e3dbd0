# SPDX-License-Identifier: MIT
"""Links from other machines, attacked: tokens that are not good, doors that are crowded, and a
keeper that is not the one it should be (INV-RUN-IDENTITY, INV-BOUNDED)."""
import contextlib
import itertools
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import checks
import harness
import link
import origin as upstream
import pytest
import siege

pytestmark = pytest.mark.patient

BODY = b'{"model":"m"}'
STRANGERS_MAX = 20  # records of refused links in a second, REFUSED_STRANGERS_MAX
SHIFT_CLOCK = harness.BUILD / "tests" / "support" / "libshift_clock.so"


@pytest.fixture
def keeper(origin, certificates):
    with siege.keeper(origin, certificates) as made:
        yield made


def refused(keeper, text, reason, why, run_id=None):
    """What is tried is refused with these words, and on record with that reason."""
    before = len(keeper.refusals(reason))
    caller = siege.call(keeper, text)
    assert why in caller.answer(), text
    assert caller.gate.is_ended()
    caller.close()
    record = keeper.refusals(reason)[before]  # written before anybody hears of it
    assert record["method"] == "LINK" and re.fullmatch(r"127\.0\.0\.1:\d+", record["host"])
    assert record.get("runId") == run_id  # what it claims is nobody's until it is proven
    assert text not in keeper.audit.read_text() and text not in keeper.stderr()


# ---- what a run is told ----

def test_placeholders_of_any_length_are_told(origin, certificates):
    """Each is as long as its secret; no message has more than it may have."""
    values = {"SMALL": 20, "LARGE": 32600, "LARGEST": 65000}
    secrets = {name: {"from": f"env:{name}", "hosts": ["api.test"]} for name in values}
    env = {name: name.ljust(size, "x") for name, size in values.items()}
    with siege.keeper(origin, certificates, env=env, secrets=secrets) as keeper:
        caller = siege.call(keeper, siege.token("far"))
        words = b""
        while True:
            kind, _, payload = caller.gate.receive()
            if kind == link.NOTICE and payload[:1] == b"+":
                break
            if kind == link.NOTICE:
                assert payload[:1] == b"W"
                words += payload[1:]
        told = dict(word.split("=", 1) for word in words.decode().split("\0") if "=" in word)
        assert {name: len(told[name]) for name in values} == values
        caller.close()


# ---- tokens that are not good ----

def test_a_good_token_opens_its_run(keeper, origin):
    caller = siege.come_in(keeper, siege.token("far", 3))
    assert (caller.gate.run_id, caller.gate.attempt) == ("far", 3)
    assert caller.gate.ask(1, items=[(siege.IDENTITY, "victim/0")]).status == 200
    assert origin.requests[0].values(siege.IDENTITY) == ["far/3"]
    caller.close()


def test_a_token_of_every_shorter_length(keeper):
    whole = siege.token("far")
    invalid = 0
    for size in range(1, len(whole)):
        caller = siege.call(keeper, whole[:size])
        assert "not valid" in caller.answer(), size
        caller.close()
        invalid += 1
    keeper.wait_for_refused_links(invalid, "token_invalid")
    # And the message that carries it, cut off at every byte: that never becomes a token.
    message = siege.token_message(whole)
    for size in range(0, len(message), 4):
        caller = siege.Caller(keeper, message[:size])
        caller.socket.unwrap()
        caller.socket.close()
    assert not keeper.records(event="start")
    siege.come_in(keeper, whole).close()


def flipped(text):
    for at, bit in itertools.product(range(len(text)), (0, 1, 6)):
        if (at + bit) % 7 == 0:
            made = bytearray(text.encode())
            made[at] ^= 1 << bit
            if 0x20 <= made[at] < 0x7f:
                yield made.decode()


def test_a_token_with_any_change(keeper):
    good = siege.token("far", 3)
    data, signature = good.rsplit(".", 1)
    tried = [*flipped(good),
             "victim|3" + data[5:] + "." + signature, data[:-1] + "9." + signature,
             data.replace("|3|", "|4|") + "." + signature, data + "." + "A" * 43, data + ".",
             data + "." + signature + "=", data + "." + signature + "A", data + ".." + signature,
             good + " ", " " + good, good + "," + good, good.upper(), good.replace("|", "%7C"),
             "Bearer " + good, "." + signature, signature, "far", "|||.", "a" * 255]
    for text in tried:
        assert text != good
        caller = siege.call(keeper, text)
        assert "not valid" in caller.answer(), text
        caller.close()
    keeper.wait_for_refused_links(len(tried), "token_invalid")
    assert not keeper.records(event="start")
    siege.come_in(keeper, good).close()


# Signed with the right key, and still not of the one form that there is.
ODD = ["far|0|%d" % (siege.FAR * 100), "far|00|4102444800", "far|+0|4102444800", "far|0|04102444800",
       "far|0|4102444800|", "far|0", "far||4102444800", "|0|4102444800", "far|0| 4102444800",
       "far|4294967296|4102444800", "far|-1|4102444800", "../far|0|4102444800", "far/|0|4102444800",
       "f" * 65 + "|0|4102444800", "far|0|0x10", "far|0|4102444800.", "far%00|0|4102444800"]


def test_what_is_rightly_signed_and_wrongly_written(keeper):
    for number, data in enumerate(ODD):
        if number == STRANGERS_MAX // 2:
            time.sleep(1)  # no more in a second than are recorded one by one
        refused(keeper, siege.sign(data), "token_invalid", "not valid")
    refused(keeper, siege.token("far", key="another key"), "token_invalid", "not valid")
    refused(keeper, siege.token("far", key=""), "token_invalid", "not valid")
    refused(keeper, siege.token("far", key=siege.KEYS["k1"] + "\n"), "token_invalid", "not valid")
    refused(keeper, siege.token("far", key=siege.KEYS["k2"]), "token_invalid", "not valid")
    refused(keeper, siege.token("far", expiry=1), "token_expired", "has expired", "far")
    refused(keeper, siege.token("far", expiry=0), "token_expired", "has expired", "far")
    assert not keeper.records(event="start")
    assert len(keeper.notices("run_refused")) > 0


def test_the_last_second_of_a_token(origin, certificates, tmp_path):
    """It is good up to and with the second that it names; a link that it has opened outlives it."""
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("<qq", 0, 0))
    env = {"LD_PRELOAD": str(SHIFT_CLOCK), "SHIFT_CLOCK": str(clock)}
    if siege.IS_SANITIZED:
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
    with siege.keeper(origin, certificates, env=env) as keeper:
        expiry = int(time.time()) + 100000
        lived = siege.come_in(keeper, siege.token("lived", expiry=expiry))

        for second, is_good in ((-1, True), (0, True), (1, False), (2, False)):
            name = f"edge{second}"
            with open(clock, "r+b") as file:  # as long as ever: the keeper reads it all the time
                file.write(struct.pack("<qq", 0, expiry + second))
            caller = siege.call(keeper, siege.token(name, expiry=expiry))
            assert caller.answer() == ("ready" if is_good else "the run token has expired"), second
            caller.close()
            if is_good:
                keeper.wait_for_record(event="end", runId=name)
        assert lived.gate.ask(1).status == 200
        assert len(keeper.refusals("token_expired")) == 2
        lived.close()


def test_strangers_do_not_fill_the_log(keeper):
    """INV-BOUNDED: so many are recorded in a second, and of the rest their number."""
    count, begun = 100, time.monotonic()
    for number in range(count):
        caller = siege.call(keeper, f"token-{number}")
        assert "not valid" in caller.answer()
        caller.close()
    # Among all these, somebody who is known is seen at once.
    first = siege.come_in(keeper, siege.token("far"))
    again = siege.call(keeper, siege.token("far"))
    assert "has a link already" in again.answer()
    assert [r["runId"] for r in keeper.refusals("run_has_link")] == ["far"]
    seconds = time.monotonic() - begun
    keeper.wait_for_refused_links(count, "token_invalid")
    assert len(keeper.refusals("token_invalid")) <= STRANGERS_MAX * (int(seconds) + 2)
    for caller in (first, again):
        caller.close()


def test_a_keeper_that_is_drained_records_whom_it_sends_away(keeper):
    first = siege.come_in(keeper, siege.token("first"))
    keeper.send(signal.SIGTERM)
    keeper.wait_for("draining")
    refused(keeper, siege.token("late"), "keeper_draining", "takes no more runs", "late")
    refused(keeper, siege.token("late")[:-1], "token_invalid", "not valid")
    visitor = siege.Visitor(keeper).register("run-id=local")
    assert "takes no more runs" in visitor.failure()
    assert [r.get("runId") for r in keeper.refusals("keeper_draining")] == ["late", "local"]
    assert first.gate.ask(1).status == 200
    visitor.close()
    gate = siege.Visitor(keeper)
    gate.send(b"O")
    assert "takes no more runs" in gate.failure()
    assert [r.get("runId") for r in keeper.refusals("keeper_draining")] == ["late", "local", None]
    gate.close()
    first.close()
    assert keeper.wait() == 0
    keeper.start()  # to be ended in order


# ---- replay, revocation, rotation ----

def test_a_token_that_is_replayed(keeper):
    text = siege.token("far")
    first = siege.come_in(keeper, text)
    for number in range(5):
        again = siege.call(keeper, text)
        assert again.answer() == "run far has a link already; one at a time"
        assert again.gate.is_ended()
        again.close()
        # Another attempt of the run is no other run.
        again = siege.call(keeper, siege.token("far", number + 1))
        assert again.answer() == "run far has a link already; one at a time"
        again.close()
    assert first.gate.ask(1).status == 200
    assert [r["runId"] for r in keeper.wait_for_record(10, event="decision", reason="run_has_link")] == ["far"] * 10
    first.close()
    keeper.wait_for_record(event="end", runId="far")
    siege.come_in(keeper, text).close()  # the control: it was only the link that stood against it


def test_many_at_once_with_one_token(keeper):
    """Whoever is first; exactly one."""
    text = siege.token("far")
    answers = []

    def try_it():
        caller = siege.call(keeper, text)
        answers.append((caller.answer(), caller))

    threads = [threading.Thread(target=try_it) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    said = [answer for answer, _ in answers]
    assert len(said) == 30 and said.count("ready") == 1
    assert set(said) == {"ready", "run far has a link already; one at a time"}
    keeper.wait_for_record(29, event="decision", reason="run_has_link")
    for _, caller in answers:
        caller.close()


def test_a_run_that_is_revoked_in_the_middle(keeper, origin):
    origin.script = upstream.stream_for_ever
    honest, liar = (siege.come_in(keeper, siege.token(name)) for name in ("honest", "liar"))
    for caller in (honest, liar):
        caller.gate.open(1)
        assert caller.gate.next(1)[0] == link.REPLY
        assert caller.gate.next(1)[0] == link.DATA
    keeper.revoke("liar")
    cut = liar.gate.reply(1)
    assert not cut.is_complete and b"run_revoked" in cut.body
    refusal = liar.gate.ask(2)
    assert (refusal.status, refusal.code()) == (403, "run_revoked")
    keeper.wait_for_record(event="outcome", runId="liar", exchange=1, ended="run_revoked")
    keeper.wait_for_record(event="decision", runId="liar", exchange=2, reason="run_revoked", allowed=False)
    liar.close()
    keeper.wait_for_record(event="end", runId="liar")
    # Neither the same token nor a new one for it opens anything, also after a restart.
    for attempt in (0, 1):
        again = siege.call(keeper, siege.token("liar", attempt))
        assert again.answer() == "run liar was revoked"
        again.close()
    assert honest.gate.next(1)[0] == link.DATA
    honest.close()
    keeper.kill()
    keeper.start()
    again = siege.call(keeper, siege.token("liar"))
    assert again.answer() == "run liar was revoked"
    again.close()
    keeper.wait_for_record(3, event="decision", method="LINK", runId="liar", reason="run_revoked")
    origin.script = upstream.answer_all


def test_keys_are_changed_one_after_the_other(keeper):
    """Two are good at once. One that is taken out opens nothing any more; links that it has opened
    stay, as the run is as trusted as before: `warder revoke` is what ends a run."""
    def old(name):
        return siege.token(name, key=siege.KEYS["k1"])

    def new(name):
        return siege.token(name, key=siege.KEYS["k2"])

    before = siege.come_in(keeper, old("before"))
    refused(keeper, new("early"), "token_invalid", "not valid")
    keeper.keeper["link_keys"] = {"k1": "env:K1", "k2": "env:K2"}
    keeper.reload()
    both = [siege.come_in(keeper, old("by-old")), siege.come_in(keeper, new("by-new"))]
    keeper.keeper["link_keys"] = {"k2": "env:K2"}
    keeper.reload()
    refused(keeper, old("late"), "token_invalid", "not valid")
    refused(keeper, old("before"), "token_invalid", "not valid")
    siege.come_in(keeper, new("late")).close()
    for number, caller in enumerate((before, *both)):
        assert caller.gate.ask(number + 1).status == 200
    keeper.revoke("before")
    assert before.gate.ask(9).code() == "run_revoked"
    before.close()
    refused(keeper, old("before"), "token_invalid", "not valid")
    # A configuration that cannot be read changes nothing.
    keeper.keeper["link_keys"] = {"k1": "env:NO_SUCH_VARIABLE"}
    keeper.reload(event="reload_failed")
    refused(keeper, old("late"), "token_invalid", "not valid")
    siege.come_in(keeper, new("latest")).close()
    for caller in both:
        caller.close()


def test_what_requests_have_opens_no_link(origin, certificates):
    """An agent behind an open gate holds its token: with it, it is that run, and has no link."""
    keys = {"link_keys": {"k1": "env:K1"}, "token_keys": {"k2": "env:K2"}}
    of_link, of_request = (siege.token("far", key=siege.KEYS[name]) for name in ("k1", "k2"))
    with siege.keeper(origin, certificates, keeper=keys) as keeper:
        visitor = siege.Visitor(keeper)
        gate = visitor.open_gate()
        assert gate.ask(1, items=[("x-run-token", of_request)]).status == 200
        refused(keeper, of_request, "token_invalid", "not valid")
        reply = gate.ask(2, items=[("x-run-token", of_link)])
        assert (reply.status, reply.code()) == (401, "token_invalid")
        siege.come_in(keeper, of_link).close()  # the control
        visitor.close()


@pytest.mark.parametrize("same", ["env:K1", "exec:printf %s \"$K1\""])
def test_no_key_is_for_both(certificates, same):
    made = siege.keeper(None, certificates, keeper={"token_keys": {"other": "env:K2"}})
    with made as keeper:
        keeper.keeper["token_keys"] = {"other": same}
        keeper.reload(event="reload_failed")
        done = subprocess.run([harness.BUILD / "src" / "warder-keeper", "keeper", "--config", keeper.file],
                              env=keeper.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "is one for links and for requests at gates")
        assert siege.KEYS["k1"] not in done.stderr


# ---- who does not begin with a token ----

FIRST = {
    "an exchange": siege.message(link.OPEN, 1, link.head()),
    "hello": siege.message(link.HELLO, 0, struct.pack("<I", 0) + link.text("far")),
    "bye": siege.message(link.BYE, 0),
    "notice": siege.message(link.NOTICE, 0, b"+"),
    "http": b"POST /v1/chat/completions HTTP/1.1\r\nX-Run-Token: %s\r\n\r\n" % siege.token("far").encode(),
    "a bare token": siege.token("far").encode() + b"\n",
    "a token of an exchange": siege.message(link.TOKEN, 1, b"\1\0" + link.text(siege.token("far"))),
    "a token with flags": siege.token_message(siege.token("far"), flags=1),
    "an empty token": siege.token_message(""),
    "a token with a line": siege.token_message(siege.token("far") + "\n"),
    "a token with a NUL": siege.token_message(siege.token("far") + "\0"),
    "words after it": siege.message(link.TOKEN, 0, b"\1\0" + link.text(siege.token("far")) + b"x"),
    "a long one": struct.pack("<III", link.TOKEN, 0, 262) + b"\1\0" + link.text("x" * 256),
    "a huge one": struct.pack("<III", link.TOKEN, 0, 0xffffffff),
    "zeroes": bytes(64),
    "noise": bytes(range(256)) * 16,
}


def test_who_does_not_begin_with_a_token_is_not_heard(keeper):
    fds = keeper.fds_at_rest()
    for name, first in FIRST.items():
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            caller = siege.Caller(keeper, first)
            assert caller.answer() == "", name
            caller.close()
    old = siege.Caller(keeper, siege.token_message(siege.token("far"), version=2))
    assert "another version" in old.answer()
    old.close()
    # Nor who does not speak the protocol at all.
    for context in (siege.tls_context(keeper, alpn="h2"), siege.tls_context(keeper, alpn=None),
                    siege.tls_context(keeper, version=ssl.TLSVersion.TLSv1_2)):
        with pytest.raises((OSError, ssl.SSLError, AssertionError)):
            assert siege.call(keeper, siege.token("far"), context=context).answer() == "ready"
    with socket.create_connection(("127.0.0.1", keeper.port), timeout=20) as plain:
        plain.sendall(siege.token_message(siege.token("far")))
        with contextlib.suppress(ConnectionError):
            while plain.recv(4096):
                pass
    assert not keeper.records(event="start")
    keeper.wait_for_fds(fds)
    assert any(n["code"] == "no_token" for n in keeper.notices("token_refused"))
    siege.come_in(keeper, siege.token("far")).close()


def test_a_token_in_the_middle_of_a_link(keeper, origin):
    """A link is one run's from its first message to its last."""
    honest = siege.come_in(keeper, siege.token("honest"))
    for again in (siege.token("victim"), siege.token("liar")):
        liar = siege.come_in(keeper, siege.token("liar"))
        assert liar.gate.ask(1).status == 200
        liar.socket.sendall(siege.token_message(again))
        with contextlib.suppress(ConnectionError):
            liar.gate.open(2)
        assert liar.gate.is_ended()
        liar.close()
    keeper.wait_for_record(2, event="end", runId="liar")
    assert not keeper.records(runId="victim")
    assert {r.values(siege.IDENTITY)[0] for r in origin.requests} == {"liar/0"}
    assert honest.gate.ask(1).status == 200
    honest.close()


def test_the_next_message_may_come_with_the_token(keeper, origin):
    """The control: what follows a good token at once is not lost, and is that run's."""
    caller = siege.Caller(keeper, siege.token_message(siege.token("far")) + siege.message(
        link.OPEN, 1, link.head(items=[("content-type", "application/json")], length=len(BODY))) +
        siege.message(link.DATA, 1, BODY) + siege.message(link.END, 1, link.fields(())))
    assert caller.gate.reply(1).status == 200
    assert origin.requests[0].values(siege.IDENTITY) == ["far/0"]
    caller.close()


# ---- a crowd at the door ----

def test_who_is_slow_at_the_door_keeps_nobody_out(keeper):
    """More than there are places for, some silent, some a byte at a time; honest runs come and go."""
    honest = siege.come_in(keeper, siege.token("honest"))
    fds = keeper.fds_at_rest()
    crowd, is_over = [], threading.Event()
    for number in range(400):
        sock = socket.create_connection(("127.0.0.1", keeper.port), timeout=20)
        if number % 2:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
        crowd.append(sock)

    def drip():
        while not is_over.is_set():
            for sock in crowd[1::2]:
                with contextlib.suppress(OSError):
                    sock.send(b"\0", socket.MSG_DONTWAIT)
            is_over.wait(0.2)

    def knock():
        """And new ones all the time."""
        while not is_over.is_set():
            with contextlib.suppress(OSError):
                crowd.append(socket.create_connection(("127.0.0.1", keeper.port), timeout=20))
            is_over.wait(0.005)

    threads = [threading.Thread(target=drip), threading.Thread(target=knock)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            begun = time.monotonic()
            caller = siege.come_in(keeper, siege.token(f"run-{number}"))
            assert caller.gate.ask(1).status == 200
            caller.close()
            assert honest.gate.ask(number + 1).status == 200
            assert time.monotonic() - begun < 30
        assert keeper.fds() - fds < 256 + 40
    finally:
        is_over.set()
        for thread in threads:
            thread.join(20)
        for sock in crowd:
            sock.close()
    keeper.wait_for_fds(fds)
    honest.close()


def test_who_comes_in_and_says_nothing_more_is_sent_away(keeper):
    """After the handshake too, there is a time for the token."""
    begun = time.monotonic()
    caller = siege.Caller(keeper, siege.token_message(siege.token("far"))[:5])
    assert caller.answer() == ""
    assert 3 < time.monotonic() - begun < 30
    caller.close()
    assert not keeper.records(event="start")


# ---- a keeper that is not what it should be ----

def notice(letter, text=b""):
    return siege.message(link.NOTICE, 0, letter + text)


def words(*texts):
    return notice(b"W", b"".join((t if isinstance(t, bytes) else t.encode()) + b"\0" for t in texts))


WHO = words("--run-id", "far", "--attempt", "0")
HELLO = siege.message(link.HELLO, 0, struct.pack("<I", 0) + link.text("far"))
NAMES = siege.message(link.NAMES, 0, b"\0\1\0\0")
READY = notice(b"+")


class HostileKeeper:
    """Says what it likes to every run that comes."""

    def __init__(self, certificates, first, then=None):
        self.context = certificates.context("keeper")
        self.context.set_alpn_protocols(["warder/1"])
        self.first, self.then = first, then
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ca = certificates.ca
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError, ssl.SSLError):
            raw, _ = self.listener.accept()
            raw.settimeout(40)
            with self.context.wrap_socket(raw, server_side=True) as sock:
                sock.recv(4096)
                sock.sendall(self.first)
                if self.then:
                    self.then(sock)
                sock.recv(65536)  # the carrier's goodbye

    def options(self):
        return ("--keeper", f"tls:localhost:{self.port}", "--keeper-ca", str(self.ca),
                "--keeper-token", "env:RUN_TOKEN")

    def close(self):
        self.listener.close()


ENV = {"RUN_TOKEN": siege.token("far"), "HOST_SECRET": "only-for-the-host"}


@contextlib.contextmanager
def hostile(certificates, *args):
    made = HostileKeeper(certificates, *args)
    try:
        yield made
    finally:
        made.close()


REFUSED_WORDS = {
    "rw": words("--rw", "/etc:/host"), "ro": words("--ro", "/root:/host"),
    "workspace": words("--workspace", "/"), "tmpfs": words("--tmpfs", "/usr"),
    "an environment variable of ours": words("--env", "HOST_SECRET"),
    "the same in capitals": words("--ENV", "HOST_SECRET"),
    "a command's option": words("--timeout", "1"), "llm key": words("--llm-key", "env:HOST_SECRET"),
    "config": words("--config", "/etc/passwd"), "audit": words("--audit", "/etc/passwd"),
    "llm socket": words("--llm-socket", "/tmp/x"), "keeper": words("--keeper", "unix:/tmp/x"),
    "result": words("--result", "/tmp/x"), "verbose": words("-v", "x"), "weak": words("--weak", "1"),
    "the end of options": words("--", "sh"), "no option": words("sh", "-c"), "empty": words("", ""),
    "one word": words("--env"), "no end": notice(b"W", b"--env\0A=B"),
    "an equals sign": words("--rw=/etc", "x"), "a space": words("--env ", "A=B"),
    "another run": words("--run-id", "../../etc", "--attempt", "0"),
    "no number": words("--attempt", "-1"), "no name": words("--env", "=x"),
    "an llm that is none": words("--llm", "file:///etc/passwd"),
    "dns": words("--dns", "everything"), "connections": words("--connections", "99999999999999999999"),
}


@pytest.mark.parametrize("name", REFUSED_WORDS)
def test_a_keeper_does_not_say_what_is_shown_to_the_agent(user_place, certificates, name):
    with hostile(certificates, HELLO + NAMES + WHO + REFUSED_WORDS[name] + READY) as keeper:
        done = checks.assert_refused(user_place, keeper.options(), env=ENV)
        assert "only-for-the-host" not in done.stderr


def test_what_a_keeper_may_say(user_place, certificates):
    """The control: with words that are allowed the run begins, and no source is opened here."""
    allowed = words("--env", "TOKEN=placeholder", "--dns", "deny", "--secret",
                    "OTHER=env:HOST_SECRET@api.test")
    with hostile(certificates, HELLO + NAMES + WHO + allowed + READY) as keeper:
        done = user_place.run("env", options=("-q", *keeper.options()), env=ENV)
    assert done.returncode == 0, done
    assert "TOKEN=placeholder" in done.stdout and "RUN_ID=far" in done.stdout
    assert "only-for-the-host" not in done.stdout


def test_a_run_that_was_named_is_not_another(user_place, certificates):
    with hostile(certificates, HELLO + NAMES + WHO + READY) as keeper:
        checks.assert_refused(user_place, ("--run-id", "mine", *keeper.options()), "--run-id", env=ENV)


BROKEN = {
    "failed, with lines": notice(b"!", b"no\nwarder: yes\x1b[2J"),
    "failed, with an escape": notice(b"!", b"\x1b]0;x\x07"),
    "ready, with a NUL": WHO + notice(b"+", b"\0"),
    "a letter that is none": notice(b"G"), "run": notice(b"r", b"runId=x\0"), "done": notice(b"."),
    "link": notice(b"k"),
    "no letter": siege.message(link.NOTICE, 0), "huge": struct.pack("<III", link.NOTICE, 0, 0xffffffff),
    "open": siege.message(link.OPEN, 1, link.head()), "bye": siege.message(link.BYE, 0),
    "token": siege.token_message(siege.token("far")), "noise": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_word_of_a_keeper_ends_it(user_place, certificates, name):
    with hostile(certificates, BROKEN[name] + READY) as keeper:
        done = checks.assert_refused(user_place, keeper.options(), env=ENV)
        assert "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_why_a_keeper_says_no_is_told(user_place, certificates):
    with hostile(certificates, notice(b"!", b"the run token has expired")) as keeper:
        checks.assert_refused(user_place, keeper.options(), "the run token has expired", env=ENV)


@pytest.mark.parametrize("size", [1, 1000, 60000])
def test_a_keeper_that_never_stops_talking(user_place, certificates, size):
    def talk(sock):
        piece = words("--env", "A=" + "x" * size) * 4
        while True:
            sock.sendall(piece)

    with hostile(certificates, HELLO + NAMES + WHO, talk) as keeper:
        begun = time.monotonic()
        checks.assert_refused(user_place, keeper.options(), "too long", env=ENV)
        assert time.monotonic() - begun < 20


def test_a_keeper_that_talks_while_the_run_goes_on(user_place, certificates):
    """Nobody listens then; the run ends as it would have."""
    def talk(sock):
        while True:
            sock.sendall(notice(b"-", b"host.example") * 100)

    with hostile(certificates, HELLO + NAMES + WHO + READY, talk) as keeper:
        begun = time.monotonic()
        done = user_place.run("sh", "-c", "exit 7", options=("-q", *keeper.options()), env=ENV)
        assert done.returncode == 7
        assert time.monotonic() - begun < 20


@pytest.fixture(scope="module")
def patient_runs(certificates, binary):
    """Runs whose keeper never lets them begin; they wait beside the other tests."""
    def mutter(sock):
        while True:
            sock.sendall(words())  # a packet without a word
            time.sleep(0.2)

    started = []
    for then in (None, mutter):
        place = harness.Place("user", binary)
        keeper = HostileKeeper(certificates, HELLO + NAMES + WHO, then)
        started.append((place, keeper, time.monotonic(), place.popen(
            *checks.LEAVE_MARKER, options=("-q", *keeper.options()), env=ENV, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True)))
    yield started
    for place, keeper, _, process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        keeper.close()
        place.remove()


@pytest.fixture(autouse=True)
def begin_with_them(patient_runs):
    return patient_runs


def test_a_keeper_that_is_never_ready(patient_runs):
    for place, _, begun, process in patient_runs:
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 125
        checks.assert_one_line(stderr, "the keeper did not let the run begin within 30 s")
        assert not (place.workspace / checks.MARKER).exists()
        assert time.monotonic() - begun > 25
