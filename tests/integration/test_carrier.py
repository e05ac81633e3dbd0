# SPDX-License-Identifier: MIT
"""The carrier as a process: gate, starter and the keeper on another machine are played here."""
import fcntl
import hashlib
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import harness
import link
import proc
import pytest

pytestmark = pytest.mark.patient

TOKEN = "r-1|0|4102444800.qxjfTtSccy7Iu7U32nPpSzAimctP20vbcw5tOba-WPk"
IS_SANITIZED = "asan" in harness.BUILD.name
WAIT = 20  # seconds; nothing here takes that long unless it hangs
HIGH = 1 << 20  # what may wait in the carrier for one side, about


def message(kind, exchange, payload=b""):
    return struct.pack("<III", kind, exchange, len(payload)) + payload


def notice(letter, text=b""):
    return message(link.NOTICE, 0, letter + text)


BYE = message(link.BYE, 0)
TOKEN_MESSAGE = message(link.TOKEN, 0, b"\1\0" + link.text(TOKEN))


class Keeper:
    """A listener with TLS; its connection is made by accept()."""

    def __init__(self, certificates, name="keeper", alpn="warder/1", version=None):
        self.context = certificates.context(name)
        if alpn:
            self.context.set_alpn_protocols([alpn])
        if version:
            self.context.maximum_version = version
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT)
        self.port = self.listener.getsockname()[1]
        self.socket = None

    def accept(self):
        """The connection, and whatever came first on it: the token."""
        raw, _ = self.listener.accept()
        raw.settimeout(WAIT)
        self.socket = self.context.wrap_socket(raw, server_side=True)
        self.socket.settimeout(WAIT)
        return self.take(len(TOKEN_MESSAGE))

    def refuse(self):
        """The same for one that is not expected to come in."""
        raw, _ = self.listener.accept()
        raw.settimeout(WAIT)
        with pytest.raises(OSError):
            self.context.wrap_socket(raw, server_side=True).recv(1)

    def take(self, size):
        return take(self.socket, size)

    def send(self, data):
        self.socket.sendall(data)

    def farewell(self):
        """With close_notify, and without waiting for the other one."""
        self.socket.setblocking(False)
        try:
            self.socket.unwrap()
        except OSError:
            pass
        self.socket.close()

    def close(self):
        for sock in (self.listener, self.socket):
            if sock:
                sock.close()


def take(sock, size):
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(min(size - len(data), 1 << 16))
        assert piece, bytes(data)
        data += piece
    return bytes(data)


class Carrier:
    """The real one, with a gate's and a starter's end in our hands."""

    def __init__(self, port, ca, host="localhost", token="env:RUN_TOKEN", env=None):
        self.gate, gate = link.pair()
        self.status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.gate.settimeout(WAIT)
        self.status.settimeout(WAIT)
        high = [fcntl.fcntl(s, fcntl.F_DUPFD, 20) for s in (status, gate)]
        words = ["carrier", "--to", f"{host}:{port}", "--token", token]
        words += ["--ca", str(ca)] if ca else []
        place = 'exec "$0" "$@" 3<&{0} 4<&{1} {0}<&- {1}<&-'.format(*high)
        self.process = subprocess.Popen(
            ["bash", "-c", place, harness.BUILD / "src" / "warder-gateway", *words], pass_fds=high,
            env=env or {"RUN_TOKEN": TOKEN, "PATH": harness.PATH})
        for sock in (status, gate):
            sock.close()
        for fd in high:
            os.close(fd)

    def told(self):
        """The next packet for the starter; b"" at the end."""
        return self.status.recv(1 << 19)

    def failed(self):
        """The one line that says why, and that there is no other."""
        packet = self.told()
        assert packet[:1] == b"!", packet
        assert self.told() == b""
        assert self.process.wait(WAIT) == 125
        return packet[1:].decode()

    def proc(self, name):
        return pathlib.Path(f"/proc/{self.process.pid}/{name}").read_text()

    def has_in_memory(self, needle):
        """Whether the process has it anywhere it could read."""
        with open(f"/proc/{self.process.pid}/mem", "rb") as memory:
            for line in self.proc("maps").splitlines():
                span, rights = line.split()[:2]
                if not rights.startswith("r") or "[v" in line:
                    continue
                first, last = (int(n, 16) for n in span.split("-"))
                try:
                    memory.seek(first)
                    if needle in memory.read(last - first):
                        return True
                except OSError:
                    continue
        return False

    def close(self):
        self.gate.close()
        self.status.close()
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture
def keeper(certificates):
    made = Keeper(certificates)
    yield made
    made.close()


