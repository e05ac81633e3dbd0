# SPDX-License-Identifier: MIT
"""Every option with wrong values: status 125, one line, nothing started, nothing echoed."""
import re

import pytest

import harness
from checks import LEAVE_MARKER, assert_one_line, assert_refused

TABLES = [harness.TOP / "src" / "config" / name for name in ("settings.def", "keeper.def")]
ROW = re.compile(r'^SETTING\("([a-z-]+)", (?:0|\'(.)\'), ([A-Z_]+), [\w.]+, (\w+), (\w+), '
                 r'(?:NULL|"([^"]*)"),$', re.M)


def read_settings():
    """The rows of the table: name, letter, kind, low, high, argument."""
    text = "".join(table.read_text() for table in TABLES)
    rows = ROW.findall(text)
    assert len(rows) == len(re.findall(r"^SETTING\(", text, re.M)), "a row is not understood"
    return rows


ROWS = read_settings()
MISSING = "/missing-on-this-machine"

# What is wrong for every option of a kind, whatever its range.
WRONG = {
    "STRING": [""],
    "MOUNT": ["", ":", ":/x", f"{MISSING}:", MISSING, "/proc", "relative"],
    "ENV": ["", "=", "=x", "1A=x", "A-B=x", "A B=x", "A.B", "\u00e9=x", "NOT_SET_HERE", " A=x"],
    "CHOICE": ["", "V1", "v", "v11", "v1|v2", "auto ", "|", "auto|v2|systemd|v1|none", "no"],
    "RUN_ID": ["", " ", "a/b", "a b", ".a", "-a", "_a", "x" * 65, "\u00e9"],
    "COUNT": ["", "x", "-1", "+1", " 1", "1 ", "1.5", "1.", ".5", "0x10", "1e3", "1K", "1,000",
              "99999999999999999999", "18446744073709551616", "18446744073709551617", "\u0661"],
    "SIZE": ["", "x", "-1M", "+1M", " 1M", "1 M", "M", "1KB", "1MM", "1Mi", "1.2345M", "1..5M",
             "1.5.5M", ".5M", "5.M", "0x10M", "1e3", "99999999T", "18446744073709551616",
             "16777216T", "99999999999999999999999999M"],
    "DURATION": ["", "x", "-1s", "+1s", " 1s", "1 s", "s", "ms", "1sec", "1S", "1.2345s", "1..5s",
                 ".5s", "5.s", "1h30m", "1:30", "99999999999d", "18446744073709551616",
                 "99999999999999999999999999s", "inf"],
    "MILLI": ["", "x", "-1", "+1", " 1", "1 ", "1,5", "1.2345", "1.", ".5", "1K", "50%", "nan",
              "inf", "99999999999999999999", "18446744073709552"],
    "LLM": ["", "x", "host", "ftp://x", "http://", "http:///x", "http://a b", "http://a:0",
            "http://a:65536", "http://a:x", "http://u:p@a", "http://a/?q", "http://a/#f",
            "http://[::1", "http://a\u00e9", "=http://a", "/=http://a", "https:/a"],
    "LLM_KEY": ["", "do-not-echo", "env:", "file:", "exec:", "ENV:X"],
    "LLM_PROVIDER": ["", "gpt", "LiteLLM", "openai "],
    "ALLOW": ["", "*", "http://a", "a b", "get a/x", "a:0", "a:x", "u@a", "tcp://a", "a/../b",
              "127.1", "*.*.a"],
    "DENY": ["", "*", "http://a", "a:65536", "GET,", "tcp://a/x"],
    "SECRET": ["", "x", "A=env:X", "A=env:X@", "A=env:X@a,,b", "=env:X@a", "1A=env:X@a",
               "A=do-not-echo@a", "A=file:@a"],
    "SECRET_IN": ["", "A=header", "A=", "A=cookie"],
    "SECRET_INJECT": ["", "A=X: {value}", "A"],
    "SECRET_PLACEHOLDER": ["", "A", "A=", "A=abcdefgh"],
    "SECRET_CLEARTEXT": ["", "A", "A=x"],
    "SECRET_IP_LITERALS": ["", "A", "A=x"],
    "SERVICE": ["", "x", "x=", "=10.0.0.5:80", "x=10.0.0.5", "x=10.0.0.5:0", "x:1=10.0.0.5:80", "*.x=10.0.0.5:80",
                "x y=10.0.0.5:80", "x/y=10.0.0.5:80", "u@x=10.0.0.5:80", "\u00e9=10.0.0.5:80", "-x=10.0.0.5:80"],
    "LIMIT": ["", "run", "run:", "spend=1", "run:spend", "run:spend=", "run:spend=0", "run:spend=-1", "run:spend=1,",
              "run:spend=1 ", "run:SPEND=1", "Run:spend=1", "run=x:spend=1", "run:requests=1/d", "run:requests=0.0001",
              "run:burst=1.5", "run:bytes=1KB", "run:duration=1w", "account=:spend=1", "account:spend=1",
              "account=a:duration=1h", "account=\u00e9:spend=1", "host=:bytes=1", "host=*:bytes=1", "host=a:80:bytes=1",
              "host=*.*.a:bytes=1", "host=a/b:bytes=1", "host=u@a:bytes=1", "run:burst=5", "run:spend=99999999999999"],
    "MONEY": ["", "x", "-1", "+1", " 1", "1 ", "0", "0.0", "1,5", "$1", "1.", ".5", "nan", "inf", "1e99",
              "99999999999999999999"],
    "KEEPER_ADDRESS": ["", "x", "unix:", "/x", "tls:", "tls:a", "tls:a:0", "tls:a:65536", "tls:u@a:1", "tcp:a:1",
                       "tls:a:1"],
    "KEEPER_TOKEN": ["", "do-not-echo", "env:", "file:", "exec:", "config:a", "env:A"],
    "CONNECT_TO": ["", "x", "a:1", "a:1=b", "a=b:1", "a:1=", "=b:1", "a:0=b:1", "a:1=b:99999"],
    "HEADER_TEXT": ["", "a\nb", "\u00e9", "x" * 257],
    "METADATA": ["", "x", "=x", "a\nb=c", "a=\u00e9", "a=" + "x" * 5000],
}


