#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Allowed hosts side by side: TLS that is intercepted, with a secret in its placeholder's place.

The same client sends the same requests to the same origin, over TLS to the proxy and over TLS,
with the certificate verified, from there on; connections are kept. warder's client runs inside
the sandbox, the others' run plainly, on the host's loopback.

warder     captures the connections, substitutes the placeholder, scrubs replies of every form of
           the secret, writes an audit record: `warder run`, with all that belongs to it
nginx      a reverse proxy that sets the header: it neither substitutes nor scrubs; one worker
mitmproxy  substitutes and scrubs the plain form, by an addon; a reverse proxy, as nginx
direct     nobody: the most that client and origin can do on this machine

They take turns, and a number is the median of the rounds.
"""
import argparse
import getpass
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from contest import TOOLS, TOP, Broken, cpu_us, family, say_load, stop, take_turns

HOST = "bench.test"
SECRET = "sk-bench-0123456789abcdefghijklmnopqrstuvwxyzABCD"
PLACEHOLDER = "sk-bench-ZYXWVUTSRQPONMLKJIHGFEDCBA9876543210zyxw"
MITMDUMP = TOP / "build/mitmproxy/bin/mitmdump"
NAMES = 400  # more than there is room for in the cache of certificates
PARTS = ("requests", "h2", "handshakes")

CONNECTIONS = (1, 16, 64)
#          bytes of a request, of a reply
BODIES = {"small": (100, 1000), "64 kB": (64000, 64000)}
H2_WARM_UP = "1s"  # for the handshakes
LAST_LINE = "h2load has ended"
#              connections, streams of each
MULTIPLEXED = ((1, 1), (1, 64), (16, 4), (64, 1))

NGINX = """
daemon off; worker_processes 1; {user} pid {place}/pid; error_log {place}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log {place}/access.log;
    client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
    client_body_buffer_size 128k; proxy_buffer_size 16k; proxy_buffers 8 16k;
    keepalive_requests 1000000000;
    upstream origin {{ server {origin}; keepalive 64; keepalive_requests 1000000000; }}
    server {{
        listen {listen} ssl http2;
        ssl_certificate {place}/cert.pem; ssl_certificate_key {place}/key.pem;
        ssl_protocols TLSv1.2 TLSv1.3;
        location / {{
            proxy_pass https://origin;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Connection "";
            proxy_set_header Authorization "Bearer {secret}";
            proxy_ssl_server_name on; proxy_ssl_name {host};
            proxy_ssl_verify on; proxy_ssl_trusted_certificate {place}/cert.pem;
            proxy_ssl_protocols TLSv1.2 TLSv1.3;
        }}
    }}
}}
"""


def make_certificate(place):
    """Of the origin, and of nginx; it is also the authority that is trusted."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},DNS:*.{HOST}",
         "-keyout", place / "key.pem", "-out", place / "cert.pem"], check=True, capture_output=True)


def free_port(address):
    with socket.socket() as one:
        one.bind((address, 0))
        return one.getsockname()[1]


# ---- the contestants: where to connect to, and how a client of theirs is started ----

class Direct:
    """Nobody between client and origin, and what the others have in common."""

    name = "direct"
    serves = False  # before there is a client

    def __init__(self, place, origin, address):
        self.place, self.origin, self.address = place, origin, address
        self.listen = origin  # ADDRESS:PORT
        self.process = None
        self.key = SECRET
        self.own = pathlib.Path(tempfile.mkdtemp(prefix="warder-bench-", dir="/tmp"))
        for name in ("cert.pem", "key.pem"):
            shutil.copy(place / name, self.own)

    def __enter__(self):
        try:
            if self.serves:
                self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *reason):
        if self.process:
            stop(self.process)
        shutil.rmtree(self.own, ignore_errors=True)

    def start(self):
        self.listen = f"{self.address}:{free_port(self.address)}"
        with open(self.own / "output", "wb") as output:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT, env=self.environment())
        self.wait_until_it_listens()

    def command(self):
        """Its command line, and what that needs."""
        raise NotImplementedError

    def environment(self):
        return {**os.environ, "BENCH_KEY": self.key, "BENCH_SECRET": SECRET,
                "BENCH_LOG": str(self.own / "access.log")}

    def wait_until_it_listens(self):
        host, _, port = self.listen.partition(":")
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection((host, int(port)), 5).close()
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    text = (self.own / "output").read_text()[-300:].strip()
                    raise Broken(f"{self.name} does not serve: {error}: {text}") from error
                time.sleep(0.05)

    # How its clients are started, and whose time counts.

    def target(self):
        return f"tls:{self.listen}/{HOST}"

    def h2load(self):
        return ["--connect-to", self.listen]

    def around(self, line):
        return line

    def pids(self, client):
        del client
        return family(self.process.pid) if self.process else []


