"""httpx and aiohttp: publish, batches, streams, requests, WebSocket. Prints `ok` and a name at the end of each."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx

ADDRESS = sys.argv[1]
CONNECT = b'CONNECT {"verbose": false}\r\n'


async def events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, Any]]:
    """Server-sent events of httpx's lines."""
    name = ""
    async for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


async def publish_and_read_back(h: httpx.AsyncClient, a: aiohttp.ClientSession) -> None:
    for number in range(50):  # one connection, many requests
        assert (await h.post(f"/v1/topics/one/{number}", content=b"x" * number)).json() == {"delivered_to": 0}
    assert (await h.post("/v1/topics/kept/a", params={"retain": "1"}, content="21.5")).status_code == 202
    async with a.get("/v1/topics/kept/a") as answer:
        assert (await answer.json())["values"][0]["payload"] == "21.5"
    assert (await h.delete("/v1/topics/kept/a")).status_code == 204


async def lines_in_chunks(h: httpx.AsyncClient, a: aiohttp.ClientSession) -> None:
    async def lines() -> AsyncIterator[bytes]:
        for number in range(2_000):
            yield json.dumps({"topic": f"chunks.{number % 7}", "payload": "é" * 20}).encode() + b"\n"

    assert (await h.post("/v1/topics", content=lines())).json() == {"published": 2_000, "delivered_to": 0}
    async with a.post("/v1/topics", data=lines(), expect100=True) as answer:
        assert await answer.json() == {"published": 2_000, "delivered_to": 0}


async def streams(h: httpx.AsyncClient, a: aiohttp.ClientSession) -> None:
    async with h.stream("GET", "/v1/stream", params={"topic": "live.>"}) as stream:
        for number in range(100):  # the head of the answer was the confirmation
            await a.post(f"/v1/topics/live/{number}", data=b"%d" % number)
        heard = events(stream.aiter_lines())
        assert [(await anext(heard))[1]["payload"] for _ in range(100)] == [str(number) for number in range(100)]


async def requests(h: httpx.AsyncClient, a: aiohttp.ClientSession) -> None:
    async with a.ws_connect("/nats") as responder:
        assert (await responder.receive_bytes()).startswith(b"INFO ")
        await responder.send_bytes(CONNECT + b"SUB double 1\r\nPING\r\n")
        assert await responder.receive_bytes() == b"PONG\r\n"
        asked = asyncio.create_task(h.post("/v1/requests/double", content=b"ab"))
        reply = (await responder.receive_bytes()).split()[3]
        await responder.send_bytes(b"PUB %b 4\r\nabab\r\n" % reply)
        assert (await asked).json() == {"replies": [{"payload": "abab"}]}
    assert (await h.post("/v1/requests/double", content=b"ab")).status_code == 404


async def sizes(h: httpx.AsyncClient, a: aiohttp.ClientSession) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield bytes(32 * 1024)

    assert (await h.post("/v1/topics/big", content=bytes(1 << 20))).status_code == 202
    assert (await h.post("/v1/topics/big", content=bytes((1 << 20) + 1))).status_code == 413
    assert (await h.post("/v1/topics/big", content=parts())).status_code == 413
    assert (await h.get("/v1/producers", headers={"X": "y" * 9_000})).status_code == 431
    assert (await h.get("/v1/producers", params={"where": "a" * 20_000})).status_code == 414
    async with a.get("/openapi.json", headers={"Accept-Encoding": "gzip"}, auto_decompress=False) as answer:
        packed, tag = await answer.read(), answer.headers["ETag"]
    assert json.loads(gzip.decompress(packed)) == (await h.get("/openapi.json")).json()
    assert (await h.get("/openapi.json", headers={"If-None-Match": tag})).status_code == 304


async def text_in_frames(_: httpx.AsyncClient, a: aiohttp.ClientSession) -> None:
    """NATS is bytes: text is told so, with the code for it."""
    async with a.ws_connect("/nats") as client:
        await client.receive_bytes()
        await client.ping(b"are you there")
        await client.send_str("PING\r\n")
        assert (await client.receive()).type is aiohttp.WSMsgType.CLOSE
        assert client.close_code == 1003


async def main() -> None:
    async with (
        httpx.AsyncClient(base_url=ADDRESS, trust_env=False, timeout=20) as h,
        aiohttp.ClientSession(ADDRESS) as a,
    ):
        for each in (publish_and_read_back, lines_in_chunks, streams, requests, sizes, text_in_frames):
            await each(h, a)
            print("ok", each.__name__, flush=True)


asyncio.run(main())
