# SPDX-License-Identifier: MIT
"""A configuration that changes under a shared keeper: what goes on, and what counts at once."""
import os
import pathlib
import secrets
import signal

import agent
import checks
import egress
import origin as upstream
import pytest
import shared

POST = agent.post({"model": "m"})
ENVIRON = "import os; result = dict(os.environ)"
OTHER = "ghp_" + secrets.token_hex(18)


def stream_all(connection):
    """A script: every request gets a stream, and nothing more by itself."""
    for _ in connection.requests():
        connection.send(upstream.CHUNKED + upstream.chunk(shared.EVENT))


def open_host_stream(run, placeholder, host="api.test"):
    wire = egress.connect(run, host)
    wire.send(egress.request("GET", "/events", f"X-Key: {placeholder}", host=host))
    assert wire.head().status == 200
    wire.until(shared.EVENT + b"\r\n")
    return wire


def finish(connection, wire):
    """The stream goes on to an end that a client takes for one."""
    connection.send(upstream.chunk(b"data: last\n\n") + upstream.LAST_CHUNK)
    assert b"data: last" in wire.until(upstream.LAST_CHUNK)


def reloads(keeper):
    samples = keeper.metrics()
    return tuple(samples["warder_reloads_total", "result", how] for how in ("done", "failed"))


# ---- rules ----

def test_new_rules_count_for_the_next_request(place, https):
    config = shared.merge(shared.host(https, secret=False), shared.host(https, "other.test", False))
    config["allow"] = ["api.test"]
    https.script = lambda connection: (stream_all if connection.number == 0
                                       else upstream.answer_all)(connection)
    with shared.keeper(place, config) as keeper, keeper.run() as run:
        wire = open_host_stream(run, "nothing")
        egress.assert_refused(egress.ask(run, host="other.test"), 403, "host_not_allowed")
        keeper.reload({"allow": ["api.test", "other.test"]})
        assert egress.ask(run, host="other.test").status == 200
        kept = egress.connect(run, "other.test")
        assert kept.ask(egress.request(host="other.test")).status == 200
        # And the other way round; what is under way was allowed when it began.
        keeper.reload({"allow": ["GET nowhere.test"]})
        egress.assert_refused(kept.ask(egress.request(host="other.test")), 403, "host_not_allowed")
        egress.assert_refused(egress.ask(run), 403, "host_not_allowed")
        finish(https.connections[0], wire)
        assert reloads(keeper) == (2, 0)
        with keeper.run() as later:
            egress.assert_refused(egress.ask(later), 403, "host_not_allowed")
    keeper.verify()


def test_new_limits_count_for_the_next_request(user_place, origin):
    config = shared.llm(origin, limits={"requests": "1/m", "burst": 1})
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        assert [run.ask(POST).status for _ in range(2)] == [200, 429]
        keeper.reload({"limits": {"burst": 3}})
        assert [run.ask(POST).status for _ in range(3)] == [200, 200, 429]
        keeper.reload({"limits": None})
        assert run.ask(POST).status == 200


def test_a_new_time_counts_from_when_the_run_began(user_place, origin):
    origin.script = shared.answer_or_stream
    with shared.keeper(user_place, shared.llm(origin)) as keeper, keeper.run() as run:
        wire = shared.open_stream(run)
        keeper.reload({"limits": {"duration": "1h"}})
        assert run.ask(POST).status == 200
        keeper.reload({"limits": {"duration": "1ms"}})  # it is older already
        shared.assert_cut(wire, "run_time_over")
        assert run.ask(POST).code() == "run_time_over"
        keeper.reload({"limits": None})
        assert run.ask(POST).status == 200


def test_new_limits_for_hosts_count_what_was_sent(user_place, https):
    def status(run):
        return egress.ask(run, egress.request("POST", "/", body=b"x" * 10000)).status

    with shared.keeper(user_place, shared.host(https, secret=False)) as keeper, keeper.run() as run:
        assert status(run) == 200
        for limit in ("12K", "1K"):  # of which most is used, and more than all
            keeper.reload({"limits": {"egress": limit}})
            assert status(run) == 413
        keeper.reload({"limits": {"egress": "100K"}})
        assert status(run) == 200


