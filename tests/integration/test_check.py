# SPDX-License-Identifier: MIT
"""`warder check`: what a file means, what is odd about it, and what is wrong."""
import json
import secrets

import checks
import pytest

VALUE = "sk-" + secrets.token_hex(16)


@pytest.fixture
def place(user_place):
    user_place.install()
    return user_place


def check(place, settings, mode=0o600):
    text = settings if isinstance(settings, str) else json.dumps(settings)
    path = place.write("warder.json", text, mode)
    done = place.warder("check", str(path))
    assert VALUE not in done.stdout + done.stderr
    return done


def lines(place, settings, what, **kwargs):
    """What is said of one kind."""
    done = check(place, settings, **kwargs)
    assert done.returncode == 0, done.stderr
    return [line.split(None, 1)[1] for line in done.stdout.splitlines() if line.startswith(what + " ")]


def secret(**more):
    return {"value": VALUE, "hosts": ["api.test"], **more}


def test_every_part_is_explained(place):
    done = check(place, {
        "allow": ["GET registry.test/**", "tcp://db.test:5432"], "deny": ["POST registry.test:443/x"],
        "secrets": {"TOKEN": secret(**{"in": ["body"], "inject": {"header": "X-Key"}}),
                    "OTHER": {"from": "exec:pass show token", "hosts": ["*.other.test"]}},
        "services": {"litellm": "10.0.0.5:4000"}, "llm": {"upstream": "http://litellm:4000", "key": "env:K"},
        "limits": {"memory": "2G", "egress": "10M"}, "env": {"NAME": VALUE}, "dns": "deny"})
    assert done.returncode == 0, done.stderr
    for line in ("allow    GET registry.test/**: GET to registry.test, port 443 with TLS or 80 without",
                 "allow    tcp://db.test:5432: any connection to db.test, port 5432; nobody looks into it, "
                 "and no secret goes there",
                 "deny     POST registry.test:443/x: POST to registry.test, port 443, path /x",
                 "allow    api.test: any request to api.test, port 443 with TLS or 80 without (a secret's host)",
                 "secret   TOKEN from this file: goes to api.test with TLS; its placeholder may stand in body; "
                 "X-Key is set in every request there",
                 "secret   OTHER from a command: goes to *.other.test with TLS; its placeholder may stand in "
                 "header, basic, query",
                 "connect  litellm:443 is dialled at 10.0.0.5:4000, public or not",
                 "llm      http://litellm:4000 takes all requests; key from env:K, as litellm",
                 "setting  --memory 2G", "setting  --egress-limit 10M", "setting  --dns deny", "setting  --env NAME"):
        assert line in done.stdout.splitlines(), (line, done.stdout)
    assert done.stdout.splitlines()[-1].endswith("warder.json: in order, 0 warnings")


WARNINGS = {
    "a deny that is outranked": (
        {"allow": ["api.test:443"], "deny": ["POST api.test/x"]},
        "deny 'POST api.test/x' does not hold where allow 'api.test:443' matches"),
    "an allow that is not heard": ({"allow": ["a.test"], "deny": ["a.test"]}, "allow 'a.test' has no effect"),
    "a secret's host that is denied": (
        {"secrets": {"TOKEN": secret()}, "deny": ["api.test"]}, "secret TOKEN cannot go to api.test"),
    "a secret's host on another port": (
        {"secrets": {"TOKEN": secret(hosts=["api.test:8443"])}, "allow": ["api.test"]},
        "secret TOKEN cannot go to api.test:8443"),
    "cleartext": ({"secrets": {"TOKEN": secret(allow_cleartext=True)}}, "secret TOKEN may go out over plain HTTP"),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_what_is_odd_is_said(place, case):
    settings, words = WARNINGS[case]
    found = lines(place, settings, "warning")
    assert len(found) == 1 and found[0].startswith(words), found


def test_an_exception_is_no_warning(place):
    settings = {"allow": ["api.test", "b.test/x"], "deny": ["*.test", "POST api.test/x"]}
    assert not lines(place, settings, "warning")
    assert lines(place, settings, "note")[0] == "allow 'api.test' is an exception from deny '*.test'"


def test_a_file_with_values_that_others_can_read(place):
    assert lines(place, {"TOKEN": secret()}, "warning", mode=0o644)[0].startswith("others may read this file")
    assert not lines(place, {"TOKEN": secret()}, "warning", mode=0o600)
    assert not lines(place, {"allow": ["a.test"]}, "warning", mode=0o644)


def test_nothing_is_opened(place):
    """Neither the command that a secret comes from, nor a file, nor the log."""
    place.write("dir/x", "")
    settings = {"secrets": {"A": {"from": f"exec:touch {place.top}/touched", "hosts": ["a.test"]},
                            "B": {"from": "file:/nowhere/key", "hosts": ["a.test"]}},
                "audit": {"file": "audit.jsonl"}, "llm": {"upstream": "http://nowhere.test", "key": "env:NOT_SET"}}
    assert check(place, settings).returncode == 0
    assert not (place.top / "touched").exists() and not (place.top / "audit.jsonl").exists()


@pytest.mark.parametrize("settings, words", [
    ("{", "warder.json:1: the file ends too early"),
    ({"alow": []}, "did you mean 'allow'?"),
    ({"allow": ["https://a.test"]}, "leave the scheme away"),
    ({"deny": ["get a.test"]}, "methods in capitals"),
    ({"limits": {"memory": "1"}}, "--memory: '1' is too small"),
    ({"secrets": {"TOKEN": secret(hosts=["*"])}}, "secret TOKEN: hosts: '*'"),
    ({"secrets": {"TOKEN": secret(hosts=["10.0.0.1"])}}, "allow_ip_literals"),
    ({"secrets": {"TOKEN": VALUE}}, "secrets.TOKEN must be an object"),
    ({"services": {"a b": "10.0.0.1:1"}}, "is not NAME=ADDRESS:PORT"),
    ({"llm": [{"upstream": "http://a"}, {"upstream": "http://b"}]}, "two upstreams for the same requests"),
])
def test_what_is_wrong_is_said_in_one_line(place, settings, words):
    done = check(place, settings)
    assert (done.returncode, done.stdout) == (1, ""), done
    checks.assert_one_line(done.stderr, words)


def test_a_file_that_is_not_there(place):
    done = place.warder("check", "/nowhere.json")
    assert done.returncode == 1
    checks.assert_one_line(done.stderr, "/nowhere.json: No such file or directory")
    assert place.warder("check").returncode == 125
    assert place.warder("check", "--help").returncode == 0
