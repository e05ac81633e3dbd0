# SPDX-License-Identifier: MIT
"""The run's authority is trusted by every program in the sandbox, and by none outside."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import agent
import checks
import egress
import harness
import pytest

BUNDLE = "/etc/warder/ca.pem"
KEYSTORE = "/etc/warder/cacerts.p12"
SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
MINE = "-----BEGIN CERTIFICATE-----\nmine\n-----END CERTIFICATE-----\n"


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def read(run, path):
    return run.python(f"result = open({path!r}).read()")


# ---- files ----

def test_the_bundle_is_the_hosts_and_one_more(place, https):
    before = digest(SYSTEM)
    with agent.run(place, *egress.allowed(https)) as run:
        bundle = read(run, BUNDLE)
        assert read(run, SYSTEM) == bundle
        assert bundle.startswith(pathlib.Path(SYSTEM).read_text())
        assert bundle.count("BEGIN CERTIFICATE") == pathlib.Path(SYSTEM).read_text().count("BEGIN CERTIFICATE") + 1
        assert digest(SYSTEM) == before  # while the run goes on
        for path in (BUNDLE, SYSTEM):
            with pytest.raises((PermissionError, AssertionError)):
                run.python(f"open({path!r}, 'a')")
            with pytest.raises((PermissionError, AssertionError)):
                run.python(f"import os; os.unlink({path!r})")
    assert digest(SYSTEM) == before


def test_without_hosts_nothing_is_added(user_place):
    done = user_place.run("sh", "-c", f"cat {SYSTEM} | sha256sum; ls {BUNDLE}; env")
    assert done.stdout.split()[0] == digest(SYSTEM) and BUNDLE not in done.stdout, done


def test_a_small_scratch_has_room_for_it(user_place, https):
    """What the agent may write does not get less."""
    done = egress.bash(user_place, "curl -sS https://api.test/; head -c 30000 /dev/zero > /tmp/x && echo written",
                       (*egress.allowed(https), "--scratch", "64K"))
    assert done.stdout == '{"ok":true}written\n', done


@pytest.fixture
def private_tmp(user_place):
    """/tmp with nothing in it but the place itself, as a run's host side sees it."""
    if not harness.IS_ROOT:
        pytest.skip("needs root: to have a /tmp of its own")
    top = pathlib.Path(tempfile.mkdtemp(prefix="private-", dir="/var/tmp"))
    top.chmod(0o1777)
    name = user_place.top.name
    (top / name).mkdir()
    prefix = ["unshare", "-m", "sh", "-c",
              f"mount --bind {user_place.top} {top}/{name} && mount --rbind {top} /tmp && touch /tmp/control "
              '&& exec "$@"', "sh"]
    yield top, prefix
    shutil.rmtree(top)


def test_a_run_that_is_killed_leaves_nothing(user_place, https, private_tmp):
    top, prefix = private_tmp
    ca = user_place.write("ca.pem", pathlib.Path(https.ca).read_text())
    options = ("--allow-net", egress.HOST, *egress.mapped(https), "--upstream-ca", str(ca))
    with agent.run(user_place, *options, prefix=prefix) as run:
        assert egress.ask(run).status == 200
        during = {path.name for path in top.iterdir()}
        pids = [pid for pid in run.pids().values() if pid]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has ended with another one
                os.kill(pid, signal.SIGKILL)
        run.process.wait(timeout=20)
        checks.wait_until(lambda: not set(pids) & set(harness.processes()))
    after = {path.name for path in top.iterdir()}
    # The control file was made through the same /tmp: whatever else were there would be seen.
    assert during == after == {user_place.top.name, "control"}


# ---- variables ----

VARIABLES = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
             "AWS_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
             "NPM_CONFIG_CAFILE"]


def test_every_variable_names_it(user_place, https):
    with agent.run(user_place, *egress.allowed(https), "--env", "PIP_CERT=/mine") as run:
        env = run.python("import os; result = dict(os.environ)")
    assert {name: env.get(name) for name in VARIABLES} == {
        **dict.fromkeys(VARIABLES, BUNDLE), "PIP_CERT": "/mine"}


# ---- Python ----

def python_places(place):
    """Where an installation on PATH, pyenv and two environments have it; how the agent names these."""
    package = "lib/python3.11/site-packages/certifi/cacert.pem"
    home = place.home
    places = {home / ".local" / package: home / ".local" / package,
              home / ".pyenv/versions/3.12.1/lib/python3.12/site-packages/certifi/cacert.pem": None,
              place.workspace / ".venv" / package: f"/workspace/.venv/{package}",
              place.workspace / "venv/lib/python3.11/dist-packages/certifi/cacert.pem":
                  "/workspace/venv/lib/python3.11/dist-packages/certifi/cacert.pem"}
    places = {path: str(shown or path) for path, shown in places.items()}
    for path in places:
        place.write(path.relative_to(place.top), MINE)
    for name in (".local/bin", ".pyenv/shims"):
        (home / name).mkdir(parents=True, exist_ok=True)
    for path in home.rglob("*"):
        place.own(path)
    env = {"PATH": f"{home}/.pyenv/shims:{home}/.local/bin:{harness.PATH}"}
    return places, env


def test_the_bundles_of_certifi_are_covered(place, https):
    places, env = python_places(place)
    with agent.run(place, *egress.allowed(https), env=env) as run:
        bundle = read(run, BUNDLE)
        for shown in places.values():
            assert read(run, shown) == bundle, shown
            with pytest.raises((PermissionError, AssertionError)):
                run.python(f"open({shown!r}, 'a')")
    assert [path.read_text() for path in places] == [MINE] * len(places)
    # Control: a run that reaches no host sees the files as they are.
    done = place.run("cat", *places.values(), env=env)
    assert done.stdout == MINE * len(places), done


