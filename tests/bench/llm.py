#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The LLM path side by side: what a proxy adds to a request, and what a stream costs it.

Every contestant listens on a unix socket, replaces the client's credential and identity, logs
every request, forwards to the same origin over kept connections, and has one thread per
process. They take turns; a number is the median of the rounds, a ratio is to warder's.
"""
import argparse
import getpass
import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from contest import (TOOLS, TOP, Broken, cpu_us, family, memory_kib, say_load, stop, take_turns)

KEY = "sk-bench-0123456789abcdef"
STREAMS = 10000
REPLY_BYTES, TICK_MS = 1000, 1000
#              title                          connections, bytes of a request
WORKLOADS = {"1 connection, 2 kB requests": (1, 2000),
             "64 connections, 2 kB requests": (64, 2000),
             "64 connections, 64 kB requests": (64, 64000)}

# The original template's directives; the buffer keeps larger prompts out of temporary files.
NGINX = """
daemon off; worker_processes 1; {user} pid {place}/pid; error_log {place}/error.log warn;
events {{ worker_connections {connections}; }}
http {{
    access_log {place}/access.log;
    client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
    client_body_buffer_size 128k;
    upstream llm {{ server {upstream}; keepalive 64; }}
    server {{
        listen unix:{place}/llm.sock;
        location /v1/ {{
            proxy_pass http://llm;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Connection "";
            proxy_set_header Authorization "Bearer {key}";
            proxy_set_header x-litellm-end-user-id "bench/0";
            proxy_buffering off;
            proxy_read_timeout 3h;
        }}
    }}
}}
"""
# Its log goes straight to a file, as those of the others do.
HAPROXY = """
global
    nbthread 1
    maxconn {connections}
    log stdout format raw local0
defaults
    mode http
    log global
    option httplog
    http-reuse always
    timeout connect 10s
    timeout client 3h
    timeout server 3h
frontend agents
    bind unix@{place}/llm.sock mode 600
    http-request set-header Authorization "Bearer {key}"
    http-request del-header x-litellm-end-user-id
    http-request set-header x-litellm-end-user-id bench/0
    default_backend llm
backend llm
    server llm {upstream}
"""


# ---- the contestants: a command line each, that serves place/llm.sock ----

def nginx(place, upstream, streams):
    user = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    # Two a stream; it closes new connections while less than a sixteenth of them are free.
    connections = 2 * streams * 17 // 16 + 200
    (place / "nginx.conf").write_text(NGINX.format(
        place=place, upstream=upstream, key=KEY, user=user, connections=connections))
    return ["nginx", "-e", f"{place}/error.log", "-c", f"{place}/nginx.conf"]


def haproxy(place, upstream, streams):
    (place / "haproxy.cfg").write_text(HAPROXY.format(
        place=place, upstream=upstream, key=KEY, connections=streams + 20))
    return ["haproxy", "-db", "-f", f"{place}/haproxy.cfg"]


def warder(place, upstream, streams):
    return [TOP / "build/src/warder", "gate", "--listen", f"unix:{place}/llm.sock",
            "--llm", f"http://{upstream}", "--llm-key", "env:BENCH_KEY", "--run-id", "bench",
            "--audit", f"{place}/audit.jsonl", "--connections", str(streams + 20)]


PROXIES = {"warder": warder, "nginx": nginx, "HAProxy": haproxy}


class Running:
    """A contestant that serves, from `with` to its end; `direct` is nobody."""

    def __init__(self, name, upstream, streams):
        self.name, self.upstream, self.streams = name, upstream, streams
        self.target, self.process, self.pids = f"tcp:{upstream}", None, []

    def __enter__(self):
        if self.name == "direct":
            return self
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="warder-bench-", dir="/tmp"))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        line = PROXIES[self.name](self.place, self.upstream, self.streams)
        try:
            with open(self.place / "output", "wb") as output:
                self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output,
                                                stderr=subprocess.STDOUT,
                                                env={**os.environ, "BENCH_KEY": KEY})
        except OSError as error:
            raise Broken(f"{self.name} does not start: {error}") from error
        self.target = f"unix:{self.place}/llm.sock"
        self.check(self.head())
        self.pids = family(self.process.pid)

    def head(self):
        """The head that the origin gets to see; the first answer is what tells us it serves."""
        deadline = time.monotonic() + 5
        while True:
            connection = http.client.HTTPConnection("localhost")
            connection.sock = socket.socket(socket.AF_UNIX)
            try:
                connection.sock.connect(str(self.place / "llm.sock"))
                connection.request("GET", "/v1/head", headers={
                    "Authorization": "Bearer agent", "x-litellm-end-user-id": "somebody"})
                return connection.getresponse().read().decode()[::-1]
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    text = (self.place / "output").read_text()[-300:].strip()
                    raise Broken(f"{self.name} does not serve: {error}: {text}") from error
                time.sleep(0.02)
            finally:
                connection.close()

    def check(self, head):
        lines = [line.lower() for line in head.split("\r\n")]
        for name, value in (("authorization", f"bearer {KEY}"), ("x-litellm-end-user-id", "bench/0")):
            if [line for line in lines if line.startswith(f"{name}:")] != [f"{name}: {value}"]:
                raise Broken(f"{self.name} does not replace {name}:\n{head}")

    def __exit__(self, *reason):
        if self.process:
            stop(self.process)
        if self.name != "direct":
            shutil.rmtree(self.place, ignore_errors=True)


# ---- the measures: a dictionary of numbers each ----

def measure_requests(running, connections, body, seconds):
    before = cpu_us(running.pids)
    line = [TOOLS / "client", "requests", running.target, str(connections), str(seconds), str(body)]
    done = subprocess.run(line, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    got = json.loads(done.stdout.splitlines()[-1])
    if got["errors"] or not got["requests"]:
        raise Broken(f"{running.name}: {got['errors']} of {got['requests']} requests failed")
    return {"rate": got["requests"] / got["seconds"], "p50": got["p50_us"], "p99": got["p99_us"],
            "cpu": (cpu_us(running.pids) - before) / got["requests"]}


def measure_streams(running, count, seconds):
    at_rest = memory_kib(running.pids)
    line = [TOOLS / "client", "streams", running.target, str(count), str(seconds)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        opened = json.loads(client.stdout.readline())
        before = cpu_us(running.pids)
        held = json.loads(client.stdout.readline())
        cpu, memory = cpu_us(running.pids) - before, memory_kib(running.pids)
        client.stdin.close()
    if opened["failed"] or held["errors"] or not held["events"]:
        raise Broken(f"{running.name}: {opened['failed']} of {count} streams failed, "
                     f"{held['errors']} were lost or torn")
    return {"rest": at_rest / 1024, "memory": (memory - at_rest) / count, "p50": held["p50_us"],
            "p99": held["p99_us"], "cpu": cpu / held["events"], "open": opened["seconds"]}


# ---- tables and goals ----

def table(title, results, columns):
    """columns: {key: (heading, width, form)}; proxies' times are what they add to direct."""
    print(f"\n{title}\n")
    print("|         |" + "|".join(f" {heading:>{width}} " for heading, width, _ in columns.values())
          + "|")
    print("|---------|" + "|".join("-" * (width + 2) for _, width, _ in columns.values()) + "|")
    ours = results.get("warder")
    for name, row in results.items():
        cells = []
        for key, (_, width, form) in columns.items():
            if name == "direct" and key not in ("rate", "p50", "p99", "open"):
                cells.append(" " * (width + 2))
                continue
            ratio = f" ({row[key] / ours[key]:5.2f}x)" if ours and ours[key] > 0 and name != "direct" \
                else ""
            cells.append(f" {format(row[key], form) + ratio:>{width}} ")
        print(f"| {name:7} |" + "|".join(cells) + "|")