@pytest.fixture
def carrier(keeper, certificates):
    made = Carrier(keeper.port, certificates.ca)
    assert keeper.accept() == TOKEN_MESSAGE
    yield made
    made.close()


# ---- beginning ----

def test_the_token_comes_first_and_then_each_hears_what_is_for_it(keeper, carrier):
    hello = message(link.HELLO, 0, struct.pack("<I", 0) + link.text("r-1"))
    names = message(link.NAMES, 0, b"\0\1\0\0")
    keeper.send(notice(b"W", b"--env\0A=b\0") + notice(b"+") + hello + notice(b"-", b"x.test") + names)
    assert [carrier.told() for _ in range(3)] == [b"W--env\0A=b\0", b"+", b"-x.test"]
    assert take(carrier.gate, len(hello + names)) == hello + names
    asked = message(link.OPEN, 1, b"x" * 40) + message(link.DATA, 1, b"abc") + message(link.ABORT, 1)
    for at in range(len(asked)):
        carrier.gate.sendall(asked[at:at + 1])
    assert keeper.take(len(asked)) == asked


def test_it_is_tls_1_3_and_nothing_is_said_before(keeper, carrier):
    del carrier
    assert (keeper.socket.version(), keeper.socket.selected_alpn_protocol()) == ("TLSv1.3", "warder/1")


@pytest.mark.parametrize("options, words", [
    ({"name": "foreign"}, "the certificate is not from a trusted authority; --keeper-ca"),
    ({"name": "wrong"}, "the certificate is for another name"),
    ({"version": ssl.TLSVersion.TLSv1_2}, "does not speak TLS 1.3"),
])
def test_a_server_that_is_not_our_keeper_gets_no_token(certificates, options, words):
    server = Keeper(certificates, **options)
    carrier = Carrier(server.port, certificates.ca)
    server.refuse()
    text = carrier.failed()
    assert text.startswith(f"the keeper at localhost:{server.port}") and words in text
    assert TOKEN not in text
    carrier.close()
    server.close()


@pytest.mark.parametrize("alpn", [None, "http/1.1"])
def test_a_server_that_speaks_something_else_gets_no_token(certificates, alpn):
    server = Keeper(certificates, alpn=alpn)
    carrier = Carrier(server.port, certificates.ca)
    raw, _ = server.listener.accept()
    raw.settimeout(WAIT)
    with server.context.wrap_socket(raw, server_side=True) as sock:
        assert sock.recv(1) == b""
    assert "no keeper" in carrier.failed()
    carrier.close()
    server.close()


def test_a_certificate_that_only_another_file_trusts_does_not_count(keeper, certificates):
    carrier = Carrier(keeper.port, certificates.top / "unknown.pem")
    keeper.refuse()
    assert "not from a trusted authority" in carrier.failed()
    carrier.close()
    carrier = Carrier(keeper.port, None)  # the system's
    keeper.refuse()
    assert "not from a trusted authority" in carrier.failed()
    carrier.close()


def test_nobody_there(certificates):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        carrier = Carrier(held.getsockname()[1], certificates.ca)
        text = carrier.failed()
    assert text.startswith("cannot reach the keeper: connect to 'localhost'") and "refused" in text
    carrier.close()


