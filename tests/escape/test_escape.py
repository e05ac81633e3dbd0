# SPDX-License-Identifier: MIT
"""Every attempted break-out: it works without the layer under test, and is refused with it."""
import ast
import copy
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

import harness
import pytest
from preparations import PYTHON, TABLE as PREPARATIONS

HERE = pathlib.Path(__file__).parent
INVARIANTS = {"INV-SECRETS-HOST-ONLY", "INV-NETWORK-DENY", "INV-FAIL-CLOSED", "INV-RUN-IDENTITY",
              "INV-BOUNDED"}

# Namespaces that are thrown away, with memory over /opt, and a shell as PID 1.
THROW_AWAY = ("--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c",
              'mount -t tmpfs none /opt && "$@"; exit $?', "sh")

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64",
                                reason="the attempts' system call numbers are x86_64's")


def read_header(path):
    """The constants at the top of an attempt, without running it."""
    header = {"PREPARE": "nothing", "OPTIONS": [], "WHO": ["user", "root"]}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                header[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass  # a constant of the attempt's own
    return header


ATTEMPTS = {path.stem: read_header(path) for path in sorted((HERE / "attempts").glob("*.py"))}


@pytest.fixture(scope="session")
def attempts_dir():
    """The scripts where every user can read them."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="warder-attempts-", dir="/tmp"))
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE / "attempts", top, dirs_exist_ok=True, ignore=ignore)
    subprocess.run(["chmod", "-R", "a+rX", top], check=True)
    yield top
    shutil.rmtree(top)


# ---- controls: where the attempt works ----


def become(place, who):
    """The same place with another user in it."""
    if who == "root" and not harness.IS_ROOT and os.system("sudo -n true") != 0:
        pytest.skip("the control needs root")
    if who == "user" and place.who == "root" and not harness.IS_ROOT:
        pytest.skip("the control needs another user")
    other = copy.copy(place)
    other.who = who
    return other


def on_host(place, line, prepared, _header):
    return place.host(line, env=prepared.env, **prepared.kwargs)


def as_user(place, line, prepared, header):
    return on_host(become(place, "user"), line, prepared, header)


def as_root(place, line, prepared, header):
    """Real root, so that only the machine's own checks are left; the namespaces are not."""
    return on_host(become(place, "root"), ["unshare", *THROW_AWAY, *line], prepared, header)


def in_userns(place, line, prepared, header):
    """Root of a user namespace: what the agent would be without the later layers."""
    return on_host(place, ["unshare", "-Ur", *THROW_AWAY, *line], prepared, header)


def in_internet(place, line, prepared, header):
    """A network namespace with addresses of the internet in it, and services on them."""
    script = (HERE / "internet.py").read_text()
    return in_userns(place, [PYTHON, "-S", "-c", script, *line], prepared, header)


def in_sandbox(place, line, prepared, header):
    """The same sandbox with a wider limit."""
    return run_inside(place, line, prepared, header["CONTROL_OPTIONS"])


CONTROLS = {
    "host": on_host,
    "user": as_user,
    "root": as_root,
    "userns": in_userns,
    "internet": in_internet,
    "sandbox": in_sandbox,
}


# ---- the test ----


def run_inside(place, line, prepared, options):
    options = ["-q", *prepared.options, *options]
    return place.run(*line, options=options, env=prepared.env, **prepared.kwargs)


def outcome(done):
    """The one line an attempt prints, or the status if it did not come that far."""
    if done.returncode != 0:
        return f"status: {done.returncode}"
    return ((done.stdout or "") + done.stderr).strip()


def expected(header):
    expect = header["EXPECT"]
    return expect if isinstance(expect, list) else [expect]


@pytest.mark.parametrize("name", ATTEMPTS)
def test_header_is_complete(name):
    header = ATTEMPTS[name]
    assert header["INVARIANT"] in INVARIANTS
    assert header["LAYER"] and header["EXPECT"]
    assert header["CONTROL"] in CONTROLS
    assert header["PREPARE"] in PREPARATIONS


CASES = [(who, name) for name, header in ATTEMPTS.items() for who in header["WHO"]]


@pytest.mark.parametrize("place, name", CASES, indirect=["place"])
def test_attempt(place, attempts_dir, name):
    header = ATTEMPTS[name]
    control = CONTROLS[header["CONTROL"]]

    def run_in(start, *rest):
        """Prepares anew and runs the attempt there."""
        with PREPARATIONS[header["PREPARE"]](place) as prepared:
            line = [PYTHON, "-S", str(attempts_dir / f"{name}.py"), json.dumps(prepared.args)]
            prepared.options += ["--ro", str(attempts_dir)]
            return start(place, line, prepared, *rest)

    without = run_in(control, header)
    inside = run_in(run_inside, header["OPTIONS"])
    assert outcome(inside) in expected(header), inside
    if "NEEDS" in header and outcome(without) in expected(header):
        return  # there is no such thing here to defend against
    assert outcome(without).startswith("escaped"), without