class Nginx(Direct):
    name = "nginx"
    serves = True

    def command(self):
        user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
        (self.own / "nginx.conf").write_text(NGINX.format(
            place=self.own, origin=self.origin, listen=self.listen, secret=SECRET, host=HOST, user=user))
        return ["nginx", "-e", self.own / "error.log", "-c", self.own / "nginx.conf"]


class Mitmproxy(Direct):
    name = "mitmproxy"
    serves = True

    def command(self):
        if not MITMDUMP.exists():
            raise Broken("mitmproxy is not there: scripts/bench installs it")
        self.key = PLACEHOLDER
        return [MITMDUMP, "-q", "--mode", f"reverse:https://{self.origin}",
                "--listen-host", self.address, "--listen-port", self.listen.partition(":")[2],
                "--set", f"confdir={self.own}", "--set", "keep_host_header=true",
                "--set", f"ssl_verify_upstream_trusted_ca={self.own}/cert.pem",
                "-s", TOP / "tests/bench/mitm_addon.py"]


class Warder(Direct):
    """Starts with each client, which is the agent."""

    name = "warder"

    def __init__(self, place, origin, address):
        super().__init__(place, origin, address)
        self.key = None  # the agent is given a placeholder
        (self.own / "workspace").mkdir()

    def target(self):
        return f"tls:{HOST}:443"

    def h2load(self):
        return []

    def environment(self):
        return {**os.environ, "BENCH_SECRET": SECRET}

    def around(self, line):
        return [TOP / "build/src/warder", "run", "-q", "-w", self.own / "workspace", "--ro", TOOLS,
                "--secret", f"BENCH_KEY=env:BENCH_SECRET@*.{HOST}",
                "--connect-to", f"{HOST}:443={self.origin}", "--upstream-ca", self.own / "cert.pem",
                "--audit", self.own / "audit.jsonl", "--", *line]

    def pids(self, client):
        """All of the run but the sandbox."""
        names = {pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                 for pid in family(client.pid)}
        return [pid for pid, name in names.items() if name in ("warder", "warder-gateway")]


CONTESTANTS = {one.name: one for one in (Direct, Warder, Nginx, Mitmproxy)}


# ---- clients ----

class Client:
    """A client that is ready, and stays until `with` ends."""

    def __init__(self, contestant, line):
        self.contestant, self.line = contestant, line

    def __enter__(self):
        line = [str(word) for word in self.contestant.around(self.line)]
        self.errors = open(self.contestant.own / "errors", "w+", encoding="utf-8")
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=self.contestant.environment(), text=True)
        try:
            self.read()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *reason):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            stop(self.process)
        self.process.stdout.close()
        self.errors.close()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(10)
            self.errors.seek(0)
            raise Broken(f"{self.contestant.name}: {self.errors.read().strip()[-300:]}")
        return line

    def go(self, begin=None, end=None):
        """Everything that it prints, and the microseconds that the contestant worked for it.

        From the line that has `begin` in it to the one that has `end`, where it prints such lines.
        """
        pids = self.contestant.pids(self.process)
        before, after = cpu_us(pids), None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        printed = line = ""
        while not line.rstrip().endswith(("}", LAST_LINE)):
            line = self.read()
            printed += line
            if begin and begin in line:
                before = cpu_us(pids)
            if end and end in line:
                after = cpu_us(pids)
        return printed, (after or cpu_us(pids)) - before


def run_client(contestant, verb, *words):
    with Client(contestant, [TOOLS / "client", verb, contestant.target(), *words]) as client:
        printed, cpu = client.go()
    got = json.loads(printed)
    count = got[verb]
    if got["errors"] or not count:
        raise Broken(f"{contestant.name}: {got['errors']} of {count} {verb} failed")
    return {"rate": count / got["seconds"], "cpu": cpu / count, "p50": got["p50_us"], "p99": got["p99_us"]}


def measure_requests(contestant, connections, body, seconds):
    request, reply = BODIES[body]
    return run_client(contestant, "requests", connections, seconds, request, f"/bytes/{reply}")


def measure_handshakes(contestant, names, kind, seconds):
    return run_client(contestant, "handshakes", seconds, names, kind)


