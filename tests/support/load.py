# SPDX-License-Identifier: MIT
"""Runs without a sandbox: links that a test holds itself, tokens, and an origin that counts money.

A link is registered at the control socket as `warder run` does it, and spoken as a gate does; so
that a test can have hundreds of runs, and see to the millisecond what becomes of a request.
"""
import collections
import concurrent.futures
import decimal
import json
import socket
import struct
import threading

import checks
import link
from run_token import token  # noqa: F401  as tests of load have it

class Refused(Exception):
    """The keeper has said no; the text is why."""


class Ended(Exception):
    """The link has ended."""


class Reply:
    """A reply as it came over the link."""

    def __init__(self, payload):
        reader = link.Reader(payload)
        self.status = reader.number(4)
        reader.number(9)
        reader.text()
        self.fields = reader.fields()
        self.body = b""
        self.is_complete = False

    def value(self, name):
        found = [v for n, v in self.fields if n.lower() == name]
        return found[0] if found else None

    def code(self):
        return json.loads(self.body)["error"]["code"]


class Run:
    """A run with a link of the test's; one request at a time."""

    def __init__(self, path, run_id, account=None, timeout=60):
        self.run_id = run_id
        self._number = 0
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(timeout)
        self.socket = None
        words = [f"run-id={run_id}"] + ([f"account={account}"] if account else [])
        try:
            self.control.connect(path)
            self.control.send(b"R" + b"".join(word.encode() + b"\0" for word in words))
            self._wait_until_ready()
            self.socket.settimeout(timeout)
        except (OSError, Refused):
            self.close()
            raise

    def _wait_until_ready(self):
        while True:
            packet, passed = link.packet_of(self.control)
            self.socket = passed or self.socket
            if packet[:1] == b"+":
                return
            if packet[:1] == b"!":
                raise Refused(packet[1:].decode())
            if not packet:
                raise ConnectionError("the keeper is gone")

    def _read(self, size):
        data = b""
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionError as error:
                raise Ended from error
            if not piece:
                raise Ended
            data += piece
        return data

    def receive(self):
        kind, exchange, size = struct.unpack("<III", self._read(12))
        return kind, exchange, self._read(size)

    def send(self, kind, exchange, payload=b""):
        try:
            self.socket.sendall(struct.pack("<III", kind, exchange, len(payload)) + payload)
        except ConnectionError as error:
            raise Ended from error

    def open(self, path="/v1/chat/completions", body=b'{"model":"m"}'):
        """Sends a request; its number."""
        self._number += 1
        head = (struct.pack("<BBBBQ", 0, 0, 1, link.LENGTH, len(body)) + link.text("POST") +
                link.text("") + link.text(path) +
                link.fields([("content-type", "application/json")]))
        self.send(link.OPEN, self._number, head)
        self.send(link.DATA, self._number, body)
        self.send(link.END, self._number, link.fields(()))
        return self._number

    def head(self, number):
        """The beginning of its reply."""
        while True:
            kind, exchange, payload = self.receive()
            if exchange == number and kind == link.REPLY:
                return Reply(payload)
            assert exchange != number or kind == link.CREDIT, kind

    def rest(self, number, reply, until=None):
        """Reads on to the end of the reply, or until it holds `until`."""
        while until is None or until not in reply.body:
            kind, exchange, payload = self.receive()
            if exchange != number or kind == link.CREDIT:
                continue
            if kind == link.DATA:
                reply.body += payload
                self.send(link.CREDIT, number, struct.pack("<I", len(payload)))
            else:
                assert kind in (link.END, link.ABORT), kind
                reply.is_complete = kind == link.END
                break
        return reply

    def receive_into(self, replies):
        """The next message of any exchange, added to the replies by their numbers."""
        kind, exchange, payload = self.receive()
        if kind == link.REPLY:
            replies[exchange] = Reply(payload)
        elif kind == link.DATA:
            replies[exchange].body += payload
        elif kind in (link.END, link.ABORT):
            replies[exchange].is_complete = kind == link.END

    def ask(self, path="/v1/chat/completions", body=b'{"model":"m"}'):
        number = self.open(path, body)
        return self.rest(number, self.head(number))

    def stream(self, path="/v1/chat/completions"):
        """A stream that has begun: its number and its reply as far as it has come."""
        number = self.open(path, b'{"model":"m","stream":true}')
        reply = self.head(number)
        assert reply.status == 200, reply.status
        return number, self.rest(number, reply, b"\n\n")

    def abort(self, number):
        self.send(link.ABORT, number)

    def close(self):
        self.control.close()
        if self.socket:
            self.socket.close()


