# SPDX-License-Identifier: MIT
"""What of the caller's files a run sees, where, how, and what is refused."""
import os
import subprocess

import pytest

import harness
from checks import LEAVE_MARKER, MARKER, assert_refused, tree


@pytest.fixture
def data(place):
    """A directory with a file in it, outside the workspace."""
    return place.write("data/file", "data").parent


def cat(place, path, *options):
    return place.run("cat", path, options=("-q", *options)).stdout


# ---- the workspace ----


def test_the_workspace_is_the_current_directory_unless_named(place):
    place.write("workspace/file", "current")
    place.write("other/file", "other")
    assert cat(place, "file") == "current"
    assert cat(place, "file", "--workspace", str(place.top / "other")) == "other"
    assert cat(place, "file", "-w", "../other") == "other"


def test_a_workspace_may_be_named_through_a_link(place):
    place.write("other/file", "other")
    os.symlink("other", place.top / "link")
    assert cat(place, "file", "-w", str(place.top / "link")) == "other"


def test_a_workspace_below_home_is_fine(place):
    project = place.write("home/project/file", "project").parent
    assert cat(place, "file", "-w", str(project)) == "project"


def test_the_marker_of_the_refusals_would_be_noticed(place):
    before = tree(place.top)
    assert place.run(*LEAVE_MARKER).returncode == 0
    assert place.workspace.joinpath(MARKER).exists()
    assert tree(place.top) != before


@pytest.mark.parametrize("make, words", [
    (lambda place: "/", ["workspace", "/"]),
    (lambda place: "/usr/..", ["workspace", "/"]),
    (lambda place: place.home, ["home"]),
    (lambda place: f"{place.home}/", ["home"]),
    (lambda place: place.home / "." / ".." / "home", ["home"]),
    (lambda place: place.top, ["contains the home"]),
    (lambda place: "..", ["contains the home"]),
    (lambda place: "/tmp", ["contains the home"]),
    (lambda place: link(place, place.home), ["home"]),
    (lambda place: link(place, "/"), ["workspace", "/"]),
    (lambda place: link(place, place.top), ["contains the home"]),
    (lambda place: place.write("file", ""), ["not a directory"]),
    (lambda place: place.top / "missing", ["missing", "No such file"]),
    (lambda place: link(place, "nowhere"), ["No such file"]),
    (lambda place: "/dev/null", ["neither a file nor a directory"]),
    (lambda place: "x" * 5000, ["too long"]),
], ids=["root", "root by dots", "home", "home with a slash", "home by dots", "parent of home",
        "parent by dots", "grandparent", "link to home", "link to root", "link to parent", "file",
        "missing", "dangling link", "device", "long name"])
def test_a_workspace_that_is_too_much_or_none_is_refused(place, make, words):
    assert_refused(place, ("-q", "--workspace", str(make(place))), *words)


def link(place, target):
    path = place.top / "link"
    os.symlink(target, path)
    return path


@pytest.mark.parametrize("cwd", ["/", "home"])
def test_the_current_directory_is_no_workspace_either_when_it_is_too_much(place, cwd):
    directory = "/" if cwd == "/" else place.home
    assert_refused(place, ("-q",), "workspace", cwd, cwd=directory)


def test_a_home_in_disguise_is_still_the_home(place):
    os.symlink("home", place.top / "alias")
    env = {"HOME": str(place.top / "alias")}
    assert_refused(place, ("-q", "-w", str(place.home)), "home", env=env)


def test_a_workspace_that_may_not_be_entered_is_refused(place):
    closed = place.top / "closed"
    closed.mkdir()
    closed.chmod(0)
    assert_refused(place, ("-q", "-w", str(closed)), "Permission denied")


def test_a_path_below_a_directory_that_may_not_be_entered_is_refused(user_place):
    closed = user_place.write("closed/file", "").parent
    closed.chmod(0)
    for option in ("-w", "--ro", "--rw"):
        assert_refused(user_place, ("-q", option, f"{closed}/file"), "Permission denied")


# ---- binds ----


def test_a_directory_is_shown_at_its_own_path_or_elsewhere(place, data):
    assert cat(place, f"{data}/file") == ""
    assert cat(place, f"{data}/file", "--ro", str(data)) == "data"
    assert cat(place, "/data/file", "--ro", f"{data}:/data") == "data"
    assert cat(place, "/a/b/c/file", "--ro", f"{data}:/a/b/c") == "data"


