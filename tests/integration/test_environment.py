# SPDX-License-Identifier: MIT
"""What a run finds around it: variables, home, programs, /etc, ids and names."""
import os
import pathlib

import pytest

import harness
from checks import assert_refused, tree

SECRET = "do-not-leak-8c1f"


def variables(place, options=(), env=None):
    """The agent's environment as a dictionary."""
    done = place.run("env", "-0", options=("-q", *options), env=env, text=False)
    assert done.returncode == 0, done
    pairs = [entry.split(b"=", 1) for entry in done.stdout.split(b"\0")[:-1]]
    assert len(dict(pairs)) == len(pairs), "a variable is there twice"
    return {name.decode(): os.fsdecode(value) for name, value in pairs}


# ---- variables ----


def test_the_environment_holds_only_what_the_sandbox_sets(place):
    assert set(variables(place)) == {"PATH", "HOME", "LANG", "RUN_ID"}


def test_terminal_language_and_time_zone_are_passed_on(place):
    passed = {"TERM": "dumb", "LANG": "C", "LC_ALL": "C.UTF-8", "LC_TIME": "C", "TZ": "Asia/Tokyo"}
    found = variables(place, env=passed)
    assert set(found) == {"PATH", "HOME", "RUN_ID", *passed}
    assert {name: found[name] for name in passed} == passed


LEAKY = ["API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "LANGUAGE", "TERMINFO",
         "TZDIR", "PATHX", "HOMEX", "USER", "PWD", "http_proxy", "DBUS_SESSION_BUS_ADDRESS"]


def test_no_variable_of_the_caller_leaks(place):
    env = {name: SECRET for name in LEAKY if name != "LD_PRELOAD"}
    assert SECRET in place.host(["env"], env=env).stdout
    found = place.run("sh", "-c", "env; cat /proc/self/environ /proc/1/environ", env=env)
    assert "RUN_ID=" in found.stdout
    assert SECRET not in found.stdout


@pytest.mark.parametrize("name", LEAKY)
def test_a_variable_that_is_named_is_passed_on(place, name):
    value = "" if name == "LD_PRELOAD" else SECRET
    assert variables(place, ("--env", name), {name: value})[name] == value


@pytest.mark.parametrize("value", ["x", "", "a=b", "two words", "\u00e9", "\udcff", "new\nline"])
def test_a_variable_is_set_to_any_value(place, value):
    assert variables(place, (f"--env=NAME={value}",))["NAME"] == value


def test_the_last_value_of_a_variable_counts(place):
    found = variables(place, ("-e", "NAME=1", "-e", "NAME=2", "-eHOME=/workspace"))
    assert (found["NAME"], found["HOME"]) == ("2", "/workspace")


def test_a_variable_that_is_not_set_cannot_be_passed_on(place):
    assert_refused(place, ("--env", "NOT_SET_HERE"), "--env", "NOT_SET_HERE")


@pytest.mark.parametrize("options, env", [
    (("--env", "RUN_ID=mine"), {}),
    (("--env", "RUN_ID"), {"RUN_ID": "mine"}),
])
def test_the_run_id_cannot_be_set_as_a_variable(place, options, env):
    assert_refused(place, options, "RUN_ID", "--run-id", env=env)


def test_the_callers_run_id_is_not_the_runs(place):
    assert variables(place, env={"RUN_ID": "mine"})["RUN_ID"] != "mine"


# ---- home ----


def test_home_is_empty_private_and_writable(place):
    place.write("home/.ssh/id_ed25519", SECRET)
    before = tree(place.home)
    script = 'ls -A "$HOME"; echo x >"$HOME/new" && cat "$HOME/new"'
    for _ in range(2):  # the second finds nothing of the first
        assert place.run("sh", "-c", script).stdout == "x\n"
    assert tree(place.home) == before


def test_nothing_of_the_callers_home_is_visible(place):
    path = place.write("home/.ssh/id_ed25519", SECRET)
    hidden = place.run("cat", str(path))
    shown = place.run("cat", str(path), options=("-q", "--ro", str(path.parent)))
    assert hidden.returncode != 0 and SECRET not in hidden.stdout
    assert shown.stdout == SECRET


