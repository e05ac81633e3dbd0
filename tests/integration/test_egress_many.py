# SPDX-License-Identifier: MIT
"""Many runs at once, of the same command, with the same ports, names and workspace: no collision."""
import json
import subprocess

import agent
import checks
import egress
import pytest

RUNS = 20

# Says that it is there, waits for all others, and only then uses the network, three times over.
CLIENT = """
import json, os, pathlib, socket, sys, time, urllib.request
number = sys.argv[1]
pathlib.Path(f"ready-{number}").touch()
deadline = time.monotonic() + 50
while not os.path.exists("go"):
    assert time.monotonic() < deadline, "nobody said go"
    time.sleep(0.01)
server = socket.create_server(("127.0.0.1", 5000))  # everybody has the same one
got = []
for turn in range(3):
    request = urllib.request.Request(f"https://api.test/{number}/{turn}", headers={"X-Key": os.environ["TOKEN"]})
    got.append(urllib.request.urlopen(request, timeout=30).read().decode())
    try:
        urllib.request.urlopen(f"https://evil.test/{number}", timeout=30)
    except urllib.error.HTTPError as error:
        got.append(json.loads(error.read())["error"]["runId"])
    tunnel = socket.create_connection(("db.test", 5432), 30)
    tunnel.sendall(number.encode() + b"\\r\\n")
    got.append(tunnel.makefile().readline().strip())
    got.append(socket.gethostbyname("api.test"))
client = socket.create_connection(("127.0.0.1", 5000))
client.sendall(number.encode())
client.shutdown(socket.SHUT_WR)
got.append(server.accept()[0].recv(100).decode())
print(json.dumps({"run": os.environ["RUN_ID"], "token": os.environ["TOKEN"], "got": got}))
"""


def echo_target(connection):
    for request in connection.requests():
        connection.answer(f"{request.target} {request.values('x-key')[0][:6]}".encode())


def echo_line(connection):
    connection.send(b"db " + connection._line())


def start(place, number, options, tokens):
    return place.popen("python3", "-c", CLIENT, str(number), options=("-q", *options),
                       env={"TOKEN": tokens[number]}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, text=True)


def run_all(place, options, tokens):
    """What each of them printed, when all have run at the same time."""
    processes = [start(place, number, options, tokens) for number in range(RUNS)]
    try:
        checks.wait_until(lambda: len(list(place.workspace.glob("ready-*"))) == RUNS, 60)
        place.write("workspace/go", "")
        done = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    for process, (_, errors) in zip(processes, done):
        assert process.returncode == 0, errors
    return [json.loads(out) for out, _ in done]


@pytest.mark.parametrize("capture", ["nft", "ports"])
def test_twenty_runs_at_once(place, https, origin, capture):
    place.install()
    https.script, origin.script = echo_target, echo_line
    tokens = [f"k{number:04d}-" + "x" * 30 for number in range(RUNS)]
    options = (*egress.allowed(https), "--allow-net", "tcp://db.test:5432", *egress.mapped(origin, "db.test", 5432),
               "--secret", "TOKEN=env:TOKEN@api.test", "--capture", capture)
    results = run_all(place, options, tokens)
    for number, result in enumerate(results):
        turns = [[f"/{number}/{turn} {tokens[number][:6]}", result["run"], f"db {number}", "198.18.0.2"]
                 for turn in range(3)]
        assert result["got"] == [*(word for turn in turns for word in turn), str(number)]
    assert len({result["run"] for result in results}) == RUNS
    assert len({result["token"] for result in results} | set(tokens)) == 2 * RUNS  # placeholders, each its own
    assert_recorded(place, results)


def assert_recorded(place, results):
    """All in one log, each under its own name, and the chain holds."""
    audit = place.home / ".local/state/warder/audit.jsonl"
    records = agent.read_audit(audit)
    for number, result in enumerate(results):
        own = [r for r in agent.events(records, "decision") if r["runId"] == result["run"]]
        paths = sorted(r["path"] for r in own if r["host"] == "api.test:443")
        assert paths == [f"/{number}/{turn}" for turn in range(3)]
        assert [r["allowed"] for r in own].count(False) == 3
    verified = place.warder("audit", "verify", str(audit))
    assert verified.returncode == 0, verified
