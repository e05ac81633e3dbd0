# SPDX-License-Identifier: MIT
"""The units in contrib/systemd: systemd takes them, and they leave a keeper little."""
import configparser
import shutil
import subprocess

import pytest

import harness

UNITS = harness.TOP / "contrib" / "systemd"
EXPOSED = 15  # in tenths of ten; what has no [Service] hardening at all has 96

pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")


@pytest.fixture
def units(tmp_path):
    """The units as they are, but with a program that is there."""
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/usr/bin/warder ", f"{harness.BUILD}/src/warder ")
        (tmp_path / unit.name).write_text(text)
    return tmp_path


def _analyze(*argv):
    return subprocess.run(["systemd-analyze", *argv], capture_output=True, text=True, timeout=60,
                          check=False)


def _verify(units):
    return _analyze("verify", "--man=no", *sorted(map(str, units.iterdir())))


def test_systemd_finds_nothing_wrong(units):
    done = _verify(units)
    assert done.returncode == 0 and not done.stdout + done.stderr


def test_a_wrong_unit_is_found(units):
    """The control."""
    unit = units / "warder-keeper.service"
    unit.write_text(unit.read_text().replace("ProtectClock=", "ProtectClocks="))
    assert "ProtectClocks" in _verify(units).stderr


def _security(unit):
    return _analyze("security", "--offline=true", f"--threshold={EXPOSED}", "--no-pager", str(unit))


def test_the_service_is_hardened(units):
    done = _security(units / "warder-keeper.service")
    assert done.returncode == 0, done.stdout


def test_a_service_that_is_not_would_be_seen(units):
    """The control."""
    unit = units / "warder-keeper.service"
    text = unit.read_text()
    unit.write_text(text.replace("SystemCallFilter", "#").replace("ProtectSystem", "#"))
    assert _security(unit).returncode != 0


def _read(name):
    unit = configparser.RawConfigParser(strict=False, allow_no_value=True)
    unit.optionxform = str
    unit.read(UNITS / name)
    return unit


def test_sockets_are_what_the_keeper_takes():
    control, admin = _read("warder-keeper.socket"), _read("warder-keeper-admin.socket")
    assert control["Socket"]["ListenSequentialPacket"] == "/run/warder/keeper.sock"
    assert control["Socket"]["SocketMode"] == "0600"
    assert control["Socket"]["FileDescriptorName"] == "control"
    assert admin["Socket"]["FileDescriptorName"] == "admin"
    assert admin["Socket"]["Service"] == "warder-keeper.service"


def test_users_at_the_control_socket_can_be_told_apart():
    """In a user namespace, as PrivateUsers= makes one, SO_PEERCRED would say "nobody"."""
    assert "PrivateUsers" not in _read("warder-keeper.service")["Service"]