def ask_at_once(runs):
    """A request of each run, all of them under way together; their replies."""
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(lambda run: run.ask(), runs))


def together(count, body):
    """The script of an origin that answers so many requests at the same time."""
    barrier = threading.Barrier(count)

    def script(connection):
        for _ in connection.requests():
            barrier.wait(60)
            connection.answer(body)

    return script


class Workers:
    """Threads that work until they are told to stop; what one of them raises is raised by stop()."""

    def __init__(self):
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads = []
        self._faults = []
        self.answers = collections.Counter()  # how often they had what

    def start(self, work):
        """work(workers, number), which looks at is_over() by itself."""
        thread = threading.Thread(target=self._run, args=(work, len(self._threads)), daemon=True)
        self._threads.append(thread)
        thread.start()

    def repeat(self, work):
        """work(), again and again."""
        def go_on(workers, _):
            while not workers.is_over():
                work()
                workers.note("done")

        self.start(go_on)

    def _run(self, work, number):
        try:
            work(self, number)
        except Exception as error:  # pylint: disable=broad-except
            self._faults.append(error)

    def is_over(self):
        return self._is_over.is_set()

    def note(self, what):
        with self._lock:
            self.answers[what] += 1

    def wait_for(self, what, more=20):
        """Until they had it so many times more."""
        until = self.answers[what] + more
        checks.wait_until(lambda: self.answers[what] >= until or self._faults, 120)
        self._raise()

    def stop(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join(timeout=90)
        assert not any(thread.is_alive() for thread in self._threads)
        self._raise()

    def _raise(self):
        for fault in self._faults:
            raise fault


class Bank:
    """The script of an origin that charges for every request that reaches it."""

    def __init__(self, cost="0.001"):
        self.cost = cost  # of a call, or a function of its request that says so; None: not told
        self.calls = []  # what was charged: whose, for which path, its id, and how much
        self.pause = None  # a function that is called before a reply
        self._lock = threading.Lock()
        self._held = []  # events that requests wait for
        self._is_free = None  # the event of those that come now

    def script(self, connection):
        for request in connection.requests():
            cost = self.cost(request) if callable(self.cost) else self.cost
            self.charge(request, cost)
            if is_free := self._is_free:
                is_free.wait(600)
            if self.pause:
                self.pause()
            connection.answer(fields=() if cost is None else [("x-litellm-response-cost", cost)])

    def hold(self):
        """Whoever asks from now on is answered after release()."""
        self._is_free = threading.Event()
        self._held.append(self._is_free)

    def hold_no_more(self):
        """Whoever asks from now on is answered at once; the others still are not."""
        self._is_free = None

    def release(self):
        self._is_free = None
        for is_free in self._held:
            is_free.set()

    def charge(self, request, cost):
        told = json.loads(request.values("x-litellm-spend-logs-metadata")[0])
        call = {"user": request.values("x-litellm-end-user-id")[0], "run": told["runId"],
                "path": request.target, "id": request.values("x-litellm-call-id")[0],
                "cost": decimal.Decimal(cost or 0)}
        with self._lock:
            self.calls.append(call)
        return call

    def count(self):
        with self._lock:
            return len(self.calls)

    def charged(self, key="run"):
        """How much, by whose it was."""
        sums = {}
        with self._lock:
            for call in self.calls:
                sums[call[key]] = sums.get(call[key], decimal.Decimal(0)) + call["cost"]
        return sums


def amounts(shown, whose="run"):
    """What `warder ps` shows of money: spent, and reserved."""
    return tuple(decimal.Decimal(str(shown[f"{whose}.{what}"])) for what in ("spent", "reserved"))


def stands_at(keeper, run_id, spent, reserved, whose="run", seconds=checks.WAIT):
    """Waits until it does: what a call has cost may be counted a moment after its reply."""
    wanted = decimal.Decimal(spent), decimal.Decimal(reserved)
    shown = []

    def is_so():
        shown[:] = amounts(keeper.show(run_id), whose)
        return tuple(shown) == wanted

    try:
        checks.wait_until(is_so, seconds)
    except AssertionError as error:
        raise AssertionError(f"{run_id} stands at {shown}, not at {wanted}") from error
