# SPDX-License-Identifier: MIT
"""A keeper that does not serve yet: what a signal does to it, and to the one whose place it takes."""
import contextlib
import os
import select
import signal
import socket
import threading

import checks
import load
import origin as upstream
import pytest
import shared
from handover import ending, successor, tls_settings

pytestmark = pytest.mark.patient

SIGNALS = [signal.SIGHUP, signal.SIGTERM, signal.SIGINT]


@contextlib.contextmanager
def silent_server():
    """Somebody takes connections and says nothing; the port, and whether anybody has come."""
    has_come = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def take():
            with contextlib.suppress(OSError):
                while True:
                    taken.append(server.accept()[0])
                    has_come.set()

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1], has_come
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=20)
        for sock in taken:
            sock.close()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_store_is_waited_for(root_place, origin, number):
    """It ends the keeper, which has nothing to reload and nobody to wait for."""
    with silent_server() as (port, has_come):
        config = shared.llm(origin, keeper={"store": f"redis://127.0.0.1:{port}"})
        keeper = shared.Keeper(root_place, config).start(wait=False)
        try:
            assert has_come.wait(20)
            keeper.send(number)
            assert keeper.wait() == -number
            assert keeper.log() == []
        finally:
            keeper.kill()
    # Control: what serves does as it is told.
    with shared.keeper(root_place, shared.llm(origin)) as keeper:
        keeper.reload()
        keeper.send(signal.SIGTERM)
        assert keeper.wait() == 0
        events = [line["event"] for line in keeper.log()]
        assert events == ["ready", "reloaded", "draining", "drained", "stopped"]


@contextlib.contextmanager
def held_up(keeper, certificates):
    """A successor whose key is not there yet; a function brings it."""
    pipe = keeper.top / "key"
    os.mkfifo(pipe)
    holder, port = upstream.refusing_port()
    settings = tls_settings(certificates, port)
    settings["keeper"]["cert_key"] = f"exec:cat {pipe} 2>/dev/null"
    made = successor(keeper, settings)
    made.env["SANDBOX_ENABLED"] = "1"
    made.start("--take-over", wait=False)
    with holder, open(pipe, "wb", buffering=0) as key:  # it is being read

        def bring_key():
            with key:
                key.write((certificates.top / "keeper.key").read_bytes())

        yield made, bring_key


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_a_successor_changes_nothing(root_place, origin, certificates, number):
    """Neither when it is sent, nor when the successor could go on."""
    old = shared.Keeper(root_place, shared.llm(origin)).start()
    with ending(old), held_up(old, certificates) as (new, bring_key), ending(new):
        run = load.Run(old.path, "r-1")
        new.send(number)
        with contextlib.suppress(BrokenPipeError):
            bring_key()
        assert new.wait() == -number
        assert new.log() == []
        assert run.ask().status == 200
        load.Run(old.path, "r-2").close()
        assert not old.log("handed_over") and not old.log("draining")
        run.close()


def test_a_successor_without_a_signal_takes_over(root_place, origin, certificates):
    """The control."""
    old = shared.Keeper(root_place, shared.llm(origin)).start()
    with ending(old), held_up(old, certificates) as (new, bring_key), ending(new):
        load.Run(old.path, "r-1").close()
        bring_key()
        new.wait_for("ready")
        old.wait_for("handed_over")
        assert old.wait() == 0
        load.Run(new.path, "r-2").close()


def test_a_successor_does_not_wait_for_ever(root_place, origin):
    """It is given one thing after the other, each in time, and never all of it."""
    keeper = shared.Keeper(root_place, shared.llm(origin))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(keeper.path)
        server.listen()
        keeper.start("--take-over", wait=False)
        with ending(keeper), server.accept()[0] as sock:
            assert sock.recv(64) == b"H"
            with contextlib.suppress(BrokenPipeError):
                for number in range(15):
                    socket.send_fds(sock, [f"Lpart-{number}".encode()], [server.fileno()])
                    if select.select([sock], [], [], 2)[0]:
                        break
            assert keeper.wait() == 125
            checks.assert_one_line(keeper.stderr(), "within 10 s", "stays")
        assert os.path.exists(keeper.path)
