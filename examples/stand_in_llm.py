#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A stand-in for an LLM proxy: streams an answer, and notes whose request it was."""
import http.server
import json
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[2], "a") as notes:
            notes.write(f"{self.command} {self.path}\n")
            for name in ("Authorization", "x-litellm-end-user-id"):
                notes.write(f"  {name}: {', '.join(self.headers.get_all(name, []))}\n")
            notes.write(f"  user in the body: {body.get('user', 'none')}\n")
        turns = len(body["messages"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("x-litellm-call-id", f"call-{turns}")
        self.end_headers()
        answer = "Forty-two." if turns > 1 else "The answer to that is known: it is six times seven."
        for word in answer.split():
            self.send({"choices": [{"delta": {"content": word + " "}}]})
            time.sleep(0.05)
        self.send({"choices": [], "usage": {"total_tokens": 21, "cost": 0.00042}})
        self.wfile.write(b"0\r\n\r\n")

    def send(self, event):
        data = b"data: " + json.dumps(event).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1], "w") as port:
    port.write(str(server.server_port))
server.serve_forever()
