# SPDX-License-Identifier: MIT
"""INV-RUN-IDENTITY, INV-ATTRIBUTION: whatever the agent sends, the upstream sees the host's word."""
import json
import re

import agent
import origin as upstream
import pytest

EVIL = "someone-else"
BODY = {"model": "m", "messages": []}
RUN = ("--run-id", "task-7", "--attempt", "2")


def raw(*lines, body=b'{"model":"m"}', version="1.1"):
    """Lines that are the test's to the last byte."""
    text = [b"POST /v1/chat/completions HTTP/%s" % version.encode(), b"Host: localhost:8080",
            b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join(text) + b"\r\n\r\n" + body


def chunked(*lines, body=b'{"model":"m"}', trailer=b""):
    head = b"\r\n".join([b"POST /v1/x HTTP/1.1", b"Host: a", b"Transfer-Encoding: chunked", *lines])
    pieces = b"".join(upstream.chunk(body[i:i + 1]) for i in range(len(body)))
    return head + b"\r\n\r\n" + pieces + b"0\r\n" + trailer + b"\r\n"


NAMES = ["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie",
         "x-litellm-end-user-id", "x-litellm-customer-id", "x-litellm-spend-logs-metadata",
         "x-litellm-tags", "x-litellm-api-key", "x-litellm-", "x-pass-authorization", "x-run-token"]


def cases(name):
    """The ways to write a field."""
    plain = name.encode()
    return [plain, plain.upper(), plain.title(), plain.replace(b"-", b"_"), plain.replace(b"-", b"_", 1)]


FIELDS = [(spelling, raw(spelling + b": " + EVIL.encode())) for name in NAMES
          for spelling in dict.fromkeys(cases(name))]

ATTEMPTS = [
    ("several at once", raw(*(f"{n}: {EVIL}".encode() for n in NAMES))),
    ("duplicates", raw(b"Authorization: " + EVIL.encode(), b"authorization: " + EVIL.encode(),
                       b"x-litellm-end-user-id: " + EVIL.encode(),
                       b"X-LiteLLM-End-User-Id: " + EVIL.encode())),
    ("empty values", raw(b"Authorization:", b"x-litellm-end-user-id:")),
    ("spaces around", raw(b"Authorization:\t " + EVIL.encode() + b" \t")),
    ("no space", raw(b"Authorization:" + EVIL.encode(), b"x-litellm-end-user-id:" + EVIL.encode())),
    ("named as of the connection", raw(b"Connection: authorization, x-litellm-end-user-id",
                                       b"Authorization: " + EVIL.encode())),
    ("named as of the connection, keep-alive", raw(
        b"Connection: keep-alive, host, content-type", b"Connection: x-litellm-spend-logs-metadata")),
    ("http/1.0", raw(b"Authorization: " + EVIL.encode(), b"x-litellm-end-user-id: " + EVIL.encode(),
                     b"Connection: keep-alive", version="1.0")),
    ("chunked", chunked(b"Authorization: " + EVIL.encode())),
    ("in the trailer", chunked(b"Trailer: Authorization, x-litellm-end-user-id",
                               trailer=b"Authorization: %s\r\nx-litellm-end-user-id: %s\r\n" % (
                                   (EVIL.encode(),) * 2))),
    ("absolute form", raw(b"Authorization: " + EVIL.encode()).replace(
        b"POST /v1", b"POST http://localhost:8080/v1")),
    ("in the query", raw().replace(b"completions ", b"completions?x-litellm-end-user-id=1 ")),
]

# What LiteLLM would take from the body, and how one might hide it.
MEMBERS = [
    b'{"user":"%s","model":"m"}',
    b'{"model":"m","user":"%s"}',
    b'{"model":"m", "user" : "%s" , "user":"%s"}',
    b'{"\\u0075ser":"%s"}',
    b'{"u\\u0073\\u0065r":"%s"}',
    b'{"User":"%s","USER":"%s"}',
    b'{"user":{"a":["%s"]}}',
    b'{"metadata":{"user_id":"%s"}}',
    b'{"metadata":{"a":1,"user_id":"%s","b":{"c":2}}}',
    b'{"metadata":{"user\\u005fid":"%s"}}',
    b'{"m\\u0065tadata":{"user_id":"%s"}}',
    b'{"metadata":{"x":1},"metadata":{"user_id":"%s"}}',
    b'{"metadata":{"user_id":"%s","user_id":"%s"}}',
    b'{"litellm_metadata":{"user_api_key":"%s"}}',
    b'{"litellm\\u005fmetadata":"%s"}',
    b'{"safety_identifier":"%s"}',
    b'{"no-log":"%s"}',
    b'{"safety_identifier":null,"\\u0073afety_identifier":"%s"}',
    b'\n\t {"user"\n:\n"%s"}\r\n',
]


def filled(member):
    return member.replace(b"%s", EVIL.encode())


ATTEMPTS += [(f"body {m.decode()!r}", raw(body=filled(m))) for m in MEMBERS]
ATTEMPTS += [(f"chunked body {m.decode()!r}", chunked(body=filled(m))) for m in MEMBERS]
ATTEMPTS += [(f"large body {m.decode()!r}", raw(
    body=filled(m).replace(b"{", b'{"filler":"' + b"x" * 100000 + b'",', 1))) for m in MEMBERS]

# What no two readers need agree on: refused, or made harmless.
DOUBTFUL = [
    ("folded", raw(b"X: 1", b" Authorization: " + EVIL.encode())),
    ("folded value", raw(b"Authorization:", b"\t" + EVIL.encode())),
    ("space before the colon", raw(b"Authorization : " + EVIL.encode())),
    ("a bare line feed", raw(b"X: 1\nAuthorization: " + EVIL.encode())),
    ("a bare carriage return", raw(b"X: 1\rAuthorization: " + EVIL.encode())),
    ("a nul", raw(b"X: 1\x00\r\nAuthorization: " + EVIL.encode())),
    ("no json", raw(body=b"user=" + EVIL.encode())),
    ("a second value", raw(body=b'{"model":"m"}{"user":"' + EVIL.encode() + b'"}')),
    ("a comment", raw(body=b'{/*"*/"user":"' + EVIL.encode() + b'"}')),
    ("single quotes", raw(body=b"{'user':'" + EVIL.encode() + b"'}")),
    ("a byte order mark", raw(body=b'\xef\xbb\xbf{"user":"' + EVIL.encode() + b'"}')),
    ("utf-16", raw(body='{"user":"someone-else"}'.encode("utf-16"))),
    ("utf-16 without a mark", raw(body='{"user":"someone-else"}'.encode("utf-16-le"))),
    ("a control byte in the key", raw(body=b'{"us\x00er":1,"user\x00":"' + EVIL.encode() + b'"}')),
    ("compressed", raw(b"Content-Encoding: gzip", body=b"\x1f\x8b" + EVIL.encode())),
    ("an unknown encoding", raw(b"Content-Encoding: x", body=b'{"user":"' + EVIL.encode() + b'"}')),
    ("identity encoding", raw(b"Content-Encoding: identity", body=b'{"user":"%s"}' % EVIL.encode())),
    ("two lengths", raw(b"Content-Length: 5")),
    ("length and chunks", raw(b"Transfer-Encoding: chunked")),
]


def assert_ours(request):
    assert request.values("authorization") == [f"Bearer {agent.KEY}"], request.head
    assert request.values("x-litellm-end-user-id") == ["task-7/2"], request.head
    metadata = request.values("x-litellm-spend-logs-metadata")
    assert [json.loads(m) for m in metadata] == [{"runId": "task-7", "attempt": 2}], request.head
    # The host's own id of the call, which it is found by in LiteLLM's log.
    if request.values("content-length") + request.values("transfer-encoding"):
        assert re.fullmatch("[0-9A-Z]{26}", "".join(request.values("x-litellm-call-id"))), request.head
    ours = {"authorization", "x-litellm-end-user-id", "x-litellm-spend-logs-metadata", "x-litellm-call-id"}
    for name in request.names():
        folded = name.replace("_", "-")
        assert folded in ours or folded not in NAMES, name
        assert folded in ours or not folded.startswith(("x-litellm-", "x-pass-")), name
    assert len(request.values("host")) == 1
    assert EVIL.encode() not in request.head


def assert_no_identity(body):
    """As a lenient reader would look: duplicates and all."""
    assert EVIL.encode() not in body, body
    json.loads(body)


def test_one_authorization_and_one_identity_whatever_is_sent(place, origin):
    with agent.run(place, *agent.llm(origin, *RUN)) as run:
        for name, data in [*FIELDS, *ATTEMPTS]:
            reply = run.ask(data)
            assert (name, reply.status) == (name, 200)
        run.end()
    assert len(origin.requests) == len(FIELDS) + len(ATTEMPTS)
    for request in origin.requests:
        assert_ours(request)
        assert_no_identity(request.body)
    assert {(r["runId"], r["attempt"]) for r in run.records()} == {("task-7", 2)}


def test_what_could_be_read_in_two_ways_is_refused_or_harmless(place, origin):
    with agent.run(place, *agent.llm(origin, *RUN)) as run:
        passed = []
        for name, data in DOUBTFUL:
            before = len(origin.requests)
            reply = run.ask(data)
            assert reply.status == 200 or reply.status in (400, 415), (name, reply.status)
            assert (reply.status == 200) == (len(origin.requests) > before), name
            passed += [name] if reply.status == 200 else []
    for request in origin.requests:
        assert_ours(request)
        assert_no_identity(request.body)
    assert not passed


def test_the_attempts_would_work_without_the_gate(origin):
    """Control: sent to the upstream directly, they arrive as they are."""
    for name, data in [*FIELDS, *ATTEMPTS]:
        if EVIL.encode() not in data or name == "in the trailer":
            continue  # what is evil there is nothing that this upstream looks at
        wire = agent.SocketWire(("127.0.0.1", origin.port))
        assert wire.ask(data).status == 200
        wire.close()
        assert EVIL.encode() in origin.requests[-1].head + origin.requests[-1].body, name


def test_a_pipelined_second_request_is_as_clean(place, origin):
    evil = raw(b"Authorization: " + EVIL.encode(), b"x-litellm-end-user-id: " + EVIL.encode(),
               body=b'{"user":"' + EVIL.encode() + b'"}')
    with agent.run(place, *agent.llm(origin, *RUN)) as run:
        wire = run.connect()
        wire.send(agent.get() + evil + chunked(body=filled(MEMBERS[0])) + evil + agent.get())
        for _ in range(5):
            assert wire.reply().status == 200
    assert len(origin.requests) == 5
    for request in origin.requests:
        assert_ours(request)
        assert EVIL.encode() not in request.body


@pytest.mark.parametrize("body", [
    b'{"x":"\r\n\r\nPOST /v1/y HTTP/1.1\\r\\nAuthorization: someone-else\\r\\n"}',
    b"0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: a\r\nx-litellm-end-user-id: someone-else\r\n\r\n"])
def test_a_body_is_no_second_request(place, origin, body):
    for provider in ("litellm", "openai"):
        with agent.run(place, *agent.llm(origin, *RUN, "--llm-provider", provider)) as run:
            wire = run.connect()
            wire.send(raw(body=body))
            assert wire.reply().status in (200, 400)
            assert wire.ask(agent.get("/v1/after")).status == 200
    targets = [request.target for request in origin.requests]
    assert "/v1/smuggled" not in targets and "/v1/y" not in targets
    assert targets.count("/v1/after") == 2


def test_the_billing_account_and_metadata_are_the_operators(place, origin):
    options = agent.llm(origin, *RUN, "--billing-account", "team 7", "--metadata", "job=a \"b\"",
                        "--metadata", "x=1")
    with agent.run(place, *options) as run:
        assert run.ask(raw(b"x-litellm-end-user-id: someone-else")).status == 200
    request = origin.requests[0]
    assert request.values("x-litellm-end-user-id") == ["team 7"]
    assert json.loads(request.values("x-litellm-spend-logs-metadata")[0]) == {
        "runId": "task-7", "attempt": 2, "job": 'a "b"', "x": "1"}


PROVIDERS = {"openai": ("authorization", "Bearer "), "anthropic": ("x-api-key", ""),
             "google": ("x-goog-api-key", ""), "azure": ("api-key", "")}
PATHS = {"google": "/v1beta/models/m:generate", "azure": "/openai/deployments/m/chat/completions"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_other_providers_get_their_key_and_no_identity(place, origin, provider):
    name, prefix = PROVIDERS[provider]
    path = PATHS.get(provider, "/v1/messages")
    body = b'{"user":"kept","metadata":{"user_id":"kept"}}'
    lines = [f"{n}: {EVIL}" for n in NAMES]
    with agent.run(place, *agent.llm(origin, "--llm-provider", provider)) as run:
        assert run.ask(agent.post(body, *lines, target=path + "?key=x&alt=sse")).status == 200
    request = origin.requests[0]
    found = [(n, v) for n, v in request.fields if n.lower() in NAMES or n.startswith("x-litellm")]
    assert found == [(name, prefix + agent.KEY)]
    assert request.body == body
    assert request.target == path + ("?alt=sse" if provider == "google" else "?key=x&alt=sse")
