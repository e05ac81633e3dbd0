# SPDX-License-Identifier: MIT
"""The clients that Debian does not have, or that must be compiled: made once and kept in a cache.

A group is made again when what it is made from changes. One that cannot be made leaves the reason,
and its tests are skipped with it.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
PINS = HERE / "pins"

# Where the user that a test is run as can read it.
CACHE = (pathlib.Path("/var/cache") if os.geteuid() == 0 else
         pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")) / "warder-clients"


class Missing(Exception):
    """A group is not there; the text says why."""


def _run(*argv, **options):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False,
                          timeout=600, **options)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise Missing(f"{pathlib.Path(argv[0]).name}: {said[-1]}")
    return done.stdout.strip()


def _tool(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name} on this machine")
    return found


def _make_python(top, pins):
    _run("/usr/bin/python3", "-m", "venv", top)
    _run(top / "bin/pip", "install", "--no-deps", "--only-binary", ":all:", "-r", PINS / pins / "requirements.txt")


def _make_node(top, pins):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / pins / name, top)
    _run(_tool("npm"), "ci", "--ignore-scripts", "--engine-strict", "--no-audit", "--no-fund", cwd=top)


def _make_go(top):
    _run(_tool("go"), "build", "-o", top / "fetch", PROGRAMS / "fetch.go")


def _make_java(top):
    _run(_tool("javac"), "-d", top, *sorted(PROGRAMS.glob("*.java")))


def _make_rust(top):
    source = shutil.copytree(PROGRAMS / "rust", top / "source")
    _run(_tool("cargo"), "build", "--release", "--target-dir", top / "target", cwd=source)
    for name in ("curl-crate", "ureq"):
        shutil.copy(top / "target/release" / name, top)
    shutil.rmtree(top / "target")


def _make_cargo(top):
    """The program itself: it may lie below somebody's home directory, behind a front that chooses one."""
    found = pathlib.Path(_tool("cargo"))
    if shutil.which("rustc"):
        real = pathlib.Path(_run("rustc", "--print", "sysroot")) / "bin/cargo"
        found = real if real.exists() else found
    shutil.copy(found, top / "cargo")


# name: (the tool whose version matters, what it is made from, how)
GROUPS = {
    "python": ("/usr/bin/python3", ["pins/python"], lambda top: _make_python(top, "python")),
    "litellm": ("/usr/bin/python3", ["pins/litellm"], lambda top: _make_python(top, "litellm")),
    "node": ("node", ["pins/node"], lambda top: _make_node(top, "node")),
    "undici": ("node", ["pins/undici"], lambda top: _make_node(top, "undici")),
    "go": ("go", ["programs/fetch.go"], _make_go),
    "java": ("javac", sorted(p.relative_to(HERE) for p in PROGRAMS.glob("*.java")), _make_java),
    "rust": ("cargo", ["programs/rust"], _make_rust),
    "cargo": ("cargo", [], _make_cargo),
}


def _version(tool):
    return _run(_tool(tool), "version" if tool == "go" else "--version")


def _directory(name):
    tool, inputs, _ = GROUPS[name]
    digest = hashlib.sha256(_version(tool).encode())
    for path in inputs:
        for file in sorted([HERE / path] if (HERE / path).is_file() else (HERE / path).rglob("*")):
            digest.update(file.read_bytes() if file.is_file() else b"")
    return CACHE / f"{name}-{digest.hexdigest()[:12]}"


def make(name):
    """Makes the group if it is not there; its directory."""
    top = _directory(name)
    if (top / ".complete").exists():
        return top
    for old in CACHE.glob(f"{name}-*"):
        shutil.rmtree(old)
    top.mkdir(parents=True)
    try:
        GROUPS[name][2](top)
    except (Missing, OSError, subprocess.TimeoutExpired):
        shutil.rmtree(top)
        raise
    (top / ".complete").touch()
    return top


def main():
    """Makes what is missing, and tells what could not be made."""
    os.umask(0o022)
    CACHE.mkdir(parents=True, exist_ok=True)
    for name in GROUPS:
        reason = CACHE / f"{name}.reason"
        try:
            make(name)
            reason.unlink(missing_ok=True)
        except (Missing, OSError, subprocess.TimeoutExpired) as error:
            reason.write_text(f"{error}\n")
            print(f"clients: {name} cannot be installed: {error}")


def find(name):
    """The directory of a group, or Missing with the reason."""
    top = _directory(name)
    if (top / ".complete").exists():
        return top
    reason = CACHE / f"{name}.reason"
    raise Missing(reason.read_text().strip() if reason.exists() else "not installed")
