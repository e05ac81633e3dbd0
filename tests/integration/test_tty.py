# SPDX-License-Identifier: MIT
"""Runs at a terminal: they get one of their own, and the caller's comes back as it was."""
import os
import signal
import subprocess
import termios

import pytest

from checks import assert_one_line, send, wait_until
from terminal import Terminal

PYTHON = "/usr/bin/python3"
LOOP = "while :; do sleep 0.02; done"


@pytest.fixture
def terminal():
    with Terminal(33, 101) as made:
        yield made


def start(terminal, place, *argv, options=("-q",), env=None, **kwargs):
    """A run at this terminal, as typed by the user of this place."""
    line = [place.binary, "run", *options, "--", *argv]
    command = place.command(line, {"TERM": "xterm", **(env or {})})
    terminal.start(command, cwd=place.workspace, **kwargs)


def shell(terminal, place, script, **kwargs):
    start(terminal, place, "sh", "-c", script, **kwargs)


# ---- a terminal of its own ----


def test_the_agents_terminal_is_a_new_one(place, terminal):
    script = "import os; st = os.fstat(0); print(os.ttyname(0), st.st_dev, st.st_rdev, end=' .')"
    start(terminal, place, PYTHON, "-c", script)
    name, device, number = terminal.wait_for(" .").split()
    assert terminal.end() == 0
    caller = os.fstat(terminal.slave)
    assert name == "/dev/pts/0"
    assert (int(device), int(number)) != (caller.st_dev, caller.st_rdev)
    assert int(device) != caller.st_dev, "it is on the caller's devpts"


def test_the_agents_terminal_controls_its_session(place, terminal):
    script = "import os; fd = os.open('/dev/tty', os.O_RDWR); " \
             "print(os.tcgetpgrp(fd) == os.getpgrp(), os.getsid(0) == os.getpid(), end=' .')"
    start(terminal, place, PYTHON, "-c", script)
    assert terminal.wait_for(" .") == "True True"


def test_the_callers_terminal_is_nowhere_in_the_sandbox(place, terminal):
    shell(terminal, place, "ls -m /dev/pts; readlink /proc/self/fd/[012]; echo .")
    assert terminal.wait_for(".\r\n").split() == ["0,", "ptmx", *["/dev/pts/0"] * 3]


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_the_exit_status_passes_through(place, terminal, status):
    shell(terminal, place, f"exit {status}")
    assert terminal.end() == status


def test_the_end_of_a_run_is_told_on_a_line_of_its_own(place, terminal):
    shell(terminal, place, "echo out", options=())
    terminal.wait_for("out\r\nwarder: run ")
    terminal.wait_for(": exit 0, ")
    assert terminal.end() == 0
    assert terminal.seen.endswith(b" s\r\n")


def test_a_great_deal_of_output_passes(place, terminal):
    start(terminal, place, "seq", "1", "20000")
    assert terminal.end() == 0
    assert terminal.seen == b"".join(b"%d\r\n" % i for i in range(1, 20001))


def test_a_limit_on_output_holds_at_a_terminal_too(place, terminal):
    start(terminal, place, "seq", "1", "20000", options=("-q", "--output", "10"))
    assert terminal.end() == 0
    assert terminal.seen.startswith(b"1\r\n2\r\n3\r\n4warder: output beyond 10 bytes")


# ---- the window ----


def test_the_window_has_the_callers_size_from_the_first_moment(place, terminal):
    for _ in range(5):
        shell(terminal, place, "stty size")
        terminal.wait_for("33 101\r\n")
        assert terminal.end() == 0


def test_a_change_of_the_window_reaches_the_agent(place, terminal):
    shell(terminal, place, f"trap 'stty size' WINCH; echo ready; {LOOP}")
    terminal.wait_for("ready")
    for rows, columns in [(40, 120), (10, 20)]:
        terminal.resize(rows, columns)
        terminal.wait_for(f"{rows} {columns}\r\n")


# ---- keys ----


@pytest.mark.parametrize("key, name", [("\x03", "INT"), ("\x1c", "QUIT")])
def test_a_key_that_interrupts_reaches_the_foreground(place, terminal, key, name):
    shell(terminal, place, f"trap 'echo got {name}; exit 7' {name}; echo ready; {LOOP}")
    terminal.wait_for("ready")
    terminal.type(key)
    terminal.wait_for(f"got {name}")
    assert terminal.end() == 7


def test_control_c_ends_a_command_that_does_not_catch_it(place, terminal):
    shell(terminal, place, "echo ready; exec sleep 60")
    terminal.wait_for("ready")
    terminal.type("\x03")
    assert terminal.end() == 128 + signal.SIGINT


