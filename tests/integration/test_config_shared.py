# SPDX-License-Identifier: MIT
"""Limits and the settings of a shared keeper: what a file means, whom it is for, and what is wrong."""
import contextlib
import json
import secrets
import signal
import socket
import subprocess

import checks
import pytest

# Unlike anything else on this machine, so that it can be searched for.
PASSWORD = "pw-" + secrets.token_hex(16)

LISTEN = {"listen": "tls:0.0.0.0:7443", "cert": "c.pem", "cert_key": "file:/etc/k",
          "link_keys": {"2026-11": "env:A", "old": "exec:echo " + PASSWORD}}


@pytest.fixture
def place(user_place):
    user_place.install()
    return user_place


def write(place, settings, mode=0o600):
    return str(place.write("etc/warder.json", json.dumps(settings), mode))


def check(place, settings, mode=0o600):
    done = place.warder("check", write(place, settings, mode))
    assert PASSWORD not in done.stdout + done.stderr
    return done


def lines(place, settings, what, **kwargs):
    """What is said of one kind."""
    done = check(place, settings, **kwargs)
    assert done.returncode == 0, done.stderr
    return [line.split(None, 1)[1] for line in done.stdout.splitlines() if line.startswith(what + " ")]


# ---- what a file means ----

def test_limits_are_explained(place):
    settings = {"limits": {"requests": "30/m", "burst": 5, "concurrent": 8, "bytes": "1M", "spend": 2.5,
                           "duration": "8h", "memory": "2G"},
                "account_limits": {"team-7": {"spend": 100, "requests": "0.125/h"}, "*": {"spend": 1e-5}},
                "host_limits": {"*.example.com": {"concurrent": 3}, "[2001:DB8::1]": {"bytes": 1}}, "spend_reserve": 0.25}
    assert lines(place, settings, "limit") == [
        "each run: 30 requests a minute, bursts of 5, 8 at once, 1048576 bytes, 2.5 to spend, 28800 seconds",
        "account team-7: 0.125 requests an hour, 100 to spend",
        "any other account: 0.00001 to spend",
        "host *.example.com: 3 at once",
        "host 2001:db8::1: 1 bytes"]
    assert lines(place, settings, "setting") == ["--memory 2G", "--spend-reserve 0.25"]
    assert not lines(place, {"allow": ["a.test"]}, "limit")


def test_a_shared_keeper_is_explained(place):
    settings = {"allow": ["a.test"], "keeper": {
        "control": "unix:/run/warder/k.sock", "control_mode": "0660", "control_users": ["ci", "1001"],
        "admin": "tcp:127.0.0.1:9464", "store": f"postgresql://u:{PASSWORD}@db/warder",
        "reconcile": {"every": "1m", "grace": "90s"}, "drain_timeout": "2m", "log": "json", **LISTEN}}
    assert lines(place, settings, "keeper") == [
        "runs are registered at /run/warder/k.sock, mode 0660, by its own user, ci and 1001",
        f"runs on other machines come in with TLS at 0.0.0.0:7443; certificate {place.top}/etc/c.pem, "
        "its key from file:/etc/k",
        "run tokens of links are good when signed with key 2026-11; it comes from env:A",
        "run tokens of links are good when signed with key old; it comes from a command",
        "metrics and health are at 127.0.0.1:9464",
        "limits are counted in PostgreSQL",
        "spend is compared with LiteLLM's log every 60 seconds; a call may take 90 to appear there",
        "requests under way have 120 seconds to end at shutdown",
        "the log is written as json"]
    assert lines(place, settings, "allow")


def test_what_is_not_said_is_the_usual(place):
    assert lines(place, {"keeper": {}}, "keeper") == [
        "runs are registered at the usual place, mode 0600, by its own user",
        "limits are counted in SQLite, at the usual place",
        "spend is compared with LiteLLM's log every 300 seconds; a call may take 600 to appear there",
        "requests under way have 30 seconds to end at shutdown",
        "the log is written as text"]
    assert not lines(place, {}, "keeper")


