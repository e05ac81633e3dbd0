# SPDX-License-Identifier: MIT
"""What side-by-side measurements share: processes and what they cost, and turns."""
import os
import pathlib
import statistics
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOLS = TOP / "build/tests/bench"


class Broken(Exception):
    """A contestant that does not do what is measured."""


# ---- processes ----

def family(pid):
    """A process and all that came of it."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def cpu_us(pids):
    """Processor time of all threads; finer than the clock ticks of /proc/PID/stat."""
    files = [f for pid in pids for f in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(f.read_text().split()[0]) for f in files) / 1000


def memory_kib(pids):
    """PSS; of a process whose memory is closed to us, what is its own."""
    total = 0
    for pid in pids:
        try:
            text, key = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss:"
        except PermissionError:
            text, key = pathlib.Path(f"/proc/{pid}/status").read_text(), "RssAnon:"
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith(key))
    return total


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def say_load():
    """A measure beside other work is worth less, and says so."""
    if os.getloadavg()[0] > 1:
        print(f"\nother work is under way (load {os.getloadavg()[0]:.1f}): what is here is worth less")


# ---- turns ----

def take_turns(names, rounds, measure):
    """{name: {measure: median}}; who is broken is said and left out."""
    results = {name: [] for name in names}
    for number in range(rounds):
        for place, name in enumerate(names):
            if name not in results:
                continue
            try:
                # Each at an address of its own: no one's closed connections are in another's way.
                results[name].append(measure(name, f"127.0.0.{1 + place}"))
            except Broken as error:
                print(f"\nround {number + 1}: {error}")
                del results[name]
    return {name: {key: statistics.median(r[key] for r in rows) for key in rows[0]}
            for name, rows in results.items()}