def test_a_program_that_believes_only_certifi(user_place, https):
    places, env = python_places(user_place)
    shown = list(places.values())[2]
    done = egress.bash(user_place, f"""env -i python3 -c '
import ssl, urllib.request
context = ssl.create_default_context(cafile="{shown}")
print(urllib.request.urlopen("https://api.test/", context=context).read().decode())'""",
                       egress.allowed(https), env=env)
    assert done.stdout == '{"ok":true}\n', done


@pytest.mark.parametrize("kind", ["link", "directory", "link above", "nothing"])
def test_what_is_no_file_there_is_left_alone(user_place, https, kind):
    """What the workspace contains cannot redirect a mount, nor stop a run."""
    packages = user_place.workspace / ".venv/lib/python3.11/site-packages"
    target = packages / "certifi/cacert.pem"
    other = user_place.write("workspace/other/cacert.pem", MINE)
    (packages / "certifi").mkdir(parents=True)
    if kind == "link":
        target.symlink_to("../../../../../other/cacert.pem")
    elif kind == "directory":
        target.mkdir()
    elif kind == "link above":
        (packages / "certifi").rmdir()
        (packages / "certifi").symlink_to("../../../../other")
    with agent.run(user_place, *egress.allowed(https)) as run:
        assert egress.ask(run).status == 200
        if "link" in kind:
            assert read(run, "/workspace/.venv/lib/python3.11/site-packages/certifi/cacert.pem") == MINE
            assert read(run, "/workspace/other/cacert.pem") == MINE
    assert other.read_text() == MINE


# ---- Java ----

JAVA = """
import java.net.*;
import java.net.http.*;
public class Get {
    public static void main(String[] args) throws Exception {
        URI uri = URI.create("https://api.test/");
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        var reply = client.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        System.out.println(reply.body());
        var connection = (HttpURLConnection) uri.toURL().openConnection();
        System.out.println(new String(connection.getInputStream().readAllBytes()));
    }
}
"""


def javas():
    return sorted(str(path) for path in pathlib.Path("/usr/lib/jvm").glob("*/bin/java") if not path.parents[1].is_symlink())


@pytest.fixture(params=javas() or [None])
def java(request):
    if not request.param:
        pytest.skip("needs java, with its compiler")
    return request.param


@pytest.mark.parametrize("start", ["", "env -i "], ids=["variables", "no variables"])
def test_java(user_place, https, java, start):
    user_place.write("workspace/Get.java", JAVA)
    done = egress.bash(user_place, f"{start}{java} Get.java", egress.allowed(https), timeout=120)
    assert done.stdout == '{"ok":true}\n' * 2, done


def test_java_with_what_the_host_trusts_alone(user_place, https, java):
    """The control: only by the store does it trust the run."""
    user_place.write("workspace/Get.java", JAVA)
    (user_place.workspace / "cacerts").write_bytes(pathlib.Path("/etc/ssl/certs/java/cacerts").read_bytes())
    done = egress.bash(user_place, f"{java} -Djavax.net.ssl.trustStore=/workspace/cacerts Get.java",
                       egress.allowed(https), timeout=120)
    assert "ok" not in done.stdout and "SSLHandshakeException" in done.stderr, done
    assert not https.requests


def test_options_for_java_are_added_to(user_place, https, java):
    options = (*egress.allowed(https), "--env", "JAVA_TOOL_OPTIONS=-Da=b")
    done = egress.bash(user_place, 'echo "$JAVA_TOOL_OPTIONS"', options)
    assert done.stdout == (f"-Da=b -Djavax.net.ssl.trustStore={KEYSTORE} "
                           "-Djavax.net.ssl.trustStoreType=PKCS12\n"), done


def test_the_store_has_every_certificate(user_place, https, java):
    if not shutil.which("keytool"):
        pytest.skip("needs keytool")
    done = egress.bash(user_place, f"keytool -list -keystore {KEYSTORE} </dev/null | grep -c trustedCertEntry",
                       egress.allowed(https), timeout=60)
    assert int(done.stdout) == pathlib.Path(SYSTEM).read_text().count("BEGIN CERTIFICATE") + 1, done
    openssl = egress.bash(user_place, f"openssl pkcs12 -in {KEYSTORE} -nokeys -nomacver -passin pass: | grep -c BEGIN",
                          egress.allowed(https))
    assert openssl.stdout == done.stdout, openssl


@pytest.mark.parametrize("has_java", [False, True])
def test_without_java_there_is_no_store(user_place, https, has_java):
    """Neither on PATH nor where a system has them; the variable is the control."""
    if not harness.IS_ROOT:
        pytest.skip("needs root: to hide the host's Java")
    user_place.install()
    hide = ["unshare", "-m", "sh", "-c", '[ ! -d /usr/lib/jvm ] || mount -t tmpfs none /usr/lib/jvm; exec "$@"', "sh"]
    more = ("--env", "JAVA_HOME=/opt/java") if has_java else ()
    line = [user_place.binary, "run", "-q", *egress.allowed(https), *more, "--", "/bin/sh", "-c",
            f'test -e {KEYSTORE} && echo store; echo "[$JAVA_TOOL_OPTIONS]"']
    done = subprocess.run([*hide, *user_place.command(line, {"PATH": str(user_place.home)})],
                          cwd=user_place.workspace, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and ("store" in done.stdout) == (KEYSTORE in done.stdout) == has_java, done