def in_units(kind, value):
    """A number of a row as one would write it."""
    return {"DURATION": f"{value}ms", "MILLI": f"{value / 1000:.3f}"}.get(kind, str(value))


def wrong_values():
    """Every option that takes an argument with everything that is wrong for it."""
    for name, _, kind, low, high, argument in ROWS:
        if not argument:
            continue
        for value in WRONG[kind]:
            if (name, value) != ("tmpfs", MISSING):  # where it is to be made
                yield name, value
        if kind in ("COUNT", "SIZE", "DURATION", "MILLI"):
            yield name, in_units(kind, int(high) + 1)
            if int(low) > 0:
                yield name, in_units(kind, int(low) - 1)
                yield name, "0"


def test_the_table_is_understood():
    names = [row[0] for row in ROWS]
    assert {"workspace", "timeout", "json", "env", "cgroup", "help"} <= set(names)
    assert {row[2] for row in ROWS} == {*WRONG, "FLAG"}
    assert {"llm", "llm-key", "audit", "connect-to"} <= set(names)


@pytest.mark.parametrize("name, value", wrong_values())
def test_a_wrong_value_is_refused(user_place, name, value):
    assert_refused(user_place, (f"--{name}", value))


@pytest.mark.parametrize("name, value", [(n, v) for n, v in wrong_values() if n in
                                         ("timeout", "memory", "env", "ro", "cgroup")])
def test_a_wrong_value_is_refused_after_an_equals_sign_too(user_place, name, value):
    assert_refused(user_place, (f"--{name}={value}",))


@pytest.mark.parametrize("options", [
    ("--timeout", "1.5h"), ("--timeout=365d",), ("-t30",), ("-t", "900000ms"), ("--grace", "1h"),
    ("--grace", "1ms"), ("--pids", "1"), ("-p1000",), ("--files", "1024"), ("--scratch", "1.5M"),
    ("--scratch", "1T"), ("--output", "1G"), ("-o1",), ("--attempt", "4294967295"),
    ("--attempt", "0"), ("--cgroup", "auto"), ("--cgroup", "none"), ("--env", "A="), ("-eA=b",),
    ("--tmpfs", "/x:4K"), ("--tmpfs", "/x:1.5G"), ("--run-id", "x"), ("--json",), ("-T",),
    ("--no-tty",), ("--verbose",), ("-v", "-q"),
], ids=" ".join)
def test_a_right_value_is_taken(user_place, options):
    assert user_place.run("true", options=options).returncode == 0


@pytest.mark.parametrize("row", [r for r in ROWS if r[5]], ids=lambda r: r[0])
def test_an_argument_that_is_missing_is_refused(user_place, row):
    for word in (f"--{row[0]}", f"-{row[1]}" if row[1] else f"--{row[0]}"):
        done = user_place.warder("run", word)
        assert done.returncode == 125
        assert_one_line(done.stderr, f"--{row[0]}", row[5])


