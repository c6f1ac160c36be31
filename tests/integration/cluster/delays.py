"""A line that takes its time: a TCP proxy that passes everything on so much later, in order, both ways."""

from __future__ import annotations

import asyncio
import contextlib

CHUNK = 64 * 1024


class SlowLine:
    """Before one node: others are told to come here, and it takes `seconds` longer each way. 0: it is as any other."""

    def __init__(self) -> None:
        self._to = "", 0
        self.seconds = 0.0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def lead_to(self, host: str, port: int) -> None:
        """There is the node."""
        self._to = host, port

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self._to, limit=CHUNK)
        except OSError:
            writer.close()
            return
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """What was read is written when its time has come; meanwhile more is read."""
        loop, on_the_way = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

        async def arrive() -> None:
            while True:
                due, data = await on_the_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    return
                target.write(data)
                await target.drain()

        arriving = asyncio.create_task(arrive())
        try:
            with contextlib.suppress(OSError):
                while True:
                    data = await source.read(CHUNK)
                    on_the_way.put_nowait((loop.time() + self.seconds, data))
                    if not data:
                        break
                await arriving
        finally:
            arriving.cancel()
            target.close()
