"""The bridge's client for asyncio: binds that stay renewed, messages, sends, and calls that gather replies.

    async with BridgeClient("tcp://localhost:5555", direct="my-direct-queue", topics=["test.#"]) as client:
        await client.send("amq.topic", "test.hello", b"hi", content_type="text/plain")
        async for message in client:
            ...

The bridge forgets a client that is silent for its time to live, so everything is bound again every `renew` seconds, and
at once when the connection was lost and is back.
"""
# ruff: noqa: ASYNC109, a call has a timeout parameter

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgpack
import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from fumarole.bridge.errors import BridgeClosedError, BridgeError, BridgeRefusedError, CannotBridgeError
from fumarole.bridge.keys import read_key_pair, read_public_key
from fumarole.bridge.messages import Message, pack, read, to_wire
from fumarole.bridge.operations import AWAY, DONE, ERROR, MSG, REPLY
from fumarole.core.limits import MIB

log = logging.getLogger(__name__)

RENEW: Final = 15.0
BUFFER: Final = 65_536
LARGEST: Final = 16 * MIB
LINGER_MS: Final = 1_000
SEND_MS: Final = 5_000
GRACE: Final = 2.0
"""Seconds beyond a call's own time in which the bridge must have said that it is over."""

Handler = Callable[[Message], Awaitable[None] | None]


