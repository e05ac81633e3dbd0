# SPDX-License-Identifier: MIT
"""INV-NETWORK-DENY: a name that leads somewhere public when it is judged, and inside when it is dialled.

All of it in a network namespace of its own, whose loopback interface has the public address: there is
no way from there to anywhere.
"""
import contextlib
import ctypes
import itertools
import os
import subprocess
import threading

import agent
import egress
import origin as upstream
import pytest
import test_egress_escape as escape

PUBLIC, SECOND = "93.184.216.34", "93.184.216.35"
CLONE_NEWNET = 0x40000000
A = 1  # the kind of a question


class Namespace:
    """A network without a way out, kept by a process that waits."""

    def __init__(self):
        escape.need_root()
        script = (f"ip link set lo up; ip addr add {PUBLIC}/32 dev lo; ip addr add {SECOND}/32 dev lo; "
                  "echo ready; exec cat")
        self.process = subprocess.Popen(["unshare", "-n", "sh", "-ec", script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.path = f"/proc/{self.process.pid}/ns/net"

    def make(self, what, *args, **kwargs):
        """Calls it in there, so that the sockets it makes are of that namespace."""
        made = []

        def enter():
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            os.close(fd)
            made.append(what(*args, **kwargs))

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        return made[0]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def answer_once(connection):
    """So that the name is asked for again."""
    connection.request()
    connection.answer(fields=[("Connection", "close")])


@pytest.fixture
def world(user_place):
    """Names, a public host and, on the same port of loopback, a service that nobody is to reach."""
    with contextlib.ExitStack() as stack:
        made = Namespace()
        stack.callback(made.close)
        made.place = user_place
        made.names = made.make(escape.Names, user_place)
        stack.callback(made.names.close)
        made.public = made.make(upstream.Origin, answer_once, address=PUBLIC)
        stack.callback(made.public.close)
        made.victim = made.make(upstream.Origin, address="127.0.0.1", port=made.public.port)
        stack.callback(made.victim.close)
        made.host = f"rebind.test:{made.public.port}"
        yield made


def start(world, *rules):
    rules = rules or ("--allow-net", world.host)
    prefix = ["nsenter", f"--net={world.path}", *world.names.prefix]
    return agent.run(world.place, *rules, prefix=prefix)


def ask(world, run):
    wire = run.connect("rebind.test", world.public.port)
    return wire.ask(egress.request("GET", "/", "Connection: close", host=world.host))


def only(addresses):
    return lambda kind: addresses if kind == A else []


def test_public_first_and_then_inside(world):
    with start(world) as run:
        world.names.answers["rebind.test"] = only([PUBLIC])
        assert ask(world, run).status == 200  # control: it is reached, as long as it is public
        world.names.answers["rebind.test"] = only(["127.0.0.1"])
        egress.assert_refused(ask(world, run), 403, "address_not_allowed")
    assert len(world.public.requests) == 1
    escape.assert_untouched(world.victim)
    # Control: the service inside is there for whom the operator lets in.
    mapping = ("--connect-to", f"{world.host}=127.0.0.1:{world.public.port}")
    with start(world, "--allow-net", world.host, *mapping) as run:
        assert ask(world, run).status == 200
    assert len(world.victim.requests) == 1


def test_another_address_with_every_question(world):
    """Whoever asked again between the check and the dialling would get the other one."""
    with start(world) as run:
        turn = itertools.cycle([[PUBLIC], ["127.0.0.1"]])
        world.names.answers["rebind.test"] = lambda kind: next(turn) if kind == A else []
        statuses = [ask(world, run).status for _ in range(10)]
    assert set(statuses) == {200, 403}, statuses  # both came up
    assert len(world.public.requests) == statuses.count(200)
    escape.assert_untouched(world.victim)


@pytest.mark.parametrize("addresses", [[PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], [SECOND, "127.0.0.1"]])
def test_both_in_one_answer(world, addresses):
    """Also when the public one refuses the connection: the next address is none to try."""
    with start(world) as run:
        world.names.answers["rebind.test"] = only(addresses)
        reply = ask(world, run)
        assert reply.status == 200 if PUBLIC in addresses else reply.status >= 400
        world.names.answers["rebind.test"] = only([PUBLIC])
        assert ask(world, run).status == 200  # control
    escape.assert_untouched(world.victim)


def test_a_tunnel(world):
    with start(world, "--allow-net", f"tcp://{world.host}") as run:
        world.names.answers["rebind.test"] = only([PUBLIC])
        wire = run.connect("rebind.test", world.public.port)
        assert wire.ask(egress.request(host=world.host)).status == 200  # control
        wire.close()
        world.names.answers["rebind.test"] = only(["127.0.0.1"])
        with pytest.raises(ConnectionError):
            wire = run.connect("rebind.test", world.public.port)
            wire.send(egress.request(host=world.host))
            wire.rest()
    escape.assert_untouched(world.victim)
