# SPDX-License-Identifier: MIT
"""Break-outs by the way a run is started; beside each stands the start that works."""
import os

import pytest


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
@pytest.mark.parametrize("number, name", enumerate(["stdin", "stdout", "stderr"]))
def test_a_directory_is_never_handed_on(place, number, name, flags):
    """INV-SECRETS-HOST-ONLY: openat(0, "..") would lead out of the root."""
    show = ["sh", "-c", f"test -d /proc/self/fd/{number} && exit 7; test -p /proc/self/fd/{number}"]
    fd = os.open(place.home, flags)
    try:
        assert place.host(show, **{name: fd}).returncode == 7
        assert place.run(*show, **{name: fd}).returncode == (125 if name == "stdin" else 0)
    finally:
        os.close(fd)


# ---- warder's own program ----


@pytest.mark.parametrize("path", ["/proc/self/exe", "/proc/thread-self/exe", "/proc/1/exe",
                                  "../proc/self/exe", "/dev/fd/../exe"])
def test_our_own_program_cannot_be_the_command(place, path):
    """INV-SECRETS-HOST-ONLY: until the exec, /proc/self/exe is a file of the host."""
    assert place.run("/usr/bin/true").returncode == 0
    assert place.run(path, "--version").returncode == 126


@pytest.mark.parametrize("target", ["/proc/self/exe", "/dev/fd/../exe"])
def test_a_link_to_our_own_program_cannot_be_the_command(place, target):
    (place.workspace / "good").symlink_to("/usr/bin/true")
    (place.workspace / "command").symlink_to(target)
    assert place.run("./good").returncode == 0
    assert place.run("./command").returncode == 126
    assert place.run("command", options=["-q", "--env", "PATH=/workspace"]).returncode in (126, 127)


def test_our_own_program_cannot_be_the_interpreter(place):
    """The kernel follows an interpreter line with the rights of the process that executes it."""
    place.write("workspace/good", "#!/usr/bin/env true\n", 0o755)
    place.write("workspace/script", "#!/proc/self/exe --version\n", 0o755)
    assert place.run("./good").returncode == 0
    done = place.run("./script")
    assert done.returncode == 126
    assert done.stdout == ""


# ---- links in the workspace ----


def test_a_link_cannot_redirect_a_mount(place):
    """INV-SECRETS-HOST-ONLY: a workspace may come from somebody else."""
    place.write("shown/file", "shown")
    (place.workspace / "dir").mkdir()
    (place.workspace / "link").symlink_to("/etc")
    place.own(place.workspace / "dir")
    shown = str(place.top / "shown")
    assert place.run("true", options=["-q", "--ro", f"{shown}:/workspace/dir"]).returncode == 0
    for options in (["--ro", f"{shown}:/workspace/link"], ["--rw", f"{shown}:/workspace/link"],
                    ["--ro", f"{shown}:/workspace/link/ssl"], ["--tmpfs", "/workspace/link/ssl"]):
        done = place.run("true", options=["-q", *options])
        assert done.returncode == 125
        assert "link" in done.stderr


def test_a_mount_point_is_never_made_in_the_workspace(place):
    done = place.run("true", options=["-q", "--tmpfs", "/workspace/new"])
    assert done.returncode == 125
    assert not os.listdir(place.workspace)


# ---- what the caller asks for ----


@pytest.mark.parametrize("variable", ["RUN_ID=forged", "RUN_ID=", "RUN_ID"])
def test_the_run_id_is_not_a_variable(place, variable):
    """INV-RUN-IDENTITY."""
    assert place.run("true", options=["-q", "--env", "OTHER=x"]).returncode == 0
    assert place.run("true", options=["-q", "--env", variable]).returncode == 125


def test_a_limit_that_cannot_be_held_is_refused(place):
    """INV-FAIL-CLOSED."""
    assert place.run("true", options=["-q", "--cgroup", "none"]).returncode == 0
    done = place.run("true", options=["-q", "--cgroup", "none", "--memory", "64M"])
    assert done.returncode == 125


@pytest.mark.parametrize("where", ["/", "{home}", "{top}"])
def test_home_cannot_be_the_workspace(place, where):
    """INV-SECRETS-HOST-ONLY: nor anything that contains it."""
    assert place.run("true", options=["-q", "--workspace", "."]).returncode == 0
    path = where.format(home=place.home, top=place.top)
    done = place.run("true", options=["-q", "--workspace", path])
    assert done.returncode == 125


@pytest.mark.parametrize("dest", ["/proc/sys", "/dev", "/sys", "/workspace/../etc", "/"])
def test_the_sandboxs_own_directories_cannot_be_covered(place, dest):
    shown = place.write("shown/file", "shown").parent
    assert place.run("true", options=["-q", "--ro", f"{shown}:/shown"]).returncode == 0
    done = place.run("true", options=["-q", "--ro", f"{shown}:{dest}"])
    assert done.returncode == 125


def test_output_without_end_is_cut(place):
    """INV-BOUNDED."""
    flood = "head -c 1048576 /dev/zero | tr '\\0' x; head -c 1048576 /dev/zero | tr '\\0' y >&2"
    whole = place.json("sh", "-c", flood, options=["--output", "4M"])
    assert not whole["outputTruncated"]
    assert len(whole["stdout"]) + len(whole["stderr"]) == 2 << 20
    cut = place.json("sh", "-c", flood, options=["--output", "64K"])
    assert cut["outputTruncated"]
    assert 0 < len(cut["stdout"]) + len(cut["stderr"]) <= 64 << 10
