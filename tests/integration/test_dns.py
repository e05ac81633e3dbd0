# SPDX-License-Identifier: MIT
"""The resolver and real clients, in a network namespace where every address is local."""
import re
import shutil
import subprocess

import harness
import pytest

# As in the sandbox, without its redirect. Besides what is always there, the interface has the
# addresses of the resolver: with loopback addresses only, the C library takes it that there is
# no network, and finds nothing for who asks with AI_ADDRCONFIG for one family.
SET_UP = """
ip link set lo up
ip route add local 0.0.0.0/0 dev lo
ip -6 route add local ::/0 dev lo
ip addr add 198.18.0.1/32 dev lo
ip addr add fd77:6172:6465:7200::1/128 dev lo nodad
for file in resolv.conf nsswitch.conf hosts; do mount --bind "$1/$file" /etc/$file; done
shift
exec "$@"
"""

SERVERS = ["198.18.0.1", "fd77:6172:6465:7200::1", "8.8.8.8", "2001:4860:4860::8888", "127.0.0.1"]


class Resolver:
    """The resolver on port 53 of a namespace of its own, and clients beside it."""

    def __init__(self, place, *arguments):
        self.place = place
        program = shutil.copy(harness.BUILD / "tests" / "support" / "resolver", place.top)
        place.write("etc/resolv.conf", "nameserver 198.18.0.1\n")
        place.write("etc/nsswitch.conf", "hosts: files dns\n")
        place.write("etc/hosts", "")
        line = ["unshare", "-Urnm", "sh", "-ec", SET_UP, "sh", str(place.top / "etc"),
                str(program), "53", *arguments]
        self.process = subprocess.Popen(place.command(line), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def run(self, *argv):
        enter = ["nsenter", "-t", str(self.process.pid), "-U", "-n", "-m",
                 "--preserve-credentials", "--", *argv]
        return subprocess.run(self.place.command(enter), capture_output=True, text=True,
                              timeout=60, check=False)

    def dig(self, *argv):
        """What dig prints; a reply that is late or from elsewhere is none."""
        done = self.run("dig", "+tries=1", "+time=30", *argv)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "unexpected source" not in done.stdout + done.stderr
        assert "not available" not in done.stdout  # recursion
        return done.stdout

    def stop(self):
        self.process.kill()
        self.process.wait(timeout=30)


@pytest.fixture
def resolver(place):
    made = Resolver(place, "explain", "litellm")
    yield made
    made.stop()


def status(text):
    return re.findall(r"status: (\w+)", text)


@pytest.mark.parametrize("way", ["+notcp", "+tcp"])
def test_every_server_address_answers(resolver, way):
    for server in SERVERS:
        assert resolver.dig("@" + server, way, "+short", "api.example.com", "A") == "198.18.0.2\n"
        assert resolver.dig("@" + server, way, "+short", "API.Example.com", "AAAA") == \
            "fd77:6172:6465:7200::2\n"


def test_a_connection_takes_many_queries(resolver):
    names = [f"host{i}.example.com" for i in range(20)]
    said = resolver.dig("@198.18.0.1", "+tcp", "+keepopen", "+short", *names).split()
    assert said == [f"198.18.0.{i + 2}" for i in range(20)]


def test_names_that_are_not_there(resolver):
    for name in ("wpad", "printer.local", "x.onion", "x.invalid", "127.1", "ipv4only.arpa"):
        assert status(resolver.dig("@198.18.0.1", name)) == ["NXDOMAIN"], name
    assert resolver.dig("@198.18.0.1", "+short", "litellm") == "198.18.0.2\n"
    assert resolver.dig("@198.18.0.1", "+short", "a.localhost") == "127.0.0.1\n"


def test_other_types_are_empty_at_once(resolver):
    for kind in ("MX", "NS", "SOA", "TXT", "SRV", "HTTPS", "SVCB", "CAA", "ANY"):
        said = resolver.dig("@198.18.0.1", "+notcp", "api.example.com", kind)
        assert status(said) == ["NOERROR"] and "ANSWER: 0" in said


def test_addresses_lead_back(resolver):
    resolver.dig("@198.18.0.1", "api.example.com")
    for address in ("198.18.0.2", "fd77:6172:6465:7200::2"):
        assert resolver.dig("@198.18.0.1", "+short", "-x", address) == "api.example.com.\n"
    for address in ("8.8.8.8", "198.18.0.3", "2001:db8::1"):
        assert status(resolver.dig("@198.18.0.1", "-x", address)) == ["NXDOMAIN"]


def test_what_dig_can_do_otherwise(resolver):
    assert status(resolver.dig("@198.18.0.1", "+opcode=notify", "a.example")) == ["NOTIMP"]
    assert status(resolver.dig("@198.18.0.1", "-c", "CH", "-t", "TXT", "version.bind")) == \
        ["REFUSED"]
    assert status(resolver.dig("@198.18.0.1", "+edns=1", "+noednsnegotiation", "a.example")) == \
        ["BADVERS"]
    said = resolver.dig("@198.18.0.1", "+dnssec", "+cookie", "+subnet=192.0.2.0/24",
                        "+padding=128", "a.example")
    assert "flags: do; udp: 1232" in said and status(said) == ["NOERROR"]
    said = resolver.dig("@198.18.0.1", "+noedns", "a.example")
    assert "OPT PSEUDOSECTION" not in said and status(said) == ["NOERROR"]


def test_the_c_library(resolver):
    said = resolver.run("getent", "ahosts", "api.example.com").stdout
    assert {line.split()[0] for line in said.splitlines()} == \
        {"198.18.0.2", "fd77:6172:6465:7200::2"}
    assert resolver.run("getent", "hosts", "198.18.0.2").stdout.split()[1] == "api.example.com"
    assert resolver.run("getent", "ahostsv4", "litellm").stdout.startswith("198.18.0.3 ")
    assert resolver.run("getent", "ahostsv6", "litellm").stdout.startswith("fd77:")
    assert resolver.run("getent", "ahosts", "wpad").returncode == 2


def test_python(resolver):
    code = ("import socket; print(sorted({a[4][0] for a in "
            "socket.getaddrinfo('api.example.com', 443)}), socket.gethostbyname('localhost'))")
    assert resolver.run("/usr/bin/python3", "-c", code).stdout == \
        "['198.18.0.2', 'fd77:6172:6465:7200::2'] 127.0.0.1\n"


def test_deny_hides_what_is_not_allowed(user_place):
    resolver = Resolver(user_place, "deny", "api.example.com")
    try:
        assert resolver.dig("@198.18.0.1", "+short", "api.example.com") == "198.18.0.2\n"
        assert status(resolver.dig("@198.18.0.1", "other.example.com")) == ["NXDOMAIN"]
        assert resolver.run("getent", "hosts", "other.example.com").returncode == 2
    finally:
        resolver.stop()
