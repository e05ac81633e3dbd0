# SPDX-License-Identifier: MIT
"""Runs of a shared keeper: who they are, what they are given, and how they end."""
import agent
import checks
import egress
import origin as upstream
import proc
import pytest
import shared

POST = agent.post({"model": "m"})
ENVIRON = "import os; result = dict(os.environ)"


def both(origin, https):
    """Settings with an LLM and a host."""
    return shared.merge(shared.llm(origin), shared.host(https))


def refused_links(keeper):
    return [(r.get("runId"), r["reason"]) for r in keeper.records("decision")
            if r["method"] == "LINK" and not r["allowed"]]


# ---- what a run is given ----

@pytest.mark.parametrize("link", ["unix", "tls"])
def test_a_run_has_the_keepers_llm_hosts_and_secrets(place, origin, https, certificates, link):
    https.script = lambda connection: [connection.answer(request.values("x-key")[0].encode())
                                       for request in connection.requests()]
    with shared.keeper(place, both(origin, https), certificates=certificates) as keeper, \
            keeper.run_of(link, "r-1", "-v") as run:
        assert run.ask(POST).status == 200
        request = origin.requests[0]
        assert request.values("authorization") == [f"Bearer {shared.KEY}"]
        assert request.values("x-litellm-end-user-id") == ["r-1/0"]
        environ = run.python(ENVIRON)
        assert environ["RUN_ID"] == "r-1"
        reply = egress.ask(run, egress.request("GET", "/", f"X-Key: {environ['API_TOKEN']}"))
        assert (reply.status, reply.body) == (200, environ["API_TOKEN"].encode())  # and not what was sent
        assert https.requests[0].values("x-key") == [shared.TOKEN]
        # What is not in its configuration is not to be had.
        reply = egress.ask(run, host="other.test")
        egress.assert_refused(reply, 403, "host_not_allowed")
        assert run.end() == 0
        assert "3 requests, 1 refused" in run.stderr()
        assert str(keeper.audit) in run.stderr()
        assert "refused: other.test" in run.stderr() and ", cgroup " in run.stderr()
        shared.assert_clean(run.stderr())
        for value in (shared.KEY, shared.TOKEN, shared.TOKEN_KEY):
            assert value not in run.stderr() and value not in environ.values()
    assert {record["runId"] for record in keeper.records()} == {"r-1"}
    keeper.verify()


def test_every_run_has_placeholders_of_its_own(user_place, https):
    with shared.keeper(user_place, shared.host(https)) as keeper, \
            keeper.run() as one, keeper.run() as other:
        mine, foreign = (run.python(ENVIRON)["API_TOKEN"] for run in (one, other))
        assert mine != foreign and len(mine) == len(foreign) == len(shared.TOKEN)
        assert egress.ask(one, egress.request("GET", "/", f"X-Key: {foreign}")).status == 200
        assert https.requests[-1].values("x-key") == [foreign]  # which is worth nothing
        # Control: its own is replaced.
        assert egress.ask(one, egress.request("GET", "/", f"X-Key: {mine}")).status == 200
        assert https.requests[-1].values("x-key") == [shared.TOKEN]


@pytest.mark.parametrize("lines", [
    ("x-litellm-end-user-id: r-2/0",),
    ("x-litellm-spend-logs-metadata: {\"run_id\":\"r-2\"}", "X-Run-Id: r-2", "RUN_ID: r-2"),
    ("X-Run-Token: r-2|0|4102444800.qxjfTtSccy7Iu7U32nPpSzAimctP20vbcw5tOba-WPk",),
])
def test_an_agent_cannot_be_another_run(user_place, origin, lines):
    body = {"model": "m", "user": "r-2/0", "metadata": {"user_id": "r-2/0"}}
    with shared.keeper(user_place, shared.llm(origin)) as keeper, \
            keeper.run("--run-id", "r-1") as run, keeper.run("--run-id", "r-2") as other:
        assert run.ask(agent.post(body, *lines)).status == 200
        request = origin.requests[0]
        assert request.values("x-litellm-end-user-id") == ["r-1/0"]
        assert b"r-2" not in request.body
        assert keeper.show("r-1")["allowed"] == 1 and keeper.show("r-2")["allowed"] == 0
        # Control: the other run is there, and this is what its requests look like.
        assert other.ask(POST).status == 200
        assert origin.requests[1].values("x-litellm-end-user-id") == ["r-2/0"]
    assert {record["runId"] for record in keeper.records("decision")} == {"r-1", "r-2"}


def test_the_operator_names_run_attempt_account_and_metadata(user_place, origin):
    options = ("--run-id", "r-7", "--attempt", "3", "--billing-account", "team-7", "--metadata",
               "job=nightly")
    with shared.keeper(user_place, shared.llm(origin)) as keeper, keeper.run(*options) as run:
        assert run.ask(POST).status == 200
        request = origin.requests[0]
        assert request.values("x-litellm-end-user-id") == ["team-7"]
        logged = request.values("x-litellm-spend-logs-metadata")[0]
        assert '"r-7"' in logged and '"nightly"' in logged
        shown = keeper.show("r-7")
        assert (shown["attempt"], shown["account"]) == (3, "team-7")


def test_a_shared_keeper_gives_what_a_private_one_does(user_place, origin, https):
    secret = ("--secret", "API_TOKEN=env:API_TOKEN@api.test")
    private = (*agent.llm(origin), *secret, *egress.mapped(https), *egress.trusted(https))
    with agent.run(user_place, *private, "--run-id", "r-1", env=shared.ENV) as run:
        expected = run.python(ENVIRON)
    with shared.keeper(user_place, both(origin, https)) as keeper, \
            keeper.run("--run-id", "r-1", env=shared.ENV) as run:
        found = run.python(ENVIRON)
    assert expected.pop("API_TOKEN") != found.pop("API_TOKEN")
    assert found == expected and "OPENAI_BASE_URL" in found