def test_control_d_ends_a_reader(place, terminal):
    start(terminal, place, "cat")
    terminal.type("typed\r")
    terminal.wait_for("typed\r\ntyped\r\n")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_what_is_typed_early_is_not_lost(place, terminal):
    start(terminal, place, "sh", "-c", "sleep 0.1; read line; echo got $line")
    terminal.type("early\r")
    terminal.wait_for("got early")
    assert terminal.end() == 0


def test_an_agent_may_switch_its_echo_off(place, terminal):
    shell(terminal, place, "stty -echo; echo ready; read x; stty echo; echo got $x")
    terminal.wait_for("ready\r\n")
    terminal.type("password\r")
    assert terminal.wait_for("got password") == ""


def test_job_control_works_in_an_interactive_shell(place, terminal):
    options = ("-q", "--env", "PS1=ready> ")
    start(terminal, place, "bash", "--norc", "-i", options=options, env={"TERM": "dumb"})
    banner = terminal.wait_for("ready> ")
    assert "no job control" not in banner
    # It forks nothing: a child that is stopped between vfork and exec holds its parent up.
    job = "trap 'echo continued' CONT; echo up; while :; do :; done"
    terminal.type(f'sh -c "{job}"\r')
    terminal.wait_for("up\r\n")
    terminal.type("\x1a")
    terminal.wait_for("Stopped")
    terminal.wait_for("ready> ")
    terminal.type("jobs\r")
    assert "Stopped" in terminal.wait_for("ready> ")
    terminal.type("fg\r")
    terminal.wait_for("continued\r\n")  # by now the terminal is the job's
    terminal.type("\x03")
    terminal.wait_for("ready> ")
    terminal.type("echo $?; jobs\r")
    assert terminal.wait_for("ready> ") == "echo $?; jobs\r\n130\r\n"
    terminal.type("exit 5\r")
    assert terminal.end() == 5


def test_a_full_screen_editor_works(place, terminal):
    path = place.write("workspace/file", "old\n")
    if not os.path.exists("/usr/bin/vi"):
        start(terminal, place, "less", "file")
        terminal.wait_for("old")
        terminal.type("q")
        assert terminal.end() == 0
        return
    start(terminal, place, "vi", "-u", "NONE", "file")
    terminal.wait_for("old")
    terminal.type("onew line\x1b:wq\r")
    assert terminal.end() == 0
    assert path.read_text() == "old\nnew line\n"


# ---- the caller's terminal ----


@pytest.mark.parametrize("script, options, status", [
    ("exit 0", (), 0),
    ("stty raw -echo; exit 3", (), 3),
    ("kill -9 $$", (), 137),
    ("sleep 60", ("-t", "200ms"), 124),
    ("exit 0", ("--ro", "/usr:/workspace/missing"), 125),
    ("exit 0", ("--workspace", "/"), 125),
], ids=["success", "raw inside", "signal", "timeout", "refused inside", "refused outside"])
def test_the_terminal_is_as_before_after_any_ending(place, terminal, script, options, status):
    before = terminal.mode()
    shell(terminal, place, script, options=("-q", *options))
    assert terminal.end() == status
    assert terminal.mode() == before


def test_the_terminal_is_raw_during_the_run_and_as_before_after_it(place, terminal):
    before = terminal.mode()
    assert not terminal.is_raw()
    shell(terminal, place, "echo ready; read x")
    terminal.wait_for("ready")
    assert terminal.is_raw()
    terminal.type("\r")
    assert terminal.end() == 0
    assert terminal.mode() == before


def test_an_unusual_mode_of_the_terminal_comes_back_too(place, terminal):
    mode = terminal.mode()
    mode[3] &= ~termios.ECHO
    mode[6][termios.VINTR] = b"\x07"
    termios.tcsetattr(terminal.slave, termios.TCSANOW, mode)
    before = terminal.mode()
    shell(terminal, place, "exit 0")
    assert terminal.end() == 0
    assert terminal.mode() == before


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def test_while_stopped_the_terminal_is_the_callers_again(place, terminal):
    before = terminal.mode()
    shell(terminal, place, "echo ready; read x; echo got $x")
    terminal.wait_for("ready")
    send(terminal.process, signal.SIGTSTP)
    wait_until(lambda: state_of(terminal.process.pid) == "T")
    assert terminal.mode() == before
    send(terminal.process, signal.SIGCONT)
    wait_until(terminal.is_raw)
    terminal.type("back\r")
    terminal.wait_for("got back")
    assert terminal.end() == 0


def test_a_terminal_that_hangs_up_ends_the_run(place, terminal):
    shell(terminal, place, "echo ready; sleep 60")
    terminal.wait_for("ready")
    terminal.hang_up()
    terminal.process.wait(timeout=30)


# ---- no terminal, or one that was asked for ----