# ---- keys and secrets ----

def test_a_new_key_is_used_for_the_next_request(place, origin):
    origin.script = shared.answer_or_stream
    key = place.write("key", "sk-first-" + shared.KEY, 0o600)
    config = {"llm": {"upstream": origin.url, "key": f"file:{key}"}}
    with shared.keeper(place, config) as keeper, keeper.run() as run:
        wire = shared.open_stream(run)
        assert run.ask(POST).status == 200
        place.write("key", "sk-second-" + shared.KEY, 0o600)
        assert run.ask(POST).status == 200  # it is read when that is asked for
        keeper.reload()
        assert run.ask(POST).status == 200
        sent = [request.values("authorization") for request in origin.requests]
        assert sent == [[f"Bearer sk-{which}-{shared.KEY}"]
                        for which in ("first", "first", "first", "second")]
        finish(origin.connections[0], wire)


def test_a_removed_secret_is_cut_off_at_once(place, https):
    https.script = stream_all
    config = shared.merge(shared.host(https), shared.host(https, "other.test", False))
    config["secrets"]["OTHER_TOKEN"] = {"from": "env:OTHER_TOKEN", "hosts": ["other.test"]}
    config["allow"] = ["api.test"]
    with shared.keeper(place, config, env={"OTHER_TOKEN": OTHER}) as keeper, keeper.run() as run:
        environ = run.python(ENVIRON)
        wires = [open_host_stream(run, environ[name], host)
                 for name, host in (("API_TOKEN", "api.test"), ("OTHER_TOKEN", "other.test"))]
        assert [request.values("x-key") for request in https.requests] == [[shared.TOKEN], [OTHER]]
        keeper.reload({"dns": "explain"})  # the control: it is not the reload that cuts
        assert keeper.ps()[0]["exchanges"] == 2
        keeper.reload({"secrets": {"API_TOKEN": None}})
        shared.assert_cut(wires[0], "secret_withdrawn")
        finish(https.connections[1], wires[1])
        # Its placeholder is a text like any other now; that of the other one is the same as ever.
        https.script = upstream.answer_all
        for name, host, value in (("API_TOKEN", "api.test", environ["API_TOKEN"]),
                                  ("OTHER_TOKEN", "other.test", OTHER)):
            ask = egress.request("GET", "/", f"X-Key: {environ[name]}", host=host)
            assert egress.ask(run, ask, host).status == 200
            assert https.requests[-1].values("x-key") == [value]
        ended = [r["ended"] for r in keeper.outcomes(4)]
        assert ended.count("secret_withdrawn") == 1
    keeper.verify()


def test_placeholders_stay_the_same_through_reloads(user_place, https):
    with shared.keeper(user_place, shared.host(https)) as keeper, keeper.run() as run:
        placeholder = run.python(ENVIRON)["API_TOKEN"]
        ask = egress.request("GET", "/", f"X-Key: {placeholder}")
        for _ in range(3):
            keeper.reload({"timeouts": {"connect": "9s"}})
            assert egress.ask(run, ask).status == 200
            assert https.requests[-1].values("x-key") == [shared.TOKEN]


def test_an_llm_that_is_taken_away_is_cut_off_at_once(user_place, origin, https):
    origin.script = shared.answer_or_stream
    config = shared.merge(shared.llm(origin), shared.host(https, secret=False))
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        wire = shared.open_stream(run)
        keeper.reload({"llm": None})
        shared.assert_cut(wire, "secret_withdrawn")
        reply = run.ask(POST)
        assert reply.status in (403, 404) and len(origin.requests) == 1
        assert egress.ask(run).status == 200
        # Control: it comes back.
        keeper.reload(shared.llm(origin))
        assert run.ask(POST).status == 200


