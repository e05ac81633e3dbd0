# SPDX-License-Identifier: MIT
"""A scripted upstream: each test says what it sends and when, and sees every byte it received.

A script is a function of one connection, run in a thread of its own. What it raises is raised
again when the origin is closed, so that no fault of a script goes unseen.
"""
import queue
import socket
import ssl
import struct
import subprocess
import threading
import time

WAIT = 60  # seconds; nothing here takes that long unless it hangs


class Gone(Exception):
    """The other side has ended the connection."""


class Request:
    """One request, exactly as it came in."""

    def __init__(self, head):
        self.head = head
        lines = head[:-4].split(b"\r\n")
        self.line = lines[0].decode("latin-1")
        self.method, self.target, self.version = self.line.split(" ")
        self.fields = [self._field(line.decode("latin-1")) for line in lines[1:]]
        self.body = b""
        self.raw_body = b""

    @staticmethod
    def _field(line):
        name, _, value = line.partition(":")
        return name, value.removeprefix(" ")

    def values(self, name):
        """The values of every field of that name, whatever its case; `_` counts as `-`."""
        wanted = name.lower().replace("_", "-")
        return [v for n, v in self.fields if n.lower().replace("_", "-") == wanted]

    def names(self):
        return [n.lower() for n, _ in self.fields]


class Connection:
    """One connection, as the script of the test has it."""

    def __init__(self, origin, sock, number):
        self.origin = origin
        self.socket = sock
        self.number = number  # 0 is the first one
        self.received = b""
        self._left = b""

    def more(self):
        """Whatever is there, or comes next."""
        if not self._left:
            self._more()
        taken, self._left = self._left, b""
        return taken

    def _more(self):
        try:
            piece = self.socket.recv(65536)
        except OSError as error:
            raise Gone from error
        if not piece:
            raise Gone
        self.received += piece
        self._left += piece

    def take(self, size):
        """So many bytes, when they have come."""
        while len(self._left) < size:
            self._more()
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def _line(self):
        while b"\r\n" not in self._left:
            self._more()
        return self.take(self._left.index(b"\r\n") + 2)

    def head(self):
        """Reads a head, and nothing of the body."""
        while b"\r\n\r\n" not in self._left:
            self._more()
        request = Request(self.take(self._left.index(b"\r\n\r\n") + 4))
        self.origin.seen(request)
        return request

    def body(self, request):
        if request.values("transfer-encoding"):
            while True:
                line = self._line()
                size = int(line, 16)
                chunk = self.take(size + 2)
                request.raw_body += line + chunk
                request.body += chunk[:size]
                if size == 0:
                    break
        else:
            request.body = self.take(int((request.values("content-length") or ["0"])[0]))
            request.raw_body = request.body

    def request(self):
        """Reads a whole request."""
        request = self.head()
        self.body(request)
        return request

    def requests(self):
        """Every request of the connection, up to its end."""
        while True:
            try:
                yield self.request()
            except Gone:
                return

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone from error

    def answer(self, body=b'{"ok":true}', status=200, fields=()):
        self.send(reply(body, status, fields))

    def wait_for_end(self):
        """Until the other side has ended the connection; True when it was by a reset."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        return False

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def end(self):
        """Closes with the farewell of TLS, where there is any."""
        if isinstance(self.socket, ssl.SSLSocket):
            try:
                self.socket.unwrap()
            except (OSError, ValueError):
                pass  # the other side owes us none, or the test is over
        self.close()

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


def reply(body=b'{"ok":true}', status=200, fields=()):
    """A reply with a length."""
    lines = b"".join(b"%s: %s\r\n" % (n.encode(), v.encode()) for n, v in fields)
    return b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (
        status, lines, len(body), body)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def answer_all(connection):
    """The script that most tests want: each request gets a small reply."""
    for _ in connection.requests():
        connection.answer()


def stream_for_ever(connection):
    """Events without end, slowly."""
    for _ in connection.requests():
        connection.send(CHUNKED)
        while True:
            connection.send(chunk(b'data: {"x":1}\n\n'))
            time.sleep(0.02)


class Origin:
    """An upstream on loopback."""

    def __init__(self, script=answer_all, context=None, name="127.0.0.1", address="127.0.0.1", port=0):
        self.script = script
        self.context = context  # of TLS, or None
        self.requests = []  # in the order in which their heads were read
        self.connections = []
        self._seen = queue.Queue()
        self._faults = []
        self._threads = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family, backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://{name}:{self.port}"
        self.label = f"{name}:{self.port}"
        self._start(self._accept)

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(WAIT)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(Connection(self, sock, len(self.connections)))
            self._start(self._serve, self.connections[-1])

    def _serve(self, connection):
        try:
            if self.context:
                connection.socket = self.context.wrap_socket(connection.socket, server_side=True)
        except OSError:
            connection.socket.close()  # who does not trust us does not come in
            return
        try:
            self.script(connection)
        except Gone:
            pass
        except Exception as error:  # pylint: disable=broad-except
            self._faults.append(error)
        if connection.socket.fileno() >= 0:
            connection.close()

    def seen(self, request):
        self.requests.append(request)
        self._seen.put(request)

    def next_request(self):
        """Waits for the head of the next request that nobody has asked for yet."""
        return self._seen.get(timeout=WAIT)

    def received(self):
        """Every byte of every connection."""
        return b"".join(c.received for c in self.connections)

    def close(self):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        for connection in self.connections:
            if connection.socket.fileno() >= 0:
                try:
                    connection.socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for thread in self._threads:
            thread.join(timeout=WAIT)
        assert not [t for t in self._threads if t.is_alive()], "a script goes on for ever"
        for fault in self._faults:
            raise fault


def refusing_port():
    """A port of loopback that nobody listens on while it is held, but who is told of it and says
    SO_REUSEADDR, as servers do: nobody else is given it by chance."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock, sock.getsockname()[1]


