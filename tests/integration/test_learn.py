# SPDX-License-Identifier: MIT
"""`warder run --learn`: what was refused, as a draft that a run would take; and it is refused."""
import json
import os
import re

import agent
import checks
import egress
import pytest


@pytest.fixture
def place(user_place):
    user_place.install()
    return user_place


def read(path):
    """The rules of a draft."""
    text = path.read_text()
    assert text.startswith("// warder policy draft: what was refused in run ")
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))["allow"]


def learn(place, ask, *options):
    """Runs with a draft; its path, and what stands on stderr at the end."""
    path = place.home / "draft.json"
    with agent.run(place, "--learn", str(path), *options) as run:
        ask(run)
        assert not path.exists()  # it appears at the end
        assert run.end() == 0
        return path, run.stderr()


def refused_everything(run):
    for data in (egress.request("GET", "/a?query=1"), egress.request("GET", "/a"),
                 egress.request("POST", "/v1/x*y", body=b"x")):
        egress.assert_refused(egress.ask(run, data), 403, "host_not_allowed")
    egress.assert_refused(egress.ask(run, egress.request(host="b.test:8443"), "b.test", 8443), 403, "host_not_allowed")
    wire = run.connect("c.test", 80)
    egress.assert_refused(wire.ask(egress.request(host="c.test")), 403, "host_not_allowed")


def test_what_was_refused_is_drafted(place):
    path, stderr = learn(place, refused_everything)
    assert read(path) == ["GET api.test/a", "POST api.test/v1/x%2Ay", "GET b.test:8443/", "GET c.test/"]
    assert "asked for 2 times\n\t\t\"GET api.test/a\"" in path.read_text()
    assert f"draft: 4 rules for what was refused, in {path}" in stderr
    assert path.stat().st_mode & 0o777 == 0o600
    assert place.warder("check", str(path)).returncode == 0


def test_a_draft_allows_what_was_asked_for_and_no_more(place, https):
    """The whole way: learn, read, run again."""
    path, _ = learn(place, lambda run: egress.ask(run, egress.request("GET", "/a")))
    options = ("--config", str(path), *egress.mapped(https), *egress.trusted(https))
    with agent.run(place, *options) as run:
        assert egress.ask(run, egress.request("GET", "/a?b=c")).status == 200
        egress.assert_refused(egress.ask(run, egress.request("GET", "/b")), 403, "path_not_allowed")
        egress.assert_refused(egress.ask(run, egress.request("POST", "/a", body=b"")), 403, "method_not_allowed")
    assert len(https.requests) == 1


def test_what_is_allowed_is_not_drafted_and_what_is_denied_stays_a_comment(place, https):
    def ask(run):
        assert egress.ask(run, egress.request("GET", "/x")).status == 200
        egress.assert_refused(egress.ask(run, egress.request("GET", "/no")), 403, "denied")

    path, _ = learn(place, ask, *egress.allowed(https), "--deny-net", f"{egress.HOST}/no")
    assert read(path) == []
    assert '// refused by a rule that denies, asked for 1 time: "GET api.test/no"' in path.read_text()


def test_a_draft_is_replaced_and_nothing_else_is(place):
    path, _ = learn(place, refused_everything)
    assert place.run("true", options=("--learn", str(path))).returncode == 0
    assert read(path) == []
    path.write_text('{"allow": ["mine.test"]}')
    os.symlink(path, place.home / "link")
    (place.home / "dir").mkdir()
    for name in ("draft.json", "link", "dir", "nowhere/draft.json"):
        done = place.run(*checks.LEAVE_MARKER, options=("--learn", str(place.home / name)))
        assert done.returncode == 125, name
        checks.assert_one_line(done.stderr, "--learn: ")
    assert path.read_text() == '{"allow": ["mine.test"]}'
    assert not (place.workspace / checks.MARKER).exists()


def test_a_draft_is_not_for_the_agent_to_write(place):
    done = place.run("true", options=("--learn", "draft.json"))
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "the draft 'draft.json' lies in")
