# SPDX-License-Identifier: MIT
"""Keepers that take each other's place."""
import contextlib
import copy
import time


def successor(keeper, more=None):
    """Another keeper for the same place, with settings of its own; it is not started."""
    made = copy.copy(keeper)
    made.process = made._log = None  # pylint: disable=protected-access
    made.file = keeper.top / f"successor-{time.monotonic_ns()}.json"
    made.config = copy.deepcopy(keeper.config)
    made.env = dict(keeper.env)
    made.configure(more or {})
    return made


@contextlib.contextmanager
def ending(*keepers):
    """Whoever of them is left at the end is killed; until then nothing has gone wrong in them."""
    try:
        yield
        for keeper in keepers:
            if keeper.process and keeper.is_alive():
                assert keeper.end() == 0, keeper.stderr()
    finally:
        for keeper in keepers:
            if keeper.process:
                keeper.kill()


def take_over(keeper, more=None):
    """A successor that serves."""
    made = successor(keeper, more)
    made.start("--take-over")
    keeper.wait_for("handed_over")
    return made


def tls_settings(certificates, port, name="keeper"):
    """Of a keeper for other machines."""
    return {"keeper": {"listen": f"tls:127.0.0.1:{port}", "cert": str(certificates.top / f"{name}.pem"),
                       "cert_key": f"file:{certificates.top}/{name}.key",
                       "link_keys": {"k1": "env:TOKEN_KEY"}}}