def test_something_that_is_no_tls(certificates):
    with socket.create_server(("127.0.0.1", 0)) as server:
        carrier = Carrier(server.getsockname()[1], certificates.ca)
        sock, _ = server.accept()
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert "does not speak TLS" in carrier.failed()
        sock.close()
    carrier.close()


@pytest.mark.parametrize("words, text", [
    ({"host": "localhost:1"}, "HOST:PORT"),
    ({"host": "::1"}, "[ADDRESS]:PORT"),
    ({"host": ""}, "HOST:PORT"),
    ({"token": "env:NOT_SET"}, "env:NOT_SET: the variable is not set"),
    ({"token": TOKEN}, "env:NAME, file:PATH or exec:COMMAND"),
    ({"token": "exec:head -c 300 /dev/zero"}, "no token"),
    ({"token": "exec:printf 'a\\nb'"}, "no token"),
])
def test_wrong_words_are_explained(words, text):
    carrier = Carrier(1, None, **words)
    said = carrier.failed()
    assert text in said and TOKEN not in said
    carrier.close()


def test_a_ca_that_is_no_file_is_named():
    carrier = Carrier(1, "/nonexistent")
    assert "/nonexistent" in carrier.failed()
    carrier.close()


# ---- the token ----

def test_the_token_is_nowhere_once_it_is_sent(keeper, certificates):
    """INV-SECRETS-HOST-ONLY: what carries the agent's bytes holds nothing to steal."""
    if not harness.IS_ROOT:
        pytest.skip("needs root: nobody else reads another process")
    if IS_SANITIZED:
        pytest.skip("a sanitizer keeps what was freed")
    carrier = Carrier(keeper.port, certificates.ca)
    raw, _ = keeper.listener.accept()
    raw.settimeout(WAIT)
    signature = TOKEN.split(".")[1].encode()
    # The control: it waits for the handshake, and has it.
    deadline = time.monotonic() + WAIT
    while not carrier.has_in_memory(signature) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert carrier.has_in_memory(signature)
    assert TOKEN not in carrier.proc("cmdline")
    assert TOKEN not in carrier.proc("environ")  # wiped before anything else is done
    keeper.socket = keeper.context.wrap_socket(raw, server_side=True)
    keeper.socket.settimeout(WAIT)
    assert keeper.take(len(TOKEN_MESSAGE)) == TOKEN_MESSAGE
    keeper.send(notice(b"+"))
    assert carrier.told() == b"+"
    assert not carrier.has_in_memory(signature)
    assert "RUN_TOKEN" in carrier.proc("environ")  # its name is no secret, and was looked at
    carrier.close()


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer's report opens files")
def test_it_can_open_nothing_any_more(keeper, carrier):
    keeper.send(notice(b"+"))
    assert carrier.told() == b"+"
    fields = dict(line.split(":\t") for line in carrier.proc("status").splitlines())
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    descriptors = os.listdir(f"/proc/{carrier.process.pid}/fd") if harness.IS_ROOT else []
    assert len(descriptors) <= 7  # 0 to 4, the loop and the keeper


def test_a_refused_token_is_the_keepers_to_explain(keeper, carrier):
    keeper.send(notice(b"!", b"the token of run r-1 has expired"))
    keeper.farewell()
    assert carrier.failed() == "the token of run r-1 has expired"
    assert carrier.gate.recv(1) == b""


# ---- the end ----

def test_when_the_gate_ends_the_keeper_has_the_last_word(keeper, carrier):
    carrier.gate.sendall(message(link.ABORT, 7))
    carrier.gate.close()
    assert keeper.take(12 + len(BYE)) == message(link.ABORT, 7) + BYE
    keeper.send(message(link.ABORT, 9) + notice(b"-", b"x.test") + notice(b"=", b"1 2 /log"))
    keeper.farewell()
    assert [carrier.told() for _ in range(3)] == [b"-x.test", b"=1 2 /log", b""]
    assert carrier.process.wait(WAIT) == 0