def test_a_slash_at_the_end_of_a_source_makes_no_difference(place, data):
    assert cat(place, f"{data}/file", "--ro", f"{data}/") == "data"
    assert cat(place, "/data/file", "--ro", f"{data}/:/data") == "data"


def test_a_file_is_shown_alone(place, data):
    place.write("data/other", "other")
    options = ("-q", "--ro", f"{data}/file:/shown/name")
    done = place.run("sh", "-c", "ls /shown; cat /shown/name", options=options)
    assert done.stdout == "name\ndata"


def test_a_relative_source_is_the_callers(place):
    place.write("workspace/sub/file", "sub")
    assert cat(place, "/data/file", "--ro", "sub:/data") == "sub"


def test_read_only_is_read_only(place, data):
    before = tree(place.top)
    for name in ("/data/file", "/data/new"):
        done = place.run("sh", "-c", f"echo x >>{name}", options=("-q", "--ro", f"{data}:/data"))
        assert done.returncode != 0
        assert "Read-only file system" in done.stderr or place.who == "root"
    assert tree(place.top) == before


@pytest.mark.parametrize("name", ["file", "new"])
def test_writable_is_writable_and_the_owners(place, name):
    data = place.own(place.write("data/file", "data").parent)
    options = ("-q", "--rw", f"{data}:/data")
    assert place.run("sh", "-c", f"echo x >/data/{name}", options=options).returncode == 0
    assert data.joinpath(name).read_text() == "x\n"
    assert data.joinpath(name).stat().st_uid == data.stat().st_uid


def test_a_writable_file_is_writable(place, data):
    options = ("-q", "--rw", f"{data}/file:/shown")
    assert place.run("sh", "-c", "echo x >/shown", options=options).returncode == 0
    assert data.joinpath("file").read_text() == "x\n"


def test_the_home_directory_may_be_shown_read_only_by_its_name(place):
    place.write("home/file", "mine")
    options = ("-q", "--ro", str(place.home))
    done = place.run("sh", "-c", "cat ~/file; echo x >~/new", options=options)
    assert done.stdout == "mine"
    assert "Read-only" in done.stderr


# ---- memory ----


def test_a_tmpfs_is_empty_writable_and_gone_afterwards(place):
    script = "ls -A /scratch; echo x >/scratch/new; cat /scratch/new"
    for _ in range(2):
        assert place.run("sh", "-c", script, options=("-q", "--tmpfs", "/scratch")).stdout == "x\n"


@pytest.mark.parametrize("size, kib", [("1M", 1024), ("64K", 64), ("", 64 * 1024)])
def test_a_tmpfs_has_its_size_and_no_more(place, size, kib):
    options = ("-q", "--tmpfs", f"/scratch:{size}" if size else "/scratch")
    script = "head -c 80M /dev/zero >/scratch/file; stat -c %s /scratch/file"
    done = place.run("sh", "-c", script, options=options)
    assert "No space left" in done.stderr
    assert 0.9 * kib <= int(done.stdout) / 1024 <= kib


def test_a_tmpfs_hides_what_is_below_it(place):
    place.write("workspace/cache/file", "old")
    done = place.run("sh", "-c", "ls -A cache; touch cache/new",
                     options=("-q", "--tmpfs", "/workspace/cache"))
    assert (done.returncode, done.stdout) == (0, "")
    assert os.listdir(place.workspace / "cache") == ["file"]


# ---- order and nesting ----


def test_a_later_mount_covers_an_earlier_one(place, data):
    other = place.write("other/file", "other").parent
    first, second = ("--ro", f"{data}:/data"), ("--ro", f"{other}:/data")
    assert cat(place, "/data/file", *first, *second) == "other"
    assert cat(place, "/data/file", *second, *first) == "data"
    assert cat(place, "/data/file", *first, "--tmpfs", "/data") == ""


def test_a_mount_in_a_tmpfs_gets_its_place_made(place, data):
    options = ("--tmpfs", "/scratch", "--ro", f"{data}:/scratch/a/b")
    assert cat(place, "/scratch/a/b/file", *options) == "data"
    assert cat(place, "/tmp/a/b/file", "--ro", f"{data}:/tmp/a/b") == "data"