@pytest.mark.parametrize("options, words", [
    (("--llm", "http://127.0.0.1:1"), "--llm"),
    (("--allow-net", "api.test"), "--allow-net"),
    (("--secret", "A=env:HOME@api.test"), "--secret"),
    (("--limit", "run:requests=1"), "--limit"),
    (("--audit", "/tmp/other.jsonl"), "--audit"),
])
def test_what_the_keeper_decides_is_not_the_runs_to_say(user_place, origin, options, words):
    with shared.keeper(user_place, shared.llm(origin)) as keeper:
        checks.assert_refused(user_place, ("--keeper", keeper.address, *options), words)
        # Control: without it the run begins.
        assert user_place.run("true", options=("--keeper", keeper.address)).returncode == 0


def test_without_a_keeper_nothing_is_started(place):
    missing = f"unix:{place.top}/missing.sock"
    checks.assert_refused(place, ("--keeper", missing), "no keeper listens at", "warder keeper")


# ---- one link at a time ----

def test_a_run_has_one_link_at_a_time(place, origin):
    with shared.keeper(place, shared.llm(origin)) as keeper:
        options = ("--keeper", keeper.address, "--run-id", "r-1")
        with keeper.run("--run-id", "r-1") as run:
            done = place.run(*checks.LEAVE_MARKER, options=options)
            assert done.returncode == 125
            checks.assert_one_line(done.stderr, "run r-1 has a link already")
            assert not (place.workspace / checks.MARKER).exists()
            checks.wait_until(lambda: refused_links(keeper) == [("r-1", "run_has_link")])
            assert keeper.log("run_refused")[0]["code"] == "run_has_link"
            # The first one does not suffer, and another run may begin.
            assert run.ask(POST).status == 200
            with keeper.run("--run-id", "r-2"):
                assert keeper.run_ids() == ["r-1", "r-2"]
            assert run.end() == 0
        checks.wait_until(lambda: not keeper.run_ids())
        # Control: it may begin again.
        assert place.run("true", options=options).returncode == 0
        assert refused_links(keeper) == [("r-1", "run_has_link")]
    keeper.verify()


# ---- ends that nobody announced ----

def test_a_killed_supervisor_takes_its_run_with_it(place, origin):
    origin.script = shared.answer_or_stream
    with shared.keeper(place, shared.llm(origin)) as keeper:
        with keeper.run("--run-id", "r-1") as run, keeper.run("--run-id", "r-2") as other:
            shared.open_stream(run)
            stream = shared.open_stream(other)
            pids = run.pids()
            agent.as_root("kill", "-KILL", pids["supervisor"])
            for pid in pids.values():
                checks.wait_until(lambda pid=pid: not proc.is_alive(pid))
            checks.wait_until(lambda: keeper.run_ids() == ["r-2"])
            ended = [r["ended"] for r in keeper.outcomes(1, "r-1")]
            assert ended in (["owner_gone"], ["gate_gone"])  # whichever was seen first
            # The other one has not noticed.
            origin.connections[1].send(upstream.chunk(b"data: 2\n\n"))
            assert b"data: 2" in stream.until(b"2\n\n\r\n")
            with keeper.run("--run-id", "r-1") as again:
                assert again.ask(POST).status == 200
    keeper.verify()


def test_a_killed_gate_ends_its_run_at_the_keeper(place, origin):
    origin.script = shared.answer_or_stream
    with shared.keeper(place, shared.llm(origin)) as keeper, keeper.run("--run-id", "r-1") as run:
        wire = shared.open_stream(run)
        agent.as_root("kill", "-KILL", run.pids()["gate"])
        assert not shared.read_to_end(wire)[1]
        checks.wait_until(lambda: not keeper.run_ids())
        assert [r["ended"] for r in keeper.outcomes(1)] == ["gate_gone"]
        with pytest.raises(ConnectionRefusedError):
            run.connect()
        assert run.end() == 0
        assert "the gateway ended before the run did" in run.stderr()


def test_a_killed_keeper_breaks_streams_and_the_run_says_so(place, origin):
    origin.script = shared.answer_or_stream
    with shared.keeper(place, shared.llm(origin)) as keeper:
        with keeper.run("--run-id", "r-1") as run:
            wires = [shared.open_stream(run) for _ in range(3)]
            gate = run.pids()["gate"]
            keeper.kill()
            for wire in wires:
                assert not shared.read_to_end(wire)[1]
            checks.wait_until(lambda: not proc.is_alive(gate))
            for address in ("127.0.0.1", "::1"):
                with pytest.raises(ConnectionRefusedError):
                    run.connect(address)
            assert run.python("result = 1 + 1") == 2  # the agent itself goes on
            assert run.end() == 0
            assert "the gateway ended before the run did" in run.stderr()
        # The next one takes its place, and the run is free to begin again.
        keeper.start()
        with keeper.run("--run-id", "r-1") as run:
            assert run.ask(POST).status == 200
    keeper.verify()


def test_a_run_does_not_begin_with_a_keeper_that_is_stopped(user_place, origin):
    with shared.keeper(user_place, shared.llm(origin)) as keeper:
        keeper.end()
        options = ("--keeper", keeper.address)
        checks.assert_refused(user_place, options, "no keeper listens at")
        keeper.start()
        assert user_place.run("true", options=options).returncode == 0