def test_what_the_gate_said_before_it_ended_is_heard_though_it_heard_nothing_more(keeper, carrier):
    os.kill(carrier.process.pid, signal.SIGSTOP)
    carrier.gate.sendall(message(link.ABORT, 7) * 1000)
    keeper.send(message(link.ABORT, 9) * 1000)  # finds nobody
    carrier.gate.close()
    os.kill(carrier.process.pid, signal.SIGCONT)
    assert keeper.take(12000 + len(BYE)) == message(link.ABORT, 7) * 1000 + BYE
    keeper.send(notice(b"=", b"1 2 /log"))
    keeper.farewell()
    assert carrier.told() == b"=1 2 /log"
    assert carrier.process.wait(WAIT) == 0


def test_when_the_starter_is_done_the_gates_last_messages_count(keeper, carrier):
    carrier.status.shutdown(socket.SHUT_WR)
    carrier.gate.sendall(message(link.ABORT, 7))
    assert keeper.take(12) == message(link.ABORT, 7)
    carrier.gate.close()
    assert keeper.take(len(BYE)) == BYE
    keeper.send(notice(b"=", b"1 2 /log"))
    keeper.farewell()
    assert carrier.told() == b"=1 2 /log"
    assert carrier.process.wait(WAIT) == 0


def test_a_gate_that_stays_does_not_hold_up_the_end(keeper, carrier):
    carrier.status.shutdown(socket.SHUT_WR)
    assert keeper.take(len(BYE)) == BYE
    keeper.send(notice(b"=", b"0 0 /log"))
    keeper.farewell()
    assert carrier.told() == b"=0 0 /log"
    assert carrier.process.wait(WAIT) == 0


def test_a_keeper_without_last_words_is_not_waited_for(keeper, carrier):
    started = time.monotonic()
    carrier.gate.close()
    assert keeper.take(len(BYE)) == BYE
    assert "did not say how the run went" in carrier.failed()
    assert 1.5 < time.monotonic() - started < 30


def test_a_gate_that_is_cut_off_in_a_message_leaves_no_goodbye(keeper, carrier):
    carrier.gate.sendall(message(link.DATA, 7, b"x" * 100)[:-1])
    assert len(keeper.take(111)) == 111
    carrier.gate.close()
    assert keeper.socket.recv(100) == b""
    assert carrier.process.wait(WAIT) == 125


def test_without_its_starter_it_ends_at_once(keeper, carrier):
    carrier.status.close()
    assert keeper.socket.recv(100) == b""
    assert carrier.gate.recv(1) == b""
    carrier.process.wait(WAIT)


def test_it_ends_with_its_starter_while_it_connects(certificates):
    with socket.create_server(("127.0.0.1", 0)) as server:
        carrier = Carrier(server.getsockname()[1], certificates.ca)
        sock, _ = server.accept()
        carrier.status.close()
        assert carrier.process.wait(WAIT) == 125
        sock.close()
    carrier.close()


def test_it_does_not_outlive_whoever_started_it_even_when_it_is_stopped(certificates):
    """As `warder run` is killed: nobody closes anything in good order."""
    server = Keeper(certificates)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        made = Carrier(server.port, certificates.ca)
        os.write(theirs, b"%d\n" % made.process.pid)
        signal.pause()
    os.close(theirs)
    pid = int(os.read(ours, 32))
    os.close(ours)
    assert server.accept() == TOKEN_MESSAGE
    os.kill(pid, signal.SIGSTOP)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    deadline = time.monotonic() + WAIT
    while pid in harness.processes() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert pid not in harness.processes()
    server.close()


@pytest.mark.parametrize("is_clean, words", [(True, "has closed the link"),
                                             (False, "has broken the link off")])
def test_a_keeper_that_goes_half_way_is_named(keeper, carrier, is_clean, words):
    keeper.send(message(link.DATA, 7, b"x" * 100)[:50])
    assert len(take(carrier.gate, 50)) == 50
    if is_clean:
        keeper.farewell()
    else:
        keeper.socket.close()
    assert carrier.failed() == f"the keeper at localhost:{keeper.port} {words}"
    assert carrier.gate.recv(1) == b""