@pytest.mark.parametrize("home", ["/", "/usr", "relative", "", "/tmp/../tmp", "/nonexistent/x",
                                  "/etc", "/proc/self", "/workspace"])
def test_a_strange_home_still_gives_one_of_its_own(place, home):
    script = 'ls -A "$HOME" && echo x >"$HOME/new" && cat "$HOME/new"'
    done = place.run("sh", "-c", script, env={"HOME": home})
    assert (done.stdout, done.stderr) == ("x\n", "")
    assert not place.workspace.joinpath("new").exists()


def test_without_a_home_there_still_is_one(place):
    command = ["env", "-u", "HOME", place.binary, "run", "-q", "--", "sh", "-c", "cd && pwd"]
    done = place.host(command)
    assert done.stdout.startswith("/home/"), done


# ---- programs below home ----


def test_programs_below_home_that_are_on_the_path_work(place):
    place.write("home/bin/tool", "#!/bin/sh\necho tool $1\n", 0o755)
    env = {"PATH": f"{place.home}/bin:{harness.PATH}"}
    assert place.run("tool", "x", env=env).stdout == "tool x\n"
    assert place.run("tool", "x").returncode == 127


def test_programs_below_home_are_read_only_and_alone(place):
    place.write("home/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
    place.write("home/notes", SECRET)
    env = {"PATH": f"{place.home}/bin:{harness.PATH}"}
    script = 'ls -A "$HOME"; echo x >>"$HOME/bin/tool"; echo x >"$HOME/bin/new"'
    done = place.run("sh", "-c", script, env=env)
    assert done.stdout == "bin\n"
    # Root's own file is not even the agent's to write.
    assert done.stderr.count("Read-only file system") == (2 if place.who == "user" else 1)
    assert done.stderr.count("cannot create") == 2
    assert place.home.joinpath("bin/tool").read_text() == "#!/bin/sh\necho tool\n"


def test_a_program_of_cargo_is_visible_and_its_credentials_are_not(place):
    place.write("home/.cargo/bin/cargo-tool", "#!/bin/sh\necho built\n", 0o755)
    credentials = place.write("home/.cargo/credentials.toml", SECRET)
    toolchain = place.write("home/.rustup/toolchains/stable/lib", "library")
    env = {"PATH": f"{place.home}/.cargo/bin:{harness.PATH}"}
    script = f"cargo-tool; cat {toolchain}; echo; ls -A ~/.cargo; cat {credentials}"
    done = place.run("sh", "-c", script, env=env)
    assert done.stdout == "built\nlibrary\nbin\n"
    assert "No such file" in done.stderr


def test_a_directory_of_the_path_that_is_not_there_does_no_harm(place):
    env = {"PATH": f"{place.home}/none:::relative:{harness.PATH}:/root/none:{place.home}"}
    place.write("home/notes", SECRET)
    assert place.run("ls", "-A", str(place.home), env=env).stdout == ""


def test_the_path_itself_is_the_callers(place):
    env = {"PATH": f"/some/where:{harness.PATH}"}
    assert variables(place, env=env)["PATH"] == env["PATH"]
    empty = ["env", "-u", "PATH", place.binary, "run", "-q", "--", "printenv", "PATH"]
    assert "/usr/bin" in place.host(empty).stdout


# ---- the system ----


def test_etc_is_a_curated_part(place):
    names = set(place.run("ls", "/etc").stdout.split())
    assert {"passwd", "group", "hosts", "hostname", "resolv.conf", "ld.so.cache"} <= names
    assert not names & {"shadow", "gshadow", "sudoers", "ssh", "machine-id", "fstab", "crontab",
                        "environment", "subuid", "apt"}
    assert pathlib.Path("/etc/shadow").exists() and pathlib.Path("/etc/apt").exists()


def test_accounts_are_the_sandboxs(place):
    lines = place.run("cat", "/etc/passwd").stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["root", "agent", "nobody"]
    assert place.run("id", "-un").stdout == "agent\n"
    assert place.run("id", "-gn").stdout == "agent\n"


def test_the_hosts_name_is_not_the_sandboxs(place):
    script = "uname -n; cat /etc/hostname /proc/sys/kernel/hostname"
    assert place.run("sh", "-c", script).stdout == "warder\n" * 3
    assert os.uname().nodename != "warder"


def test_the_root_holds_nothing_but_what_the_sandbox_makes(place):
    names = set(place.run("ls", "/").stdout.split())
    assert {"usr", "etc", "proc", "dev", "tmp", "run", "workspace"} <= names
    assert not names & {"root", "home", "srv", "mnt", "media", "boot", "sys", "work"}


@pytest.mark.parametrize("directory", ["/", "/usr", "/etc", "/var", "/opt", "/usr/bin", "/dev"])
def test_the_system_is_read_only(place, directory):
    done = place.run("touch", f"{directory}/new")
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr, done.stderr


@pytest.mark.parametrize("directory", ["/tmp", "/run", "/dev/shm", "/var/tmp", "/workspace"])
def test_scratch_is_writable_and_the_runs_own(place, directory):
    script = f"ls -A {directory}; touch {directory}/new; ls {directory}"
    env = {"HOME": "/home/elsewhere"}  # not below /tmp, where a test's home is
    for _ in range(1 if directory == "/workspace" else 2):
        assert place.run("sh", "-c", script, env=env).stdout == "new\n"
    assert not pathlib.Path(directory, "new").exists()


def test_the_devices_are_the_harmless_ones(place):
    names = set(place.run("ls", "/dev").stdout.split())
    assert names == {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "fd",
                     "stdin", "stdout", "stderr", "shm"}
    script = "head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo >/dev/null"
    assert place.run("sh", "-c", script).stdout == "4\n4\n"


# ---- owners ----

WRITE = ("sh", "-c", "id -u; touch new; mkdir dir; echo x >>old; stat -c %u . old new dir")


def assert_owner(place, uid, gid):
    """What the agent wrote in the workspace belongs to `uid`, and it could write all of it."""
    old = place.workspace / "old"
    old.write_text("")
    os.chown(old, uid, gid)
    os.chmod(old, 0o600)
    lines = place.run(*WRITE).stdout.split()
    assert lines[0] != "0" and lines == [lines[0]] * 5
    assert old.read_text() == "x\n"
    for name in ("new", "dir", "old"):
        st = place.workspace.joinpath(name).stat()
        assert (st.st_uid, st.st_gid) == (uid, gid), name


def test_what_the_agent_writes_belongs_to_the_owner_of_the_workspace(place):
    st = place.workspace.stat()
    assert_owner(place, st.st_uid, st.st_gid)


@pytest.mark.parametrize("uid, gid", [(12345, 12345), (12345, 54321), (1000, 1000), (65534, 0)])
def test_root_may_lend_the_workspace_of_anybody(root_place, uid, gid):
    os.chown(root_place.workspace, uid, gid)
    os.chmod(root_place.workspace, 0o700)
    assert_owner(root_place, uid, gid)


def test_files_of_others_in_the_workspace_stay_theirs(root_place):
    other = root_place.write("workspace/other", "")
    os.chown(other, 54321, 54321)
    os.chmod(other, 0o600)
    done = root_place.run("sh", "-c", "cat other; echo x >other")
    assert done.stderr.count("Permission denied") == 2
    assert (other.stat().st_uid, other.read_text()) == (54321, "")


def test_started_by_root_the_agent_is_nobody_on_the_host(root_place):
    script = "import os; print(os.stat('/proc/self').st_uid, os.getuid(), os.getgroups())"
    assert root_place.run("/usr/bin/python3", "-c", script).stdout == "1000 1000 []\n"
    outside = root_place.run("cat", "/proc/self/uid_map").stdout.split()
    assert outside[0] == "1000" and int(outside[1]) > 65536 and outside[2] == "1"
