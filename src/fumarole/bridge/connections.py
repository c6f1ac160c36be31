"""Connections and channels of the AMQP library, opened as the bridge needs them.

`FrameTransport` puts `frames.Deliveries` between the socket and the library; `ReadyProperties` is a property list that
the library need not encode. Both are places which the library offers for such things.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import aio_pika
import aiormq
from aio_pika.abc import AbstractChannel, AbstractConnection, ConnectionParameter
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from pamqp import commands
from yarl import URL

from fumarole.bridge.frames import Deliveries

FAILURES: Final = (aiormq.exceptions.AMQPError, OSError, RuntimeError, TimeoutError)
"""Errors of the library when the broker or its connection fails."""


class FrameStream:
    """The part of an `asyncio.StreamReader` that the library uses, with `Deliveries` between."""

    def __init__(self, source: asyncio.StreamReader, deliveries: Deliveries) -> None:
        self._source = source
        self._deliveries = deliveries
        self._ready = b""
        self._at = 0

    def at_eof(self) -> bool:
        return self._at == len(self._ready) and self._source.at_eof()

    async def read(self, most: int = -1) -> bytes:
        return await self._source.read(most)

    async def readexactly(self, count: int) -> bytes:
        while len(self._ready) - self._at < count:
            data = await self._source.read(256 * 1024)
            if not data:
                raise asyncio.IncompleteReadError(self._ready[self._at :], count)
            self._ready = self._ready[self._at :] + self._deliveries.receive_data(data)
            self._at = 0
        start = self._at
        self._at += count
        return self._ready[start : self._at]


class FrameTransport(TransportFactory):
    """Opens a connection whose deliveries are wrapped."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    async def create(self, url: URL, **options: Any) -> tuple[Any, asyncio.StreamWriter]:
        plain = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        reader, writer = await plain.create(url, **options)
        return FrameStream(reader, self._deliveries), writer


class BridgeConnection(aio_pika.Connection):
    """A connection that takes a function to open its socket."""

    PARAMETERS = (
        *aio_pika.Connection.PARAMETERS,
        ConnectionParameter(name="transport_factory", parser=lambda given: given, is_kwarg=True),
    )


class ReadyProperties(commands.Basic.Properties):
    """A property list that is encoded already."""

    def __init__(self, property_list: bytes, message_id: str = "") -> None:
        super().__init__(message_id=message_id or None)
        self._list = property_list

    def marshal(self) -> bytes:
        return self._list


async def open_channel(connection: AbstractConnection, confirmed: bool) -> Any:
    """A channel of the lower layer. `confirmed`: what is published on it is answered for."""
    channel: AbstractChannel = await connection.channel(publisher_confirms=confirmed, on_return_raises=confirmed)
    return await channel.get_underlay_channel()


async def close_connection(connection: AbstractConnection) -> None:
    """Ends it, well if that is quick."""
    with contextlib.suppress(*FAILURES):
        async with asyncio.timeout(2.0):
            await connection.close()
