# SPDX-License-Identifier: MIT
"""The result object: its fields, its file, and the name of the run."""
import json
import os
import re
import time

import pytest

from checks import MARKER, assert_one_line, assert_refused, tree

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")

# Every field with its type, and whether it is always there.
FIELDS = {
    "runId": (str, True),
    "attempt": (int, True),
    "ok": (bool, True),
    "exitCode": (int, True),
    "signal": (int, False),
    "errorCode": (str, False),
    "errorMessage": (str, False),
    "stdout": (str, True),
    "stderr": (str, True),
    "outputTruncated": (bool, True),
    "durationMs": (int, True),
    "memoryPeakBytes": (int, False),
    "cgroup": (str, False),
}


def check_fields(result):
    """Only known fields, each of its type, and none missing."""
    for name, value in result.items():
        assert type(value) is FIELDS[name][0], name  # bool is no int here
    for name, (_, is_always) in FIELDS.items():
        assert name in result or not is_always, name
    assert ("errorCode" in result) == ("errorMessage" in result)
    return result


def parse(done):
    """The one object, on one line, that is all of stdout."""
    assert done.stdout.count("\n") == 1 and done.stdout.endswith("\n"), done
    return check_fields(json.loads(done.stdout))


def run_json(place, *argv, options=(), **kwargs):
    done = place.run(*argv, options=("--json", "-q", *options), **kwargs)
    return done, parse(done)


# ---- fields ----


@pytest.mark.parametrize("script, options, expected", [
    ("echo out; echo err >&2", (),
     {"ok": True, "exitCode": 0, "stdout": "out\n", "stderr": "err\n"}),
    ("echo out; exit 3", (), {"ok": False, "exitCode": 3, "stdout": "out\n"}),
    ("echo out; kill -9 $$", (), {"ok": False, "exitCode": 137, "signal": 9, "stdout": "out\n"}),
    ("echo out; sleep 60", ("-t", "1s"),
     {"ok": False, "exitCode": 124, "errorCode": "timeout", "stdout": "out\n"}),
    ("printf 12345", ("-o", "3"),
     {"ok": True, "exitCode": 0, "errorCode": "output_truncated", "outputTruncated": True,
      "stdout": "123"}),
], ids=["success", "failure", "signal", "timeout", "output"])
def test_the_result_says_what_happened(place, script, options, expected):
    done, result = run_json(place, "sh", "-c", script, options=options)
    assert {name: result.get(name) for name in expected} == expected
    assert done.returncode == result["exitCode"]
    assert result["outputTruncated"] == expected.get("outputTruncated", False)
    assert ("errorCode" in result) == ("errorCode" in expected)
    assert ("signal" in result) == (script.endswith("$$") or "timeout" in expected.values())
    assert result["attempt"] == 0 and ULID.fullmatch(result["runId"])


def test_the_duration_is_the_runs(place):
    _, result = run_json(place, "sleep", "0.3")
    assert 300 <= result["durationMs"] < 10000


@pytest.mark.parametrize("argv, status, words", [
    (("no-such-command",), 127, "no-such-command"),
    (("/usr",), 126, "directory"),
    (("",), 125, "no command"),
])
def test_what_could_not_be_started_is_container_failed(place, argv, status, words):
    done, result = run_json(place, *argv)
    assert done.returncode == result["exitCode"] == status
    assert (result["ok"], result["errorCode"]) == (False, "container_failed")
    assert words in result["errorMessage"].lower()
    assert (result["stdout"], result["stderr"]) == ("", "")
    assert_one_line(done.stderr, result["errorMessage"])


