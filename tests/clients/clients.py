# SPDX-License-Identifier: MIT
"""Runs of clients, and origins that tell what they received."""
import base64
import collections
import json
import pathlib
import secrets
import shutil
import subprocess
import threading

import checks
import harness
import install
import pytest

SECRET = "sk-" + secrets.token_hex(24)

# stdout without its first line, which is the placeholder.
Done = collections.namedtuple("Done", "status placeholder stdout stderr")


class Origin:
    """A server that prints its port, and then what it received, as lines of JSON."""

    def __init__(self, argv):
        self._process = subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE, text=True)
        self.port = json.loads(self._process.stdout.readline())["port"]
        self.records = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self.records.append(json.loads(line))

    def forget(self):
        self.records = []

    def wait(self, count, is_wanted=lambda record: True):
        """The records that are wanted, when there are that many."""

        def found():
            assert self._process.poll() is None, "the origin has ended"
            wanted = [record for record in self.records if is_wanted(record)]
            return wanted if len(wanted) >= count else None

        try:
            return checks.wait_until(found, 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: the origin received only {self.records}") from None

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def need(group):
    """The directory of a group of clients; a skip when it could not be installed."""
    try:
        return install.find(group)
    except install.Missing as missing:
        pytest.skip(f"{group}: {missing}")


def need_program(name):
    """A program that the agent finds on its PATH."""
    if not shutil.which(name, path=harness.PATH):
        pytest.skip(f"{name}: not installed")
    return name


def reach(origin, *hosts, port=443):
    """Options with which hosts are where the origin listens."""
    mapped = [word for host in hosts for word in ("--connect-to", f"{host}:{port}=127.0.0.1:{origin.port}")]
    return [*mapped, "--upstream-ca", origin.ca]


def run(place, argv, origin, *hosts, name="TOKEN", env=None, options=(), timeout=120):
    """A client in the sandbox, with a secret for these hosts as variable `name`. It never saw the secret."""
    variables = [word for item in (env or {}).items() for word in ("--env", "=".join(item))]
    mounts = ["--ro", str(install.CACHE)] if install.CACHE.exists() else []
    done = place.run("sh", "-c", f'echo "${name}"; exec "$@"', "sh", *argv, timeout=timeout, env={name: SECRET}, options=[
        "--secret", f"{name}=env:{name}@{','.join(hosts)}", *reach(origin, *hosts), *mounts, *variables, *options])
    assert_nowhere(done.stdout + done.stderr)
    assert "Sanitizer" not in done.stderr, done.stderr
    placeholder, _, stdout = done.stdout.partition("\n")
    return Done(done.returncode, placeholder, stdout, done.stderr)


def forms(value):
    """In which a secret might be seen; base64 as far as the secret alone decides it."""
    raw = value.encode()
    coded = [base64.b64encode(b"\0" * before + raw).decode().rstrip("=")[(before * 8 + 5) // 6:-1] for before in range(3)]
    return [value, raw.hex(), *coded]


def assert_nowhere(text):
    for form in forms(SECRET):
        assert form not in text, text


def assert_done(done):
    assert done.status == 0, (done.status, done.stdout[-2000:], done.stderr[-2000:])
    assert len(done.placeholder) == len(SECRET) and done.placeholder != SECRET


def answers(done):
    """The lines of JSON that a client printed."""
    assert_done(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def path_of(program):
    return str(pathlib.Path("/workspace") / program)