@pytest.mark.parametrize("store, words", [
    ("sqlite:/var/lib/k.db", "limits are counted in sqlite:/var/lib/k.db"),
    (f"redis://:{PASSWORD}@h:6379", "limits are counted in Redis"),
    ("memory:", "limits are counted in memory, and forgotten when the keeper ends"),
    ("env:STORE", "limits are counted in what is named by env:STORE"),
    ("file:/etc/store", "limits are counted in what is named by file:/etc/store"),
])
def test_a_store_is_shown_without_its_password(place, store, words):
    assert words in lines(place, {"keeper": {"store": store}}, "keeper")


def test_a_password_that_others_can_read(place):
    with_password = {"keeper": {"store": f"redis://:{PASSWORD}@h"}}
    assert lines(place, with_password, "warning", mode=0o644)[0].startswith("others may read this file")
    assert not lines(place, with_password, "warning", mode=0o600)
    assert not lines(place, {"keeper": {"store": "env:STORE"}}, "warning", mode=0o644)


# ---- what is wrong ----

@pytest.mark.parametrize("settings, words", [
    ({"limits": {"request": 1}}, "did you mean 'limits.requests'?"),
    ({"limits": {"spend": 0}}, "--limit: spend: '0' is too small; what has no limit is left away"),
    ({"limits": {"burst": 5}}, "--limit: run: burst belongs to requests"),
    ({"limits": {"spend": "5,bytes=1"}}, "limits.spend must be a number such as 2.5"),
    ({"account_limits": {"a": {"duration": "1h"}}}, "did you mean 'limits.duration'?"),
    ({"account_limits": {"a": {}}}, "account_limits.a has no limit"),
    ({"host_limits": {"127.1": {"bytes": 1}}}, "--limit: host '127.1' looks like an address"),
    ({"host_limits": {"*": {"bytes": 1}}}, "'*' is not a host such as"),
    ({"host_limits": {"a.test:8443": {"bytes": 1}}}, "'a.test:8443' is not a host such as"),
    ({"spend_reserve": 0}, "--spend-reserve: '0' is too small"),
    ({"keeper": {"contol": "unix:/k"}}, "keeper.contol is not a known key; did you mean 'keeper.control'?"),
    ({"keeper": {"control": "/k"}}, "--control: '/k' is not unix:PATH"),
    ({"keeper": {"control_mode": "rw"}}, "is not permissions in octal"),
    ({"keeper": {"control_users": ["a b"]}}, "--control-user: 'a b' is not a user's name or number"),
    ({"keeper": {"listen": "tls:0.0.0.0:1"}}, "--listen: needs --cert FILE and --cert-key SOURCE"),
    ({"keeper": {**LISTEN, "link_keys": {}}}, "--listen: needs --link-key ID=SOURCE"),
    ({"keeper": {"store": f"mysql://u:{PASSWORD}@h"}}, "what was given is not shown"),
    ({"keeper": {"token_keys": {"a": PASSWORD}}}, "what was given is not shown"),
    ({"keeper": {"token_keys": {"a b": "env:A"}}}, "an id is up to 32 letters"),
    ({"keeper": {**LISTEN, "cert_key": PASSWORD}}, "what was given is not shown"),
    ({"keeper": {"log": "xml"}}, "--log: 'xml' is not one of json|text"),
    ({"keeper": {"reconcile": {"evry": 1}}}, "did you mean 'reconcile.every'?"),
])
def test_what_is_wrong_is_said_in_one_line(place, settings, words):
    done = check(place, settings)
    assert (done.returncode, done.stdout) == (1, ""), done
    checks.assert_one_line(done.stderr, words)


@pytest.mark.parametrize("settings, key", [
    ({"workspace": "w"}, "workspace"), ({"mounts": []}, "mounts"), ({"env": {}}, "env"),
    ({"limits": {"spend": 1, "memory": "1G"}}, "limits.memory"),
    ({"llm": {"upstream": "http://l:4000", "port": 81}}, "llm.port"),
])
def test_a_shared_keeper_has_no_sandbox(place, settings, key):
    done = check(place, {**settings, "keeper": {}})
    assert done.returncode == 1, done
    checks.assert_one_line(done.stderr, f"{key} is for 'warder run'; a shared keeper has no sandbox")
    assert check(place, settings).returncode == 0