@pytest.mark.parametrize("line", [
    ("--json", "--bogus", "--", "true"),
    ("--bogus", "--json", "--", "true"),
    ("--bogus=x", "-q", "--json", "--", "true"),
    ("--json",),
    ("--json", "--timeout"),
    ("--timeout", "x", "--json", "--", "true"),
    ("--json", "--pids", "0", "true"),
    ("--json", "--tty", "--", "true"),
    ("--tty", "--json", "--", "true"),
    ("--json", "--workspace", "/", "--", "true"),
    ("--json", "--ro", "/missing:/x", "--", "true"),
    ("--json", "--result", "/missing/file", "--", "true"),
    ("--json", "--cgroup", "none", "--memory", "64M", "--", "true"),
    ("--json", "--env", "NOT_SET_HERE", "--", "true"),
], ids=" ".join)
def test_a_refusal_is_a_result_too(place, line):
    done = place.warder("run", *line)
    result = parse(done)
    assert done.returncode == result["exitCode"] == 125
    assert (result["ok"], result["errorCode"]) == (False, "container_failed")
    assert_one_line(done.stderr, result["errorMessage"])


def test_a_refusal_keeps_the_name_of_the_run(place):
    line = ("--json", "--run-id", "named", "--attempt", "3", "--workspace", "/", "--", "true")
    result = parse(place.warder("run", *line))
    assert (result["runId"], result["attempt"]) == ("named", 3)
    late = ("--json", "--run-id", "named", "--attempt", "3", "--bogus", "--", "true")
    result = parse(place.warder("run", *late))
    assert (result["runId"], result["attempt"]) == ("named", 3)


def test_the_commands_own_double_dash_json_is_not_warders(place):
    done = place.warder("run", "-q", "--workspace", "/", "--", "true", "--json")
    assert (done.returncode, done.stdout) == (125, "")


# ---- text ----

NASTY = [
    (b'quote " backslash \\ slash /', 'quote " backslash \\ slash /'),
    (bytes(range(1, 32)) + b"\x7f", bytes(range(1, 32)).decode() + "\x7f"),
    (b"nul\0nul", "nul\0nul"),
    (b"\xff", "\ufffd"),
    (b"a\xc3", "a\ufffd"),
    (b"a\xc3(", "a\ufffd("),
    (b"\xe4\xb8\xad\xf0\x9f\x98\x80\xc3\xa9", "\u4e2d\U0001f600\u00e9"),
    (b"", ""),
]


@pytest.mark.parametrize("raw, text", NASTY, ids=[str(i) for i in range(len(NASTY))])
def test_output_of_any_kind_becomes_text(place, raw, text):
    place.workspace.joinpath("raw").write_bytes(raw)
    _, result = run_json(place, "sh", "-c", "cat raw; cat raw >&2")
    assert (result["stdout"], result["stderr"]) == (text, text)


# Never UTF-8: surrogates, overlong forms, beyond the last code point, cut sequences.
BROKEN = [b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80",
          b"\xf8\x88\x80\x80\x80", b"\xf0\x9f\x98", b"\x80\x80", b"\xfe\xff"]


@pytest.mark.parametrize("raw", BROKEN, ids=lambda raw: raw.hex())
def test_what_is_not_utf_8_is_replaced_and_the_rest_kept(user_place, raw):
    user_place.workspace.joinpath("raw").write_bytes(b"before" + raw + b"after")
    done = user_place.run("cat", "raw", options=("--json", "-q"), text=False)
    result = json.loads(done.stdout.decode("utf-8", errors="strict"))
    assert re.fullmatch("before\ufffd+after", result["stdout"])


# ---- the file ----


def test_the_file_holds_what_json_prints(place):
    done, result = run_json(place, "sh", "-c", "echo out; exit 3", options=("--result", "out.json"))
    path = place.workspace / "out.json"
    assert path.read_text() == done.stdout
    assert result["exitCode"] == done.returncode == 3
    assert os.listdir(place.workspace) == ["out.json"]


def test_the_file_works_without_json_and_the_output_still_passes(place):
    path = place.own(place.write("results/x", "")).parent
    place.own(path)
    done = place.run("sh", "-c", "echo out; exit 3", options=("-q", "--result", f"{path}/file"))
    assert (done.stdout, done.returncode) == ("out\n", 3)
    result = check_fields(json.loads(path.joinpath("file").read_text()))
    assert (result["exitCode"], result["stdout"]) == (3, "")


