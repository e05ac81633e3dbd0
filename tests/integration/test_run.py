# SPDX-License-Identifier: MIT
"""What a command sees and what its caller learns."""


def test_output_and_status_are_the_commands_own(place):
    done = place.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)
