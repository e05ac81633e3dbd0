#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A real PostgreSQL of Debian's package, on a unix socket in a directory of its own.

As a program: postgres.py COMMAND..., with its URL in WARDER_TEST_POSTGRES.
"""
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PASSWORD = "open%20sesame"  # as a URL has it; the word itself must not be in any message
USER = "warder"


def programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found:
        raise FileNotFoundError("no PostgreSQL: install Debian's postgresql")
    return pathlib.Path(found[-1]).parent


def unprivileged():
    """PostgreSQL refuses to run as root; and it must not outlive a test that was killed."""
    who = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", "--pdeathsig", "INT", *who]


class Server:
    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="warder-pg-", dir="/tmp"))
        self.data = self.top / "data"
        self.log = open(self.top / "log", "wb")
        self.process = None
        secret = self.top / "password"
        secret.write_text(PASSWORD.replace("%20", " ") + "\n")
        self.data.mkdir()
        if os.geteuid() == 0:
            for path in (self.top, self.data, secret):
                shutil.chown(path, "postgres", "postgres")
        os.chmod(self.data, 0o700)
        subprocess.run([*unprivileged(), programs() / "initdb", "-D", self.data, "-U", USER, "-A",
                        "scram-sha-256", f"--pwfile={secret}", "--no-sync", "-E", "UTF8",
                        "--locale=C"], check=True, stdout=self.log, stderr=self.log, cwd="/")

    def url(self, password=PASSWORD):
        return f"postgresql://{USER}:{password}@/postgres?host={self.top}"

    def psql(self, sql):
        """The answer's rows, fields joined by '|'."""
        done = subprocess.run([programs() / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql,
                               self.url()], check=True, capture_output=True, text=True)
        return done.stdout.split()

    def start(self, *settings):
        """Again and again for a while: one that was killed leaves its memory to others for a bit.

        Servers are killed here, machines are not, so nothing has to reach the disk.
        """
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.process = subprocess.Popen(
                [*unprivileged(), programs() / "postgres", "-D", self.data, "-k", self.top,
                 "-c", "listen_addresses=", "-c", "fsync=off", *[x for s in settings for x in ("-c", s)]],
                stdout=self.log, stderr=self.log, cwd="/", start_new_session=True)
            while self.process.poll() is None and time.monotonic() < end:
                if self.is_ready():
                    return self
                time.sleep(0.02)
            self.process.wait()
            time.sleep(0.1)
        raise TimeoutError((self.top / "log").read_text()[-2000:])

    def is_ready(self):
        return subprocess.run([programs() / "pg_isready", "-q", "-h", self.top],
                              check=False).returncode == 0

    def end(self, sig):
        """SIGINT: at once but in order; SIGQUIT: like a crash, told; SIGKILL: a crash."""
        self.process.send_signal(sig)
        self.process.wait(30)


    def family(self):
        """Its processes; each backend leads a session of its own."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
                                capture_output=True, text=True, check=False).stdout.split()
        return [self.process.pid, *map(int, listed)]

    def signal_all(self, sig):
        for pid in self.family():
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass

    def remove(self):
        if self.process and self.process.poll() is None:
            self.end(signal.SIGINT)
        self.log.close()
        shutil.rmtree(self.top)


def main(command):
    server = Server()
    try:
        server.start()
        env = {**os.environ, "WARDER_TEST_POSTGRES": server.url()}
        return subprocess.run(command, env=env, check=False).returncode
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