def test_the_file_is_written_for_every_end(place):
    for argv, options, status in [(("no-such-command",), (), 127),
                                  (("sleep", "60"), ("-t", "100ms"), 124),
                                  (("true",), ("--ro", "/missing:/x"), 125)]:
        done = place.run(*argv, options=("-q", "--result", "out.json", *options))
        result = json.loads(place.workspace.joinpath("out.json").read_text())
        assert done.returncode == result["exitCode"] == status


def test_the_file_replaces_an_older_one_whole(place):
    path = place.write("workspace/out.json", "old" * 10000)
    with open(path, encoding="utf-8") as old:
        place.run("true", options=("-q", "--result", "out.json"))
        assert old.read() == "old" * 10000  # whoever had it open still reads the old one
    assert json.loads(path.read_text())["ok"] is True


def test_during_the_run_the_file_is_not_there_yet(place):
    script = "ls -A; test ! -e out.json"
    done = place.run("sh", "-c", script, options=("-q", "--result", "out.json"))
    assert (done.returncode, done.stdout) == (0, "")
    assert place.workspace.joinpath("out.json").exists()


def test_the_file_may_be_a_descriptor(place):
    reader, writer = os.pipe()
    options = ("-q", "--result", f"/dev/fd/{writer}")
    if place.who == "user":  # who could not open root's pipe by name
        os.fchown(writer, *[place.workspace.stat().st_uid] * 2)
    done = place.run("echo", "out", options=options, pass_fds=(writer,))
    os.close(writer)
    with os.fdopen(reader) as file:
        result = check_fields(json.loads(file.read()))
    assert (done.returncode, done.stdout, result["ok"]) == (0, "out\n", True)


def test_a_descriptor_for_the_result_is_not_the_agents(place):
    reader, writer = os.pipe()
    os.fchown(writer, *[place.workspace.stat().st_uid] * 2)
    done = place.run("sh", "-c", f"echo forged >&{writer}; ls /proc/self/fd",
                     options=("-q", "--result", f"/dev/fd/{writer}"), pass_fds=(writer,))
    os.close(writer)
    with os.fdopen(reader) as file:
        assert "forged" not in file.read()
    assert str(writer) not in done.stdout.split()


@pytest.mark.parametrize("name, words", [
    ("/missing/file", ["--result", "No such file"]),
    ("sub", ["--result", "directory"]),
    ("sub/", ["--result", "directory"]),
    (".", ["--result", "directory"]),
    ("file/below", ["--result", "Not a directory"]),
    ("x" * 5000, ["--result", "too long"]),
    ("x" * 300, ["too long"]),
    ("", ["--result", "empty"]),
    ("/dev/fd/99", ["--result"]),
    ("/proc/self/new", ["--result"]),
], ids=["no directory", "directory", "slash", "dot", "below a file", "long", "long name", "empty",
        "descriptor", "proc"])
def test_a_result_that_cannot_be_written_is_a_run_not_started(place, name, words):
    place.write("workspace/sub/x", "")
    place.write("workspace/file", "")
    assert_refused(place, ("-q", "--result", name), *words)


def test_a_directory_one_may_not_write_to_is_a_run_not_started(user_place):
    closed = user_place.top / "closed"
    closed.mkdir(mode=0o755)
    assert_refused(user_place, ("-q", "--result", f"{closed}/file"), "--result", "denied")


def test_a_device_that_is_full_fails_the_run_after_all(place):
    done = place.run("true", options=("-q", "--result", "/dev/full"))
    assert done.returncode == 125
    assert_one_line(done.stderr, "result", "No space left")


