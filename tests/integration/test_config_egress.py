# SPDX-License-Identifier: MIT
"""Hosts and secrets as a file has them: warder.json, a file of secrets, a variable, secrets-proxy."""
import json
import os
import pathlib
import secrets

import agent
import checks
import egress
import harness
import origin as upstream
import pytest

# Unlike anything else on this machine, so that it can be searched for.
VALUE = "sk-" + secrets.token_hex(24)
VARIABLE = "SECRETS_PROXY_CONFIG_JSON"


@pytest.fixture
def place(user_place):
    """Root's runs go the same way outside the sandbox; test_egress.py takes it as both."""
    return user_place


@pytest.fixture
def plain():
    """An origin without TLS."""
    made = upstream.Origin()
    yield made
    made.close()


def write(place, settings, name="warder.json", mode=0o600):
    text = settings if isinstance(settings, str) else json.dumps(settings)
    return str(place.write(name, text, mode))


def entry(**more):
    return {"value": VALUE, "hosts": [egress.HOST], **more}


def reached(origin, host=egress.HOST, port=443):
    """Where hosts are, as a file says it."""
    found = {"connect_to": {f"{host}:{port}": f"127.0.0.1:{origin.port}"}}
    return {**found, "upstream_ca": origin.ca} if hasattr(origin, "ca") else found


def placeholder(run, name="TOKEN"):
    return run.python(f"import os; result = os.environ.get({name!r})")


def bearer(text, host=egress.HOST):
    return egress.request("GET", "/", f"Authorization: Bearer {text}", host=host)


# ---- rules ----

def test_a_file_allows_and_denies(place, https):
    config = write(place, {"allow": [egress.HOST], "deny": [f"POST {egress.HOST}/gists"], **reached(https)})
    with agent.run(place, "--config", config) as run:
        assert egress.ask(run).status == 200
        assert egress.ask(run, egress.request("POST", "/other", body=b"x")).status == 200
        egress.assert_refused(egress.ask(run, egress.request("POST", "/gists", body=b"x")), 403, "denied")
        egress.assert_refused(egress.ask(run, egress.request(host="other.test"), "other.test"), 403,
                              "host_not_allowed", "allow it with --allow-net other.test")
    assert [r.target for r in https.requests] == ["/", "/other"]


def test_options_add_to_the_rules_of_a_file(place, https):
    config = write(place, {"allow": [egress.HOST], **reached(https)})
    with agent.run(place, "--config", config, "--deny-net", f"DELETE {egress.HOST}") as run:
        assert egress.ask(run).status == 200
        egress.assert_refused(egress.ask(run, egress.request("DELETE")), 403, "denied")


@pytest.mark.parametrize("by", ["file", "option"])
def test_a_service_is_where_the_operator_says(place, plain, by):
    """On its own port and the usual ones, and on no other."""
    address = f"127.0.0.1:{plain.port}"
    options = ("--service", f"LiteLLM.Internal={address}")
    if by == "file":
        options = ("--config", write(place, {"services": {"LiteLLM.Internal": address}}))
    name = "litellm.internal"
    with agent.run(place, *options) as run:
        for port in (80, plain.port):
            wire = run.connect(name, port)
            host = name if port == 80 else f"{name}:{port}"
            assert wire.ask(egress.request("GET", f"/{port}", host=host)).status == 200
        wire = run.connect(name, 81)
        egress.assert_refused(wire.ask(egress.request(host=f"{name}:81")), 403, "port_not_allowed")
    assert [r.target for r in plain.requests] == ["/80", f"/{plain.port}"]


def test_a_service_with_tls_is_verified_under_its_name(place, https):
    with agent.run(place, "--service", f"{egress.HOST}=127.0.0.1:{https.port}", "--upstream-ca", https.ca) as run:
        assert egress.ask(run).status == 200
    with agent.run(place, "--service", f"{egress.HOST}=127.0.0.1:{https.port}") as run:
        assert egress.ask(run).code() == "upstream_tls"


def test_placeholders_may_be_long_and_many(place):
    """More than a packet of the keeper's holds."""
    values = {f"TOKEN_{number}": secrets.token_hex(1000) for number in range(40)}
    config = write(place, {"secrets": {name: entry(value=value) for name, value in values.items()}})
    with agent.run(place, "--config", config) as run:
        given = run.python("import os; result = dict(os.environ)")
        for name, value in values.items():
            assert len(given[name]) == len(value) and given[name] != value