def run_h2load(contestant, words):
    line = " ".join(["h2load", *contestant.h2load(), '-H "authorization: Bearer $BENCH_KEY"', *words])
    script = f"echo ready; read go; {line} 2>&1; echo {LAST_LINE}; read end"
    with Client(contestant, ["sh", "-c", script]) as client:
        return client.go("Main benchmark duration is started", "Main benchmark duration is over")


def speaks_h2(contestant):
    printed, _ = run_h2load(contestant, ["-n 1 -c 1 -m 1", f"https://{HOST}/bytes/1000"])
    return "Application protocol: h2" in printed


def measure_h2(contestant, connections, streams, body, seconds):
    request, reply = BODIES[body]
    (contestant.own / "workspace").mkdir(exist_ok=True)
    data = contestant.own / "workspace/request"
    data.write_text("a" * request)
    path = "/workspace/request" if contestant.name == "warder" else data
    printed, cpu = run_h2load(contestant, [
        f"-D {int(seconds * 1000)}ms --warm-up-time={H2_WARM_UP} -c {connections} -m {streams}",
        f"-d {path}",
        f"https://{HOST}/bytes/{reply}"])
    found = re.search(r"(\d+) done, .*\nstatus codes: (\d+) 2xx, 0 3xx, 0 4xx, 0 5xx", printed)
    # Both count differently what begins in the warm-up and ends after it.
    if not found or int(found[1]) == 0 or int(found[2]) == 0:
        raise Broken(f"{contestant.name}, {connections} connections of {streams} streams: {printed[-500:]}")
    count = int(found[1])
    return {"rate": count / seconds, "cpu": cpu / count}


# ---- what is compared is the same ----

CHECK = """
import http.client, os, socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
host, port = sys.argv[1].split(":")
for path in ("/v1/head", "/v1/echo"):
    connection = http.client.HTTPSConnection("bench.test")
    connection.sock = context.wrap_socket(socket.create_connection((host, int(port))),
                                          server_hostname="bench.test")
    connection.request("GET", path, headers={"Host": "bench.test",
                                             "Authorization": "Bearer " + os.environ["BENCH_KEY"]})
    text = connection.getresponse().read().decode()
    if path == "/v1/head":
        text = text[::-1]
    print(path, next((l for l in text.split("\\r\\n") if l.lower().startswith("authorization:")), None))
print("key", os.environ["BENCH_KEY"])
"""


def check(contestant):
    """The origin gets the secret; the client has what it sent, where replies are scrubbed."""
    where = f"{HOST}:443" if contestant.name == "warder" else contestant.listen
    line = [str(w) for w in contestant.around(["/usr/bin/python3", "-c", CHECK, where])]
    done = subprocess.run(line, env=contestant.environment(), capture_output=True, text=True, check=False)
    got = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    if got.get("/v1/head", "").lower() != f"authorization: bearer {SECRET}".lower():
        raise Broken(f"{contestant.name} does not substitute: {got.get('/v1/head')} {done.stderr[-300:]}")
    scrubs = contestant.name in ("warder", "mitmproxy")
    if scrubs and (got["key"] == SECRET or got["/v1/echo"].split(" ")[-1] != got["key"]):
        raise Broken(f"{contestant.name} does not scrub: {got['/v1/echo']}")


# ---- tables and goals ----

def table(title, results, columns):
    print(f"\n{title}\n")
    print("|           |" + "".join(f" {heading:>14} |" for heading in columns.values()))
    print("|-----------|" + "----------------|" * len(columns))
    for name, row in results.items():
        cells = ("" if name == "direct" and key == "cpu" else f"{row[key]:.1f}" for key in columns)
        print(f"| {name:9} |" + "".join(f" {cell:>14} |" for cell in cells))


class Goals:
    """Rows of what was wanted, what was measured, and what that means."""

    def __init__(self):
        self.rows = []

    def add(self, what, results, rival, wanted):
        """`wanted`: how many times the rival's requests per second are to be served."""
        ours, theirs = results.get("warder"), results.get(rival)
        self.rows.append((what, rival, wanted, ours and theirs and (
            ours["rate"] / theirs["rate"], theirs["cpu"] / ours["cpu"])))

    def print(self):
        print("\nwarder's requests per second to a rival's; and, for what it is worth where client and\n"
              "origin need the processors, too: the rival's processor time per request to warder's\n")
        print(f"| {'':38} | {'':9} |  goal | requests/s | verdict      | CPU time |")
        print(f"|{'-' * 40}|{'-' * 11}|-------|------------|--------------|----------|")
        for what, rival, wanted, ratios in self.rows:
            verdict = "not measured" if not ratios else "met" if ratios[0] >= wanted else "loses"
            rate, cpu = (f"{ratio:.2f}x" for ratio in ratios) if ratios else ("", "")
            print(f"| {what:38} | {rival:9} | >= {wanted:2} | {rate:>10} | {verdict:12} | {cpu:>8} |")


