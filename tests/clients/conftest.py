# SPDX-License-Identifier: MIT
"""The origins of the matrix and the runs of its clients."""
import os
import pathlib
import shutil
import tempfile

import clients
import install
import origin as upstream
import pytest

# `make test-clients` runs these, `make test` does not: they need more than Debian's packages.
collect_ignore_glob = [] if os.environ.get("WARDER_CLIENTS") else ["test_*.py"]


class Certificates(upstream.Certificates):
    HOSTS = ("api.test", "*.api.test", "git.test", "files.test", "ws.test", "grpc.test",
             "api.openai.com", "api.anthropic.com")


@pytest.fixture(scope="session")
def certificates():
    top = pathlib.Path(tempfile.mkdtemp(prefix="warder-certificates-", dir="/tmp"))
    yield Certificates(top)
    shutil.rmtree(top)


@pytest.fixture(scope="session")
def files():
    """The directory that origins serve; tests put their repositories there."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="warder-files-", dir="/tmp"))
    yield top
    shutil.rmtree(top)


def _start(certificates, *argv):
    made = clients.Origin(argv)
    made.ca = str(certificates.ca)
    return made


def _http_origin(certificates, files, http):
    if not shutil.which("node"):
        pytest.skip("node: not installed, and the origin is one of its programs")
    return _start(certificates, "node", install.HERE / "origin.mjs", certificates.top / "hosts.pem",
                  certificates.top / "hosts.key", files, clients.SECRET, http)


@pytest.fixture(scope="session")
def h2_server(certificates, files):
    made = _http_origin(certificates, files, "h2")
    yield made
    made.close()


@pytest.fixture(scope="session")
def h1_server(certificates, files):
    made = _http_origin(certificates, files, "h1")
    yield made
    made.close()


@pytest.fixture
def origin(h2_server):
    """One that prefers HTTP/2."""
    h2_server.forget()
    return h2_server


@pytest.fixture
def h1_origin(h1_server):
    """One that knows nothing else than HTTP/1.1."""
    h1_server.forget()
    return h1_server


@pytest.fixture(scope="session")
def grpc_server(certificates):
    made = _start(certificates, clients.need("python") / "bin/python", install.HERE / "grpc_origin.py",
                  certificates.top / "hosts.pem", certificates.top / "hosts.key")
    yield made
    made.close()


@pytest.fixture
def grpc_origin(grpc_server):
    grpc_server.forget()
    return grpc_server


@pytest.fixture
def place(user_place):
    """Root's runs go the same way outside the sandbox; test_fetch.py takes some as root, too."""
    shutil.copytree(install.PROGRAMS, user_place.workspace, dirs_exist_ok=True)
    return user_place


@pytest.fixture
def as_root(root_place):
    shutil.copytree(install.PROGRAMS, root_place.workspace, dirs_exist_ok=True)
    return root_place