def added(results):
    """The proxies' times become what they are more than nobody's."""
    base = results["direct"]
    return {name: row if name == "direct" else
            {**row, "p50": row["p50"] - base["p50"], "p99": row["p99"] - base["p99"]}
            for name, row in results.items()}


def goal(what, results, key):
    rivals = {n: r[key] for n, r in results.items() if n not in ("warder", "direct")}
    if "warder" not in results or not rivals:
        print(f"goal, {what}: not measured")
        return
    ours = results["warder"][key]
    verdict = "met" if all(ours < theirs for theirs in rivals.values()) else "MISSED"
    ratios = ", ".join(f"{n} {theirs / ours:.2f}x" for n, theirs in rivals.items())
    print(f"goal, {what} below nginx's and HAProxy's: {verdict} ({ratios})")


def bench(options, port):
    names = [n for n in ("direct", *PROXIES) if n in options.only or n == "direct"]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # nginx and HAProxy hold two descriptors a stream in one process, and some for themselves.
    streams = min(options.streams, hard - 400)
    fewer = min(streams, (hard - 200) // 2)

    def requests(name, address):
        with Running(name, f"{address}:{port}", streams) as running:
            return {f"{title}/{key}": value for title, (connections, body) in WORKLOADS.items()
                    for key, value in
                    measure_requests(running, connections, body, options.seconds).items()}

    def hold(name, address):
        count = fewer if name in ("nginx", "HAProxy") else streams
        with Running(name, f"{address}:{port}", count) as running:
            return measure_streams(running, count, 2 * options.seconds)

    say_load()
    flat = take_turns(names, options.rounds, requests)
    by_title = {title: added({name: {key.partition("/")[2]: value for key, value in row.items()
                                     if key.startswith(f"{title}/")} for name, row in flat.items()})
                for title in WORKLOADS}
    for title, results in by_title.items():
        table(f"{title}, replies of 1 kB", results,
              {"rate": ("requests/s", 16, ".0f"), "cpu": ("CPU us/request", 16, ".1f"),
               "p50": ("added p50 us", 16, ".0f"), "p99": ("added p99 us", 16, ".0f")})
    held = added(take_turns(names, options.rounds, hold))
    why = "" if fewer == streams else \
        f" (nginx and HAProxy {fewer}: {hard} descriptors are allowed, and they need two each)"
    table(f"{streams} streams{why}, an event per second each", held,
          {"rest": ("MiB at rest", 15, ".1f"), "memory": ("KiB/stream", 15, ".2f"),
           "cpu": ("CPU us/event", 15, ".1f"), "p50": ("added p50 us", 15, ".0f"),
           "p99": ("added p99 us", 16, ".0f"), "open": ("s to open all", 15, ".2f")})
    print("\ndirect: its own times. A ratio over 1: more than warder's.\n")
    for title, results in by_title.items():
        for key, what in (("cpu", "CPU per request"), ("p50", "added p50"), ("p99", "added p99")):
            goal(f"{title}: {what}", results, key)
    for key, what in (("memory", "memory per stream"), ("p50", "added p50 of an event"),
                      ("p99", "added p99 of an event")):
        goal(f"{streams} streams: {what}", held, key)
    return len(flat) == len(held) == len(names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short round: no more than a look")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measure; streams: twice")
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--only", nargs="+", choices=PROXIES, default=list(PROXIES))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.streams = 1, 0.5, min(options.streams, 2000)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is stopped
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    origin = subprocess.Popen([TOOLS / "origin", str(REPLY_BYTES), str(TICK_MS)],
                              stdout=subprocess.PIPE)
    try:
        ok = bench(options, int(origin.stdout.readline()))
    finally:
        stop(origin)
    sys.exit(0 if ok else 1)


main()