RATES = {"rate": "requests/s", "cpu": "CPU us/request"}
TIMES = {"p50": "p50 us", "p99": "p99 us"}


def unfold(flat, title):
    return {name: {key.rpartition("/")[2]: value for key, value in row.items()
                   if key.rpartition("/")[0] == title} for name, row in flat.items()}


def bench_requests(contest, goals, seconds):
    loads = {f"{c} connection{'s' if c > 1 else ''}, {body}": (c, body)
             for body in BODIES for c in CONNECTIONS}
    flat = contest.turns(lambda one: {
        f"{title}/{key}": value for title, load in loads.items()
        for key, value in measure_requests(one, *load, seconds).items()})
    for title in loads:
        results = unfold(flat, title)
        table(f"HTTP/1.1, {title}", results, {**RATES, **TIMES})
        goals.add(f"HTTP/1.1, {title}", results, "mitmproxy", 50)
        goals.add(f"HTTP/1.1, {title}", results, "nginx", 1)


def bench_h2(contest, goals, seconds):
    with contest.one("warder") as warder:
        if not speaks_h2(warder):
            print("\nHTTP/2 to the client: warder does not offer it; not measured")
            return
    loads = {f"{c} x {s} stream{'s' if s > 1 else ''}, {body}": (c, s, body)
             for body in BODIES for c, s in MULTIPLEXED}
    flat = contest.turns(lambda one: {
        f"{title}/{key}": value for title, load in loads.items()
        for key, value in measure_h2(one, *load, seconds).items()}, without=("direct",))
    for title in loads:
        results = unfold(flat, title)
        table(f"HTTP/2 to the client, by h2load, {title}", results, RATES)
        goals.add(f"HTTP/2, {title}", results, "mitmproxy", 50)
        goals.add(f"HTTP/2, {title}", results, "nginx", 1)


def bench_handshakes(contest, seconds):
    kinds = {"a new name": (NAMES, "full"), "a known name": (1, "full"), "resumed": (1, "resumed")}
    # nginx makes no certificates: it shows the one it has.
    flat = contest.turns(lambda one: {
        f"{title}/{key}": value for title, kind in kinds.items()
        for key, value in measure_handshakes(one, *kind, seconds).items()})
    for title in kinds:
        table(f"a handshake, {title}", unfold(flat, title), {"cpu": "CPU us", **TIMES})
    for title in kinds:
        results = unfold(flat, title)
        if "warder" in results and "nginx" in results:
            ours, theirs = results["warder"], results["nginx"]
            print(f"\nhandshake, {title}: {ours['cpu'] / theirs['cpu']:.2f}x nginx's processor time, "
                  f"{ours['p50'] / theirs['p50']:.2f}x its p50", end="")
    print()


class Contest:
    def __init__(self, names, place, port, rounds):
        self.names, self.place, self.port, self.rounds = names, place, port, rounds
        self.is_whole = True

    def one(self, name, address="127.0.0.1"):
        return CONTESTANTS[name](self.place, f"{address}:{self.port}", address)

    def turns(self, measure, without=()):
        def turn(name, address):
            with self.one(name, address) as contestant:
                check(contestant)
                return measure(contestant)

        names = [name for name in self.names if name not in without]
        results = take_turns(names, self.rounds, turn)
        self.is_whole &= len(results) == len(names)
        return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short round: no more than a look")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measure")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is stopped
    place = pathlib.Path(tempfile.mkdtemp(prefix="warder-bench-", dir="/tmp"))
    origin = None
    try:
        make_certificate(place)
        origin = subprocess.Popen([TOOLS / "origin", "1000", "1000", place / "cert.pem", place / "key.pem"],
                                  stdout=subprocess.PIPE)
        contest = Contest(options.only, place, int(origin.stdout.readline()), options.rounds)
        goals = Goals()
        print("\n" + __doc__.partition("\n\n")[2].strip())
        say_load()
        if "requests" in options.parts:
            bench_requests(contest, goals, options.seconds)
        if "h2" in options.parts:
            bench_h2(contest, goals, options.seconds)
        if "handshakes" in options.parts:
            bench_handshakes(contest, options.seconds)
        if goals.rows:
            goals.print()
    finally:
        if origin:
            stop(origin)
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(0 if contest.is_whole else 1)


if __name__ == "__main__":
    main()