def test_a_mount_over_what_exists_in_the_workspace_works(place, data):
    place.write("workspace/sub/file", "covered")
    before = tree(place.workspace)
    assert cat(place, "sub/file") == "covered"
    assert cat(place, "sub/file", "--ro", f"{data}:/workspace/sub") == "data"
    assert cat(place, "sub/file", "--ro", f"{data}/file:/workspace/sub/file") == "data"
    assert tree(place.workspace) == before


@pytest.mark.parametrize("dest", ["/workspace/none", "/workspace/none/deeper",
                                  "/workspace/sub/none", "/usr/none", "/etc/ssl/certs/none"])
@pytest.mark.parametrize("kind", ["directory", "file", "tmpfs"])
def test_no_place_is_made_in_a_tree_of_the_host(place, data, dest, kind):
    place.own(place.write("workspace/sub/file", "").parent)
    options = {"directory": ("--ro", f"{data}:{dest}"),
               "file": ("--ro", f"{data}/file:{dest}"),
               "tmpfs": ("--tmpfs", dest)}[kind]
    assert_refused(place, ("-q", *options), dest)


@pytest.mark.parametrize("dest", ["/data/none", "/data/file/none"])
def test_no_place_is_made_in_another_mount(place, data, dest):
    other = place.write("other/file", "").parent
    options = ("-q", "--rw", f"{data}:/data", "--ro", f"{other}:{dest}")
    assert_refused(place, options, dest)


@pytest.mark.parametrize("dest", ["/workspace/link", "/workspace/link/sub",
                                  "/workspace/sub/../link"])
@pytest.mark.parametrize("target", ["sub", "/etc", "/", "../home", "nowhere"])
def test_a_link_in_the_workspace_leads_no_mount_astray(place, data, dest, target):
    place.write("workspace/sub/sub/file", "")
    os.symlink(target, place.workspace / "link")
    assert_refused(place, ("-q", "--ro", f"{data}:{dest}"), dest)


def test_a_file_and_a_directory_do_not_cover_each_other(place, data):
    place.write("workspace/sub/file", "")
    assert_refused(place, ("-q", "--ro", f"{data}:/workspace/sub/file"), "/workspace/sub/file")
    assert_refused(place, ("-q", "--ro", f"{data}/file:/workspace/sub"), "/workspace/sub")


# ---- refusals ----

DESTS = ["relative", "./relative", "../up", "/", "//", "//data", "/data//x", "/data/../x",
         "/data/.", "/./data", "/..", "/proc", "/proc/sys", "/dev", "/dev/null", "/dev/shm", "/sys",
         "/sys/fs/cgroup"]


@pytest.mark.parametrize("dest", DESTS)
@pytest.mark.parametrize("option", ["--ro", "--rw", "--tmpfs"])
def test_a_destination_that_is_not_plain_or_not_free_is_refused(place, data, option, dest):
    value = dest if option == "--tmpfs" else f"{data}:{dest}"
    assert_refused(place, ("-q", option, value), "destination", dest)


@pytest.mark.parametrize("option", ["--ro", "--rw"])
@pytest.mark.parametrize("source, words", [
    ("missing", ["missing", "No such file"]),
    ("data/file/below", ["Not a directory"]),
    ("fifo", ["neither a file nor a directory"]),
    ("dangling", ["No such file"]),
    ("x" * 300, ["too long"]),
])
def test_a_source_that_cannot_be_shown_is_refused(place, data, option, source, words):
    os.mkfifo(place.top / "fifo")
    os.symlink("nowhere", place.top / "dangling")
    assert_refused(place, ("-q", option, f"{place.top}/{source}:/shown"), *words)


@pytest.mark.parametrize("source", ["/", "home", "top"])
def test_the_home_directory_is_not_made_writable_as_a_whole(place, source):
    path = {"/": "/", "home": place.home, "top": place.top}[source]
    assert_refused(place, ("-q", "--rw", f"{path}:/shown"), "--rw")


@pytest.mark.parametrize("value", ["", ":", ":/data", "DATA:", "::"])
@pytest.mark.parametrize("option", ["--ro", "--rw"])
def test_a_mount_with_a_part_missing_is_refused(place, data, option, value):
    assert_refused(place, ("-q", option, value.replace("DATA", str(data))), option)


