"""What stands beside the web door: the smallest programs that do the same with uvicorn and with aiohttp.

build/web/bin/python bench/web_peers.py discard PORT     uvicorn: an application that reads the body and discards it
build/web/bin/python bench/web_peers.py events PORT      aiohttp: what is posted goes to every stream, line by line
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

HOST = "127.0.0.1"
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def discard(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """An ASGI application."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b'{"delivered_to":0}\n'})


def serve_discard(port: int) -> None:
    import uvicorn  # type: ignore[import-not-found]

    uvicorn.run(discard, host=HOST, port=port, log_level="error", access_log=False, loop="uvloop", http="httptools")


def serve_events(port: int) -> None:
    import uvloop
    from aiohttp import web  # type: ignore[import-not-found]

    streams: list[Any] = []

    async def subscribe(request: Any) -> Any:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        streams.append(stream)
        try:
            await asyncio.Event().wait()  # cancelled when the client goes
        finally:
            streams.remove(stream)
        return stream

    async def publish(request: Any) -> Any:
        for line in (await request.read()).splitlines():
            event = b"event: message\ndata: " + line + b"\n\n"
            for stream in streams:
                await stream.write(event)
        return web.json_response({"delivered_to": len(streams)}, status=202)

    application = web.Application(client_max_size=1 << 24)
    application.add_routes([web.get("/v1/stream", subscribe), web.post("/v1/topics", publish)])
    uvloop.install()
    web.run_app(application, host=HOST, port=port, print=None, access_log=None, handler_cancellation=True)


if __name__ == "__main__":
    {"discard": serve_discard, "events": serve_events}[sys.argv[1]](int(sys.argv[2]))
