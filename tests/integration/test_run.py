# SPDX-License-Identifier: MIT
"""What a command sees and what its caller learns."""
import hashlib
import os
import random
import re
import signal
import stat

import pytest

import harness
from checks import LEAVE_MARKER, MARKER, assert_one_line

SUMMARY = r"warder: run [0-9A-Z]{26}: exit %d, \d+\.\d{3} s\n"
KIB = 1024


def with_shell(place, redirection, *argv, options=("-q",)):
    """The run with a redirection, or anything a shell does before an exec."""
    script = f'exec "$@" {redirection}'
    line = [place.binary, "run", *options, "--", *argv]
    return place.host(["sh", "-c", script, "sh", *line])


def test_output_and_status_are_the_commands_own(place):
    done = place.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


# ---- exit status ----


@pytest.mark.parametrize("status", [0, 1, 2, 123, 124, 125, 126, 127, 128, 137, 255])
def test_any_status_of_the_command_passes_through(place, status):
    assert place.run("sh", "-c", f"exit {status}").returncode == status


SIGNALS = [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGPIPE,
           signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMIN]


@pytest.mark.parametrize("number", SIGNALS, ids=lambda s: s.name)
def test_a_signals_end_is_128_and_its_number(place, number):
    done = place.run("sh", "-c", f"kill -{int(number)} $$")
    assert done.returncode == 128 + number


def test_a_command_that_is_not_there_is_127(place):
    done = place.run("no-such-command")
    assert done.returncode == 127
    assert_one_line(done.stderr, "no-such-command", "PATH")


@pytest.mark.parametrize("path", ["/usr/bin/no-such-command", "./no-such-command",
                                  "/usr/bin/env/below-a-file"])
def test_a_path_that_is_not_there_is_127(place, path):
    done = place.run(path)
    assert done.returncode == 127
    assert_one_line(done.stderr, path)


def test_a_missing_interpreter_is_127_and_named_as_such(place):
    place.write("workspace/script", "#!/no/such/interpreter\n", 0o755)
    done = place.run("./script")
    assert done.returncode == 127
    assert_one_line(done.stderr, "./script", "interpreter")


@pytest.mark.parametrize("make", [
    lambda place: place.write("workspace/thing", "#!/bin/sh\n", 0o644),
    lambda place: place.own(make_dir(place.workspace / "thing")),
    lambda place: os.mkfifo(place.workspace / "thing", 0o777),
    lambda place: os.symlink("thing", place.workspace / "thing"),
], ids=["no execute bit", "directory", "fifo", "link to itself"])
def test_what_cannot_be_executed_is_126(place, make):
    make(place)
    done = place.run("./thing")
    assert done.returncode == 126
    assert_one_line(done.stderr, "./thing")


def make_dir(path):
    path.mkdir()
    return path


def test_an_unusable_name_on_the_path_is_126_unless_a_usable_one_follows(place):
    place.write("home/a/tool", "no program", 0o644)
    place.write("home/b/tool", "#!/bin/sh\necho found\n", 0o755)
    unusable = {"PATH": f"{place.home}/a:{harness.PATH}"}
    usable = {"PATH": f"{place.home}/a:{place.home}/b:{harness.PATH}"}
    assert place.run("tool", env=unusable).returncode == 126
    assert place.run("tool", env=usable).stdout == "found\n"


def test_the_empty_command_is_refused(place):
    done = place.run("")
    assert done.returncode == 125
    assert_one_line(done.stderr, "no command")


# ---- output ----


def test_bytes_of_any_kind_pass_untouched_and_apart(place):
    every = bytes(range(256)) * 16
    place.workspace.joinpath("bytes").write_bytes(every)
    done = place.run("sh", "-c", "cat bytes; cat bytes bytes >&2", text=False)
    assert done.stdout == every
    assert done.stderr == every * 2


def test_five_megabytes_pass_through_pipes_in_both_directions(place):
    data = random.Random(5).randbytes(5_000_000)
    done = place.run("sh", "-c", "tee copy; sha256sum copy >&2", input=data, text=False)
    digest = hashlib.sha256(data).hexdigest()
    assert hashlib.sha256(done.stdout).hexdigest() == digest
    assert done.stderr.decode().split()[0] == digest


def test_the_end_of_a_run_is_one_line_on_stderr(place):
    done = place.run("sh", "-c", "echo out; exit 3", options=())
    assert done.stdout == "out\n"
    assert re.fullmatch(SUMMARY % 3, done.stderr)


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_leaves_that_line_out(place, option):
    assert place.run("true", options=(option,)).stderr == ""


