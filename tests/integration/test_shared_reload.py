# SPDX-License-Identifier: MIT
"""A configuration that changes under a shared keeper: what goes on, and what counts at once."""
import contextlib
import errno
import os
import secrets
import signal
import ssl
import struct

import agent
import checks
import egress
import handover
import harness
import link
import origin as upstream
import proc
import pytest
import shared
import siege

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


KEYS = {"KEY_A": "sk-a-" + shared.KEY, "KEY_B": "sk-b-" + shared.KEY}


def by_model(origin, *names, provider="litellm"):
    """LLMs, each with its key, that are the same place."""
    return [{"match": f"{name}-*", "upstream": origin.url, "key": f"env:KEY_{name.upper()}",
             "provider": provider} for name in names]


def bearer(request):
    return request.values("authorization")


def test_of_two_keys_for_one_place_one_is_taken_away(user_place, origin):
    origin.script = shared.answer_or_stream
    with shared.keeper(user_place, {"llm": by_model(origin, "a", "b")}, env=KEYS) as keeper, \
            keeper.run() as run:
        wires = {name: shared.open_stream(run, model=f"{name}-1") for name in "ab"}
        assert [bearer(r) for r in origin.requests] == [[f"Bearer {KEYS['KEY_' + n]}"] for n in "AB"]
        keeper.reload({"llm": by_model(origin, "b", "a")})  # the control: the same two
        assert keeper.ps()[0]["exchanges"] == 2
        keeper.reload({"llm": by_model(origin, "a")})
        shared.assert_cut(wires["b"], "secret_withdrawn")
        finish(origin.connections[0], wires["a"])


def test_a_host_that_a_secret_is_not_for_any_more_is_cut_off(user_place, https):
    https.script = stream_all
    hosts = ["api.test", "other.test"]
    config = shared.merge(shared.host(https), shared.host(https, "other.test", False))
    config["secrets"]["API_TOKEN"]["hosts"] = hosts
    config["allow"] = hosts
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        placeholder = run.python(ENVIRON)["API_TOKEN"]
        wires = [open_host_stream(run, placeholder, host) for host in hosts]
        assert [request.values("x-key") for request in https.requests] == [[shared.TOKEN]] * 2
        keeper.reload({"secrets": {"API_TOKEN": {"hosts": ["*.test"]}}})  # the control: it may still
        assert keeper.ps()[0]["exchanges"] == 2
        keeper.reload({"secrets": {"API_TOKEN": {"hosts": ["api.test"]}}})
        shared.assert_cut(wires[1], "secret_withdrawn")
        finish(https.connections[0], wires[0])


# ---- requests that are not decided yet ----

@pytest.fixture
def held(origin):
    """A keeper whose requests are held until their model is known, and a gate."""
    with siege.keeper(env=KEYS, llm=by_model(origin, "a", "b", provider="openai")) as keeper:
        run = siege.join(keeper, "run")
        yield keeper, run.gate
        run.close()


def open_held(keeper, gate, number):
    """A request whose body is not there; the keeper has read that much."""
    gate.open(number, None)
    assert gate.ask(number + 100, b"", path="/nowhere").status == 404


def end_held(gate, number, model):
    gate.send(link.DATA, number, b'{"model":"%s"}' % model.encode())
    gate.send(link.END, number, link.fields(()))
    return gate.reply(number)


def test_a_request_that_waits_for_its_model_is_judged_by_what_is_new(held, origin):
    keeper, gate = held
    open_held(keeper, gate, 1)
    assert end_held(gate, 1, "b-1").status == 200  # the control: it may be used
    for number in (2, 3):
        open_held(keeper, gate, number)
    keeper.config["llm"] = by_model(origin, "a", provider="openai")
    keeper.reload()
    assert end_held(gate, 2, "b-1").code() == "no_such_model"
    assert end_held(gate, 3, "a-1").status == 200
    assert [bearer(r) for r in origin.requests] == [[f"Bearer {KEYS['KEY_' + n]}"] for n in "BA"]


def test_a_request_that_waits_for_its_end_is_judged_by_what_is_new(origin, tmp_path):
    """Where its route was known before, it is looked for again."""
    file = tmp_path / "key"
    file.write_text("first-" + shared.KEY)
    config = {"upstream": origin.url, "key": f"file:{file}"}
    with siege.keeper(env=KEYS, llm=config) as keeper:
        run = siege.join(keeper, "run")
        for number in (1, 2, 3):
            open_held(keeper, run.gate, number)
        assert end_held(run.gate, 1, "m").status == 200
        file.write_text("second-" + shared.KEY)
        keeper.reload()
        assert end_held(run.gate, 2, "m").status == 200
        assert [bearer(r) for r in origin.requests] == [[f"Bearer {which}-{shared.KEY}"]
                                                        for which in ("first", "second")]
        keeper.config["llm"] = by_model(origin, "a", provider="openai")
        keeper.reload()
        assert run.gate.reply(3).code() == "secret_withdrawn"  # before it has ended
        assert len(origin.requests) == 2
        run.close()


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