@pytest.mark.parametrize("trick", [
    "ln -s ../victim out.json",
    "ln -s VICTIM out.json",
    "touch out.json; chmod 0 out.json",
    "mkfifo out.json",
    "ln -s /dev/null out.json",
    "for i in 1 2 3; do ln -s VICTIM .warder-result-$i; done",
], ids=["relative link", "link", "file without rights", "fifo", "link to a device", "temporary"])
def test_an_agent_cannot_redirect_the_result(place, trick):
    victim = place.write("victim", "untouched")
    script = trick.replace("VICTIM", str(victim))
    done = place.run("sh", "-c", script, options=("-q", "--result", "out.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert victim.read_text() == "untouched"
    path = place.workspace / "out.json"
    assert path.is_file() and not path.is_symlink()
    assert json.loads(path.read_text())["ok"] is True


def test_an_agent_that_moves_the_directory_away_gains_nothing(place):
    sub = place.own(place.write("workspace/sub/x", "").parent)
    victims = place.own(place.write("victims/x", "").parent)
    script = f"mv sub moved && ln -s {victims} sub"
    done = place.run("sh", "-c", script, options=("-q", "--result", f"{sub}/out.json"))
    assert done.returncode == 0
    assert os.listdir(victims) == ["x"]
    assert json.loads(place.workspace.joinpath("moved/out.json").read_text())["ok"] is True


def test_a_link_that_was_there_before_is_replaced_and_not_followed(place):
    victim = place.write("victim", "untouched")
    os.symlink("../victim", place.workspace / "out.json")
    place.run("true", options=("-q", "--result", "out.json"))
    assert victim.read_text() == "untouched"
    assert not place.workspace.joinpath("out.json").is_symlink()


def test_an_agent_that_blocks_the_file_is_reported(place):
    done = place.run("mkdir", "out.json", options=("-q", "--result", "out.json"))
    assert done.returncode == 125
    assert_one_line(done.stderr, "result file")
    assert list(tree(place.workspace)) == [str(place.workspace / "out.json")]


# ---- ids ----


def test_ids_are_new_sortable_ulids(place):
    ids = []
    for _ in range(5):
        ids.append(run_json(place, "true")[1]["runId"])
        time.sleep(0.002)  # the order is by the millisecond
    assert all(ULID.fullmatch(name) for name in ids)
    assert ids == sorted(ids) and len(set(ids)) == len(ids)


def test_an_id_tells_when_the_run_began(place):
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    before = time.time_ns() // 1_000_000
    name = run_json(place, "true")[1]["runId"]
    stamp = sum(digits.index(c) << 5 * (9 - i) for i, c in enumerate(name[:10]))
    assert before <= stamp <= time.time_ns() // 1_000_000


def test_ids_of_one_moment_differ(place):
    running = [place.popen("printenv", "RUN_ID", stdout=-1, text=True) for _ in range(10)]
    ids = {process.communicate()[0] for process in running}
    assert len(ids) == len(running)


@pytest.mark.parametrize("name", ["a", "0", "job-1", "A.b_c-D", "x" * 64, "1" * 64])
def test_a_valid_id_is_taken_and_seen_inside(place, name):
    _, result = run_json(place, "printenv", "RUN_ID", options=("--run-id", name))
    assert result["runId"] == name
    assert result["stdout"] == f"{name}\n"


def test_a_minted_id_is_seen_inside_and_in_the_last_line(place):
    result = run_json(place, "printenv", "RUN_ID")[1]
    assert result["stdout"] == result["runId"] + "\n"
    done = place.run("printenv", "RUN_ID", options=())
    assert f"run {done.stdout.strip()}: exit 0" in done.stderr


@pytest.mark.parametrize("name", ["", "a/b", "/", "a b", " ", "x" * 65, ".hidden", "..", "-x", "_x",
                                  "a\nb", "a\tb", "\u00e9", "a:b", "a%b", "a*", "$(id)"])
def test_an_id_that_is_none_is_refused(place, name):
    assert_refused(place, ("-q", "--run-id", name), "--run-id")


@pytest.mark.parametrize("attempt", [0, 1, 7, 4294967295])
def test_the_attempt_is_told(place, attempt):
    _, result = run_json(place, "true", options=("--attempt", str(attempt)))
    assert result["attempt"] == attempt


def test_the_result_cannot_be_written_from_inside(place):
    """What the agent prints stays in stdout, whatever it looks like."""
    forged = '{"runId":"x","ok":true,"exitCode":0}'
    _, result = run_json(place, "sh", "-c", f"echo '{forged}'; touch {MARKER}; exit 9")
    assert (result["exitCode"], result["ok"], result["stdout"]) == (9, False, forged + "\n")
