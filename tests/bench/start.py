#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long `true` takes to run in a sandbox, side by side, one after the other in turns."""
import argparse
import glob
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
USER_ID = 12345
PLAIN, NETWORK = "warder run", "warder run --allow-net example.com"
SAME_BINDS, ONE_BIND = "bwrap, same binds", "bwrap --unshare-all, one bind"
LINKS = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]


def system_paths():
    """What warder shows of the system: the same files for everybody."""
    text = (TOP / "src/sandbox/etc.def").read_text()
    etc = [p for name in re.findall(r'ETC\("([^"]+)"\)', text) for p in sorted(glob.glob("/etc/" + name))]
    return ["/usr", *[p for p in ["/opt"] if os.path.isdir(p)], *LINKS, *etc]


def bwrap(workspace, paths):
    line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in paths:
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            line += ["--ro-bind", path, path]
    return line + ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run",
                   "--bind", str(workspace), "/workspace", "--chdir", "/workspace", "true"]


def bundle(place, paths):
    """An OCI bundle with the same mounts, namespaces and limits."""
    rootfs = place / "rootfs"
    for name in ("proc", "dev", "tmp", "run", "workspace"):
        (rootfs / name).mkdir(parents=True, exist_ok=True)
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
              {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
              {"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
              {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
              {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
              {"destination": "/workspace", "type": "bind", "source": str(place),
               "options": ["bind", "rw"]}]
    for path in paths:
        if os.path.islink(path):
            target = rootfs / path[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                target.symlink_to(os.readlink(path))
        elif os.path.exists(path):
            mounts.append({"destination": path, "type": "bind", "source": path,
                           "options": ["bind", "ro"]})
    spaces = ["pid", "network", "ipc", "uts", "mount"]
    config = {"ociVersion": "1.0.0", "hostname": "bench", "mounts": mounts,
              "root": {"path": "rootfs"},
              "process": {"user": {"uid": 1000, "gid": 1000}, "args": ["true"], "cwd": "/workspace",
                          "env": ["PATH=/usr/bin:/bin"], "noNewPrivileges": True},
              "linux": {"namespaces": [{"type": t} for t in spaces],
                        "resources": {"memory": {"limit": 1 << 30}, "pids": {"limit": 256}}}}
    (place / "config.json").write_text(json.dumps(config))
    return place


def measure(argv, env):
    """Milliseconds from the spawn to the reaped end."""
    start = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, env,
                          file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise SystemExit(f"bench: {' '.join(argv[:3])} ... failed with status {status}")
    return (time.perf_counter() - start) * 1000


def works(argv):
    return shutil.which(argv[0]) is not None and \
        subprocess.run(argv, capture_output=True, check=False).returncode == 0


def contenders(place, binary, is_root):
    paths = system_paths()
    limits = ["--memory", "1G", "--pids", "256"] if is_root else ["--pids", "256"]
    result = ["--result", str(place / "result.json"), "-q", "--"]
    found = {
        PLAIN: [binary, "run", "-q", "--", "true"],
        f"warder run {' '.join(limits)} --result": [binary, "run", *limits, *result, "true"],
        NETWORK: [binary, "run", "-q", "--allow-net", "example.com", "--audit",
                  str(place / "audit.jsonl"), "--", "true"],
        SAME_BINDS: bwrap(place / "workspace", paths),
        ONE_BIND: ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
        "unshare (namespaces only)": ["unshare", "-Urmpfniu", "true"],
    }
    if is_root:
        made = bundle(place / "bundle", paths) if (place / "bundle").mkdir() is None else None
        for name in ("crun", "runc"):
            found[f"{name} run"] = [name, "run", "--bundle", str(made), f"bench-{os.getpid()}"]
    return found


def bench(binary, rounds):
    place = pathlib.Path(tempfile.mkdtemp(prefix="warder-bench-", dir="/tmp"))
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent"}
    (place / "workspace").mkdir()
    os.chdir(place / "workspace")
    is_root = os.geteuid() == 0
    try:
        every = contenders(place, binary, is_root)
        usable = {n: a for n, a in every.items() if works(a)}
        times = {n: [] for n in usable}
        for number in range(rounds + 5):
            for name, argv in usable.items():
                taken = measure(argv, env)
                if number >= 5:  # the first few warm the caches
                    times[name].append(taken)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(f"\n`true`, started by {'root' if is_root else 'a user'}, {rounds} rounds\n")
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    table(every, times, medians)
    goals(medians)


def table(every, times, medians):
    base = medians.get(SAME_BINDS)
    print(f"| {'':43} | median ms | p95 ms | x bwrap |")
    print(f"|{'-' * 45}|-----------|--------|---------|")
    for name in every:
        if name not in times:
            print(f"| {name:43} | does not run here    |         |")
            continue
        p95 = statistics.quantiles(times[name], n=20)[18]
        ratio = f"{medians[name] / base:7.2f}" if base else ""
        print(f"| {name:43} | {medians[name]:9.2f} | {p95:6.2f} | {ratio} |")


def goals(medians):
    """Nothing of ours is slower than bwrap is; and what the network costs."""
    print()
    ours = [name for name in medians if name.startswith("warder")]
    for name, rival in (*((name, SAME_BINDS) for name in ours), (NETWORK, ONE_BIND)):
        if name in medians and rival in medians:
            ratio = medians[name] / medians[rival]
            print(f"goal, {name} no slower than {rival}: {'met' if ratio <= 1 else 'loses'} ({ratio:.2f}x)")
        else:
            print(f"goal, {name} no slower than {rival}: not measured")
    if NETWORK in medians:
        more = medians[NETWORK] - medians[PLAIN]
        print(f"the network takes {more:.2f} ms, {medians[NETWORK] / medians[PLAIN]:.2f}x without it")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--binary", default=str(TOP / "build/src/warder"))
    options = parser.parse_args()
    again = [__file__, "--inside", "--rounds", str(options.rounds), "--binary"]
    if options.inside:
        bench(options.binary, options.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="warder-bench-", dir="/tmp") as top:
        os.chmod(top, 0o755)
        binary = shutil.copy(options.binary, top)
        shutil.copy(pathlib.Path(options.binary).parent / "warder-gateway", top)
        if os.geteuid() == 0:
            # crun does not start while both versions of cgroups are mounted.
            hide = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\""
            subprocess.run(["unshare", "-m", "sh", "-c", hide, "sh", *again, binary], check=True)
            ids = f"--reuid={USER_ID}", f"--regid={USER_ID}"
            subprocess.run(["setpriv", *ids, "--clear-groups", *again, binary], check=True)
        else:
            subprocess.run([*again, binary], check=True)


main()
