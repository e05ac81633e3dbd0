# SPDX-License-Identifier: MIT
import json
import os
import urllib.request

BASE, TOKEN = os.environ["BASE"], os.environ["TOKEN"]


def ask(path, fields, data=None):
    with urllib.request.urlopen(urllib.request.Request(BASE + path, data, fields)) as reply:
        return reply.status, reply.version, reply.read()


for fields, data in (({"Authorization": f"Bearer {TOKEN}"}, None), ({"X-Api-Key": TOKEN}, b"0123456789" * 10000)):
    status, version, body = ask("/echo", fields, data)
    print(json.dumps({"status": status, "version": version, "body": json.loads(body)}))
status, version, body = ask("/blob", {"X-Api-Key": TOKEN})
print(json.dumps({"status": status, "version": version, "length": len(body)}))
