#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A small agent: talks to its LLM, does a job, then tries what it should not be able to do."""
import json
import os
import pathlib
import socket
import subprocess
import urllib.error
import urllib.request


def ask(messages):
    """One turn of a conversation: prints the words as they come, returns all of them."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": os.environ.get("MODEL", "stand-in"), "stream": True,
                    "user": "somebody-else", "messages": messages}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer something-of-my-own"})
    words = ""
    with urllib.request.urlopen(request, timeout=60) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            choices = json.loads(line[6:]).get("choices") or [{}]
            word = choices[0].get("delta", {}).get("content") or ""
            print(word, end="", flush=True)
            words += word
    print()
    return words


def attempt(what, function):
    try:
        outcome = f"!! it worked: {function()}"
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as error:
        outcome = f"ok {error}"
    print(f"  {what:<40} {outcome}"[:110])


def find_key():
    """Looks wherever a program can look without being told."""
    for name, value in os.environ.items():
        if value.startswith("sk-") and "warder" not in value:
            return name
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if b"sk-" in environment.replace(b"sk-warder", b""):
            return process
    raise KeyError("no key in any environment that can be read")


def main():
    print(f"agent: run {os.environ['RUN_ID']}, my LLM is {os.environ['OPENAI_BASE_URL']}")
    task = pathlib.Path("task.txt").read_text().strip()
    messages = [{"role": "user", "content": task}]
    print("\nllm:   ", end="")
    messages.append({"role": "assistant", "content": ask(messages)})
    messages.append({"role": "user", "content": "And now in one word?"})
    print("llm:   ", end="")
    pathlib.Path("answer.txt").write_text(ask(messages) + "\n")

    print("\nagent: and now, what else is here?")
    attempt("find the key", find_key)
    attempt("read the caller's key file", lambda: open(os.environ["CALLER_SECRET"]).read())
    attempt("read the memory of PID 1", lambda: open("/proc/1/mem", "rb").read(1))
    attempt("connect to the LLM behind the gate",
            lambda: socket.create_connection(("127.0.0.1", int(os.environ["UPSTREAM_PORT"])), 2))
    attempt("connect to another host", lambda: socket.create_connection(("192.0.2.1", 443), 2))
    attempt("resolve a name", lambda: socket.getaddrinfo("example.com", 443))
    attempt("manage keys of the LLM proxy", lambda: urllib.request.urlopen(
        "http://127.0.0.1:8080/v1/../key/generate", b"{}").read())
    attempt("write outside the workspace", lambda: open("/usr/bin/evil", "w"))


main()