def test_no_tty_gives_none_but_what_is_typed_still_arrives(place, terminal):
    script = "for i in 0 1 2; do test -t $i && echo wrong; done; read x; echo got $x; cat; echo end"
    shell(terminal, place, script, options=("-q", "--no-tty"))
    terminal.type("hello\r")
    assert "wrong" not in terminal.wait_for("got hello\r\n")
    terminal.type("\x04")
    terminal.wait_for("end")
    assert terminal.end() == 0


def test_no_tty_leaves_the_terminals_mode_alone(place, terminal):
    before = terminal.mode()
    shell(terminal, place, "echo ready; read x", options=("-q", "-T"))
    terminal.wait_for("ready")
    assert terminal.mode() == before
    terminal.type("\r")
    assert terminal.end() == 0


def test_control_c_without_a_terminal_reaches_the_agent_through_warder(place, terminal):
    shell(terminal, place, f"trap 'echo got INT; exit 7' INT; echo ready; {LOOP}",
          options=("-q", "--no-tty"))
    terminal.wait_for("ready")
    terminal.type("\x03")
    terminal.wait_for("got INT")
    assert terminal.end() == 7


def test_no_tty_has_no_controlling_terminal(place, terminal):
    shell(terminal, place, "(: </dev/tty) 2>/dev/null || echo none", options=("-q", "-T"))
    terminal.wait_for("none")


def test_output_that_is_redirected_is_not_mangled(place, terminal):
    shell(terminal, place, "echo out; echo err >&2", stdout=subprocess.PIPE)
    out, _ = terminal.process.communicate(timeout=10)
    assert out == b"out\n"
    terminal.wait_for("err\r\n")


def test_errors_that_are_redirected_stay_redirected(place, terminal):
    shell(terminal, place, "echo out; echo err >&2", stderr=subprocess.PIPE)
    _, err = terminal.process.communicate(timeout=10)
    assert err.replace(b"\r", b"") == b"err\n"
    assert terminal.wait_for("out\r\n") == ""


def test_a_terminal_as_stderr_alone_is_not_handed_to_the_agent(place, terminal):
    script = "test -t 2 && echo wrong; echo err >&2"
    shell(terminal, place, script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert terminal.process.communicate(timeout=10)[0] == b""
    terminal.wait_for("err\r\n")


def test_a_result_at_a_terminal_is_captured_without_one(place, terminal):
    shell(terminal, place, "test -t 0 || echo none", options=("-q", "--json"))
    terminal.wait_for('"stdout":"none\\n"')
    assert terminal.end() == 0


def test_a_result_and_a_terminal_exclude_each_other(place, terminal):
    shell(terminal, place, "echo started", options=("-q", "--json", "--tty"),
          stderr=subprocess.PIPE)
    _, err = terminal.process.communicate(timeout=10)
    assert terminal.process.returncode == 125
    assert_one_line(err.decode(), "--json", "--tty")
    assert b"started" not in terminal.seen


def test_a_terminal_may_be_asked_for_where_there_is_none(place):
    done = place.run("sh", "-c", "tty; echo err >&2; exit 3", options=("-q", "--tty"), text=False)
    assert done.stdout == b"/dev/pts/0\r\nerr\r\n"
    assert (done.stderr, done.returncode) == (b"", 3)


# A terminal's reader sees the end after a whole line at once, and else at the second Control-D.
@pytest.mark.parametrize("text", ["", "typed\n", "typed", "one\ntwo\nthree"])
def test_the_end_of_a_pipe_is_the_end_of_a_terminal_that_was_asked_for(place, text):
    done = place.run("cat", options=("-q", "--tty", "-t", "3s"), input=text)
    assert done.returncode == 0, done
    assert sorted(done.stdout.replace("\r", "")) == sorted(text * 2)  # an echo, and cat's


def test_all_of_a_long_input_arrives_at_a_terminal_that_was_asked_for(place):
    text = "".join(f"line {i}\n" for i in range(20000))
    options = ("-q", "--tty", "-t", "10s")
    done = place.run("sh", "-c", "cat >file", options=options, input=text)
    assert done.returncode == 0, done.stderr
    assert place.workspace.joinpath("file").read_text() == text


@pytest.mark.parametrize("line", ["x" * 70 + "\n", "x" * 70], ids=["lines", "no lines"])
def test_input_that_nobody_reads_does_not_stop_the_clock(place, line):
    options = ("-q", "--tty", "-t", "300ms", "--grace", "200ms")
    done = place.run("sleep", "60", options=options, input=line * 20000)
    assert done.returncode == 124


def test_a_screen_that_nobody_reads_does_not_stop_the_clock(place, terminal):
    options = ("-q", "-t", "300ms", "--grace", "200ms")
    start(terminal, place, "seq", "1", "1000000", options=options, stderr=subprocess.DEVNULL)
    assert terminal.process.wait(timeout=30) == 124
