# SPDX-License-Identifier: MIT
"""A server on the sandbox's loopback with a certificate that nobody vouches for, and a client of it.

The client is the command line; it fails if it verifies what it connects to.
"""
import os
import socket
import ssl
import subprocess
import sys
import threading

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/workspace/impostor.pem", "/workspace/impostor.key")
listener = socket.create_server(("127.0.0.1", 0))


def serve(connection):
    try:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            if wrapped.recv(65536):
                print("the impostor was believed", flush=True)
                wrapped.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    except OSError:
        pass


def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
base = f"https://localhost:{listener.getsockname()[1]}"
sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, "BASE": base}, timeout=60, check=False).returncode)
