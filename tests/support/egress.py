# SPDX-License-Identifier: MIT
"""Runs whose agent may reach hosts: the options for them, requests, and what refusals look like."""
import json
import struct

import agent
import checks

HOST = "api.test"
PROXY = 3128


def mapped(origin, host=HOST, port=443):
    """The host is where the origin listens, as only an operator can say."""
    return ("--connect-to", f"{host}:{port}=127.0.0.1:{origin.port}")


def trusted(origin):
    return ("--upstream-ca", origin.ca) if hasattr(origin, "ca") else ()


def allowed(origin, *more, host=HOST, port=443):
    """Options for a run that may reach `origin` as that host."""
    rule = host if port in (80, 443) else f"{host}:{port}"
    return ("--allow-net", rule, *mapped(origin, host, port), *trusted(origin), *more)


def request(method="GET", target="/", *lines, host=HOST, body=None):
    """A request as bytes; a body makes a length."""
    lines = [f"Host: {host}", *lines]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n"
    return head.encode("latin-1") + (body or b"")


def connect(run, host=HOST, port=443, sni="", address=None):
    """A connection with TLS on it, to the host or to an address with the host's name in it."""
    wire = run.connect(address or host, port)
    wire.tls(sni or host)
    return wire


def ask(run, data=None, host=HOST, port=443):
    """One request over TLS, on a connection of its own."""
    wire = connect(run, host, port)
    try:
        return wire.ask(data or request(host=host))
    finally:
        wire.close()


def assert_refused(reply, status, code, hint=None):
    """What an agent can act on."""
    assert (reply.status, reply.code()) == (status, code), (reply.head, reply.body)
    error = reply.json()["error"]
    assert error["message"] and error["runId"]
    assert error.get("hint") == hint or hint is None, error


def decisions(run, count=1):
    """The records of what was judged, when there are that many."""
    found = checks.wait_until(lambda: _enough(run, count))
    return found


def _enough(run, count):
    found = agent.events(run.records(), "decision")
    return found if len(found) >= count else None


def hello(sni):
    """A ClientHello with any bytes as the name."""
    name = b"\x00" + struct.pack(">H", len(sni)) + sni
    names = struct.pack(">H", len(name)) + name
    extensions = b"\x00\x00" + struct.pack(">H", len(names)) + names
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def bash(place, text, options, env=None, timeout=60):
    """A shell's command line as the agent."""
    if not (place.top / "warder-gateway").exists():
        place.install()
    return place.run("bash", "-c", text, options=options, env=env, timeout=timeout)


def result_of(place, text, options, env=None):
    """The JSON that a Python program of the agent prints."""
    if not (place.top / "warder-gateway").exists():
        place.install()
    done = place.run("python3", "-c", text, options=options, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