@pytest.mark.parametrize("row", [r for r in ROWS if r[2] == "FLAG" and r[0] != "help"],
                         ids=lambda r: r[0])
@pytest.mark.parametrize("value", ["=", "=1", "=true", "=do-not-echo"])
def test_a_flag_with_a_value_is_refused(user_place, row, value):
    done = assert_refused(user_place, (f"--{row[0]}{value}",), f"--{row[0]}")
    assert "do-not-echo" not in done.stderr


def test_help_with_a_value_is_refused(user_place):
    assert_refused(user_place, ("--help=x",), "--help")


@pytest.mark.parametrize("option, nearest", [
    ("--timeot", "--timeout"), ("--time-out", "--timeout"), ("--workspce", "--workspace"),
    ("--jsn", "--json"), ("--memry=1", "--memory"), ("--run-di", "--run-id"),
    ("--notty", "--no-tty"), ("--Json", "--json"), ("--envs", "--env"),
])
def test_an_unknown_option_gets_a_suggestion(user_place, option, nearest):
    assert_refused(user_place, (option,), "unknown option", nearest)


@pytest.mark.parametrize("option", ["--frobnicate", "-Z", "--", "-", "--=", "--=x", "-=x",
                                    "--" + "x" * 1000])
def test_an_unknown_option_far_from_all_others_is_refused(user_place, option):
    if option in ("--", "-"):  # these are no options: what follows, or they, are the command
        assert user_place.run(*LEAVE_MARKER, options=(option,)).returncode == 127
        return
    assert_refused(user_place, (option,), "unknown option", "--help")


SECRET = "s3cr3t-do-not-echo"


@pytest.mark.parametrize("option", [
    f"--env=BAD-NAME={SECRET}", f"--env=={SECRET}", f"--env=RUN_ID={SECRET}", f"-e1={SECRET}",
    f"--evn=NAME={SECRET}", f"--bogus={SECRET}", f"--json={SECRET}", f"--secret=NAME={SECRET}",
])
def test_no_value_of_a_variable_is_echoed(user_place, option):
    done = assert_refused(user_place, (option,))
    assert SECRET not in done.stdout + done.stderr


def test_no_value_that_was_passed_on_is_echoed(user_place):
    options = ("--env", "RUN_ID")
    done = assert_refused(user_place, options, "RUN_ID", env={"RUN_ID": SECRET})
    assert SECRET not in done.stdout + done.stderr


LONG = "x" * (100 * 1024)


@pytest.mark.parametrize("row", [r for r in ROWS if r[5]], ids=lambda r: r[0])
def test_a_value_of_100_kib_is_refused_in_a_short_line(user_place, row):
    done = assert_refused(user_place, (f"--{row[0]}", LONG), command=("true",))
    assert len(done.stderr) < 600


# A file that is made may have any name, and a variable's value may be anything.
ECHOING = [r for r in ROWS if r[5] and r[0] not in ("result", "audit", "llm-socket")]


@pytest.mark.parametrize("row", ECHOING, ids=lambda r: r[0])
def test_control_characters_are_not_echoed_to_the_terminal(user_place, row):
    done = assert_refused(user_place, (f"--{row[0]}", "a\x1b[31m\nb"))
    assert "\x1b" not in done.stderr


def test_control_characters_in_a_commands_name_are_not_echoed_either(user_place):
    done = user_place.run("a\x1b[31m\nb")
    assert done.returncode == 127
    assert_one_line(done.stderr)
    assert "\x1b" not in done.stderr


def test_the_first_mistake_is_the_one_that_is_told(user_place):
    options = ("--timeout", "x", "--bogus", "--memory", "y")
    done = assert_refused(user_place, options, "--timeout")
    assert "bogus" not in done.stderr and "memory" not in done.stderr


def test_as_root_a_wrong_value_is_refused_too(root_place):
    for options in (("--timeout", "x"), ("--memory", "1"), ("--pids", "0"), ("--bogus",)):
        assert_refused(root_place, options)


@pytest.mark.parametrize("options", [("--json", "--tty"), ("--tty", "--json")])
def test_a_terminal_and_a_result_exclude_each_other(user_place, options):
    done = user_place.run(*LEAVE_MARKER, options=options)
    assert done.returncode == 125
    assert_one_line(done.stderr, "--json", "--tty")