def test_verbose_tells_what_held_the_limits(place):
    assert "cgroup none" in place.run("true", options=("-v",)).stderr


def test_a_reader_that_goes_away_ends_the_writer(place):
    done = place.host(["sh", "-c", '("$@"; echo $? >&2) | head -c 2', "sh",
                       place.binary, "run", "-q", "--", "yes"])
    assert done.stdout == "y\n"
    assert done.stderr.splitlines()[-1] == str(128 + signal.SIGPIPE)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_captured_stream_can_be_opened_by_its_name(place, name):
    result = place.json("sh", "-c", f"echo named >/dev/{name}")
    assert (result["exitCode"], result[name]) == (0, "named\n"), result


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_pipe_of_root_can_be_opened_by_its_name(root_place, name):
    script = ("sh", "-c", f"echo named >/dev/{name}")
    assert getattr(root_place.host(script), name) == "named\n"
    assert getattr(root_place.run(*script), name) == "named\n"


# ---- input ----


def test_stdin_passes_through_from_a_pipe(place):
    assert place.run("cat", input="typed\n").stdout == "typed\n"


def test_stdin_passes_through_from_a_file(place):
    path = place.write("input", "one\ntwo\n")
    with open(path, "rb") as file:
        assert place.run("cat", stdin=file).stdout == "one\ntwo\n"


def test_stdin_from_dev_null_is_empty(place):
    done = with_shell(place, "</dev/null", "cat")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("redirection, command", [
    ("<&-", "cat"),
    (">&-", "echo lost"),
    ("2>&-", "echo lost >&2"),
], ids=["stdin", "stdout", "stderr"])
def test_a_closed_descriptor_fails_in_the_sandbox_as_it_does_outside(place, redirection, command):
    outside = place.host(["sh", "-c", f'exec "$@" {redirection}', "sh", "sh", "-c", command])
    inside = with_shell(place, redirection, "sh", "-c", command)
    assert outside.returncode != 0 and inside.returncode != 0
    assert inside.stdout == outside.stdout == ""


def test_with_all_descriptors_closed_the_command_still_runs(place):
    done = with_shell(place, "<&- >&- 2>&-", "sh", "-c", f"touch {MARKER}; exit 5")
    assert done.returncode == 5
    assert place.workspace.joinpath(MARKER).exists()


def test_a_result_for_a_closed_stdout_is_a_failure_of_warder(place):
    done = with_shell(place, ">&-", "true", options=("-q", "--json"))
    assert done.returncode == 125
    assert_one_line(done.stderr, "standard output")


def test_a_result_for_a_full_stdout_is_a_failure_of_warder(place):
    done = with_shell(place, ">/dev/full", "true", options=("-q", "--json"))
    assert done.returncode == 125
    assert_one_line(done.stderr, "standard output", "No space left")


def test_a_directory_as_stdin_is_not_handed_to_the_agent(place):
    script = ["sh", "-c", "readlink /proc/$$/fd/0; ls /proc/$$/fd/0/"]
    outside = place.host(["sh", "-c", 'exec "$@" </', "sh", *script])
    inside = with_shell(place, "</", *script)
    assert outside.stdout.startswith("/\n") and "usr" in outside.stdout
    assert (inside.returncode, inside.stdout) == (125, "")
    assert inside.stderr == "warder: standard input is a directory\n"


# ---- the command line of the command ----


def test_a_script_without_an_interpreter_line_is_the_shells(place):
    place.write("workspace/script", 'echo "$0 $1 $#"\n', 0o755)
    assert place.run("./script", "a b", "c").stdout == "./script a b 2\n"


def test_a_relative_command_is_found_in_the_workspace(place):
    place.write("workspace/sub/tool", "#!/bin/sh\npwd\n", 0o755)
    assert place.run("sub/tool").stdout == "/workspace\n"


def test_a_name_in_the_workspace_that_is_not_on_the_path_is_not_run(place):
    place.write("workspace/tool", "#!/bin/sh\necho wrong\n", 0o755)
    assert place.run("tool").returncode == 127
    assert place.run("./tool").stdout == "wrong\n"


ARGUMENTS = [b"", b"a b", b"*", b"$HOME", b"--json", b"-q", b"--", b"\xff\xfe", b"new\nline",
             "\u00e9\u4e2d".encode(), b"=", b"\x01\x7f"]


def test_arguments_arrive_byte_by_byte(place):
    done = place.run("printf", r"%s\0", *ARGUMENTS, text=False)
    assert done.stdout.split(b"\0")[:-1] == ARGUMENTS


