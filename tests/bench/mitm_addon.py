# SPDX-License-Identifier: MIT
"""What mitmproxy is to do as warder does it: a secret instead of its placeholder, and back.

Only the plain form is looked for, in heads and in the replies' bodies; warder looks for every form
that the secret can be written in, and in requests' bodies for placeholders that may not be there.
"""
import os

PLACEHOLDER, SECRET = os.environ["BENCH_KEY"], os.environ["BENCH_SECRET"]


def replace(headers, old, new):
    for name, value in list(headers.items()):
        if old in value:
            headers[name] = value.replace(old, new)


class Substitute:
    def __init__(self):
        self.log = open(os.environ["BENCH_LOG"], "w", encoding="ascii")

    def request(self, flow):
        replace(flow.request.headers, PLACEHOLDER, SECRET)

    def response(self, flow):
        response = flow.response
        replace(response.headers, SECRET, PLACEHOLDER)
        if response.content and SECRET.encode() in response.content:
            response.content = response.content.replace(SECRET.encode(), PLACEHOLDER.encode())
        self.log.write(f"{flow.request.method} {flow.request.path} {response.status_code}\n")


addons = [Substitute()]
