# SPDX-License-Identifier: MIT
"""A keeper that does not serve yet, and what a signal does to it."""
import contextlib
import signal
import socket
import threading

import pytest
import shared

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
        assert [line["event"] for line in keeper.log()] == ["ready", "reloaded", "draining", "stopped"]
