# SPDX-License-Identifier: MIT
"""A stand-in for the internet in a throw-away network namespace: runs a command beside it."""
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

ADDRESSES = {socket.AF_INET: "198.51.100.1", socket.AF_INET6: "2001:db8::1"}
PORT = 443


def run(*argv):
    subprocess.run(argv, check=True)


def replace(path, text):
    """Covers a file of /etc; the mount namespace is our own."""
    with tempfile.NamedTemporaryFile("w", dir="/opt", delete=False) as file:
        file.write(text)
    pathlib.Path(file.name).chmod(0o644)
    run("mount", "--bind", file.name, path)


def listen(family, kind, address, port):
    server = socket.socket(family, kind)
    server.bind((address, port))
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def serve_datagrams(server, reply):
    while True:
        question, sender = server.recvfrom(1500)
        server.sendto(reply(question), sender)


def answer_name(question):
    """A reply to any DNS question: our address for A, nothing for AAAA."""
    end = question.index(b"\0", 12) + 5
    is_a = question[end - 4:end - 2] == b"\0\1"
    answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(ADDRESSES[socket.AF_INET])
    head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_a else b"\0\0") + b"\0\0\0\0"
    return head + question[12:end] + (answer if is_a else b"")


def main():
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{ADDRESSES[socket.AF_INET]}/32", "dev", "lo")
    run("ip", "addr", "add", f"{ADDRESSES[socket.AF_INET6]}/128", "dev", "lo", "nodad")
    replace("/etc/resolv.conf", "nameserver 127.0.0.1\n")
    replace("/etc/nsswitch.conf", "hosts: files dns\n")
    servers = [(listen(socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1", 53), answer_name)]
    streams = []
    for family, address in ADDRESSES.items():
        streams.append(listen(family, socket.SOCK_STREAM, address, PORT))
        datagrams = listen(family, socket.SOCK_DGRAM, address, PORT)
        servers.append((datagrams, lambda question: question))
    for arguments in servers:
        threading.Thread(target=serve_datagrams, args=arguments, daemon=True).start()
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)


main()
