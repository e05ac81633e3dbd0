# SPDX-License-Identifier: MIT
"""A run at a control socket where no keeper of ours listens: it begins with a link, or not at all."""
import contextlib
import os
import socket
import threading

import checks
import link
import pytest


def say(visitor, *packets):
    """Packets, each with how many ends of links come along."""
    ends = []
    for packet, count in packets:
        pairs = [link.pair() for _ in range(count)]
        socket.send_fds(visitor, [packet], [pair[1].fileno() for pair in pairs])
        for ours, theirs in pairs:
            theirs.close()
            ends.append(ours)
    return ends


class Impostor:
    """Says what it is told to say to whoever registers, and stays."""

    def __init__(self, path, packets):
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        os.chmod(path, 0o666)
        self._listener.listen(1)
        self._packets = packets
        self.heard = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        visitor, _ = self._listener.accept()
        with visitor, contextlib.ExitStack() as stack, contextlib.suppress(BrokenPipeError):
            self.heard = visitor.recv(65536)
            for end in say(visitor, *self._packets):
                stack.enter_context(end)
                with contextlib.suppress(OSError):  # what a gate waits for before it listens
                    link.Keeper(end).hello()
            with contextlib.suppress(OSError):
                while visitor.recv(65536):
                    pass

    def close(self):
        self._thread.join(30)
        self._listener.close()
        assert not self._thread.is_alive()


@contextlib.contextmanager
def impostor(place, *packets):
    made = Impostor(place.top / "keeper.sock", packets)
    try:
        yield "-q", "--keeper", f"unix:{place.top}/keeper.sock"
    finally:
        made.close()
    assert made.heard.startswith(b"Rrun-id=")


WHO = b"W--run-id\0r-1\0--attempt\0" b"0\0"
LINK, READY = (b"k", 1), (b"+", 0)


def test_a_link_and_the_word(place):
    """The control: that is all a run needs."""
    with impostor(place, LINK, (WHO, 0), READY) as options:
        done = place.run("sh", "-c", "echo $RUN_ID", options=options)
    assert (done.returncode, done.stdout) == (0, "r-1\n"), done


BROKEN = {
    "no link": [(WHO, 0), READY],
    "a link without a descriptor": [(b"k", 0), (WHO, 0), READY],
    "two links": [LINK, LINK, (WHO, 0), READY],
    "two descriptors": [(b"k", 2), (WHO, 0), READY],
    "a link with something else": [(b"+", 1)],
    "a letter that is none": [LINK, (b"?", 0), READY],
    "nothing about it": [LINK, (b"", 0)],
    "what is shown to the agent": [LINK, (WHO + b"--mount\0/etc\0", 0), READY],
    "a variable of ours": [LINK, (WHO + b"--env\0HOME\0", 0), READY],
    "another run": [LINK, (b"W--run-id\0../x\0", 0), READY],
    "half a word": [LINK, (b"W--run-id\0r-1", 0), READY],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_word_of_a_keeper_ends_it(user_place, name):
    with impostor(user_place, *BROKEN[name]) as options:
        done = user_place.run(*checks.LEAVE_MARKER, options=options)
    assert done.returncode == 125, done
    checks.assert_one_line(done.stderr)
    assert not (user_place.workspace / checks.MARKER).exists()


def test_why_it_says_no_is_told(user_place):
    with impostor(user_place, (b"!not today", 0)) as options:
        done = user_place.run(*checks.LEAVE_MARKER, options=options)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "not today")


@pytest.mark.parametrize("size", [1, 1000, 60000])
def test_one_that_never_stops_talking(user_place, size):
    """What it says has an end, by its length if not by itself."""
    words = [(b"W--env\0A=" + b"x" * size + b"\0", 0)] * 300
    with impostor(user_place, LINK, *words, (b"?", 0)) as options:
        done = user_place.run(*checks.LEAVE_MARKER, options=options)
    assert done.returncode == 125
    checks.assert_one_line(done.stderr, "keeper")