DEAD_NETWORK = """
import pathlib, sys, subprocess, time
sys.path[:0] = sys.argv[1:3]
import origin, test_carrier
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
certificates = origin.Certificates(pathlib.Path(sys.argv[3]))
keeper = test_carrier.Keeper(certificates)
carrier = test_carrier.Carrier(keeper.port, certificates.ca)
assert keeper.accept() == test_carrier.TOKEN_MESSAGE
if sys.argv[4] == "busy":
    carrier.gate.sendall(test_carrier.message(7, 1))
    assert keeper.take(12)
subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
if sys.argv[4] == "busy":
    carrier.gate.sendall(test_carrier.message(7, 1))
started = time.monotonic()
carrier.status.settimeout(60)
print(carrier.failed(), int(time.monotonic() - started), sep="|")
"""


@pytest.mark.waits
def test_a_network_that_is_dead_ends_the_run(tmp_path):
    """In namespaces of their own, whose loopback is taken down; it takes its half minute."""
    top = pathlib.Path(__file__).resolve().parents[1]
    started = []
    for how in ("idle", "busy"):
        (tmp_path / how).mkdir()
        started.append(subprocess.Popen(
            ["unshare", "-n" if harness.IS_ROOT else "-rn", sys.executable, "-c", DEAD_NETWORK,
             top / "support", top / "integration", tmp_path / how, how],
            stdout=subprocess.PIPE, text=True))
    for process in started:
        text, seconds = process.communicate(timeout=90)[0].strip().split("|")
        assert text.endswith("cannot be reached any more")
        assert 15 < int(seconds) <= 40


# ---- what is no message ----

@pytest.mark.parametrize("garbage", [
    b"\xff" * 12,
    b"HTTP/1.1 200 OK\r\n\r\n",
    message(link.OPEN, 1, b"x" * 40),  # only a gate says that
    TOKEN_MESSAGE,
    BYE,
    message(link.DATA, 0, b"x"),
    message(link.DATA, 1, b"x" * 40000),
    notice(b" ", b"x"),
    notice(b"G"),  # not a keeper's
    notice(b"!", b"\x1b[2J"),  # would go to a terminal
    notice(b"=", b"1 2\n3"),
])
def test_garbage_of_the_keeper_ends_the_link(keeper, carrier, garbage):
    try:
        keeper.send(garbage)
    except OSError:
        pass  # it did not wait for all of it
    assert carrier.failed().endswith("sends what is no message of the link")
    assert carrier.gate.recv(100) == b""


@pytest.mark.parametrize("garbage", [
    b"\xff" * 12,
    TOKEN_MESSAGE,  # another run's, say
    BYE,
    notice(b"!", b"x"),
    message(link.HELLO, 0, b"\0" * 8),
])
def test_a_gate_says_only_what_a_gate_may(keeper, carrier, garbage):
    """INV-RUN-IDENTITY: one that was taken over cannot speak for its carrier."""
    carrier.gate.sendall(message(link.ABORT, 3) + garbage)
    assert carrier.failed() == "the gate sends what is no message of the link"
    got = b""
    while piece := keeper.socket.recv(100):
        got += piece
    assert got in (b"", message(link.ABORT, 3))


# ---- much, and slowly ----

def blocks(total):
    """DATA messages of many sizes, and their digest."""
    seed, made, digest = os.urandom(65536), [], hashlib.sha256()
    size = done = 0
    while done < total:
        size = size * 31 % 32768 + 1
        made.append(message(link.DATA, 5, seed[size:size + size]))
        digest.update(made[-1])
        done += len(made[-1])
    return made, done, digest.hexdigest()


def send_all(sock, made):
    for at in range(0, len(made), 32):
        sock.sendall(b"".join(made[at:at + 32]))


