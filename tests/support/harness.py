# SPDX-License-Identifier: MIT
"""Runs the real binary, as an ordinary user and as root, and tells what is left behind."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zlib

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WARDER_BUILD", TOP / "build"))

# An ordinary user with no entry in any database; nothing on the host is theirs. Each build is tested
# as a user of its own: a user's limit of processes, keys and delegated groups count for all of them.
USER_ID = 20000 + zlib.crc32(str(BUILD).encode()) % 30000

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IS_ROOT = os.geteuid() == 0


class Place:
    """A directory tree for one test: a home and a workspace that belong to one user."""

    def __init__(self, who, binary):
        self.who = who  # "user" or "root"
        self.binary = str(binary)
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="warder-place-", dir="/tmp"))
        self.home = self.top / "home"
        self.workspace = self.top / "workspace"
        os.chmod(self.top, 0o755)
        for path in (self.home, self.workspace):
            path.mkdir()
            self.own(path)

    def own(self, path):
        """Gives a path to the user this place is for."""
        if IS_ROOT and self.who == "user":
            os.chown(path, USER_ID, USER_ID)
        return path

    def write(self, path, text, mode=0o644):
        """Writes a file as that user's own."""
        path = self.top / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return self.own(path)

    def become(self):
        """The prefix that makes a command run as this place's user."""
        if self.who == "user" and IS_ROOT:
            ids = f"--reuid={USER_ID}", f"--regid={USER_ID}"
            return ["setpriv", *ids, "--clear-groups", "--"]
        if self.who == "root" and not IS_ROOT:
            return ["sudo", "-n", "--"]
        return []

    def env(self, extra=None):
        return {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8", **(extra or {})}

    def command(self, argv, env=None):
        """argv as this user with an environment of its own."""
        variables = [f"{k}={v}" for k, v in self.env(env).items()]
        # Whoever runs the tests may ignore these, as nohup and background jobs do.
        return [*self.become(), "env", "-i", "--default-signal=HUP,INT,QUIT", *variables, *argv]

    def host(self, argv, env=None, **options):
        """Runs something outside any sandbox, as this user, in the workspace."""
        return self._run(self.command(argv, env), **options)

    def run(self, *argv, options=("-q",), env=None, **kwargs):
        """warder run OPTIONS -- ARGV, in the workspace."""
        line = [self.binary, "run", *options, "--", *argv]
        return self._run(self.command(line, env), **kwargs)

    def warder(self, *argv, env=None, **kwargs):
        """warder ARGV, in the workspace."""
        return self._run(self.command([self.binary, *argv], env), **kwargs)

    def json(self, *argv, options=(), **kwargs):
        """The result object of a run."""
        done = self.run(*argv, options=("--json", "-q", *options), **kwargs)
        return json.loads(done.stdout)

    def popen(self, *argv, options=("-q",), env=None, **kwargs):
        line = [self.binary, "run", *options, "--", *argv]
        kwargs.setdefault("cwd", self.workspace)
        return subprocess.Popen(self.command(line, env), **kwargs)

    def _run(self, argv, **options):
        options.setdefault("cwd", self.workspace)
        options.setdefault("timeout", 60)
        options.setdefault("text", True)
        if "stdin" not in options and "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        for name in ("stdout", "stderr"):
            options.setdefault(name, subprocess.PIPE)
        return subprocess.run(argv, check=False, **options)

    def install(self):
        """Puts the programs beside each other, as an installation has them."""
        self.binary = shutil.copy(self.binary, self.top)
        for name in ("warder-gateway", "warder-keeper"):
            shutil.copy(BUILD / "src" / name, self.top)
        for name in ("warder", "warder-gateway", "warder-keeper"):
            (self.top / name).chmod(0o755)

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)


def processes():
    """The pids of every process of this machine with its command line."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            line = pathlib.Path("/proc", name, "cmdline").read_bytes()
            state = pathlib.Path("/proc", name, "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found[int(name)] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def cgroups(*names):
    """The control groups of runs that have one of these names in theirs."""
    found = set()
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        found.update(os.path.join(top, d) for d in dirs
                     if d.startswith("warder-") and any(name in d for name in names))
    return found


def mounts(place):
    """The mount table of this machine, without what other tests have in directories of theirs."""
    other = re.compile(rf"/tmp/warder-(?!{re.escape(place.top.name.removeprefix('warder-'))}\b)")
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if not other.search(line)}


def temporary(place, *names):
    """What lies in directories that are everybody's: of this place's user alone, or by its name.

    Root is not alone: tests that are under way beside this one are root's as well."""
    found = set()
    for top in ("/tmp", "/var/tmp", "/dev/shm"):
        for entry in os.scandir(top):
            try:
                is_ours = entry.stat(follow_symlinks=False).st_uid == USER_ID and place.who == "user"
            except FileNotFoundError:
                continue  # gone meanwhile
            if is_ours or any(name in entry.name for name in (place.top.name, *names)):
                found.add(entry.path)
    return found - {str(place.top)}


def traces(place, *names):
    """What runs of this place, or with one of these names, have on this machine, apart from processes."""
    return mounts(place) | cgroups(*names) | temporary(place, *names)