# ---- secrets ----

FORMS = {
    "warder.json": lambda https: {"secrets": {"TOKEN": entry()}, **reached(https)},
    "of secrets": lambda https: {"TOKEN": entry()},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_value_of_a_file_goes_where_it_may(place, https, form):
    config = write(place, FORMS[form](https))
    options = ("--config", config, *egress.mapped(https), *egress.trusted(https))
    with agent.run(place, *options) as run:
        text = placeholder(run)
        assert text.startswith("sk-") and len(text) == len(VALUE) and text != VALUE
        assert egress.ask(run, bearer(text)).status == 200
        egress.assert_refused(egress.ask(run, egress.request("GET", "/", f"User-Agent: {text}")), 403,
                              "placeholder_misplaced")
    assert https.requests[0].values("authorization") == [f"Bearer {VALUE}"]


def test_every_key_of_a_secret(place, https, plain):
    host, address = f"https://{egress.HOST.upper()}:443/v1", "127.0.0.1"
    settings = {
        "secrets": {
            "TOKEN": entry(hosts=[host], **{"in": ["body"]}, placeholder="my-own-<random>-one"),
            "SET": {"from": "env:OTHER", "hosts": ["*.test"],
                    "inject": {"header": "X-Key", "format": "Token {value}!"}},
            "BARE": {"from": "exec:echo abcdefghijkl", "hosts": [f"{address}:{plain.port}"],
                     "allow_ip_literals": True, "allow_cleartext": True},
        },
        "connect_to": {f"{egress.HOST}:443": f"127.0.0.1:{https.port}",
                       f"{address}:{plain.port}": f"{address}:{plain.port}"},
        "upstream_ca": https.ca,
    }
    with agent.run(place, "--config", write(place, settings), env={"OTHER": "other-secret-1"}) as run:
        text, bare = placeholder(run), placeholder(run, "BARE")
        assert text.startswith("my-own-") and text.endswith("-one") and len(text) == len("my-own--one") + 24
        assert egress.ask(run, egress.request("POST", "/", body=f"<{text}>".encode())).status == 200
        egress.assert_refused(egress.ask(run, bearer(text)), 403, "placeholder_misplaced")
        wire = run.connect("127.0.0.1", egress.PROXY)
        target = f"http://{address}:{plain.port}/"
        assert wire.ask(egress.request("GET", target, f"X-Bare: {bare}", host=f"{address}:{plain.port}")).status == 200
    assert https.requests[0].body == f"<{VALUE}>".encode()
    assert https.requests[0].values("x-key") == ["Token other-secret-1!"]
    assert plain.requests[0].values("x-bare") == ["abcdefghijkl"]


@pytest.mark.parametrize("by", ["file", "option", "neither"])
def test_plain_http_gets_a_secret_only_if_its_operator_says_so(place, plain, by):
    settings = {"secrets": {"TOKEN": entry(**({"allow_cleartext": True} if by == "file" else {}))},
                **reached(plain, port=80)}
    options = ["--config", write(place, settings)]
    env = {"OTHER": VALUE}
    if by == "option":
        options = ["--secret", f"TOKEN=env:OTHER@{egress.HOST}", "--secret-cleartext", "TOKEN",
                   *egress.mapped(plain, port=80)]
    with agent.run(place, *options, env=env) as run:
        wire = run.connect(egress.HOST, 80)
        reply = wire.ask(bearer(placeholder(run)))
        if by == "neither":
            egress.assert_refused(reply, 403, "placeholder_misplaced")
            assert run.connect(egress.HOST, 80).ask(egress.request()).status == 200
        else:
            assert reply.status == 200
    assert (VALUE.encode() in plain.received()) == (by != "neither")


WRONG = {
    "a plain text": ({"TOKEN": VALUE}, "secrets.TOKEN must be an object"),
    "no hosts": ({"TOKEN": {"value": VALUE}}, "secrets.TOKEN needs hosts"),
    "an empty list": ({"TOKEN": entry(hosts=[])}, "secrets.TOKEN.hosts must not be empty"),
    "a star": ({"TOKEN": entry(hosts=["*"])}, "secret TOKEN: hosts: '*'"),
    "a star inside": ({"TOKEN": entry(hosts=["a.*.test"])}, "secret TOKEN: hosts: 'a.*.test'"),
    "an address": ({"TOKEN": entry(hosts=["10.0.0.1"])}, "secret TOKEN: hosts: '10.0.0.1' is an address; "
                                                         "allow_ip_literals"),
    "an IPv6 address": ({"TOKEN": entry(hosts=["[::1]"])}, "allow_ip_literals"),
    "another address": ({"TOKEN": entry(hosts=["0x7f.1"], allow_ip_literals=True)}, "looks like an address"),
    "a port": ({"TOKEN": entry(hosts=["a.test:x"])}, "has a port that is not a number"),
    "a name": ({"MY-TOKEN": entry()}, "secrets.MY-TOKEN: a secret's name is a variable's"),
    "a place": ({"TOKEN": entry(**{"in": ["cookie"]})}, "TOKEN: places are header"),
    "no places": ({"TOKEN": entry(**{"in": []})}, "secrets.TOKEN.in must not be empty"),
    "the same placeholder": ({"TOKEN": entry(placeholder="abcdefghij"),
                              "OTHER": entry(placeholder="abcdefghij")}, "placeholder of secret TOKEN"),
    "one in another": ({"TOKEN": entry(placeholder="abcdefghij"),
                        "OTHER": entry(placeholder="xabcdefghijx")}, "is in that of secret OTHER"),
    "a short placeholder": ({"TOKEN": entry(placeholder="abc")}, "--secret-placeholder: TOKEN: 8 to 256"),
    "an odd placeholder": ({"TOKEN": entry(placeholder="abc def gh")}, "--secret-placeholder: TOKEN: 8 to 256"),
    "its value as placeholder": ({"TOKEN": entry(placeholder=VALUE)}, "secret TOKEN: its placeholder has its value"),
    "no mark": ({"TOKEN": entry(inject={"header": "X", "format": "x"})}, "TOKEN: HEADER: FORMAT"),
    "a header": ({"TOKEN": entry(inject={"header": "X Y"})}, "'X Y' is no header that can be set"),
    "framing": ({"TOKEN": entry(inject={"header": "Content-Length"})}, "is no header that can be set"),
    "two sources": ({"TOKEN": entry(**{"from": "env:X"})}, "secrets.TOKEN: has a value and a from"),
    "the value as source": ({"TOKEN": {"from": VALUE, "hosts": ["a.test"]}}, "comes from env:NAME"),
    "an unknown key": ({"TOKEN": entry(host="x")}, "did you mean 'secrets.hosts'?"),
    "a short value": ({"TOKEN": {"value": "abc", "hosts": ["a.test"]}}, "secret TOKEN is shorter than 8"),
    "line ends": ({"TOKEN": entry(value=VALUE + "\r\nX: y")}, "secret TOKEN has a byte that no header can hold"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_secret_is_a_run_not_started(place, case):
    place.install()
    given, words = WRONG[case]
    config = write(place, {"secrets": given})
    done = place.run(*checks.LEAVE_MARKER, options=("--config", config))
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr, words)
    assert VALUE not in done.stderr
    assert not (place.workspace / checks.MARKER).exists()
    # The control: with a right one it starts.
    done = place.run("true", options=("--config", write(place, {"secrets": {"TOKEN": entry()}})))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option, words", [
    (("--secret", "A=config:A@a.test"), "secret config:A: no configuration file has such a value"),
    (("--secret-cleartext", "A"), "'A' is no secret that was given before it"),
    (("--secret", "A=env:X@10.0.0.1"), "is an address; allow_ip_literals (--secret-ip-literals A)"),
    (("--service", "litellm"), "is not NAME=ADDRESS:PORT"),
    (("--service", "*.x=10.0.0.1:80"), "is not NAME=ADDRESS:PORT"),
    (("--service", "x=10.0.0.1"), "is not HOST:PORT"),
    (("--egress-limit", "0"), "too small"), (("--dns", "maybe"), "not one of explain|deny")])