# ---- whom it is for ----

FOR_KEEPER = "keeper is for 'warder keeper', and this file for a run or a gate"


@pytest.mark.parametrize("more", [{}, {"store": f"redis://:{PASSWORD}@h"}])
def test_a_run_takes_no_settings_of_a_shared_keeper(place, more):
    config = write(place, {"allow": ["a.test"], "keeper": more})
    done = checks.assert_refused(place, ("--config", config), FOR_KEEPER)
    assert PASSWORD not in done.stderr
    assert place.run("true", options=("-q", "--config", write(place, {"allow": ["a.test"]}))).returncode == 0


@contextlib.contextmanager
def served(place, path, *line):
    """A gate that has answered."""
    with subprocess.Popen(place.command([place.binary, *line], None), cwd=place.workspace, stderr=subprocess.PIPE,
                          text=True) as gate:
        with socket.socket(socket.AF_UNIX) as wire:
            checks.wait_until(lambda: wire.connect_ex(str(path)) == 0)
            wire.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert wire.recv(4096).startswith(b"HTTP/1.1 200")
        yield gate


def test_a_gate_takes_no_settings_of_a_shared_keeper(place):
    path = place.workspace / "llm.sock"
    line = ("gate", "--listen", f"unix:{path}", "--run-id", "r", "--config")
    llm = {"llm": {"upstream": "http://127.0.0.1:9"}}
    done = place.warder(*line, write(place, {**llm, "keeper": {}}))
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, FOR_KEEPER)
    with served(place, path, *line, write(place, llm)) as gate:
        gate.send_signal(signal.SIGTERM)
        assert "gate: 0 requests" in gate.communicate(timeout=10)[1]
    assert not path.exists()


def test_a_gate_that_is_killed_says_nothing_more(user_place):
    """Its keeper has nobody to tell how it ended; that is no error."""
    path = user_place.workspace / "llm.sock"
    with served(user_place, path, "gate", "--listen", f"unix:{path}", "--run-id", "r", "--llm",
                "http://127.0.0.1:9") as gate:
        gate.send_signal(signal.SIGKILL)
        assert gate.communicate(timeout=10)[1] == ""  # to its end: that of the keeper and of the gate as well


@pytest.mark.parametrize("options, words", [
    (("--keeper", "/run/k"), "'/run/k' is not unix:PATH|tls:HOST:PORT"),
    (("--keeper", "tls:h:7443"), "needs --keeper-token SOURCE"),
    (("--keeper", "unix:/k", "--keeper-token", "env:T"), "--keeper-token: is for a keeper on another machine"),
    (("--keeper", "unix:/k", "--llm", "http://l:4000"),
     "--llm: the keeper decides; leave it to its configuration"),
    (("--keeper", "unix:/k", "--limit", "run:spend=1"),
     "--limit: the keeper decides; leave it to its configuration"),
    (("--keeper", "unix:/k", "--config", "/etc/w.json"), "--config: needs a keeper of the run's own"),
    (("--keeper-token", "env:T"), "--keeper-token: belongs to --keeper tls:HOST:PORT"),
    (("--limit", "rub:spend=1"), "'rub' is not run, account=ID or host=HOST; did you mean run?"),
    (("--limit", "run:spend=lots"), "--limit: spend: 'lots' is not an amount such as 5 or 0.25"),
])
def test_options_that_do_not_go_together(place, options, words):
    checks.assert_refused(place, options, words)


def test_a_run_takes_limits(place):
    """The control: what was refused above was so for what it said."""
    options = ("-q", "--limit", "run:spend=1,requests=30/m", "--limit", "account=*:spend=5",
               "--limit", "host=*.example.com:concurrent=2", "--spend-reserve", "0.1", "--allow-net", "a.test")
    done = place.run("true", options=options)
    assert done.returncode == 0, done.stderr
