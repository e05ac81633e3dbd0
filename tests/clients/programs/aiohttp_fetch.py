# SPDX-License-Identifier: MIT
import asyncio
import json
import os

import aiohttp

BASE, TOKEN = os.environ["BASE"], os.environ["TOKEN"]


def version_of(reply):
    return f"HTTP/{reply.version.major}.{reply.version.minor}"


async def main():
    async with aiohttp.ClientSession() as session:
        for asked in (session.get(f"{BASE}/echo", headers={"Authorization": f"Bearer {TOKEN}"}),
                      session.post(f"{BASE}/echo", headers={"X-Api-Key": TOKEN}, data=b"0123456789" * 10000)):
            async with asked as reply:
                print(json.dumps({"status": reply.status, "version": version_of(reply), "body": await reply.json()}))
        async with session.get(f"{BASE}/blob", headers={"X-Api-Key": TOKEN}) as reply:
            print(json.dumps({"status": reply.status, "version": version_of(reply), "length": len(await reply.read())}))


asyncio.run(main())