def test_wrong_options(place, option, words):
    place.install()
    done = place.run(*checks.LEAVE_MARKER, options=option, env={"X": VALUE})
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, words)
    assert VALUE not in done.stderr and not (place.workspace / checks.MARKER).exists()


# ---- INV-SECRETS-HOST-ONLY ----

def run_with_value(place, https, by):
    text = json.dumps({"TOKEN": entry()})
    options = (*egress.mapped(https), *egress.trusted(https))
    if by == "variable":
        return agent.run(place, *options, env={VARIABLE: text})
    return agent.run(place, "--config", write(place, text), *options)


@pytest.mark.parametrize("by", ["file", "variable"])
def test_a_value_is_in_no_process_but_the_keeper(place, https, by):
    """Memory, command lines and environments of all five, after the secret has been used."""
    if not harness.IS_ROOT:
        pytest.skip("needs root to read the memory of processes that cannot be dumped")
    if "asan" in harness.BUILD.name:
        pytest.skip("a sanitizer keeps copies of the environment, and hides no process")
    with run_with_value(place, https, by) as run:
        assert egress.ask(run, bearer(placeholder(run))).status == 200
        assert https.requests[0].values("authorization") == [f"Bearer {VALUE}"]
        pids = run.pids()
        assert set(pids) == {"supervisor", "keeper", "gate", "init", "agent"}
        found = {who for who, pid in pids.items() if agent.is_in_memory(VALUE.encode(), pid)}
        assert found == {"keeper"}  # the control is in it: the keeper's does hold the value
        for name in ("cmdline", "environ"):
            assert not [who for who, pid in pids.items()
                        if VALUE.encode() in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()]
        # Nor is what was around it: the text of the file is gone as a whole.
        around = f'"value": "{VALUE[:12]}'.encode()
        assert not [who for who, pid in pids.items() if agent.is_in_memory(around, pid)]


