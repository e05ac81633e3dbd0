# SPDX-License-Identifier: MIT
"""Limits by cgroup v2 and by systemd, hosts that forbid things, and a keeper under its unit: in guests
under qemu."""
import json
import re

import guest
import harness
import pytest

pytestmark = pytest.mark.patient

SETUP = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /workspace
mount -t cgroup2 none /sys/fs/cgroup
chmod 1777 /tmp
mkdir -p /work
sh /ext4 /work
mkdir -p /work/root /work/user /work/tmp /sys/fs/cgroup/plain
chown 1000:1000 /work/user /home/user
# A group for the user, with room beside the one that holds the shell.
echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/user/shell
for file in . cgroup.procs cgroup.subtree_control shell shell/cgroup.procs; do
	chown 1000:1000 /sys/fs/cgroup/user/$file
done
sh /steps
poweroff -f
"""

BOMB = "tail /dev/zero"
LIMITS = "--memory 32M --pids 20 --cpu 0.5"


def as_user(command, group="/sys/fs/cgroup/user/shell"):
    """As an ordinary user, in a group that was delegated to it or in another one."""
    return f"cd /work/user; in-group {group} su -s /bin/sh user -c '{command}'"


def run(options, command):
    return f"HOME=/home/user warder run -q {options} -- {command}"


@pytest.fixture(scope="module")
def v2_guest(binary):
    """Every step in one boot: root, a user with a delegated group, a user without."""
    count = "ls -d /sys/fs/cgroup/warder-* " \
            "/sys/fs/cgroup/user/warder-* 2>/dev/null | wc -l"
    plain = "/sys/fs/cgroup/plain"
    fork = 'sh -c "i=0; while [ \\$i -lt 40 ]; do sleep 5 & i=\\$((i+1)); done; echo all"'
    steps = {
        "root-limits": "cd /work/root; " + run(f"{LIMITS} --json", "sh -c 'echo fine'"),
        "root-oom": "cd /work/root; " + run(f"{LIMITS} --json", BOMB),
        "root-child-oom": "cd /work/root; " + run(f"{LIMITS} --json", f"sh -c '{BOMB}; exit 0'"),
        "root-pids": "cd /work/root; " + run(f"{LIMITS} --json", fork.replace('\\"', '"')),
        "root-inside": "cd /work/root; " + run(LIMITS, "cat /proc/self/cgroup"),
        "user-limits": as_user(run(f"{LIMITS} --json", "true")),
        "user-oom": as_user(run(f"{LIMITS} --json", BOMB)),
        "user-undelegated": as_user(run("--memory 32M", "true"), plain),
        "user-undelegated-no-limits": as_user(run("", "true"), plain),
        "left": count,
        "killed": "cd /work/root; (exec warder run -q --memory 32M -- sleep 100) & pid=$!; "
                  "while ! ls -d /sys/fs/cgroup/warder-*; do :; done >/dev/null 2>&1; "
                  "kill -9 $pid; wait $pid; sleep 1; " + run("", "true") + "; " + count,
        "doctor-root": "cd /work/root; warder doctor --json",
        "doctor-user": as_user("warder doctor --json"),
        "userns-clone-off": "echo 0 >/proc/sys/kernel/unprivileged_userns_clone",
        "doctor-clone-off": as_user("warder doctor"),
        "run-clone-off": as_user(run("", "true")),
        "userns-max-off": "echo 1 >/proc/sys/kernel/unprivileged_userns_clone; "
                          "echo 0 >/proc/sys/user/max_user_namespaces",
        "doctor-max-off": as_user("warder doctor"),
        "run-max-off": as_user(run("", "true")),
    }
    tree = guest.Tree("/setup")
    tree.copy(str(binary), "usr/bin/warder")
    tree.link("usr/bin/wc", "busybox")
    tree.add_ext4()
    tree.add_in_group()
    tree.text("setup", SETUP, 0o755)
    tree.text("steps", guest.script(steps))
    output = guest.boot(tree)
    found = guest.results(output)
    assert set(found) == set(steps), output[-4000:]
    return found


def result_of(found, name):
    status, text = found[name]
    return status, json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


@pytest.mark.parametrize("who", ["root", "user"])
def test_v2_holds_the_limits(v2_guest, who):
    status, result = result_of(v2_guest, f"{who}-limits")
    assert status == 0 and result["cgroup"] == "v2" and result["memoryPeakBytes"] > 0


@pytest.mark.parametrize("name", ["root-oom", "root-child-oom", "user-oom"])
def test_v2_a_run_that_needs_more_memory_is_ended_whole(v2_guest, name):
    status, result = result_of(v2_guest, name)
    assert status == 137
    assert (result["errorCode"], result["ok"], result["cgroup"]) == ("oom_killed", False, "v2")


def test_v2_processes_are_limited(v2_guest):
    _, result = result_of(v2_guest, "root-pids")
    assert "all" not in result["stdout"]


def test_v2_the_group_is_its_own_root_inside(v2_guest):
    assert v2_guest["root-inside"] == (0, "0::/\n")


def test_v2_without_delegation_a_limit_is_refused(v2_guest):
    status, text = v2_guest["user-undelegated"]
    assert status == 125 and "no control group can hold it" in text and "doctor" in text
    assert v2_guest["user-undelegated-no-limits"][0] == 0  # control: without the limit it runs


def test_v2_nothing_is_left(v2_guest):
    assert v2_guest["left"][1].strip() == "0"


def test_v2_the_group_of_a_killed_supervisor_is_swept_by_the_next_start(v2_guest):
    assert v2_guest["killed"][1].split()[-1] == "0"


@pytest.mark.parametrize("who", ["root", "user"])
def test_doctor_finds_v2(v2_guest, who):
    status, report = result_of(v2_guest, f"doctor-{who}")
    by_name = {check["name"]: check["status"] for check in report["checks"]}
    assert status == 0 and report["ok"] and by_name["cgroup v2"] == "ok"


@pytest.mark.parametrize("switch, remedy", [
    ("clone-off", "sysctl kernel.unprivileged_userns_clone=1"),
    ("max-off", "sysctl user.max_user_namespaces="),
])
def test_where_user_namespaces_are_forbidden_doctor_names_the_switch(v2_guest, switch, remedy):
    status, text = v2_guest[f"doctor-{switch}"]
    assert status == 1 and remedy in text
    status, text = v2_guest[f"run-{switch}"]
    assert status == 125 and "namespaces" in text and "doctor" in text
    assert text.count("\n") == 1


MANAGER = """[Service]
User=1000
Group=1000
Type=notify
Delegate=pids memory cpu
Environment=XDG_RUNTIME_DIR=/run/user/1000 HOME=/home/user
ExecStart=/usr/lib/systemd/systemd --user
"""

STEPS_UNIT = """[Unit]
Requires=dbus.socket user-manager.service
After=dbus.socket user-manager.service
[Service]
Type=oneshot
Environment=PATH=/usr/bin
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
ExecStart=/bin/sh /steps
ExecStopPost=/bin/busybox poweroff -f
"""

EARLY_UNIT = """[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/busybox mkdir -p /run/user/1000 /work
ExecStart=/bin/sh /ext4 /work
ExecStart=/bin/busybox mkdir -p /work/root /work/user /work/tmp
ExecStart=/bin/busybox chown 1000:1000 /run/user/1000 /work/user /home/user
ExecStart=/bin/busybox chmod 1777 /tmp /work/tmp
"""


def systemd_tree(binary, steps):
    tree = guest.Tree("/usr/lib/systemd/systemd")
    for program in ("/usr/lib/systemd/systemd", "/usr/bin/dbus-daemon", "/usr/bin/systemctl"):
        tree.copy(program)
    for path in ("/usr/share/dbus-1/system.conf", "/usr/share/dbus-1/session.conf",
                 "/usr/share/dbus-1/system.d/org.freedesktop.systemd1.conf",
                 "/usr/lib/systemd/user/dbus.socket", "/usr/lib/systemd/user/dbus.service"):
        tree.copy(path)
    tree.copy(str(binary), "usr/bin/warder")
    for unit in ("dbus.socket", "dbus.service"):
        tree.copy(f"/lib/systemd/system/{unit}", f"usr/lib/systemd/system/{unit}")
    units = "usr/lib/systemd/system"
    tree.text(f"{units}/early.service", EARLY_UNIT)
    tree.text(f"{units}/user-manager.service",
              "[Unit]\nRequires=early.service\nAfter=early.service\n" + MANAGER)
    tree.text(f"{units}/steps.service", STEPS_UNIT)
    tree.text(f"{units}/steps.target", "[Unit]\nRequires=steps.service\n")
    for name in ("sysinit", "basic", "sockets", "shutdown", "umount", "final"):
        tree.text(f"{units}/{name}.target", "[Unit]\nDefaultDependencies=no\n")
    tree.add_ext4()
    user = "usr/lib/systemd/user"
    tree.text(f"{user}/default.target", "[Unit]\nRequires=dbus.socket\nAfter=dbus.socket\n")
    for name in ("basic", "sockets", "shutdown"):
        tree.text(f"{user}/{name}.target", "[Unit]\nDefaultDependencies=no\n")
    tree.text("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    tree.text("etc/os-release", "ID=guest\n")
    tree.text("steps", guest.script(steps))
    for applet in ("wc", "grep", "timeout"):
        tree.link(f"usr/bin/{applet}", "busybox")
    return tree


# ---- the keeper's unit ----

KEY = "sk-of-the-guest"
UNIT = "warder-keeper.service"

# What a test has to see; all the rest is as it is delivered, with what its comments offer.
DROP_IN = """[Service]
StandardError=append:/keeper.log
LoadCredential=litellm-key:/etc/warder/secrets/litellm-key
Environment=SANDBOX_ENABLED=true
"""

# An upstream, in place of LiteLLM.
UPSTREAM = """[Service]
ExecStart=/bin/busybox httpd -f -p {port} -h /srv/{port}
"""


def example():
    """The configuration that the manual page has."""
    page = (harness.TOP / "man" / "warder-keeper.1.in").read_text()
    return re.search(r"^{.*?^}\n", page, re.S | re.M)[0]


def add_keeper(tree, binary):
    """The units, the documented configuration, and what that names."""
    for name in ("warder-gateway", "warder-keeper"):
        tree.copy(str(binary.parent / name), f"usr/bin/{name}")
    for unit in (harness.TOP / "contrib" / "systemd").iterdir():
        tree.text(f"usr/lib/systemd/system/{unit.name}", unit.read_text())
    tree.text(f"etc/systemd/system/{UNIT}.d/test.conf", DROP_IN)
    tree.text("etc/warder/keeper.json", example())
    tree.text("etc/warder/secrets/litellm-key", KEY + "\n", 0o600)
    tree.text("etc/hosts", "127.0.0.1 localhost litellm\n")
    for port in (4000, 4001):
        tree.text(f"usr/lib/systemd/system/upstream-{port}.service", UPSTREAM.format(port=port))
        tree.text(f"srv/{port}/v1/models", f"models of {port}\n")
    for applet in ("httpd", "wget", "stat", "kill", "ip"):
        tree.link(f"usr/bin/{applet}", "busybox")


def keeper_steps():
    """From its socket to its end, and back again; then to its end for good."""
    run_there = "cd /work/root; warder run -q --keeper unix:/run/warder/keeper.sock"
    ask = f"{run_there} --billing-account team-7 -- wget -q -O - http://127.0.0.1:8080/v1/models"
    is_running = "warder ps --keeper unix:/run/warder/keeper.sock | grep -q running"
    pid = f"$(systemctl show -p MainPID --value {UNIT})"
    return {
        "keeper-socket": "ip link set lo up; systemctl start upstream-4000 upstream-4001 warder-keeper.socket; "
                         f"systemctl is-active {UNIT}; stat -c '%A %u' /run/warder/keeper.sock",
        "keeper-run": ask,
        "keeper-active": f"systemctl is-active {UNIT}; systemctl show -p StatusText --value {UNIT}",
        "keeper-process": f"grep -E '^(Uid|NoNewPrivs|Seccomp|CapBnd):' /proc/{pid}/status",
        "keeper-state": "ls -1 /var/lib/warder/; stat -c '%a' /var/lib/warder/",
        "keeper-ready": "wget -q -O - http://127.0.0.1:9464/readyz",
        # Another upstream, and a command that has to tell the key.
        "keeper-reload": "sed -i 's/:4000/:4001/; s/\"file:/\"exec:cat /' /etc/warder/keeper.json; "
                         f"systemctl reload {UNIT}; i=0; "
                         "while [ $i -lt 60 ] && ! grep -q ' reload' /keeper.log; do sleep 1; i=$((i+1)); done; "
                         + ask,
        "keeper-drain": f"({run_there} -- sleep 3) & while ! {is_running}; do :; done; "
                        f"systemctl stop {UNIT} 2>/dev/null; systemctl show -p Result --value {UNIT}; wait",
        "keeper-again": ask,
        "keeper-stop": f"systemctl stop {UNIT} 2>/dev/null; systemctl is-active {UNIT}; "
                       f"systemctl show -p Result --value {UNIT}; stat -c '%A' /run/warder/keeper.sock",
        "keeper-log": "cat /keeper.log; cat /var/lib/warder/audit.jsonl",
    }


@pytest.fixture(scope="module")
def systemd_guest(binary):
    user = "cd /work/user; su -s /bin/sh user -c 'export XDG_RUNTIME_DIR=/run/user/1000; {}'"
    left = "sleep 1; ls -d /sys/fs/cgroup/*/warder-* /sys/fs/cgroup/*/*/*/warder-* 2>/dev/null | wc -l"
    steps = {
        "root-limits": "cd /work/root; " + run(f"{LIMITS} --json", "true"),
        "root-oom": "cd /work/root; " + run(f"{LIMITS} --json", BOMB),
        "user-limits": user.format(run(f"{LIMITS} --json", "true")),
        "user-oom": user.format(run(f"{LIMITS} --json", BOMB)),
        "left": left,
        "killed": "cd /work/root; (exec warder run -q --memory 32M -- sleep 100) & pid=$!; sleep 2; "
                  "kill -9 $pid; wait $pid; " + left,
        "doctor-root": "cd /work/root; warder doctor --json",
        "doctor-user": user.format("warder doctor --json"),
        **keeper_steps(),
    }
    tree = systemd_tree(binary, steps)
    add_keeper(tree, binary)
    output = guest.boot(tree,
                        "systemd.unit=steps.target systemd.unified_cgroup_hierarchy=1 "
                        "systemd.show_status=no systemd.log_level=err")
    found = guest.results(output)
    assert set(found) == set(steps), output[-6000:]
    return found


@pytest.mark.parametrize("who", ["root", "user"])
def test_systemd_gives_a_scope_that_holds_the_limits(systemd_guest, who):
    status, result = result_of(systemd_guest, f"{who}-limits")
    assert status == 0 and result["cgroup"] == "systemd" and result["memoryPeakBytes"] > 0


@pytest.mark.parametrize("who", ["root", "user"])
def test_systemd_a_run_that_needs_more_memory_is_ended(systemd_guest, who):
    status, result = result_of(systemd_guest, f"{who}-oom")
    assert (status, result["errorCode"], result["cgroup"]) == (137, "oom_killed", "systemd")


def test_systemd_nothing_is_left_also_after_the_supervisor_is_killed(systemd_guest):
    assert systemd_guest["left"][1].strip() == "0"
    assert systemd_guest["killed"][1].split()[-1] == "0"


@pytest.mark.parametrize("who", ["root", "user"])
def test_doctor_finds_systemd(systemd_guest, who):
    status, report = result_of(systemd_guest, f"doctor-{who}")
    by_name = {check["name"]: check["status"] for check in report["checks"]}
    assert status == 0 and by_name["cgroup systemd"] == "ok"


def said(systemd_guest, name):
    status, text = systemd_guest[name]
    assert status == 0, text
    return text.split()


def test_the_keepers_unit_is_started_by_its_socket(systemd_guest):
    """By the first run that comes, with the configuration that is documented."""
    assert said(systemd_guest, "keeper-socket") == ["inactive", "srw-------", "0"]
    assert said(systemd_guest, "keeper-run") == "models of 4000".split()
    assert said(systemd_guest, "keeper-active") == ["active", "ready"]
    assert json.loads(systemd_guest["keeper-ready"][1]) == {"status": "ready"}


def test_the_keepers_unit_leaves_it_little(systemd_guest):
    assert systemd_guest["keeper-process"][0] == 0
    values = dict(line.split()[:2] for line in systemd_guest["keeper-process"][1].splitlines())
    assert int(values["Uid:"]) not in (0, 1000)
    assert (int(values["CapBnd:"], 16), values["NoNewPrivs:"], values["Seccomp:"]) == (0, "1", "2")


def test_the_keepers_unit_has_its_state_where_it_says(systemd_guest):
    assert {"audit.jsonl", "keeper.db", "700"} <= set(said(systemd_guest, "keeper-state"))


def test_the_keepers_unit_is_reloaded_and_stopped(systemd_guest):
    assert said(systemd_guest, "keeper-reload") == "models of 4001".split()
    assert said(systemd_guest, "keeper-drain") == ["success"], systemd_guest["keeper-log"][1]
    assert said(systemd_guest, "keeper-again") == "models of 4001".split()  # the socket has stayed
    assert said(systemd_guest, "keeper-stop")[-3:] == ["inactive", "success", "srw-------"]
    text = systemd_guest["keeper-log"][1]
    events = re.findall(r"^\S+Z (?:info|warn|error) (\S+)", text, re.M)
    assert [event for event in events if not event.startswith("run_")] == [
        "ready", "reloaded", "draining", "drained", "stopped", "ready", "draining", "drained", "stopped"]
    assert KEY not in text
