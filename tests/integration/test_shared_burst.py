# SPDX-License-Identifier: MIT
"""INV-BOUNDED in a shared keeper: more than a link may hold, asked for at once.

Hundreds of replies wait for credit, and then it is granted for all of them in one burst. What
comes of that is between that gate and the keeper: the other runs are served as before.
"""
import asyncio
import contextlib
import resource
import selectors
import signal
import struct
import threading
import time
import zlib

import agent
import checks
import link
import open_gate
import pytest
import siege

CREDIT = 65536
STREAMS = 700  # 64 KiB of each are more than PEER_OUT_MAX
BODY = b"b" * (3 * CREDIT)
GET = dict(body=b"", path="/v1/models", method="GET")


class Origin:
    """Answers everybody at once with the same reply, on one thread."""

    def __init__(self, reply):
        self.reply, self.loop = reply, asyncio.new_event_loop()
        self.is_up = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.is_up.wait(20)
        self.url = f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(self.reply)
                await writer.drain()
        writer.close()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2 * STREAMS))
        self.port = server.sockets[0].getsockname()[1]
        self.is_up.set()
        self.loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


def reply(body, *lines):
    return b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *lines, b"", body])


@contextlib.contextmanager
def origin_of(text):
    made = Origin(text)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(name="origin")
def origin_fixture():
    with origin_of(reply(BODY)) as made:
        yield made


@pytest.fixture(autouse=True)
def many_files():
    """For the keeper that is started, and for what is opened here."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def without_key(origin):
    """A keeper that searches no reply, and holds nothing of it back."""
    return {"llm": {"upstream": origin.url}}


def read_credit(gate, numbers):
    """Reads until each of these has sent what the credit is for."""
    left = {number: CREDIT for number in numbers}
    while left:
        kind, number, payload = gate.receive()
        if kind == link.DATA:
            left[number] -= len(payload)
            assert left[number] >= 0
            if left[number] == 0:
                del left[number]
        else:
            assert kind == link.REPLY, kind


def fill(gate):
    """Asks for all of them, until every one waits for credit."""
    for first in range(1, STREAMS + 1, 10):
        for number in range(first, first + 10):
            gate.open(number, **GET)
        read_credit(gate, range(first, first + 10))


def wait_until_read(keeper):
    """Until the keeper has nothing to do: what it may read ahead of its origins, it has. Were it
    too early, the burst would only be a smaller one."""
    seen = [(time.monotonic(), keeper.cpu())]

    def is_idle():
        now, used = time.monotonic(), keeper.cpu()
        if used != seen[0][1]:
            seen[0] = now, used
        return now - seen[0][0] > 0.5
    checks.wait_until(is_idle, 100)


def burst(gate):
    gate.socket.settimeout(60)
    gate.socket.sendall(b"".join(siege.message(link.CREDIT, number, struct.pack("<I", CREDIT))
                                 for number in range(1, STREAMS + 1)))


def check_rest(gate):
    """What the credit was for comes, all of it, and the link goes on."""
    read_credit(gate, range(1, STREAMS + 1))
    gate.send(link.ABORT, 1)
    assert gate.ask(STREAMS + 1, **GET).body == BODY


def overwhelm(keeper, honest, greedy):
    """One asks for more at once than its link can take; the other has not noticed."""
    fill(greedy.gate)
    wait_until_read(keeper)
    burst(greedy.gate)
    assert honest.gate.ask(1, **GET).body == BODY
    check_rest(greedy.gate)
    assert len(keeper.runs()) == 2
    greedy.close()
    honest.close()


def test_credit_for_all_at_once(origin):
    with siege.keeper(**without_key(origin)) as keeper:
        honest, greedy = siege.join(keeper, "honest"), siege.join(keeper, "greedy")
        overwhelm(keeper, honest, greedy)


def test_credit_for_all_at_once_from_another_machine(origin, certificates):
    with siege.keeper(certificates=certificates, **without_key(origin)) as keeper:
        honest = siege.join(keeper, "honest")
        greedy = siege.come_in(keeper, siege.token("greedy"))
        overwhelm(keeper, honest, greedy)


def read_all(wires):
    """Reads what has come for any of them, until nothing has for a while."""
    got = 0
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            wire.socket.setblocking(False)
            selector.register(wire.socket, selectors.EVENT_READ)
        while ready := selector.select(1):
            for key, _ in ready:
                data = key.fileobj.recv(1 << 20)
                got += len(data)
                if not data:
                    selector.unregister(key.fileobj)
    return got


def test_agents_of_an_open_gate_that_read_all_at_once():
    """The gate is an honest one: what its agents take it grants, and they choose when that is."""
    body = b"b" * (8 * CREDIT)  # more than their sockets take by themselves
    with origin_of(reply(body)) as made, siege.keeper(**without_key(made)) as keeper, \
            open_gate.started(keeper) as gate:
        honest = siege.join(keeper, "honest")
        wires = [gate.wire() for _ in range(STREAMS)]
        for wire in wires:
            wire.send(agent.get("/v1/models", f"X-Run-Token: {siege.token('greedy')}"))
        wait_until_read(keeper)
        # What the gate grants meanwhile, the keeper reads at once.
        keeper.process.send_signal(signal.SIGSTOP)
        got = read_all(wires)
        assert got < STREAMS * len(body)
        keeper.process.send_signal(signal.SIGCONT)
        end = time.monotonic() + 100
        while got < STREAMS * len(body) and time.monotonic() < end:
            got += read_all(wires)
            assert honest.gate.ask(1, **GET).body == body
        assert got > STREAMS * len(body)
        for wire in wires:
            wire.close()
        honest.close()


def test_credit_without_end_for_a_reply_that_grows():
    """A few kilobytes may be many megabytes when they are decoded."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(b"\0" * (48 << 20)) + packer.flush()
    with origin_of(reply(packed, b"Content-Encoding: gzip")) as made, siege.keeper(made) as keeper:
        honest, greedy = siege.join(keeper, "honest"), siege.join(keeper, "greedy")
        # The control: as much as is granted, and no more.
        greedy.gate.open(1, **GET)
        got = 0
        while got < 4 * CREDIT:
            kind, payload = greedy.gate.next(1)
            if kind == link.DATA:
                got += len(payload)
                greedy.gate.send(link.CREDIT, 1, struct.pack("<I", len(payload)))
        before = keeper.rss()
        greedy.gate.socket.sendall(siege.message(link.CREDIT, 1, struct.pack("<I", 1 << 24)) * 3)
        greedy.gate.socket.settimeout(20)
        assert greedy.gate.is_ended()
        assert keeper.wait_for("link_broken")["runId"] == "greedy"
        assert keeper.rss() - before < 32 << 20
        honest.gate.open(1, **GET)
        assert honest.gate.next(1)[0] == link.REPLY
        for run in (honest, greedy):
            run.close()