def test_the_variable_is_for_nobody_else(place, https):
    """Neither for the agent, nor for commands that secrets come from."""
    text = json.dumps({"TOKEN": entry(), "MINE": {"from": f"exec:echo 12345678${{{VARIABLE}-unset}}",
                                                  "hosts": [egress.HOST], "inject": {"header": "X-Mine"}}})
    with agent.run(place, *egress.mapped(https), *egress.trusted(https), env={VARIABLE: text}) as run:
        assert run.python(f"import os; result = os.environ.get({VARIABLE!r})") is None
        assert egress.ask(run).status == 200
    assert https.requests[0].values("x-mine") == ["12345678unset"]
    done = place.run("true", options=("--env", VARIABLE), env={VARIABLE: text})
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "would give a secret to the agent")
    assert VALUE not in done.stderr


def test_a_file_counts_over_the_variable(place, https):
    config = write(place, {"ONE": entry()})
    with agent.run(place, "--config", config, env={VARIABLE: json.dumps({"TWO": entry()})}) as run:
        assert placeholder(run, "ONE") and placeholder(run, "TWO") is None


@pytest.mark.parametrize("text, words", [("{", f"{VARIABLE}:1: the file ends too early"),
                                         (json.dumps({"A": entry(hosts=[])}), f"{VARIABLE}:1: A.hosts must not")])
def test_a_wrong_variable_is_a_run_not_started(place, text, words):
    place.install()
    done = place.run("true", env={VARIABLE: text})
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, words)
    assert VALUE not in done.stderr


def test_a_file_with_values_must_not_be_seen(place):
    """One without may be read by the agent, and not be changed: that is the control."""
    place.install()
    shown = place.top / "shown"
    for settings, status in (({"secrets": {"TOKEN": entry()}}, 125), ({"allow": ["a.test"]}, 0)):
        config = write(place, settings, "shown/warder.json")
        done = place.run("true", options=("--config", config, "--ro", str(shown)))
        assert done.returncode == status, done.stderr
        if status:
            checks.assert_one_line(done.stderr, "which the agent is shown")


def test_the_gate_of_others_takes_no_hosts(place, origin):
    place.install()
    config = write(place, {"llm": {"upstream": origin.url}, "secrets": {"TOKEN": entry()}})
    done = place.warder("gate", "--listen", "unix:g.sock", "--run-id", "r", "--config", config, timeout=20)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "hosts and their secrets are for 'warder run'")


# ---- secrets-proxy ----

