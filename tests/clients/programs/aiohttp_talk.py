# SPDX-License-Identifier: MIT
"""The WebSocket of aiohttp."""
import asyncio
import json
import os

import aiohttp


async def main():
    said = {}
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with aiohttp.ClientSession() as session, session.ws_connect(os.environ["BASE"], headers=headers, compress=15) as socket:
        await socket.send_str("hello")
        said["hello"] = await socket.receive_str(timeout=10)
        await socket.send_str("who am I?")
        said["who"] = await socket.receive_str(timeout=10)
        await socket.send_str("0123456789" * 20000)
        said["large"] = await socket.receive_str(timeout=10) == "0123456789" * 20000
        await socket.send_bytes(bytes(range(256)) * 300)
        said["binary"] = await socket.receive_bytes(timeout=10) == bytes(range(256)) * 300
    said["closed"] = socket.close_code
    print(json.dumps(said))


asyncio.run(main())