class Certificates:
    """An authority and what it has signed, made with the openssl tool."""

    NAME = "llm.test"
    HOSTS = ("api.test", "*.api.test", "other.test", "evil.test")

    def __init__(self, top):
        self.top = top
        self.ca = self._authority("ca")
        self._authority("unknown")
        (top / "index.txt").write_text("")
        self._leaf("good", self.NAME)
        self._leaf("wrong", "other.test")
        self._leaf("expired", self.NAME, dates=("20200101000000Z", "20200201000000Z"))
        self._leaf("foreign", self.NAME, by="unknown")
        self._leaf("hosts", *self.HOSTS)
        self._leaf("keeper", "localhost")
        self._leaf("other", "localhost")
        top.chmod(0o755)
        self.ca.chmod(0o644)

    def _openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.top, check=True, capture_output=True)

    def _authority(self, name):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                      "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
                      "-subj", f"/CN=authority {name}")
        return self.top / f"{name}.pem"

    def _leaf(self, name, *hosts, by="ca", dates=None):
        names = ",".join(f"DNS:{host}" for host in hosts)
        start, end = dates or ("20240101000000Z", "20491231000000Z")
        (self.top / f"{name}.cnf").write_text(
            "[ca]\ndefault_ca = d\n[d]\ndatabase = index.txt\nnew_certs_dir = .\nrand_serial = yes\n"
            "default_md = sha256\npolicy = p\nunique_subject = no\nx509_extensions = x\n"
            f"[p]\ncommonName = supplied\n[x]\nsubjectAltName = {names}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={hosts[0]}")
        self._openssl("ca", "-batch", "-notext", "-config", f"{name}.cnf", "-in", f"{name}.csr",
                      "-out", f"{name}.pem", "-cert", f"{by}.pem", "-keyfile", f"{by}.key",
                      "-startdate", start, "-enddate", end)

    def context(self, name="good"):
        """The server's side of TLS with that certificate."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.top / f"{name}.pem", self.top / f"{name}.key")
        return made