def receive_digest(sock, size):
    digest = hashlib.sha256()
    while size > 0:
        piece = sock.recv(min(size, 1 << 18))
        assert piece
        digest.update(piece)
        size -= len(piece)
    return digest.hexdigest()


def test_a_hundred_megabytes_each_way_arrive_as_they_were_sent(certificates):
    server = Keeper(certificates)
    carrier = Carrier(server.port, certificates.ca)
    assert server.accept() == TOKEN_MESSAGE
    made, size, digest = blocks(100 << 20)
    # Python's TLS sockets cannot be read and written by two threads at once: each way in turn ...
    sender = threading.Thread(target=send_all, args=(carrier.gate, made))
    sender.start()
    assert receive_digest(server.socket, size) == digest
    sender.join()
    before = proc.rss_kib(carrier.process.pid)
    sender = threading.Thread(target=send_all, args=(server.socket, made))
    sender.start()
    assert receive_digest(carrier.gate, size) == digest
    sender.join()
    if not IS_SANITIZED:  # which keeps what was freed
        assert proc.rss_kib(carrier.process.pid) < before + 4096 and before < 40 << 10
    carrier.close()
    server.close()


def test_both_ways_at_once(keeper, carrier):
    """... and at once, with one thread that does what can be done."""
    made, size, digest = blocks(20 << 20)
    results = {}
    out = threading.Thread(target=send_all, args=(carrier.gate, made))
    back = threading.Thread(
        target=lambda: results.update(gate=receive_digest(carrier.gate, size)))
    out.start()
    back.start()
    seen, got, rest = hashlib.sha256(), 0, b"".join(made)
    keeper.socket.setblocking(False)
    deadline = time.monotonic() + 4 * WAIT
    while got < size or rest:
        assert time.monotonic() < deadline
        try:
            piece = keeper.socket.recv(1 << 16)
            seen.update(piece)
            got += len(piece)
        except ssl.SSLWantReadError:
            pass
        try:
            rest = rest[keeper.socket.send(rest[:1 << 16]):] if rest else rest
        except ssl.SSLWantWriteError:
            pass
    out.join()
    back.join(WAIT)
    assert seen.hexdigest() == digest and results["gate"] == digest


def fill(send, data):
    """Sends until nothing is taken for a while; how much that was."""
    sent, quiet_since = 0, time.monotonic()
    while time.monotonic() - quiet_since < 0.7:
        try:
            sent += send(data[sent:sent + 65536])
            quiet_since = time.monotonic()
        except (BlockingIOError, ssl.SSLWantWriteError):
            time.sleep(0.01)
    return sent


@pytest.mark.parametrize("slow", ["keeper", "gate"])
def test_whoever_is_slow_slows_the_other(keeper, carrier, slow):
    """INV-BOUNDED: the carrier holds about a megabyte, whatever is sent."""
    made, size, digest = blocks(64 << 20)
    data = b"".join(made)
    if slow == "keeper":
        sender, receiver = carrier.gate, keeper.socket
    else:
        sender, receiver = keeper.socket, carrier.gate
    idle = proc.rss_kib(carrier.process.pid)
    sender.setblocking(False)
    sent = fill(sender.send, data)
    # Sockets take some megabytes themselves; the carrier does not.
    assert sent < 24 << 20
    if not IS_SANITIZED:
        assert proc.rss_kib(carrier.process.pid) - idle < 4 * HIGH >> 10
    # The other way is still open.
    if slow == "keeper":
        keeper.send(notice(b"-", b"y.test"))
        assert carrier.told() == b"-y.test"
    else:
        carrier.gate.sendall(message(link.ABORT, 8))
        keeper.socket.setblocking(True)
        keeper.socket.settimeout(WAIT)
        assert keeper.take(12) == message(link.ABORT, 8)
    sender.setblocking(True)
    sender.settimeout(WAIT)
    rest = threading.Thread(target=sender.sendall, args=(data[sent:],))
    rest.start()
    assert receive_digest(receiver, size) == digest
    rest.join()
