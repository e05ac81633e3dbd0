# SPDX-License-Identifier: MIT
"""Tools that fetch and send: git, pip, npm, apt, cargo, and OpenSSL's own client.

Each has the placeholder as its password or its token; what they fetch is behind a door that opens for
the secret only.
"""
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile

import clients
import pytest

FILES = "files.test"
IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def bash(place, text, origin, host, **more):
    return clients.run(place, ["bash", "-euc", text], origin, host, **more)


# Both ways on which a tool can come.
ways = pytest.mark.parametrize("way", [{}, {"https_proxy": "http://127.0.0.1:3128"}], ids=["direct", "proxy"])


def assert_authorized(origin, host, wanted, count=1):
    """Every request that was let in had the secret in the one field that the tool puts it into."""
    records = origin.wait(count, lambda record: "authorization" in record["headers"])
    for record in records:
        assert record["headers"]["authorization"] == wanted, record
        assert record["host"] == host
        assert clients.SECRET not in json.dumps({**record["headers"], "authorization": ""}) + record["path"]
    return records


def basic(user):
    return "Basic " + clients.base64.b64encode(f"{user}:{clients.SECRET}".encode()).decode()


# ---- git ----

def git(cwd, *words):
    return subprocess.run(["git", *words], cwd=cwd, env={**os.environ, **IDENTITY}, check=True, capture_output=True).stdout


@pytest.fixture
def repository(files):
    """A bare repository that may be pushed to."""
    top = files / "git"
    work = top / "work"
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    (work / "file").write_text("one\n")
    git(work, "add", "file")
    git(work, "commit", "-q", "-m", "first")
    git(top, "clone", "-q", "--bare", "work", "it.git")
    git(top / "it.git", "config", "http.receivepack", "true")
    yield top / "it.git"
    shutil.rmtree(top)


def add_branches(repository, count):
    """Each with a commit of its own."""
    tree = git(repository, "rev-parse", "main^{tree}").decode().strip()
    for number in range(count):
        commit = git(repository, "commit-tree", tree, "-m", str(number)).decode().strip()
        git(repository, "branch", f"branch-{number}", commit)


@ways
def test_git_clones(place, origin, repository, way):
    done = bash(place, 'git clone -q "https://agent:$TOKEN@git.test/git/it.git"; git -C it log --format=%s',
                origin, "git.test")
    clients.assert_done(done)
    assert done.stdout == "first\n"
    assert_authorized(origin, "git.test", basic("agent"), 2)


def test_git_compresses_a_long_request(place, origin, repository):
    """What sixty branches ask for is over a kilobyte, which git sends in gzip."""
    add_branches(repository, 60)
    done = bash(place, 'git clone -q "https://agent:$TOKEN@git.test/git/it.git"; git -C it branch -r | grep -c branch-',
                origin, "git.test")
    clients.assert_done(done)
    assert done.stdout == "60\n"
    assert any(record["headers"].get("content-encoding") == "gzip" for record in origin.records)


@pytest.mark.parametrize("http", ["HTTP/1.1", "HTTP/2"])
def test_git_pushes(place, origin, repository, http):
    """More than git's buffer for a request: it is sent in chunks, after a first try without a body."""
    done = bash(place, f"""
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.version GIT_CONFIG_VALUE_0={http}
git clone -q "https://agent:$TOKEN@git.test/git/it.git"
cd it
head -c 3000000 /dev/urandom >large
git add large
git commit -q -m pushed
git push -q origin main
sha256sum <large""", origin, "git.test", env=IDENTITY)
    clients.assert_done(done)
    assert git(repository, "log", "-1", "--format=%s", "main") == b"pushed\n"
    assert hashlib.sha256(git(repository, "show", "main:large")).hexdigest() == done.stdout.split()[0]
    assert_authorized(origin, "git.test", basic("agent"), 4)


def test_git_asks_a_helper_for_the_password(place, origin, repository):
    done = bash(place, """
git config --global credential.helper '!f() { echo username=agent; echo "password=$TOKEN"; }; f'
git clone -q https://git.test/git/it.git && git -C it log --format=%s""", origin, "git.test")
    clients.assert_done(done)
    assert done.stdout == "first\n"
    assert_authorized(origin, "git.test", basic("agent"), 2)


