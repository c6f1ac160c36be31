"""The bridge's client for plain programs: the same as asyncio's, which works in a thread of its own.

with BlockingBridgeClient("tcp://localhost:5555", topics=["test.#"]) as client:
    client.send("amq.topic", "test.hello", b"hi")
    for message in client:
        ...
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from fumarole.bridge.client import BridgeClient
from fumarole.bridge.errors import BridgeClosedError
from fumarole.bridge.messages import Message

T = TypeVar("T")


class BlockingBridgeClient:
    """Takes what `BridgeClient` takes. A handler is called in another thread. Threads may share a client."""

    def __init__(self, endpoint: str = "tcp://localhost:5555", **options: Any) -> None:
        self._endpoint = endpoint
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: BridgeClient | None = None

    def open(self) -> Self:
        """Returns when the binds are in force. Raises BridgeError."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fumarole bridge client", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(self._opened())
        except BaseException:
            self._end()
            raise
        return self

    async def _opened(self) -> BridgeClient:
        options = dict(self._options)
        handler = options.pop("handler", None)

        async def handle(message: Message) -> None:
            # In a thread of its own, so that it may use this client like any other caller.
            await asyncio.to_thread(handler, message)

        return await BridgeClient(self._endpoint, handler=None if handler is None else handle, **options).open()

    def close(self) -> None:
        """Ends the binds and the connection."""
        client, self._client = self._client, None
        if client is not None:
            self._run(client.close())
            self._end()

    def _end(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        assert loop is not None
        assert thread is not None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        while self._client is not None:
            try:
                yield self._run(anext(self._open_client))
            except StopAsyncIteration:
                return

    def receive(self, timeout: float | None = None) -> Message:
        """The next message. Raises TimeoutError."""

        async def next_message() -> Message:
            async with asyncio.timeout(timeout):
                return await anext(self._open_client)

        return self._run(next_message())

    def bind(self, *topics: str) -> None:
        """Adds topics."""
        self._run(self._open_client.bind(*topics))

    def unbind(self, *topics: str) -> None:
        """Ends topics."""
        self._run(self._open_client.unbind(*topics))

    def send(self, exchange: str, key: str, payload: bytes | str = b"", **properties: Any) -> None:
        """Publishes to an exchange; see `BridgeClient.send`."""
        self._run(self._open_client.send(exchange, key, payload, **properties))

    def reply(self, message: Message, payload: bytes | str = b"", **properties: Any) -> None:
        """Answers a message that has a reply_to."""
        self._run(self._open_client.reply(message, payload, **properties))

    def call(
        self,
        exchange: str,
        key: str,
        payload: bytes | str = b"",
        replies: int | None = None,
        timeout: float = 5.0,
        **properties: Any,
    ) -> list[Message]:
        """The replies in order of arrival; see `BridgeClient.call`."""
        return self._run(self._open_client.call(exchange, key, payload, replies, timeout, **properties))

    def flush(self, timeout: float = 5.0) -> None:
        """Returns when binds are in force and sends handed over."""
        self._run(self._open_client.flush(timeout))

    def status(self, timeout: float = 5.0) -> dict[str, Any]:
        """The status of the bridge."""
        return self._run(self._open_client.status(timeout))

    @property
    def _open_client(self) -> BridgeClient:
        if self._client is None:
            raise BridgeClosedError("the client is not open")
        return self._client

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
