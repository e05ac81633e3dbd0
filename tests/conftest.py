# SPDX-License-Identifier: MIT
"""Fixtures for tests of the real binary."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
import harness  # noqa: E402
import origin as upstream  # noqa: E402


@pytest.fixture(scope="session")
def binary():
    """The program where every user can execute it, whoever owns the checkout."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="warder-binary-", dir="/tmp"))
    os.chmod(top, 0o755)
    for name in ("warder", "warder-gateway", "warder-keeper"):
        shutil.copy(harness.BUILD / "src" / name, top / name)
        (top / name).chmod(0o755)
    yield top / "warder"
    shutil.rmtree(top)


def _can_become(who):
    if who == "root" and not harness.IS_ROOT:
        return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    return True


def _place(who, binary):
    if not _can_become(who):
        pytest.skip("needs root: neither started as root nor is sudo without a password")
    return harness.Place(who, binary)


@pytest.fixture(params=["user", "root"])
def place(request, binary):
    """A place of an ordinary user, and then one of root."""
    made = _place(request.param, binary)
    yield made
    made.remove()


@pytest.fixture
def user_place(binary):
    made = _place("user", binary)
    yield made
    made.remove()


@pytest.fixture
def root_place(binary):
    made = _place("root", binary)
    yield made
    made.remove()


@pytest.fixture
def origin():
    """An upstream that answers everything; a test may give it another script before it asks."""
    made = upstream.Origin()
    yield made
    made.close()


@pytest.fixture
def https(certificates):
    """The same behind TLS, with a certificate for the hosts of tests."""
    made = upstream.Origin(context=certificates.context("hosts"))
    made.ca = str(certificates.ca)
    yield made
    made.close()


@pytest.fixture(scope="session")
def certificates():
    top = pathlib.Path(tempfile.mkdtemp(prefix="warder-certificates-", dir="/tmp"))
    yield upstream.Certificates(top)
    shutil.rmtree(top)


# Faults would hit the sanitizers' own calls, a guest has no room for their shadow memory, and the
# long tables of egress go the ways that test_egress.py goes as well.
collect_ignore = []
if "asan" in harness.BUILD.name:
    collect_ignore = ["integration/test_faults.py", "integration/test_guest.py",
                      "integration/test_egress_escape.py", "integration/test_egress_many.py",
                      "integration/test_egress_ports.py", "integration/test_egress_rebind.py",
                      "integration/test_egress_secrets.py"]


def pytest_configure(config):
    config.addinivalue_line("markers", "waits: takes long because of a time that is waited for, and shows "
                                       "nothing about memory; not run again under sanitizers")
    config.addinivalue_line("markers", "patient: does hardly anything but wait, or makes others wait; run beside "
                                       "the rest, one after the other")


def pytest_collection_modifyitems(config, items):
    if "asan" not in harness.BUILD.name:
        return
    left_out = [item for item in items if item.get_closest_marker("waits")]
    items[:] = [item for item in items if not item.get_closest_marker("waits")]
    config.hook.pytest_deselected(items=left_out)