# ---- nothing at all ----

def test_who_names_nothing_has_forgotten_something(user_place):
    user_place.install()
    for options in ((), ("--store", "memory:")):
        done = user_place.warder("keeper", *options)
        assert done.returncode == 125
        checks.assert_one_line(done.stderr, "keeper: nothing to serve: --config FILE, or --llm URL")


def test_a_file_may_cut_everything_off(user_place, origin):
    with shared.keeper(user_place, {"dns": "explain"}) as keeper, keeper.run() as run:
        assert keeper.wait_for("nothing_allowed")["level"] == "warn"
        with pytest.raises((OSError, AssertionError)):
            run.ask(POST)  # there is no LLM that it could listen for
        keeper.reload(shared.llm(origin))
        with keeper.run() as later:
            assert later.ask(POST).status == 200
            assert len(keeper.log("nothing_allowed")) == 1  # the control: something is
            keeper.reload({"llm": None})
            assert later.ask(POST).status == 404
        assert [line["event"] for line in keeper.log() if not line["event"].startswith("run_")] == [
            "ready", "nothing_allowed", "reloaded", "reloaded", "nothing_allowed"]


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


def spoil_certificate(path):
    path.write_text("nothing of the kind")


def spoil_certificate_file(path):
    path.unlink()


@pytest.mark.parametrize("spoil", [spoil_certificate, spoil_certificate_file])
def test_a_certificate_that_cannot_be_used_changes_nothing(root_place, origin, certificates, spoil):
    """Nor do rules, limits and users that came along with it."""
    holder, port = upstream.refusing_port()
    settings = handover.tls_settings(certificates, port)
    pem = root_place.top / "keeper.pem"
    settings["keeper"]["cert"] = str(pem)
    der = {}
    for name in ("other", "keeper"):
        pem.write_text((certificates.top / f"{name}.pem").read_text())
        der[name] = ssl.PEM_cert_to_DER_cert(pem.read_text())
    with holder, shared.keeper(root_place, shared.merge(shared.llm(origin), settings),
                               env={"SANDBOX_ENABLED": "1"}) as keeper, keeper.run() as run:
        spoil(pem)
        line = keeper.reload({"llm": None}, event="reload_failed")
        assert str(pem) in line["text"]
        assert run.ask(POST).status == 200
        assert handover.certificate_at(port) == der["keeper"]
        assert not keeper.log("reloaded") and reloads(keeper) == (0, 1)
        # Control: with one that can be, all of it counts.
        pem.write_text((certificates.top / "other.pem").read_text())
        keeper.reload({"keeper": {"cert_key": f"file:{certificates.top}/other.key"}})
        assert run.ask(POST).status == 404
        assert handover.certificate_at(port) == der["other"]
        assert reloads(keeper) == (1, 1)


# ---- commands ----

def llm_key(origin, source):
    return {"llm": {"upstream": origin.url, "key": source}}


def keys_sent(origin):
    return [request.values("authorization") for request in origin.requests]


def test_a_command_that_takes_its_time_holds_nobody_up(place, origin):
    """Streams go on, requests are judged as before, and runs begin."""
    origin.script = shared.answer_or_stream
    fifo = place.top / "fifo"
    os.mkfifo(fifo, 0o600)
    place.own(fifo)
    command = place.write("command", f"echo {shared.KEY}", 0o600)
    with shared.keeper(place, llm_key(origin, f"exec:. {command}")) as keeper, keeper.run() as run:
        wire = shared.open_stream(run)
        place.write("command", f"cat {fifo}", 0o600)
        keeper.send(signal.SIGHUP)
        with open_when_read(fifo) as key:  # so the command runs
            origin.connections[0].send(upstream.chunk(b"data: 2\n\n"))
            wire.until(b"data: 2")
            assert run.ask(POST).status == 200
            with keeper.run() as later:
                assert later.ask(POST).status == 200
            assert reloads(keeper) == (0, 0)
            key.write("sk-late\n")
        keeper.wait_for("reloaded")
        assert run.ask(POST).status == 200
        old, new = [f"Bearer {shared.KEY}"], ["Bearer sk-late"]
        assert keys_sent(origin) == [old, old, old, new]
        finish(origin.connections[0], wire)