def test_a_new_value_is_scrubbed_and_the_old_one_is_not_sent_any_more(user_place, https):
    https.script = lambda connection: [connection.answer(request.values("x-key")[0].encode())
                                       for request in connection.requests()]
    token = user_place.write("token", shared.TOKEN, 0o600)
    config = shared.host(https)
    config["secrets"]["API_TOKEN"]["from"] = f"file:{token}"
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        placeholder = run.python(ENVIRON)["API_TOKEN"]
        ask = egress.request("GET", "/", f"X-Key: {placeholder}")
        assert egress.ask(run, ask).body == placeholder.encode()
        user_place.write("token", OTHER, 0o600)
        keeper.reload()
        assert egress.ask(run, ask).body == placeholder.encode()
        assert [r.values("x-key") for r in https.requests] == [[shared.TOKEN], [OTHER]]


# ---- files that cannot be used ----

def spoil_json(keeper):
    keeper.write(keeper.file.read_text()[:-1])


def spoil_key(keeper):
    keeper.configure({"alow": ["api.test"]})


def spoil_value(keeper):
    keeper.configure({"limits": {"requests": "many"}})


def spoil_source(keeper):
    keeper.configure({"secrets": {"GONE": {"from": "env:NOT_SET", "hosts": ["api.test"]}}})


def spoil_file(keeper):
    keeper.file.unlink()


def spoil_rule(keeper):
    keeper.configure({"allow": ["*"]})


@pytest.mark.parametrize("spoil, words", [
    (spoil_json, "keeper.json"), (spoil_key, "alow"), (spoil_value, "requests"),
    (spoil_source, "NOT_SET"), (spoil_file, "keeper.json"), (spoil_rule, "*"),
])
def test_a_file_that_cannot_be_used_changes_nothing(user_place, origin, https, spoil, words):
    origin.script = shared.answer_or_stream
    config = shared.merge(shared.llm(origin), shared.host(https))
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        placeholder = run.python(ENVIRON)["API_TOKEN"]
        wire = shared.open_stream(run)
        before = keeper.file.read_text()
        spoil(keeper)
        line = keeper.reload(event="reload_failed")
        assert line["level"] == "error" and words in line["text"]
        assert keeper.get("/readyz")[0] == 200
        assert run.ask(POST).status == 200
        ask = egress.request("GET", "/", f"X-Key: {placeholder}")
        assert egress.ask(run, ask).status == 200
        assert https.requests[-1].values("x-key") == [shared.TOKEN]
        with keeper.run() as later:
            assert later.ask(POST).status == 200
        finish(origin.connections[0], wire)
        assert reloads(keeper) == (0, 1)
        # Control: the same file as before can be read.
        keeper.write(before)
        keeper.reload()
        assert reloads(keeper) == (1, 1)
        for value in (shared.KEY, shared.TOKEN):
            assert value not in keeper.stderr()


# ---- many ----

def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def test_two_hundred_reloads_leave_nothing_behind(root_place, origin, https):
    origin.script = shared.answer_or_stream
    config = shared.merge(shared.llm(origin), shared.host(https))
    with shared.keeper(root_place, config) as keeper, keeper.run() as run, keeper.run() as other:
        pid = keeper.pid()
        placeholder = run.python(ENVIRON)["API_TOKEN"]
        wire = shared.open_stream(run)
        kept = run.connect()

        def turn(number):
            keeper.configure({"allow": [f"host-{number}.test"]})
            keeper.send(signal.SIGHUP)
            keeper.wait_for("reloaded", number + 1)
            if number % 10 == 0:
                assert kept.ask(POST).status == other.ask(POST).status == 200
                ask = egress.request("GET", "/", f"X-Key: {placeholder}")
                assert egress.ask(run, ask).status == 200

        for number in range(41):
            turn(number)
        before = descriptors(pid), resident(pid)
        for number in range(41, 201):
            turn(number)
        assert https.requests[-1].values("x-key") == [shared.TOKEN]
        checks.wait_until(lambda: descriptors(pid) <= before[0])
        if not shared.IS_SANITIZED:  # a sanitizer keeps what was freed
            assert resident(pid) < before[1] + (2 << 20)
        finish(origin.connections[0], wire)
        assert reloads(keeper) == (201, 0)