SCRIPT = """
import os, urllib.request
request = urllib.request.Request("https://api.test/", headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
print(urllib.request.urlopen(request).status, os.environ["TOKEN"])
for do in (lambda: open("secrets.json").read(), lambda: os.unlink("secrets.json"),
           lambda: os.rename("secrets.json", "x"), lambda: os.link("secrets.json", "y"),
           lambda: os.rename("z", "secrets.json"), lambda: open("secrets.json", "w")):
    try:
        open("z", "w").close()
        print("did", do())
    except OSError as error:
        print(error.errno)
"""


def secrets_proxy(place, *words, **kwargs):
    """The program under its second name."""
    if not (place.top / "secrets-proxy").exists():
        place.install()
        os.symlink("warder", place.top / "secrets-proxy")
    return place.host([str(place.top / "secrets-proxy"), *words], **kwargs)


@pytest.mark.parametrize("who", ["user_place", "root_place"])
def test_the_documented_command_of_secrets_proxy(request, https, who):
    """The file lies beside the script, in the directory that the script can write to."""
    place = request.getfixturevalue(who)
    write(place, {"TOKEN": entry(placeholder="SECRETS_PROXY_PLACEHOLDER_<random>",
                                 inject={"header": "Authorization", "format": "Bearer {value}"})},
          "workspace/secrets.json")
    place.write("workspace/my_script.py", SCRIPT)
    before = (place.workspace / "secrets.json").read_bytes()
    done = secrets_proxy(place, "run", "--config", "secrets.json", "--allow-net", egress.HOST,
                         *egress.mapped(https), *egress.trusted(https), "--", "python3", "my_script.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("200 SECRETS_PROXY_PLACEHOLDER_")
    assert lines[1] == "did " and len(lines) == 7, lines  # an empty file, that stays there
    assert not [line for line in lines[2:] if line.startswith("did")], lines
    assert https.requests[0].values("authorization") == [f"Bearer {VALUE}"]
    assert (place.workspace / "secrets.json").read_bytes() == before
    assert VALUE not in done.stdout + done.stderr


def test_secrets_proxy_without_a_file(place, https):
    done = secrets_proxy(place, "run", *egress.mapped(https), *egress.trusted(https), "--", "curl", "-sS",
                         "-o", "/dev/null", "-w", "%{http_code}", f"https://{egress.HOST}/",
                         env={VARIABLE: json.dumps({"TOKEN": entry()})})
    assert (done.returncode, done.stdout) == (0, "200"), done.stderr


@pytest.mark.parametrize("name, settings", [
    ("secrets.json", {"TOKEN": {"from": "exec:touch /tmp/never", "hosts": ["a.test"]}}),
    ("secrets.json", {"allow": ["a.test"]}), ("secrets.json", {"env": {"A": "b"}}),
    ("sub/secrets.json", {"TOKEN": entry()})])
def test_secrets_proxy_takes_no_more_than_values_from_the_workspace(place, name, settings):
    """An earlier run could have written it."""
    write(place, settings, f"workspace/{name}")
    done = secrets_proxy(place, "run", "--config", name, "--", *checks.LEAVE_MARKER)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "keep it elsewhere")
    assert not (place.workspace / checks.MARKER).exists()


def test_a_covered_file_must_not_be_seen_elsewhere(place):
    write(place, {"TOKEN": entry()}, "workspace/secrets.json")
    done = secrets_proxy(place, "run", "--config", "secrets.json", "--ro", f"{place.workspace}:/again", "--", "true")
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "which the agent is shown")
    os.link(place.workspace / "secrets.json", place.workspace / "second")
    done = secrets_proxy(place, "run", "--config", "secrets.json", "--", "true")
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "which the agent is shown")


def test_warder_itself_takes_no_file_from_the_workspace(place):
    place.install()
    write(place, {"TOKEN": entry()}, "workspace/secrets.json")
    done = place.run("true", options=("--config", "secrets.json"))
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "which the agent is shown")


def test_secrets_proxy_has_its_own_help(place):
    assert "usage: secrets-proxy COMMAND" in secrets_proxy(place, "--help").stdout
    assert secrets_proxy(place, "doctor").returncode == 125
    assert secrets_proxy(place, "run", "--help").returncode == 0
