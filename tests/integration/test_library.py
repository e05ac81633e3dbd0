# SPDX-License-Identifier: MIT
"""libwarder: the example as it is built, as a stranger would build it, and from threads."""
import os
import pathlib
import shutil
import subprocess

import harness
import pytest

EXAMPLE = harness.TOP / "examples" / "run_once.c"


@pytest.fixture
def programs(place):
    """The built programs and the library where every user can read them."""
    kept = place.top / "programs"
    kept.mkdir()
    for path in ("examples/run_once", "tests/support/threads", "src/libwarder.so.0"):
        copy = kept / pathlib.Path(path).name
        shutil.copy(harness.BUILD / path, copy)
        copy.chmod(0o755)
    return kept


def test_the_example_runs(place, programs):
    env = {"LD_LIBRARY_PATH": str(programs)}
    done = place.host([str(programs / "run_once"), ".", "sh", "-c", "echo hello; exit 3"], env=env)
    assert done.returncode == 1
    assert "not ok, exit code 3, error none" in done.stdout
    assert "stdout: hello" in done.stdout


def test_the_example_tells_why_nothing_was_started(place, programs):
    env = {"LD_LIBRARY_PATH": str(programs)}
    done = place.host([str(programs / "run_once"), "/nonexistent", "true"], env=env)
    assert "not started: workspace '/nonexistent': No such file" in done.stderr
    assert "exit code 125, error container_failed" in done.stdout


def test_many_threads_may_run_at_once(place, programs):
    done = place.host([str(programs / "threads"), "."], timeout=120)
    assert (done.stdout, done.returncode) == ("96 runs, 0 failures\n", 0), done.stderr


def test_an_installed_library_is_found_by_pkg_config(tmp_path):
    if "asan" in harness.BUILD.name:
        flags = ["-fsanitize=address,undefined"]
    else:
        flags = []
    subprocess.run(["meson", "install", "-C", harness.BUILD, "--no-rebuild", "--quiet",
                    "--destdir", tmp_path], check=True)
    where = next(tmp_path.rglob("warder.pc")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(where), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    line = subprocess.run(["pkg-config", "--cflags", "--libs", "warder"], env=env, check=True,
                          capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", *flags, EXAMPLE, "-o", tmp_path / "example", *line], check=True)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    done = subprocess.run([tmp_path / "example", workspace, "true"], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": str(where.parent)})
    assert done.returncode == 0 and ": ok, exit code 0" in done.stdout, done.stderr


def test_the_manual_pages_are_installed(tmp_path):
    subprocess.run(["meson", "install", "-C", harness.BUILD, "--no-rebuild", "--quiet",
                    "--destdir", tmp_path], check=True)
    names = {path.name for path in tmp_path.rglob("*.1")}
    assert names == {"warder.1", "warder-audit.1", "warder-check.1", "warder-gate.1", "warder-keeper.1",
                     "warder-ps.1", "warder-run.1", "warder-spend.1", "warder-token.1"}
