# SPDX-License-Identifier: MIT
"""Runs as the agent inside the sandbox and does what it is told: one JSON array per line.

Every byte on the wire is the test's own, and the test has both ends in its hands: what the
agent has seen is known before the origin sends more.
"""
import base64
import json
import socket
import ssl
import sys

sockets = {}


def do_open(host, port):
    sock = socket.create_connection((host, port), timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sockets[sock.fileno()] = sock
    return sock.fileno()


def do_unix(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(path)
    sockets[sock.fileno()] = sock
    return sock.fileno()


def do_tls(number, name, ca, version, alpn):
    """The client's side of TLS over a connection; `name` is the one it asks for, or null."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if ca:
        context.load_verify_locations(ca)
    else:
        context.verify_mode = ssl.CERT_NONE
    if version:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if alpn:
        context.set_alpn_protocols(alpn)
    sockets[number] = context.wrap_socket(sockets[number], server_hostname=name)
    names = dict(sockets[number].getpeercert() if ca else {}).get("subjectAltName", ())
    return [sockets[number].version(), sockets[number].selected_alpn_protocol(), names]


def do_send(number, data):
    sockets[number].sendall(base64.b64decode(data))


def do_recv(number, size, timeout):
    sockets[number].settimeout(timeout)
    return base64.b64encode(sockets[number].recv(size)).decode()


def do_shutdown(number):
    sockets[number].shutdown(socket.SHUT_WR)


def do_close(number):
    sockets.pop(number).close()


def do_python(text):
    scope = {}
    exec(text, scope)  # pylint: disable=exec-used
    return scope.get("result")


for line in sys.stdin:
    name, *words = json.loads(line)
    try:
        answer = ["ok", globals()["do_" + name](*words)]
    except Exception as error:  # pylint: disable=broad-except
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer), flush=True)
