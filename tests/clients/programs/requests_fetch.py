# SPDX-License-Identifier: MIT
import json
import os

import requests

BASE, TOKEN = os.environ["BASE"], os.environ["TOKEN"]

with requests.Session() as session:
    for reply in (session.get(f"{BASE}/echo", headers={"Authorization": f"Bearer {TOKEN}"}),
                  session.post(f"{BASE}/echo", headers={"X-Api-Key": TOKEN}, data=b"0123456789" * 10000)):
        print(json.dumps({"status": reply.status_code, "version": reply.raw.version, "body": reply.json()}))
    reply = session.get(f"{BASE}/blob", headers={"X-Api-Key": TOKEN})
    print(json.dumps({"status": reply.status_code, "version": reply.raw.version, "length": len(reply.content)}))
