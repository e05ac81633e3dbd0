# SPDX-License-Identifier: MIT
"""`warder audit` on logs that are written here, by another implementation of docs/audit.md."""
import hashlib
import json
import subprocess

import harness
import pytest

ZEROS = "0" * 64


def make_log(count, event="decision"):
    """A chain of records, as text lines."""
    lines, prev = [], ZEROS
    for seq in range(1, count + 1):
        start = json.dumps({"seq": seq, "time": "2026-11-15T00:00:00.000Z", "prev": prev,
                            "event": event, "runId": "r", "method": "POST", "host": "h:443",
                            "path": f"/v1/{seq}", "allowed": True}, separators=(",", ":"))[:-1]
        prev = hashlib.sha256(start.encode()).hexdigest()
        lines.append(f'{start},"hash":"{prev}"}}\n')
    return lines


@pytest.fixture
def audit(user_place):
    """warder audit VERB on a log with these lines."""
    user_place.install()

    def run(verb, lines, *options):
        path = user_place.write("log", "".join(lines))
        return user_place.warder("audit", verb, *options, str(path))
    return run


def head_of(lines):
    return json.loads(lines[-1])["hash"]


def test_an_untouched_log_verifies(audit):
    lines = make_log(5)
    done = audit("verify", lines)
    assert (done.returncode, done.stdout) == (0, f"ok: 5 records, head {head_of(lines)}\n")
    assert audit("verify", []).stdout == f"ok: 0 records, head {ZEROS}\n"


def rehash(line, **changes):
    """The record with other fields, and a hash that fits them."""
    record = {**json.loads(line), **changes}
    del record["hash"]
    start = json.dumps(record, separators=(",", ":"))[:-1]
    return f'{start},"hash":"{hashlib.sha256(start.encode()).hexdigest()}"}}\n'


@pytest.mark.parametrize("change, report", [
    (lambda log: [*log[:2], log[2].replace("/v1/3", "/v1/4"), *log[3:]],
     "line 3: record 3 was changed"),
    (lambda log: [*log[:4], log[4].replace("POST", "GET")], "line 5: record 5 was changed"),
    (lambda log: [log[0], *log[2:]], "line 2: record 3: records 2 to 2 are missing"),
    (lambda log: log[2:], "line 1: record 3: records 1 to 2 are missing"),
    (lambda log: [log[0], log[2], log[1], *log[3:]], "line 2: record 3: records 2 to 2 are missing"),
    (lambda log: [*log[:3], log[2], *log[3:]],
     "line 4: record 3 stands in another place than it was written"),
    (lambda log: [*log[:2], rehash(log[2], path="/evil"), *log[3:]],
     "line 4: record 4 was written after another record than the one before it"),
    (lambda log: [*log[:2], "hello\n", *log[2:]], "line 3: is no record"),
    (lambda log: [*log[:2], "\n", *log[2:]], "line 3: is no record"),
    (lambda log: [*log[:4], log[4][:-10]], "line 5: is incomplete"),
    (lambda log: [*log[:4], log[4].rstrip("\n")], "line 5: is incomplete"),
], ids=["changed", "last changed", "removed", "first removed", "swapped", "twice", "rewritten",
        "foreign line", "empty line", "cut", "no end"])
def test_a_change_is_found_and_named(audit, change, report):
    done = audit("verify", change(make_log(5)))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == report
    assert done.stderr.startswith("warder: audit verify: ")


def test_a_log_that_lost_its_end_does_not_have_the_expected_head(audit):
    lines = make_log(5)
    assert audit("verify", lines, "--head", head_of(lines)).returncode == 0
    assert audit("verify", lines[:4]).returncode == 0  # control: by itself it is a whole chain
    done = audit("verify", lines[:4], "--head", head_of(lines))
    assert done.returncode == 1 and head_of(lines[:4]) in done.stderr


def test_show_prints_a_line_per_record(audit):
    done = audit("show", make_log(2))
    assert done.stdout.splitlines()[1] == ('2 2026-11-15T00:00:00.000Z decision runId="r" '
                                           'method="POST" host="h:443" path="/v1/2" allowed=true')
    assert audit("show", make_log(2), "--json").stdout == "".join(make_log(2))


def test_follow_shows_what_is_added(user_place):
    user_place.install()
    lines = make_log(3)
    path = user_place.write("log", lines[0])
    line = user_place.command([user_place.binary, "audit", "follow", str(path)])
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("1 ")
        with open(path, "a", encoding="utf-8") as log:
            log.write(lines[1][:20])
            log.flush()
            log.write(lines[1][20:] + lines[2])
        assert process.stdout.readline().startswith("2 ")
        assert process.stdout.readline().startswith("3 ")
        process.kill()


@pytest.mark.parametrize("argv, words", [
    ((), "usage"), (("verify",), "needs one FILE"), (("verify", "a", "b"), "needs one FILE"),
    (("verify", "/nonexistent"), "No such file"), (("erase", "x"), "not show, follow or verify"),
    (("verify", "--hed", "x", "f"), "did you mean --head?"),
])
def test_wrong_uses_are_explained(user_place, argv, words):
    user_place.install()
    done = user_place.warder("audit", *argv)
    assert done.returncode == 125 and words in done.stdout + done.stderr


def test_the_documented_schema_is_the_real_one():
    made = (harness.BUILD / "src" / "audit.md").read_text()
    assert (harness.TOP / "docs" / "audit.md").read_text() == made