def test_a_second_colon_does_not_hide_a_mistake(place, data):
    assert_refused(place, ("-q", "--ro", f"{data}:/data:rw"))


@pytest.mark.parametrize("value", ["", ":", ":1M", "/scratch:", "/scratch:x", "/scratch:-1",
                                   "/scratch:0", "/scratch:1M:1M", "/scratch:99999999999T"])
def test_a_tmpfs_with_a_wrong_part_is_refused(place, value):
    assert_refused(place, ("-q", "--tmpfs", value), "--tmpfs")


def test_more_mounts_than_the_limit_are_refused(place, data):
    options = [word for i in range(257) for word in ("--ro", f"{data}:/m/{i}")]
    assert_refused(place, ("-q", *options), "256")
    done = place.run("cat", "/m/255/file", options=("-q", *options[:-2]))
    assert done.stdout == "data", done


# ---- flags of the mounts ----


def mount_table(text):
    """Mount points with their flags and their optional fields."""
    table = {}
    for line in text.splitlines():
        fields = line.split()
        table[fields[4]] = (fields[5].split(","), fields[6:fields.index("-")])
    return table


WRITABLE = {"/workspace", "/tmp", "/run", "/dev/shm", "/dev/pts", "/proc", "/data"}


def test_every_mount_has_the_flags_it_should(place, data):
    text = place.run("cat", "/proc/self/mountinfo", options=("-q", "--rw", f"{data}:/data")).stdout
    table = mount_table(text)
    assert {"/", "/usr", "/workspace", "/data", "/proc", "/proc/sys", str(place.home)} <= set(table)
    for point, (flags, _) in table.items():
        assert "nosuid" in flags, point
        assert "nodev" in flags or point.startswith("/dev/"), point
        assert "ro" in flags or point in WRITABLE | {str(place.home)}, point


def with_host_mounts(place, script, command):
    """Runs as this place's user in a mount namespace that root has prepared with `script`."""
    line = ["unshare", "-m", "sh", "-ec", f'{script}\nexec "$@"', "sh", *place.command(command)]
    if not harness.IS_ROOT:
        line = ["sudo", "-n", *line]
    return subprocess.run(line, cwd=place.workspace, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=60)


def test_read_only_holds_for_mounts_below_too(place, data):
    sub = data / "sub"
    sub.mkdir()
    script = f"mount -t tmpfs -o mode=1777 none {sub}; echo deep >{sub}/file; chmod 666 {sub}/file"
    write = "cat {0}/sub/file; echo x >>{0}/sub/file; echo x >{0}/sub/new"
    outside = with_host_mounts(place, script, ["sh", "-c", write.format(data)])
    inside = with_host_mounts(place, script, [place.binary, "run", "-q", "--ro", f"{data}:/data",
                                              "--", "sh", "-c", write.format("/data")])
    assert (outside.stdout, outside.stderr) == ("deep\n", "")
    assert inside.stdout == "deep\n"
    assert inside.stderr.count("Read-only file system") == 2


def test_mounts_are_cut_off_from_the_hosts(place, data):
    script = f"mount --bind {data} {data}; mount --make-shared {data}; " \
             f"mount --bind {place.workspace} {place.workspace}; " \
             f"mount --make-shared {place.workspace}; cd {place.workspace}"
    show = ["cat", "/proc/self/mountinfo"]
    run = [place.binary, "run", "-q", "--rw", f"{data}:/data", "--"]
    outside = mount_table(with_host_mounts(place, script, show).stdout)
    inside = mount_table(with_host_mounts(place, script, [*run, *show]).stdout)
    assert any(field.startswith("shared:") for field in outside[str(data)][1])
    assert "/data" in inside and "/workspace" in inside
    assert all(optional == [] for _, optional in inside.values()), inside


def test_no_mount_of_a_run_is_seen_on_the_host(place, data):
    before = harness.mounts(place)
    script = "cat; cat /proc/self/mountinfo"
    process = place.popen("sh", "-c", script, options=("-q", "--ro", f"{data}:/data"),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write("up\n")
    process.stdin.flush()
    assert process.stdout.readline() == "up\n"
    assert harness.mounts(place) == before
    inside, _ = process.communicate()
    assert " /data " in inside
    assert harness.mounts(place) == before
