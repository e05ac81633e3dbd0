# SPDX-License-Identifier: MIT
"""INV-BOUNDED: how many bytes may leave, in a run and for each host."""
import agent
import egress
import origin as upstream
import pytest


def other(https):
    return ("--allow-net", "other.test", *egress.mapped(https, "other.test"))


def post(size, host=egress.HOST, framing="length"):
    if framing == "length":
        return egress.request("POST", "/", host=host, body=b"x" * size)
    pieces = b"".join(upstream.chunk(b"x" * min(1000, size - at)) for at in range(0, size, 1000))
    return egress.request("POST", "/", "Transfer-Encoding: chunked", host=host) + pieces + upstream.LAST_CHUNK


def sent(https):
    return sum(len(request.body) for request in https.requests)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_request_beyond_the_limit_is_refused(user_place, https, framing):
    with agent.run(user_place, *egress.allowed(https), "--egress-limit", "20K") as run:
        assert egress.ask(run, post(8000, framing=framing)).status == 200  # control
        egress.assert_refused(egress.ask(run, post(15000, framing=framing)), 413, "egress_budget")
    whole = [request for request in https.requests if len(request.body) in (8000, 15000)]
    assert len(whole) == 1


def test_what_is_refused_by_its_length_does_not_use_the_limit_up(user_place, https):
    with agent.run(user_place, *egress.allowed(https), "--egress-limit", "20K") as run:
        for _ in range(3):
            egress.assert_refused(egress.ask(run, post(30000)), 413, "egress_budget")
        assert egress.ask(run, post(15000)).status == 200
    assert sent(https) == 15000


def test_each_host_has_a_limit_of_its_own(user_place, https):
    options = (*egress.allowed(https), *other(https), "--egress-limit-host", "10K")
    with agent.run(user_place, *options) as run:
        for host in (egress.HOST, "other.test"):
            assert egress.ask(run, post(8000, host), host).status == 200
            egress.assert_refused(egress.ask(run, post(8000, host), host), 413, "egress_budget")
    assert sent(https) == 16000


def test_the_run_has_one_for_all(user_place, https):
    options = (*egress.allowed(https), *other(https), "--egress-limit", "12K", "--egress-limit-host", "10K")
    with agent.run(user_place, *options) as run:
        assert egress.ask(run, post(8000)).status == 200
        egress.assert_refused(egress.ask(run, post(8000, "other.test"), "other.test"), 413, "egress_budget")
        assert egress.ask(run, post(2000, "other.test"), "other.test").status == 200


def test_heads_count(user_place, https):
    """Many small requests carry as much out as a large one."""
    with agent.run(user_place, *egress.allowed(https), "--egress-limit", "10K") as run:
        statuses = [egress.ask(run, egress.request("GET", "/" + "x" * 1000)).status for _ in range(12)]
    assert statuses[0] == 200 and statuses[-1] == 413 and 5 <= statuses.count(200) <= 9


def test_a_tunnel_counts(user_place, origin):
    def script(connection):
        connection.take(100_000)

    origin.script = script
    options = ("--allow-net", "tcp://db.test:5432", *egress.mapped(origin, "db.test", 5432), "--egress-limit", "10K")
    with agent.run(user_place, *options) as run:
        wire = run.connect("db.test", 5432)
        with pytest.raises(ConnectionError):
            wire.send(b"x" * 30_000)
            assert wire.more() != b""
    assert len(origin.received()) <= 10240
