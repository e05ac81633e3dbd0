# SPDX-License-Identifier: MIT
import json
import os
import sys

import httpx

BASE, TOKEN = os.environ["BASE"], os.environ["TOKEN"]

with httpx.Client(http2="--http2" in sys.argv) as client:
    for reply in (client.get(f"{BASE}/echo", headers={"Authorization": f"Bearer {TOKEN}"}),
                  client.post(f"{BASE}/echo", headers={"X-Api-Key": TOKEN}, content=b"0123456789" * 10000)):
        print(json.dumps({"status": reply.status_code, "version": reply.http_version, "body": reply.json()}))
    reply = client.get(f"{BASE}/blob", headers={"X-Api-Key": TOKEN})
    print(json.dumps({"status": reply.status_code, "version": reply.http_version, "length": len(reply.content)}))
