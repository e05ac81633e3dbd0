#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The shared keeper: what a run's start costs with it, what each of its checks costs a request,
whether it stays as fast with many runs, and the same work done by nginx with Lua beside it.

What is compared takes turns; a number is the median of the rounds. Processor time is that of the
processes that are named, not of clients and origins.
"""
import argparse
import json
import os
import pathlib
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time

from contest import (TOOLS, TOP, Broken, cpu_us, family, say_load, stop, take_turns)

sys.path.insert(0, str(TOP / "tests/support"))
import crowd  # noqa: E402
import proc  # noqa: E402
import run_token  # noqa: E402

REPLY_BYTES, BODY_BYTES, AT_ONCE = 1000, 2000, 64
MONEY = {"limits": {"requests": "1000000/s", "spend": "1000000"}, "spend_reserve": "0.001"}
RATE = {"limits": {"requests": "1000000/s"}}


def tokens(place, count, first=10000):
    """A file of run tokens, all of one length."""
    lines = [run_token.token(f"bench-{number}", crowd.TOKEN_KEY) + "\n" for number in range(first, first + count)]
    path = place.top / "tokens"
    path.write_text("".join(lines))
    return str(path)


class Serving:
    """A place with a keeper in it, and whatever is started there; all is gone at its end."""

    def __init__(self, upstream=None, store="memory:", **settings):
        self.upstream, self.store, self.settings = upstream, store, settings
        self.place, self.keeper, self.others = None, None, []

    def __enter__(self):
        self.place = crowd.Place(is_user=False)
        try:
            if self.upstream:
                store = self.store.format(place=self.place.state)
                self.keeper = crowd.Keeper(self.place, self.upstream, store=store, **self.settings)
                self.wait_for_store()
        except BaseException as error:
            self.__exit__()
            if isinstance(error, AssertionError):
                raise Broken(f"the keeper does not start: {error}") from error
            raise
        return self

    def wait_for_store(self):
        """Until a run is taken: a server may still be on its way."""
        deadline = time.monotonic() + 10
        while True:
            link = crowd.Link(self.keeper, "first")
            answer = link.answer()
            link.close()
            if answer == "+":
                return
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)

    def start(self, line, **options):
        with open(self.place.top / "output", "ab") as output:
            self.others.append(subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output,
                                                stderr=subprocess.STDOUT, **options))
        return self.others[-1]

    def open_gate(self, token_file):
        """warder gate, which every request needs a token for; where it is, and its processes."""
        path = self.place.state / "gate.sock"
        process = self.start([self.place.warder, "gate", "--listen", f"unix:{path}",
                              "--keeper", f"unix:{self.keeper.control}"])
        wait_for(path, process)
        check_work("warder", f"unix:{path}", token_file)  # the gate comes after its socket
        return f"unix:{path}", [self.keeper.pid, *family(process.pid)]

    def __exit__(self, *reason):
        for process in self.others:
            stop(process)
        if self.keeper:
            self.keeper.stop()
        self.place.remove()


def wait_for(path, process):
    deadline = time.monotonic() + 10
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Broken(f"{process.args[0]} does not serve")
        time.sleep(0.01)


def load(line, pids):
    """A client's requests, and what they cost these processes once all is warm."""
    with subprocess.Popen([str(word) for word in line], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        if not client.stdout.readline():
            raise Broken(f"{pathlib.Path(line[0]).name} has failed")
        before = cpu_us(pids)
        client.stdin.write(b"\n")
        client.stdin.flush()
        got = json.loads(client.stdout.readline())
        cpu = cpu_us(pids) - before
        client.stdin.close()
    if got["errors"] or not got["requests"]:
        raise Broken(f"{got['errors']} of {got['requests']} requests failed")
    return {"rate": got["requests"] / got["seconds"], "cpu": cpu / got["requests"],
            "p50": got["p50_us"], "p99": got["p99_us"]}


def load_links(serving, options, runs=AT_ONCE, token_file=None):
    line = [TOOLS / "links", serving.keeper.control, runs, AT_ONCE, options.seconds, BODY_BYTES]
    return load([*line, *([token_file] if token_file else [])], [serving.keeper.pid])


def load_client(target, token_file, pids, options, connections=AT_ONCE):
    path = "/v1/chat/completions"
    return load([TOOLS / "client", "requests", target, connections, options.seconds, BODY_BYTES, path,
                 token_file], pids)


def table(title, results, columns, width=34):
    """columns: {key: (heading, form)}"""
    print(f"\n{title}\n")
    print(f"| {'':{width}} |" + "|".join(f" {heading:>14} " for heading, _ in columns.values()) + "|")
    print(f"|{'-' * (width + 2)}|" + "|".join("-" * 16 for _ in columns) + "|")
    for name, row in results.items():
        cells = "|".join(f" {format(row[key], form):>14} " for key, (_, form) in columns.items())
        print(f"| {name:{width}} |{cells}|")


COLUMNS = {"rate": ("requests/s", ".0f"), "cpu": ("CPU us/request", ".1f"), "p50": ("p50 us", ".0f"),
           "p99": ("p99 us", ".0f")}


# ---- the start of a run ----

def measure_start(argv, place, env):
    began = time.perf_counter()
    done = subprocess.run([place.warder, *argv], env={**place.env, **env}, cwd=place.workspace,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(argv)} failed: {done.stderr.decode()}")
    return (time.perf_counter() - began) * 1000


def bench_start(options, port):
    hosts = ["api.example.com"]
    with Serving(f"http://127.0.0.1:{port}") as llm, \
            Serving(f"http://127.0.0.1:{port}", allow=hosts) as both:
        place = llm.place
        own = ["--llm", f"http://127.0.0.1:{port}", "--llm-key", "env:LLM_KEY"]
        ways = {"no gateway": [],
                "LLM, a keeper of its own": own,
                "LLM, the shared keeper": ["--keeper", f"unix:{llm.keeper.control}"],
                "LLM and hosts, a keeper of its own": [*own, "--allow-net", hosts[0]],
                "LLM and hosts, the shared keeper": ["--keeper", f"unix:{both.keeper.control}"]}
        times = {name: [] for name in ways}
        for number in range(options.starts + 5):
            for name, words in ways.items():
                taken = measure_start(["run", "-q", *words, "--", "true"], place, {"LLM_KEY": crowd.KEY})
                if number >= 5:  # the first few warm the caches
                    times[name].append(taken)
    results = {name: {"median": statistics.median(taken), "mean": statistics.mean(taken),
                      "p95": statistics.quantiles(taken, n=20)[18]} for name, taken in times.items()}
    table(f"`warder run -- true`, {options.starts} rounds", results,
          {"median": ("median ms", ".2f"), "mean": ("mean ms", ".2f"), "p95": ("p95 ms", ".2f")})
    print()
    for what in ("LLM", "LLM and hosts"):
        ratio = results[f"{what}, the shared keeper"]["median"] / \
            results[f"{what}, a keeper of its own"]["median"]
        print(f"{what}: a start with the shared keeper takes {ratio:.2f} of one with a keeper of its own: "
              f"{'faster' if ratio < 1 else 'LOSES'}")


# ---- what each check costs ----

def start_redis(serving):
    """A server for one measure, which writes down what it is told; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    place = serving.place.state
    process = serving.start(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--appendonly", "yes",
                             "--save", "", "--dir", str(place), "--pidfile", str(place / "redis.pid")])
    wait_for(place / "redis.pid", process)
    return f"redis://127.0.0.1:{port}"


# name: (what it is held against, links, store, settings, whether requests have tokens)
COSTS = {"no limits": (None, AT_ONCE, "memory:", {}, False),
         "rate, in memory": ("no limits", AT_ONCE, "memory:", RATE, False),
         "rate and money, in memory": ("no limits", AT_ONCE, "memory:", MONEY, False),
         "rate and money, SQLite": ("no limits", AT_ONCE, "sqlite:{place}/keeper.db", MONEY, False),
         "rate and money, Redis": ("no limits", AT_ONCE, "redis", MONEY, False),
         "one link, rate": (None, 1, "memory:", RATE, False),
         "one link, rate, tokens": ("one link, rate", 1, "memory:", RATE, True)}


def measure_cost(name, address, port, options):
    _, runs, store, settings, has_token = COSTS[name]
    with Serving() as beside:
        if store == "redis":
            store = start_redis(beside)
        with Serving(f"http://{address}:{port}", store=store, **settings) as serving:
            token_file = tokens(serving.place, runs) if has_token else None
            return load_links(serving, options, runs, token_file)


def bench_costs(options, port):
    results = take_turns(list(COSTS), options.rounds,
                         lambda name, address: measure_cost(name, address, port, options))
    table(f"a keeper alone, {AT_ONCE} requests of {BODY_BYTES // 1000} kB at once, a run each or all of "
          "one link; every request is in the audit log", results, COLUMNS)
    print()
    for name, row in results.items():
        base = results.get(COSTS[name][0])
        if base:
            print(f"{name}: {row['cpu'] - base['cpu']:+.1f} us of processor time a request")
    subprocess.run(["ninja", "-C", str(TOP / "build"), "--quiet", "tests/bench/bench_pieces"], check=True,
                   stdout=subprocess.DEVNULL)
    with Serving() as serving:
        done = subprocess.run([TOOLS / "bench_pieces", serving.place.state], check=True, capture_output=True)
    print("\nthe pieces by themselves, best of five rounds (audit cannot be turned off):")
    for line in done.stdout.splitlines():
        piece = json.loads(line)
        print(f"{piece['piece']}: {piece['us']:.2f} us a request")


# ---- many runs ----

def measure_runs(way, address, port, options):
    count = int(way.split()[0].replace(",", ""))
    settings = {"store": "sqlite:{place}/keeper.db", **MONEY}
    with Serving(f"http://{address}:{port}", **settings) as serving:
        if "links" in way:
            return load_links(serving, options, runs=count)
        token_file = tokens(serving.place, count)
        target, pids = serving.open_gate(token_file)
        return load_client(target, token_file, pids, options)


def bench_runs(options, port):
    # What comes at once on one link is read at once: with few links, fewer calls of the kernel.
    for what, title in (("links", "a link each, no gates: the keeper's processor time"),
                        ("tokens", "an open gate, a token each: gate's and keeper's processor time")):
        ways = [f"{count:,} run{'s' * (count > 1)}, {what}" for count in (1, 10, 100, 1000)]
        results = take_turns(ways, options.rounds,
                             lambda way, address: measure_runs(way, address, port, options))
        table(f"{AT_ONCE} requests at once, spread over the runs; {title}; SQLite, rate and money",
              results, COLUMNS)
        print()
        for way in ways[:-1]:
            if way in results and ways[-1] in results:
                rate = results[ways[-1]]["rate"] / results[way]["rate"]
                cpu = results[ways[-1]]["cpu"] / results[way]["cpu"]
                print(f"{ways[-1]} against {way}: {rate:.2f} of the rate, {cpu:.2f} of the processor time: "
                      f"{'flat' if rate > 0.85 else 'NOT FLAT'}")


# ---- beside nginx ----

# The same work: a token is verified with SHA-256, says who it is, is limited by that, and the
# request gets the key and the identity; each is logged. HMAC comes from the libcrypto that nginx
# has loaded anyway.
NGINX = """
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off; worker_processes 1; {user} pid {place}/pid; error_log {place}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log {place}/access.log;
    client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
    client_body_buffer_size 128k;
    keepalive_requests 10000000;
    limit_req_zone $run_id zone=runs:32m rate=1000000r/s;
    upstream llm {{ server {upstream}; keepalive 64; keepalive_requests 10000000; }}
    init_by_lua_block {{
        ffi = require "ffi"
        ffi.cdef[[
            typedef struct evp_md_st EVP_MD;
            const EVP_MD *EVP_sha256(void);
            unsigned char *HMAC(const EVP_MD *md, const void *key, int key_len, const unsigned char *data,
                                size_t len, unsigned char *out, unsigned int *out_len);
            int CRYPTO_memcmp(const void *a, const void *b, size_t len);
        ]]
        key = "{token_key}"
        sha256, digest, digest_len = ffi.C.EVP_sha256(), ffi.new("unsigned char[32]"), ffi.new("unsigned int[1]")
        base64 = require "ngx.base64"
        function verify(token)
            if not token or #token > 255 then return nil end
            local data, signature = token:match("^(.*)%.([%w_-]+)$")
            if not data or #signature ~= 43 then return nil end
            ffi.C.HMAC(sha256, key, #key, data, #data, digest, digest_len)
            local own = base64.encode_base64url(ffi.string(digest, 32))
            if ffi.C.CRYPTO_memcmp(own, signature, 43) ~= 0 then return nil end
            local run, attempt, expiry = data:match("^([%w._-]+)|(%d+)|(%d+)$")
            if not run or tonumber(expiry) < ngx.time() then return nil end
            return run, attempt
        end
    }}
    server {{
        listen unix:{place}/llm.sock;
        location /v1/ {{
            set $run_id ""; set $attempt "";
            rewrite_by_lua_block {{
                local run, attempt = verify(ngx.var.http_x_run_token)
                if not run then return ngx.exit(401) end
                ngx.var.run_id, ngx.var.attempt = run, attempt
            }}
            limit_req zone=runs burst=1000000 nodelay;
            proxy_pass http://llm;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Connection "";
            proxy_set_header Authorization "Bearer {key}";
            proxy_set_header X-Run-Token "";
            proxy_set_header x-litellm-end-user-id "$run_id/$attempt";
            proxy_set_header x-litellm-spend-logs-metadata '{{"runId":"$run_id","attempt":$attempt}}';
            proxy_buffering off;
        }}
    }}
}}
"""


def serve_nginx(serving, upstream, token_file):
    place = serving.place.state
    user = "user root;" if os.geteuid() == 0 else ""
    (place / "nginx.conf").write_text(NGINX.format(place=place, upstream=upstream, user=user, key=crowd.KEY,
                                                   token_key=crowd.TOKEN_KEY))
    process = serving.start(["nginx", "-e", f"{place}/error.log", "-c", f"{place}/nginx.conf"])
    wait_for(place / "llm.sock", process)
    check_work("nginx", f"unix:{place}/llm.sock", token_file)
    return f"unix:{place}/llm.sock", family(process.pid)


def head_seen(target, token):
    """(status, the head that the origin saw)."""
    line = ["curl", "-s", "--max-time", "10", "--unix-socket", target[5:], "-w", "\n%{http_code}",
            "-H", "Authorization: Bearer agent", "-H", "x-litellm-end-user-id: somebody",
            "-H", f"X-Run-Token: {token}", "http://localhost/v1/head"]
    out = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    body, _, status = out.rpartition("\n")
    return int(status), body[::-1].lower()


def check_work(name, target, token_file):
    """Both do what is measured: a good token is good and says who it is; a bad one is not."""
    token = pathlib.Path(token_file).read_text().splitlines()[0]
    status, head = head_seen(target, token)
    for line in (f"authorization: bearer {crowd.KEY}", "x-litellm-end-user-id: bench-10000/0",
                 'x-litellm-spend-logs-metadata: {"runid":"bench-10000","attempt":0}'):
        if status != 200 or line not in head or "somebody" in head or "x-run-token" in head:
            raise Broken(f"{name} does not do what is measured ({status}):\n{head}")
    forged = token[:-1] + ("A" if token[-1] != "A" else "Q")
    if head_seen(target, forged)[0] != 401:
        raise Broken(f"{name} takes a forged token")


def measure_rival(name, address, port, options):
    settings = {} if name == "nginx" else {"upstream": f"http://{address}:{port}", **RATE}
    with Serving(**settings) as serving:
        token_file = tokens(serving.place, 100)
        if name == "nginx":
            target, pids = serve_nginx(serving, f"{address}:{port}", token_file)
        else:
            target, pids = serving.open_gate(token_file)
        found = {}
        for connections in (1, AT_ONCE):
            row = load_client(target, token_file, pids, options, connections)
            found.update({f"{connections}/{key}": value for key, value in row.items()})
        return found


def bench_nginx(options, port):
    results = take_turns(["warder", "nginx"], options.rounds,
                         lambda name, address: measure_rival(name, address, port, options))
    for connections in (1, AT_ONCE):
        rows = {name: {key.partition("/")[2]: value for key, value in row.items()
                       if key.startswith(f"{connections}/")} for name, row in results.items()}
        table(f"100 runs by token, a rate limit each, a log; {connections} connection(s)", rows, COLUMNS)
        if len(rows) == 2:
            print()
            for key, what, is_more in (("rate", "requests per second", True), ("cpu", "processor time", False),
                                       ("p50", "p50", False), ("p99", "p99", False)):
                ratio = rows["warder"][key] / rows["nginx"][key]
                wins = ratio >= 1 if is_more else ratio <= 1
                print(f"{connections} connection(s), {what}: {ratio:.2f} of nginx's: {'wins' if wins else 'LOSES'}")
    return len(results) == 2


# ---- the crowd ----

def bench_crowd(options, port):
    """Real runs, with sandboxes: what each of them costs while it does nothing."""
    del port
    origin = crowd.Origin()
    with Serving(origin.url, store="sqlite:{place}/keeper.db", **MONEY) as serving:
        runs = crowd.Crowd(serving.place, serving.keeper, options.runs)
        try:
            at_first = proc.rss_kib(serving.keeper.pid)
            began = time.monotonic()
            runs.start(600)
            started = time.monotonic() - began
            memory = runs.memory()
            keeper = (proc.rss_kib(serving.keeper.pid) - at_first) / options.runs
            origin.gather = options.runs
            began = time.monotonic()
            bad = runs.ask(1)
            asked = time.monotonic() - began
            used = proc.rss_kib(serving.keeper.pid)
            descriptors = proc.descriptors(serving.keeper.pid)
            runs.end()
        finally:
            runs.kill()
    origin.close()
    rows = {kind: {"pss": row[0], "own": row[1], "rss": row[2]} for kind, row in memory.items()}
    rows["keeper, its share"] = {"pss": keeper, "own": keeper, "rss": keeper}
    table(f"{options.runs} runs at once, idle: memory of one, KiB", rows,
          {"pss": ("PSS", ".0f"), "own": ("its own", ".0f"), "rss": ("RSS", ".0f")})
    gate = rows["gate"]["pss"] + keeper
    whole = gate + rows["supervisor"]["pss"] + rows["init"]["pss"]
    print(f"\nall started in {started:.1f} s; all asked at once, and had their answers {asked:.2f} s later"
          f"{'' if not bad else f'; {len(bad)} WENT WRONG'}; the keeper then has {used / 1024:.1f} MiB and "
          f"{descriptors} descriptors\n"
          f"goal, gate and share of the keeper below 2 MB: {'met' if gate < 2000 else 'MISSED'} "
          f"({gate / 1024:.2f} MiB; with supervisor and init {whole / 1024:.2f} MiB)")
    return not bad


PARTS = {"start": bench_start, "costs": bench_costs, "runs": bench_runs, "nginx": bench_nginx, "crowd": bench_crowd}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short round: no more than a look")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a measure")
    parser.add_argument("--starts", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1000, help="of the crowd")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.starts, options.runs = 1, 0.5, 20, min(options.runs, 200)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is stopped
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    origin = subprocess.Popen([TOOLS / "origin", str(REPLY_BYTES), "1000"], stdout=subprocess.PIPE)
    try:
        port = int(origin.stdout.readline())
        say_load()
        ok = [PARTS[part](options, port) is not False for part in options.only]
    finally:
        stop(origin)
    sys.exit(0 if all(ok) else 1)


main()