def test_git_is_not_let_in_with_anything_else(place, origin, repository):
    """The control of the tests above."""
    done = bash(place, "GIT_TERMINAL_PROMPT=0 git clone -q https://agent:wrong@git.test/git/it.git", origin, "git.test")
    assert done.status == 128 and "Authentication failed" in done.stderr, done


# ---- pip ----

@pytest.fixture
def wheel(files):
    """An index with one package of one module."""
    top = files / "simple" / "demo"
    top.mkdir(parents=True)
    name = "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(top / name, "w") as made:
        made.writestr("demo.py", "print('a wheel')\n")
        made.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        made.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("demo-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256((top / name).read_bytes()).hexdigest()
    (top / "index.html").write_text(f'<!DOCTYPE html><a href="{name}#sha256={digest}">{name}</a>')
    yield
    shutil.rmtree(files / "simple")


@ways
def test_pip_installs(place, origin, wheel, way):
    pip = clients.need("python") / "bin/pip"
    done = bash(place, f"""{pip} install -q --disable-pip-version-check --target /tmp/it \
--index-url "https://agent:$TOKEN@{FILES}/files/simple" demo && PYTHONPATH=/tmp/it /usr/bin/python3 -m demo""", origin, FILES, env=way)
    clients.assert_done(done)
    assert done.stdout == "a wheel\n"
    assert_authorized(origin, FILES, basic("agent"), 2)


# ---- npm ----

@pytest.fixture
def package(files):
    """A registry with one package of one module."""
    top = files / "npm"
    top.mkdir()
    source = files / "package.json"
    source.write_text(json.dumps({"name": "demo", "version": "1.0.0", "main": "package.json"}))
    with tarfile.open(top / "demo-1.0.0.tgz", "w:gz") as made:
        made.add(source, "package/package.json")
    source.unlink()
    version = {"name": "demo", "version": "1.0.0", "dist": {
        "tarball": f"https://{FILES}/files/npm/demo-1.0.0.tgz",
        "shasum": hashlib.sha1((top / "demo-1.0.0.tgz").read_bytes()).hexdigest()}}
    (top / "demo").write_text(json.dumps({"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))
    yield
    shutil.rmtree(top)


NPMRC = {
    "token": ("_authToken=$TOKEN", f"Bearer {clients.SECRET}"),
    "basic": ("_auth=$(printf 'agent:%s' \"$TOKEN\" | base64 -w 0)", basic("agent")),
    "password": ("username=agent\n//files.test/files/npm/:_password=$(printf %s \"$TOKEN\" | base64 -w 0)", basic("agent")),
}


@ways
@pytest.mark.parametrize("setting", NPMRC)
def test_npm_installs(place, origin, package, setting, way):
    clients.need_program("npm")
    line, wanted = NPMRC[setting]
    done = bash(place, f"""
mkdir it && cd it && echo '{{}}' >package.json
cat >.npmrc <<END
registry=https://{FILES}/files/npm/
//{FILES}/files/npm/:{line}
END
npm install --silent --no-audit --no-fund --no-update-notifier demo
node -p 'require("demo").version'""", origin, FILES, env=way)
    clients.assert_done(done)
    assert done.stdout.endswith("1.0.0\n")
    assert_authorized(origin, FILES, wanted, 2)


# ---- apt ----

@pytest.fixture
def archive(files):
    """A repository with one package of one file."""
    top = files / "debian"
    tree = top / "demo"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text("Package: demo\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a demo\n")
    (tree / "DEBIAN").chmod(0o755)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", "demo", "demo_1.0_all.deb"], cwd=top, check=True, capture_output=True)
    data = (top / "demo_1.0_all.deb").read_bytes()
    listed = ((tree / "DEBIAN/control").read_text() +
              f"Filename: ./demo_1.0_all.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n").encode()
    (top / "Packages").write_bytes(listed)
    (top / "Packages.gz").write_bytes(gzip.compress(listed))
    sums = "".join(f" {hashlib.sha256((top / name).read_bytes()).hexdigest()} {(top / name).stat().st_size} {name}\n"
                   for name in ("Packages", "Packages.gz"))
    (top / "Release").write_text(f"Origin: demo\nSuite: demo\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n{sums}")
    yield
    shutil.rmtree(top)


@ways
def test_apt_downloads(place, origin, archive, way):
    clients.need_program("apt-get")
    done = bash(place, f"""
mkdir -p apt/etc/trusted.gpg.d apt/etc/sources.list.d apt/etc/apt.conf.d apt/etc/preferences.d apt/state/lists/partial apt/cache/archives/partial
echo "deb [trusted=yes] https://{FILES}/files/debian ./" >apt/etc/sources.list
echo "machine {FILES} login agent password $TOKEN" >apt/etc/auth.conf
touch apt/status
cat >apt.conf <<END
Dir::Etc "/workspace/apt/etc";
Dir::State "/workspace/apt/state";
Dir::State::status "/workspace/apt/status";
Dir::Cache "/workspace/apt/cache";
Acquire::Languages "none";
Acquire::AllowInsecureRepositories "true";
END
export APT_CONFIG=/workspace/apt.conf
apt-get -q update >&2
apt-get -q download demo >&2
dpkg-deb -f demo_1.0_all.deb Package""", origin, FILES, env=way)
    clients.assert_done(done)
    assert done.stdout == "demo\n"
    assert_authorized(origin, FILES, basic("agent"), 3)


# ---- cargo ----

@pytest.fixture
def crates(files):
    """A sparse registry, as far as asking for the owners of a crate goes."""
    top = files / "crates"
    top.mkdir()
    (top / "config.json").write_text(json.dumps({"dl": f"https://{FILES}/files/crates", "api": f"https://{FILES}/files/crates",
                                                "auth-required": True}))
    owners = top / "api/v1/crates/demo"
    owners.mkdir(parents=True)
    (owners / "owners").write_text(json.dumps({"users": [{"id": 1, "login": "somebody", "name": "Some Body"}]}))
    yield
    shutil.rmtree(top)


@ways
def test_cargo_asks_a_registry(place, origin, crates, way):
    cargo = clients.need("cargo") / "cargo"
    version = re.search(r"1\.(\d+)", subprocess.run([cargo, "--version"], capture_output=True, text=True, check=True).stdout)
    if not version or int(version[1]) < 74:
        pytest.skip("cargo: this one sends no token to a sparse registry (1.74 does)")
    done = bash(place, f"""
export CARGO_HOME=/tmp/cargo CARGO_REGISTRIES_DEMO_INDEX=sparse+https://{FILES}/files/crates/
export CARGO_REGISTRIES_DEMO_CREDENTIAL_PROVIDER=cargo:token CARGO_REGISTRIES_DEMO_TOKEN="$TOKEN"
{cargo} owner --list --registry demo demo""", origin, FILES, env=way)
    clients.assert_done(done)
    assert "somebody" in done.stdout
    assert_authorized(origin, FILES, clients.SECRET, 2)


# ---- OpenSSL ----

@pytest.mark.parametrize("options", ["-tls1_2", "-tls1_3", "-no_ticket", "-alpn http/1.1", "-split_send_frag 512 -max_send_frag 512"])
def test_openssl_s_client(place, origin, options):
    done = bash(place, f"""
printf 'GET /echo HTTP/1.1\\r\\nHost: api.test\\r\\nAuthorization: Bearer %s\\r\\nConnection: close\\r\\n\\r\\n' "$TOKEN" |
	openssl s_client {options} -quiet -ign_eof -verify_return_error -connect api.test:443 -servername api.test""", origin, "api.test")
    clients.assert_done(done)
    assert done.stdout.startswith("HTTP/1.1 200")
    assert json.loads(done.stdout[done.stdout.index("{"):].splitlines()[0])["headers"]["authorization"] == f"Bearer {done.placeholder}"
    assert_authorized(origin, "api.test", f"Bearer {clients.SECRET}")


@pytest.mark.parametrize("offered, chosen", [("h2", "h2"), ("h2,http/1.1", "h2"), ("http/1.1", "http/1.1"), ("http/1.1,h2", "h2")])
def test_what_is_chosen_of_what_a_client_offers(place, origin, offered, chosen):
    done = bash(place, f"openssl s_client -alpn {offered} -verify_return_error -connect api.test:443 -servername api.test </dev/null",
                origin, "api.test")
    clients.assert_done(done)
    assert f"ALPN protocol: {chosen}\n" in done.stdout and "Verify return code: 0 (ok)" in done.stdout, done.stdout
