# SPDX-License-Identifier: MIT
"""Connections that are ended without a word are on record: where they were going, and why."""
import contextlib

import agent
import checks
import egress
import pytest


@pytest.fixture
def place(user_place):
    """What is recorded does not depend on who started the run."""
    return user_place


def only_refusal(run):
    """The one decision, once it is written."""
    found = egress.decisions(run)
    assert len(found) == 1 and found[0]["allowed"] is False, found
    return found[0]


def end_of(wire, data=b""):
    """Sends and waits for the end, which is a reset."""
    with pytest.raises(ConnectionError):
        if data:
            wire.send(data)
        wire.rest()


RAW = b"SSH-2.0-x\r\n"


@pytest.mark.parametrize("host, port, name", [
    ("evil.test", 22, "evil.test:22"), ("api.test", 22, "api.test:22"), ("api.test", 443, "api.test:443"),
    ("93.184.216.34", 25, "93.184.216.34:25"), ("2606:2800:220:1::1", 25, "[2606:2800:220:1::1]:25")])
def test_raw_bytes_without_a_rule(place, https, host, port, name):
    with agent.run(place, *egress.allowed(https), "-v") as run:
        end_of(run.connect(host, port), RAW)
        record = only_refusal(run)
        assert (record["host"], record["reason"]) == (name, "host_not_allowed"), record
        assert name in run.stderr()
    assert not https.connections


def test_a_connection_on_which_the_server_should_begin(place, https):
    """The agent says nothing, as a client of SMTP does."""
    with agent.run(place, *egress.allowed(https)) as run:
        end_of(run.connect("mail.test", 25))
        assert only_refusal(run)["host"] == "mail.test:25"


@pytest.mark.parametrize("sni", [b"127.1", b"api..test"])
def test_a_name_in_tls_that_is_none(place, https, sni):
    with agent.run(place, *egress.allowed(https), "-v") as run:
        end_of(run.connect("api.test", 443), egress.hello(sni))
        record = only_refusal(run)
        assert (record["host"], record["reason"]) == ("api.test:443", "tls_name_invalid")
        checks.wait_until(lambda: "api.test:443 refused: tls_name_invalid" in run.stderr())
        assert egress.ask(run).status == 200  # control


@pytest.mark.parametrize("kind, reason", [("untrusted", "certificate_not_trusted"), ("alpn", "tls_fault"),
                                          ("nothing in common", "tls_fault")])
def test_a_handshake_that_fails(place, https, certificates, kind, reason):
    other = place.write("workspace/other.pem", certificates.ca.read_text())
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("api.test", 443)
        with contextlib.suppress(ConnectionError):
            if kind == "untrusted":
                wire.tls("api.test", ca=f"/workspace/{other.name}")
            elif kind == "alpn":
                wire.tls("api.test", None, ["smtp"])
            else:
                wire.send(egress.hello(b"api.test"))
                assert wire.rest()[:1] == b"\x15"  # an alert
        record = only_refusal(run)
        assert (record["host"], record["reason"]) == ("api.test:443", reason), record
        assert egress.ask(run).status == 200  # control


@pytest.mark.parametrize("data", [RAW, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", egress.hello(b"api.test")],
                         ids=["raw", "h2", "tls"])
def test_what_is_no_request_to_a_proxy(place, https, data):
    with agent.run(place, *egress.allowed(https)) as run:
        end_of(run.connect("127.0.0.1", egress.PROXY), data)
        record = only_refusal(run)
        assert record["reason"] == "not_a_proxy_request" and "host" not in record


@pytest.mark.parametrize("data, reason", [
    (b"\x05\x01\x02", "socks_not_supported"),  # a password
    (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", "socks_not_supported"),  # BIND
    (b"\x05\x01\x00\x05\x01\x00\x03\x05127.1\x00\x50", "socks_host_invalid")])
def test_what_socks_is_not_for(place, https, data, reason):
    with agent.run(place, *egress.allowed(https)) as run:
        wire = run.connect("127.0.0.1", egress.PROXY)
        wire.send(data)
        with contextlib.suppress(ConnectionError):
            assert wire.rest()[-1:] != b"\x00"
        assert only_refusal(run)["reason"] == reason


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_listener_itself_is_no_destination(place, https, address):
    with agent.run(place, *egress.allowed(https)) as run:
        with pytest.raises(ConnectionError):
            end_of(run.connect(address, 61001), RAW)
            raise ConnectionError
        record = only_refusal(run)
        assert record["reason"] == "destination_unknown" and "host" not in record


def test_an_agent_that_goes_away_was_not_refused(place, https):
    """Nor does one that only knocks take a place in the log."""
    with agent.run(place, *egress.allowed(https)) as run:
        for data in (b"", b"G", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            wire = run.connect("api.test", 443)
            if data:
                wire.send(data)
            wire.close()
        assert egress.ask(run).status == 200
        assert run.end() == 0
        records = run.records()
    assert [r["allowed"] for r in agent.events(records, "decision")] == [True]
