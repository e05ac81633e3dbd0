# SPDX-License-Identifier: MIT
"""`warder token`: minted here, verified here, and what the original's Node code makes of it."""
import base64
import hashlib
import hmac
import json
import shutil
import time

import pytest

SECRET = "a shared secret"
ENV = {"PROXY_SHARED_SECRET": SECRET}


@pytest.fixture
def warder(user_place):
    """Both programs beside each other, as in an installation."""
    user_place.install()
    return lambda *argv, **kwargs: user_place.warder("token", *argv, env=ENV, **kwargs)


def sign(data, secret=SECRET):
    digest = hmac.new(secret.encode(), data.encode(), hashlib.sha256).digest()
    return f"{data}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def mint(warder, *options):
    done = warder("mint", "--secret", "env:PROXY_SHARED_SECRET", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.rstrip("\n")


def verify(warder, token, *options, **kwargs):
    return warder("verify", "--secret", "env:PROXY_SHARED_SECRET", *options, token, **kwargs)


def test_a_token_is_signed_as_the_original_signs_it(warder):
    token = mint(warder, "--run-id", "task-123", "--attempt", "2", "--expires", "4102444800")
    assert token == sign("task-123|2|4102444800")


def test_a_token_is_valid_for_a_day_unless_told_otherwise(warder):
    now = int(time.time())
    assert abs(int(mint(warder, "--run-id", "r").split("|")[2].split(".")[0]) - now - 86400) <= 5
    token = mint(warder, "--run-id", "r", "--ttl", "10m")
    assert abs(int(token.split("|")[2].split(".")[0]) - now - 600) <= 5


def test_what_was_minted_is_valid(warder):
    done = verify(warder, mint(warder, "--run-id", "r.1", "--attempt", "3"))
    result = json.loads(done.stdout)
    assert done.returncode == 0 and (result["runId"], result["attempt"]) == ("r.1", 3)


def test_a_token_may_come_from_standard_input(warder):
    token = mint(warder, "--run-id", "r")
    done = warder("verify", "--secret", "env:PROXY_SHARED_SECRET", input=token + "\n")
    assert done.returncode == 0 and json.loads(done.stdout)["runId"] == "r"


@pytest.mark.parametrize("token, reason", [
    ("", "malformed"),
    ("x", "malformed"),
    ("r|1|4102444800", "malformed"),
    (sign("r|1|4102444800", "another secret"), "wrong signature"),
    (sign("r|1|4102444800").replace("r|1", "r|2"), "wrong signature"),
    (sign("r|1|1000000000"), "expired"),
    (sign("r/../x|1|4102444800"), "malformed"),
    (sign("r|1"), "malformed"),
    ("x" * 5000, "malformed"),
])
def test_what_is_not_valid_is_refused_with_its_reason(warder, token, reason):
    done = verify(warder, token) if token else warder(
        "verify", "--secret", "env:PROXY_SHARED_SECRET", input="")
    assert done.returncode in (1, 125) and done.stdout == ""
    assert done.stderr == f"warder: token verify: {reason}\n"
    assert SECRET not in done.stderr


def test_secrets_can_be_changed_while_tokens_are_in_use(user_place):
    user_place.install()
    env = {"OLD": "one", "NEW": "two"}

    def warder(*argv):
        return user_place.warder("token", *argv, env=env)

    token = warder("mint", "--secret", "env:OLD", "--run-id", "r").stdout.strip()
    both = warder("verify", "--secret", "2026=env:NEW", "--secret", "2025=env:OLD", token)
    assert (both.returncode, json.loads(both.stdout)["key"]) == (0, "2025")
    by_place = warder("verify", "--secret", "env:NEW", "--secret", "env:OLD", token)
    assert json.loads(by_place.stdout)["key"] == "2"
    assert "key" not in json.loads(warder("verify", "--secret", "env:OLD", token).stdout)
    gone = warder("verify", "--secret", "2026=env:NEW", token)
    assert (gone.returncode, gone.stderr) == (1, "warder: token verify: wrong signature\n")


def test_a_token_of_another_run_is_refused(warder):
    token = mint(warder, "--run-id", "one")
    assert verify(warder, token, "--run-id", "one").returncode == 0
    done = verify(warder, token, "--run-id", "two")
    assert (done.returncode, done.stderr) == (1, "warder: token verify: for another run\n")


@pytest.mark.parametrize("argv, words", [
    ((), "usage"),
    (("mint",), "needs --secret"),
    (("mint", "--secret", "env:PROXY_SHARED_SECRET"), "needs --run-id"),
    (("mint", "--secret", SECRET, "--run-id", "r"), "env:NAME, file:PATH or exec:COMMAND"),
    (("mint", "--secret", "env:NOT_SET", "--run-id", "r"), "not set"),
    (("mint", "--secret", "file:/nonexistent", "--run-id", "r"), "No such file"),
    (("mint", "--secret", "env:PROXY_SHARED_SECRET", "--run-id", "a|b"), "not an id"),
    (("mint", "--secret", "env:PROXY_SHARED_SECRET", "--run-id", "r", "x"), "no argument"),
    (("mint", "--secret", "env:PROXY_SHARED_SECRET", "--secret", "env:HOME", "--run-id", "r"), "takes one"),
    (("verify", "--secret", "a=env:HOME", "--secret", "a=env:PATH", "x"), "have the id 'a'"),
    (("verify", "--secret", "env:HOME", "--secret", "env:HOME", "x"), "are the same"),
    (("forge",), "not mint or verify"),
    (("mint", "--sceret", "x"), "did you mean --secret?"),
])
def test_wrong_uses_are_explained(warder, argv, words):
    done = warder(*argv)
    assert done.returncode == 125
    assert words in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_without_the_second_program_the_remedy_is_named(user_place):
    alone = shutil.copy(user_place.binary, user_place.top / "warder")
    done = user_place.host([alone, "token", "mint"])
    assert done.returncode == 125
    assert done.stderr.startswith("warder: run ") and "install it again" in done.stderr
