"""A transport, a door and a reader that do what they are told, and remember it."""

from __future__ import annotations

import asyncio
from typing import Any

from fumarole.doors.flushing import LAST_BATCH
from fumarole.doors.pump import Pump
from fumarole.doors.stream import client_policies
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.stream import RemoteAddress
from tests.desk import Desk


class FakeTransport(asyncio.Transport):
    """Takes `room` bytes; what is beyond waits, and the writer is paused until `take` makes room again."""

    def __init__(self, protocol: Any, room: int = 1 << 30, half_close: bool = True) -> None:
        super().__init__()
        self._protocol = protocol
        self._room = room
        self._half_close = half_close
        self._waiting = b""
        self.taken = b""
        self.reading = True
        self.ended = False
        self.closed = False
        self.aborted = False

    def write(self, data: Any) -> None:
        assert not self.ended
        self._waiting += data
        self.take(0)
        if self._waiting:
            self._protocol.pause_writing()

    def take(self, more: int) -> None:
        """The peer reads so much more."""
        self._room += more
        had = bool(self._waiting)
        self.taken += self._waiting[: self._room]
        self._room, self._waiting = max(self._room - len(self._waiting), 0), self._waiting[self._room :]
        if had and not self._waiting and more:
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def can_write_eof(self) -> bool:
        return self._half_close

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class FakeReader:
    """Puts off what it is given, a part at a time."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.received: list[bytes] = []

    @property
    def unfinished(self) -> bool:
        return self.turns > 0

    def receive_data(self, data: Any) -> None:
        self.received.append(bytes(data))

    def go_on(self) -> None:
        self.turns -= 1


class FakeDoor:
    """One pump, with a real session behind it."""

    def __init__(
        self, hot_path: HotPath, room: int = 1 << 30, half_close: bool = True, authentication: bool = False
    ) -> None:
        self.desk = Desk(hot_path, authentication=authentication)
        self.disconnections = 0
        self.authentications = 0
        self.pump = Pump(self, client_policies(self.desk.node))
        self.transport = FakeTransport(self.pump, room, half_close)

    def connect(self, reader: Any = None) -> NatsSession:
        session = NatsSession(self.desk.node, RemoteAddress("127.0.0.1", 4222, "127.0.0.1"), self.desk.now, self.pump)
        make = self.desk.hot_path.nats_reader
        self.pump._transport = self.transport
        self.pump.begin(session, reader or (session if make is None else make(session)))
        return session

    def say(self, data: bytes) -> None:
        """The peer sends this, in a turn of the loop of its own: what it fills is flushed at once."""
        LAST_BATCH.at = 0.0
        buffer = self.pump.get_buffer(-1)
        assert len(data) <= len(buffer)
        buffer[: len(data)] = data
        self.pump.buffer_updated(len(data))

    def heard(self) -> bytes:
        """What has left since the last time, INFO aside."""
        taken, self.transport.taken = self.transport.taken, b""
        return taken.partition(b"\r\n")[2] if taken.startswith(b"INFO") else taken

    # What the pump asks.

    def connected(self, pump: Pump, transport: asyncio.Transport) -> None:
        raise AssertionError("begin was called already")

    def disconnected(self, pump: Pump) -> None:
        self.disconnections += 1

    def authenticate(self, pump: Pump) -> None:
        self.authentications += 1
