# SPDX-License-Identifier: MIT
"""The SDKs of OpenAI and Anthropic at their own addresses: whole replies, streams and errors."""
import clients
import pytest

# program: (host, variable)
SDKS = {
    "openai_sdk.py": ("api.openai.com", "OPENAI_API_KEY"),
    "openai_sdk.mjs": ("api.openai.com", "OPENAI_API_KEY"),
    "anthropic_sdk.py": ("api.anthropic.com", "ANTHROPIC_API_KEY"),
    "anthropic_sdk.mjs": ("api.anthropic.com", "ANTHROPIC_API_KEY"),
}


def command(program):
    if program.endswith(".py"):
        return [str(clients.need("python") / "bin/python"), clients.path_of(program)], {}
    clients.need_program("node")
    return ["node", clients.path_of(program)], {"MODULES": f"{clients.need('node')}/"}


@pytest.mark.parametrize("kind", ["h1_origin", "origin"])
@pytest.mark.parametrize("program", SDKS)
def test_an_sdk_with_a_placeholder_as_its_key(place, request, program, kind):
    origin = request.getfixturevalue(kind)
    host, name = SDKS[program]
    argv, env = command(program)
    done = clients.run(place, argv, origin, host, name=name, env=env)
    said = clients.answers(done)[0]
    key = f"Bearer {done.placeholder}"
    assert said["whole"] == f"You are {key}"
    assert said["pieces"] == ["You ", "are ", key]
    assert "429" in said["refused"] and key in said["refused"]
    records = origin.wait(3)
    assert len(records) == 3
    for record in records:
        assert record["headers"]["authorization"] == f"Bearer {clients.SECRET}" and record["host"] == host
        assert record["http"] == ("2.0" if kind == "origin" else "1.1")