def test_the_first_word_that_is_no_option_begins_the_command(place):
    done = place.warder("run", "-q", "echo", "-n", "--json", "--", "x")
    assert done.stdout == "--json -- x"


def test_only_the_first_double_dash_is_warders(place):
    assert place.run("echo", "--", "x").stdout == "-- x\n"
    assert place.run("--", "x").returncode == 127


def test_arguments_of_a_megabyte_together_arrive(place):
    words = ["x" * (100 * KIB)] * 11
    done = place.run("sh", "-c", 'printf %s "$@" | wc -c', "sh", *words)
    assert int(done.stdout) == 11 * 100 * KIB


def test_one_argument_of_a_megabyte_is_refused_by_the_kernel_before_warder_runs(place):
    with pytest.raises(OSError, match="Argument list too long"):
        place.run(*LEAVE_MARKER, "x" * KIB * KIB)
    assert not place.workspace.joinpath(MARKER).exists()
    assert place.run(*LEAVE_MARKER, "x" * 100).returncode == 0


def test_a_name_of_a_command_of_100_kib_fails_in_one_short_line(place):
    done = place.run("x" * (100 * KIB))
    assert done.returncode in (126, 127)
    assert_one_line(done.stderr)
    assert len(done.stderr) < 600


# ---- what the command starts with ----


def test_the_working_directory_is_the_workspace(place):
    place.write("workspace/file", "here")
    assert place.run("sh", "-c", "pwd; cat file").stdout == "/workspace\nhere"


@pytest.mark.parametrize("mask", ["027", "000", "077"])
def test_the_umask_is_the_callers(place, mask):
    script = f'umask {mask}; exec "$@"'
    command = [place.binary, "run", "-q", "--", "sh", "-c", "umask; touch file"]
    done = place.host(["sh", "-c", script, "sh", *command])
    assert done.stdout == f"0{mask}\n"
    mode = stat.S_IMODE(place.workspace.joinpath("file").stat().st_mode)
    assert mode == 0o666 & ~int(mask, 8)


def test_signals_are_neither_blocked_nor_ignored_at_the_start(place):
    script = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); " \
             "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1}); " \
             "import os; os.execv(sys.argv[1], sys.argv[1:])"
    command = [place.binary, "run", "-q", "--", "grep", "^Sig[BI]", "/proc/self/status"]
    done = place.host(["/usr/bin/python3", "-c", script, *command])
    assert re.fullmatch(r"SigBlk:\t0{16}\nSigIgn:\t0{16}\n", done.stdout), done


def test_only_the_three_standard_descriptors_are_open(place):
    reader, writer = os.pipe()
    command = ("sh", "-c", "ls /proc/$$/fd")
    try:
        host = place.host(command, pass_fds=(reader, writer))
        inside = place.run(*command, pass_fds=(reader, writer))
    finally:
        os.close(reader)
        os.close(writer)
    assert str(writer) in host.stdout.split()
    assert [fd for fd in inside.stdout.split() if fd != "10"] == ["0", "1", "2"]


# ---- the command line of warder ----


def test_help_lists_every_option_and_runs_nothing(place):
    done = place.run(*LEAVE_MARKER, options=("--help",))
    assert (done.returncode, done.stderr) == (0, "")
    for option in ("--workspace", "--timeout", "--json", "--result", "--no-tty", "-q"):
        assert option in done.stdout
    assert not place.workspace.joinpath(MARKER).exists()


@pytest.mark.parametrize("words", [("help",), ("--help",)])
def test_the_general_help_lists_the_commands(user_place, words):
    done = user_place.warder(*words)
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("run", "doctor", "version"):
        assert re.search(rf"^  {command}\b", done.stdout, re.M)


def test_the_version_is_told(user_place):
    assert re.fullmatch(r"warder \d+\.\d+\S*\n", user_place.warder("--version").stdout)


def test_an_unknown_command_is_refused_with_advice(user_place):
    done = user_place.warder("frobnicate")
    assert (done.returncode, done.stdout) == (125, "")
    assert_one_line(done.stderr, "frobnicate", "warder help", "warder run -- frobnicate")


def test_no_arguments_are_a_mistake_that_prints_the_help(user_place):
    done = user_place.warder()
    assert done.returncode == 125
    assert "usage: warder" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [("run",), ("run", "--"), ("run", "-q")])
def test_a_run_of_nothing_is_refused(user_place, words):
    done = user_place.warder(*words)
    assert (done.returncode, done.stdout) == (125, "")
    assert_one_line(done.stderr, "no command")