@contextlib.contextmanager
def open_when_read(fifo):
    """The other end of a command's pipe, when that is there."""

    def find():
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return None

    with open(checks.wait_until(find, 20), "w", encoding="ascii") as file:
        yield file


def test_asked_again_meanwhile_it_is_read_again(root_place, origin):
    fifo = root_place.top / "fifo"
    os.mkfifo(fifo, 0o600)
    with shared.keeper(root_place, shared.llm(origin)) as keeper:
        with keeper.run() as run:
            keeper.configure(llm_key(origin, f"exec:cat {fifo}"))
            keeper.send(signal.SIGHUP)
            with open_when_read(fifo) as key:
                keeper.send(signal.SIGHUP)
                keeper.ps()  # the signal has been seen
                key.write("sk-first")
            keeper.wait_for("reloaded")
            with open_when_read(fifo) as key:
                assert run.ask(POST).status == 200
                key.write("sk-second")
            keeper.wait_for("reloaded", 2)
            assert run.ask(POST).status == 200
        assert keys_sent(origin) == [["Bearer sk-first"], ["Bearer sk-second"]]
        # One that is under way when the keeper ends is ended.
        keeper.send(signal.SIGHUP)
        with open_when_read(fifo), contextlib.suppress(BrokenPipeError):
            assert keeper.end() == 0


@pytest.mark.parametrize("command, words", [
    ("exit 3", "status 3"), ("true", "is empty"),
    ("echo sk-late; exec >&-; sleep {}", "has not ended within 30 s"),
    ("sleep {} & echo sk-late", "has not ended within 30 s"),
])
def test_a_command_that_does_not_end_well_changes_nothing(root_place, origin, tmp_path, command, words):
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("<qq", 0, 0))
    marker = f"{secrets.randbelow(10 ** 6) + 10 ** 6}"
    preload = str(harness.BUILD / "tests" / "support" / "libshift_clock.so")
    env = {"LD_PRELOAD": preload, "SHIFT_CLOCK": str(clock), "ASAN_OPTIONS": "verify_asan_link_order=0"}
    with shared.keeper(root_place, shared.llm(origin), env=env) as keeper, keeper.run() as run:
        keeper.configure(llm_key(origin, "exec:" + command.format(marker)))
        keeper.send(signal.SIGHUP)
        if "30 s" in words:
            checks.wait_until(lambda: checks.pids_of(marker))
            assert run.ask(POST).status == 200 and not keeper.log("reload_failed")
            with open(clock, "r+b") as file:
                file.write(struct.pack("<qq", 31, 0))
            keeper.ps()  # it looks at its clock
        assert words in keeper.wait_for("reload_failed")["text"]
        checks.wait_until_gone(marker)
        assert run.ask(POST).status == 200 and reloads(keeper) == (0, 1)
        assert set(map(tuple, keys_sent(origin))) == {(f"Bearer {shared.KEY}",)}


# ---- what counts at the next start ----

def test_what_needs_a_restart_is_said(user_place, origin):
    with shared.keeper(user_place, shared.llm(origin)) as keeper, keeper.run() as run:
        keeper.reload({"limits": {"requests": "60/m"}})  # the control: there is nothing to say
        assert not keeper.log("restart_needed")
        changed = {"store": "memory:", "admin": "tcp:127.0.0.1:1", "log": "text", "control_mode": "0666"}
        keeper.reload({"keeper": changed, "audit": {"file": str(keeper.top / "other.jsonl")}})
        line = keeper.wait_for("restart_needed")
        assert line["level"] == "warn"
        assert line["text"].split(", ") == ["control-mode", "admin", "store", "log", "audit"]
        # It is as it was meanwhile.
        assert run.ask(POST).status == 200
        assert keeper.get("/readyz")[0] == 200 and keeper.outcomes(1)
        assert os.stat(keeper.path).st_mode & 0o777 == 0o600


# ---- many ----

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
        before = proc.descriptors(pid), proc.rss_kib(pid)
        for number in range(41, 201):
            turn(number)
        assert https.requests[-1].values("x-key") == [shared.TOKEN]
        checks.wait_until(lambda: proc.descriptors(pid) <= before[0])
        if not shared.IS_SANITIZED:  # a sanitizer keeps what was freed
            assert proc.rss_kib(pid) < before[1] + (2 << 10)
        finish(origin.connections[0], wire)
        assert reloads(keeper) == (201, 0)
