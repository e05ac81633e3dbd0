# SPDX-License-Identifier: MIT
"""`warder doctor` on this host; hosts that forbid things are in test_guest.py."""
import json
import re

import checks
import harness

NAMES = ["kernel", "user namespaces", "mounts", "other namespaces", "nesting", "seccomp",
         "landlock", "pidfd", "id-mapped mounts", "cgroup v2", "cgroup systemd", "cgroup v1",
         "nftables NAT", "overlayfs", "default run"]


def test_one_line_per_check_and_status_0_where_the_default_run_works(place):
    done = place.warder("doctor")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert [re.match(r"(ok|missing) +(.+?)  ", line)[2] for line in lines] == NAMES
    assert all("; remedy: " in line for line in lines if line.startswith("missing"))
    assert re.match(r"ok +default run +'warder run -- true' works, in \d+ ms$", lines[-1])


def test_json_says_the_same(place):
    report = json.loads(place.warder("doctor", "--json").stdout)
    assert report["ok"] is True
    assert [check["name"] for check in report["checks"]] == NAMES
    assert {check["status"] for check in report["checks"]} <= {"ok", "missing"}
    assert all("remedy" in c for c in report["checks"] if c["status"] == "missing")


def test_other_words_are_refused(place):
    done = place.warder("doctor", "--fix")
    assert done.returncode == 125
    assert done.stderr == "warder: doctor takes only --json, not '--fix'\n"


OWN_NAMES = ("doctor.", "warder-doctor-")  # which another doctor's have, too, but only for a while


def test_nothing_is_left_behind(place):
    before = harness.traces(place, *OWN_NAMES)
    place.warder("doctor")
    new = harness.traces(place, *OWN_NAMES) - before
    checks.wait_until(lambda: not new & harness.traces(place, *OWN_NAMES), 30)


def test_what_it_makes_has_these_names(root_place):
    """The control: directories and groups that it would leave would be seen."""
    line = ["strace", "-f", "-qq", "-e", "trace=mkdir,mkdirat", root_place.binary, "doctor"]
    done = root_place.host(line, {"ASAN_OPTIONS": "detect_leaks=0"})  # which does not work when traced
    for name in OWN_NAMES:
        assert re.search(rf'mkdir(at)?\(.*{re.escape(name)}', done.stderr), done.stderr