class Asked:
    """Something that the bridge answers by id."""

    def __init__(self) -> None:
        self.replies: list[Message] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class BridgeClient:
    """`async with`, or `open` and `close`."""

    def __init__(
        self,
        endpoint: str = "tcp://localhost:5555",
        *,
        direct: str = "",
        topics: Iterable[str] = (),
        handler: Handler | None = None,
        renew: float = RENEW,
        buffer: int = BUFFER,
        timeout: float = 5.0,
        bridge_key: Path | str | None = None,
        own_key: Path | str | None = None,
    ) -> None:
        """For a bridge with CURVE: `bridge_key`, `own_key` are files as `zmq.auth.create_certificates` makes them."""
        self._endpoint = endpoint
        self._direct = direct
        self._topics = dict.fromkeys(topics)
        self._handler = handler
        self._renew = renew
        self._timeout = timeout
        self._keys = (bridge_key, own_key)
        self._messages: deque[Message] = deque(maxlen=buffer)
        self._arrived = asyncio.Event()
        self._asked: dict[bytes, Asked] = {}
        self._numbers = count(1)
        self._refusals: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._context: zmq.asyncio.Context | None = None
        self._socket: Any = None
        self._closed = False
        self.dropped = 0
        """Messages that were not taken in time and had to make room."""

    async def open(self) -> Self:
        """Returns when the binds are in force. Raises BridgeError where there is no bridge, or it refuses them."""
        self._context = zmq.asyncio.Context()
        socket = self._socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        socket.setsockopt(zmq.SNDTIMEO, SEND_MS)
        socket.setsockopt(zmq.HEARTBEAT_IVL, 5_000)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15_000)
        try:
            self._use_keys(socket)
            monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            socket.connect(self._endpoint)
        except (zmq.ZMQError, CannotBridgeError) as error:
            await self.close()
            raise BridgeError(f"cannot use {self._endpoint}: {error}") from None
        work = [self._read(), self._renew_binds(), self._bind_when_connected(monitor)]
        if self._handler is not None:
            work.append(self._handle(self._handler))
        self._tasks = [asyncio.create_task(each) for each in work]
        try:
            await self._bind()
            await self.flush(self._timeout)
        except BridgeRefusedError as error:
            if str(error) != AWAY:
                await self.close()
                raise
        except TimeoutError:
            await self.close()
            raise BridgeError(
                f"no bridge answers at {self._endpoint} within {self._timeout:g} s; start one with `fumarole bridge`"
            ) from None
        except BaseException:
            await self.close()
            raise
        return self

    def _use_keys(self, socket: Any) -> None:
        bridge_key, own_key = self._keys
        if bridge_key is None:
            return
        socket.curve_serverkey = read_public_key(Path(bridge_key))
        if own_key is None:
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        else:
            socket.curve_publickey, socket.curve_secretkey = read_key_pair(Path(own_key))

    async def close(self) -> None:
        """Ends the binds and the connection. What has arrived can still be taken."""
        if self._closed:
            return
        if self._socket is not None and self._tasks:
            with contextlib.suppress(zmq.ZMQError, BridgeError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._tell(b"unbind", self._direct.encode(), *map(str.encode, self._topics))
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for asked in self._asked.values():
            if not asked.done.done():
                asked.done.set_exception(BridgeClosedError("the client was closed"))
        if self._socket is not None:
            self._socket.disable_monitor()
        if self._context is not None:
            # In a thread: it waits until a bridge has taken what was sent last, or for as long as it may linger.
            await asyncio.to_thread(self._context.destroy, LINGER_MS)
        self._arrived.set()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while not self._messages:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()

    async def bind(self, *topics: str) -> None:
        """Adds topics. Raises BridgeRefusedError where the bridge does not offer them."""
        self._topics |= dict.fromkeys(topics)
        try:
            await self._bind()
            await self.flush(self._timeout)
        except BridgeRefusedError:
            for topic in topics:
                self._topics.pop(topic, None)
            raise

    async def unbind(self, *topics: str) -> None:
        """Ends topics."""
        for topic in topics:
            self._topics.pop(topic, None)
        await self._tell(b"unbind", b"", *map(str.encode, topics))

    async def send(
        self,
        exchange: str,
        key: str,
        payload: bytes | str = b"",
        *,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        """Publishes to an exchange; it is not confirmed, see `flush`. The properties are those of AMQP."""
        await self._tell(b"send", exchange.encode(), key.encode(), _packed(payload, properties, headers))

    async def reply(self, message: Message, payload: bytes | str = b"", **properties: Any) -> None:
        """Answers a message that has a reply_to."""
        reply_to, correlation = message.properties.get("reply_to"), message.properties.get("correlation_id")
        if not reply_to:
            raise BridgeError("the message has no reply_to: its sender expects no answer")
        await self.send("", reply_to, payload, correlation_id=correlation, **properties)

    async def call(
        self,
        exchange: str,
        key: str,
        payload: bytes | str = b"",
        replies: int | None = None,
        timeout: float = 5.0,
        *,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> list[Message]:
        """The replies, in order of arrival: as soon as that many are in, else what came in time, perhaps nothing (R1).

        Raises BridgeRefusedError at once if the call has no responder.
        """
        options = msgpack.packb({"replies": replies, "timeout": timeout})
        message = _packed(payload, properties, headers)
        asked, identity = self._ask()
        # Absurd times are for the bridge to refuse.
        patience = min(timeout, 86_400.0) + GRACE if timeout > 0 else GRACE
        await self._answered(asked, identity, patience, b"call", exchange.encode(), key.encode(), message, options)
        return asked.replies

    async def flush(self, timeout: float = 5.0) -> None:
        """Returns when binds are in force and sends handed over. Raises BridgeRefusedError if something was refused."""
        asked, identity = self._ask()
        await self._answered(asked, identity, timeout, b"flush")
        refusals, self._refusals = self._refusals, []
        if refusals:
            raise BridgeRefusedError("; ".join(dict.fromkeys(refusals)))

    async def status(self, timeout: float = 5.0) -> dict[str, Any]:
        """The status of the bridge."""
        asked, identity = self._ask()
        await self._answered(asked, identity, timeout, b"status")
        found: dict[str, Any] = json.loads(asked.replies[0].payload)
        return found

    def _ask(self) -> tuple[Asked, bytes]:
        identity = b"%d" % next(self._numbers)
        asked = self._asked[identity] = Asked()
        return asked, identity

    async def _answered(self, asked: Asked, identity: bytes, timeout: float, verb: bytes, *parts: bytes) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._tell(verb, identity, *parts)
                await asked.done
        finally:
            del self._asked[identity]
            asked.done.cancel()

    async def _tell(self, *parts: bytes) -> None:
        if self._closed or self._socket is None:
            raise BridgeClosedError("the client is not open")
        try:
            await self._socket.send_multipart(parts)
        except zmq.Again:
            raise BridgeError(
                f"the bridge at {self._endpoint} takes nothing; it is gone, or refuses this client's key"
            ) from None

    async def _bind(self) -> None:
        if self._direct or self._topics:
            await self._tell(b"bind", self._direct.encode(), *map(str.encode, self._topics))

    # In the background.

    async def _renew_binds(self) -> None:
        while True:
            await asyncio.sleep(self._renew)
            await self._bind_again()

    async def _bind_when_connected(self, monitor: Any) -> None:
        """Called after each reconnect: the bridge has forgotten this client. `open` handles the first connection."""
        await recv_monitor_message(monitor)
        while True:
            await recv_monitor_message(monitor)
            await self._bind_again()

    async def _bind_again(self) -> None:
        """A bridge that accepts nothing now gets it the next time."""
        with contextlib.suppress(BridgeError):
            await self._bind()

    async def _read(self) -> None:
        while True:
            kind, *parts = await self._socket.recv_multipart()
            try:
                self._take(kind, parts)
            except (BridgeError, ValueError, IndexError):
                log.warning("the bridge sent what is no message of a bridge")

    def _take(self, kind: bytes, parts: list[bytes]) -> None:
        if kind == MSG:
            if len(self._messages) == self._messages.maxlen:
                self.dropped += 1
            self._messages.append(read(parts[0].decode(), parts[1]))
            self._arrived.set()
            return
        asked = self._asked.get(parts[-1] if kind in (DONE, ERROR) else parts[0])
        if kind == ERROR and (len(parts) == 1 or asked is None):
            text = parts[0].decode()
            self._refusals.append(text)
            del self._refusals[:-100]
            log.warning("the bridge refused: %s", text)
        elif asked is None or asked.done.done():
            return
        elif kind == REPLY:
            asked.replies.append(read("", parts[1]))
        elif kind == DONE:
            asked.done.set_result(None)
        elif kind == ERROR:
            asked.done.set_exception(BridgeRefusedError(parts[0].decode()))

    async def _handle(self, handler: Handler) -> None:
        async for message in self:
            try:
                result = handler(message)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                log.exception("the handler failed")


def _packed(payload: bytes | str, properties: Mapping[str, Any], headers: Mapping[str, Any] | None) -> bytes:
    data = payload.encode() if isinstance(payload, str) else bytes(payload)
    given = {name: to_wire(value) for name, value in properties.items() if value is not None}
    return pack(data, given, to_wire(headers or {}))
