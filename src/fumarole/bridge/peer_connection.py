"""One peer of the ROUTER: moves bytes between a socket and its protocol, and messages between that and the router.

What comes is handled in turns: a peer that always has more to say gives way to the others, and is not read meanwhile.
What goes out waits in an outbox of bounded size, and never makes the bridge wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Final, Protocol, cast

from fumarole.bridge.operations import ERROR
from fumarole.bridge.zmtp import Event, Received, ServerProtocol
from fumarole.core.limits import KIB, MIB

BATCH: Final = 200
"""Messages that are decoded at a time."""
READ_BUFFER: Final = 64 * KIB
WRITE_BUFFER: Final = 64 * KIB
"""Bytes that are given to the socket at a time."""
OUTBOX: Final = 4 * MIB
"""Bytes that wait for a slow peer; a single message may have more."""
HANDSHAKE_SECONDS: Final = 2.0
HEARTBEAT_SECONDS: Final = 10.0
"""Silence after which the peer gets a PING."""
DEAD_SECONDS: Final = 30.0
"""Silence after which it is gone."""
REASON_SECONDS: Final = 1.0
"""Seconds for a disconnected peer to read the reason."""


class Owner(Protocol):
    """The part of the router that a connection uses."""

    waiting: int
    """Messages that may wait for one peer."""

    def connected(self, connection: Connection) -> None: ...
    def opened(self, connection: Connection, identity: bytes) -> bool: ...
    def disconnected(self, connection: Connection) -> None: ...
    def receive(self, client: bytes, parts: list[bytes], /) -> None: ...
    def hold(self, connection: Connection, size: int) -> None: ...
    def turn_is_over(self) -> bool: ...
    def wait_for_turn(self, connection: Connection) -> None: ...
    def flush_soon(self, connection: Connection) -> None: ...
    def cut_off(self, connection: Connection, reason: str) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One peer."""

    def __init__(self, router: Owner, protocol: ServerProtocol) -> None:
        self.identity = b""
        self.peer = ""
        self.held = 0
        self.held_since = 0.0
        self.ended = False
        """Nothing more is read of it."""
        self._router = router
        self._protocol = protocol
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._events: deque[Event] = deque()
        self._outbox: deque[tuple[bytes, ...]] = deque()
        self._outbox_size = 0
        self._flush_due = False
        self._writable = True
        self._reading = True
        self._opened_at = self._heard = time.monotonic()
        self._asked = False
        self._end_at: float | None = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "this machine"
        self._router.connected(self)
        self.flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard, self._asked = time.monotonic(), False
        self._protocol.receive_data(bytes(_buffer[:nbytes]))
        if self._router.turn_is_over():
            self._give_way()
        else:
            self.go_on()

    def eof_received(self) -> bool:
        self._protocol.receive_eof()
        return False

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.ended = True
        self._events.clear()
        self._outbox.clear()
        self._router.disconnected(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self.flush()

    # From the peer.

    def go_on(self) -> None:
        """Handles some of what has come. If there is more, that waits for the next turn."""
        if self.ended:
            return
        router, protocol, events = self._router, self._protocol, self._events
        if not events:
            events.extend(protocol.events_received(BATCH))
        while events and not router.turn_is_over():
            event = events.popleft()
            if isinstance(event, Received):
                router.receive(self.identity, event.parts)
            elif not router.opened(self, event.identity):
                self.fail("its identity is another connection's")
                return
        self._note_held()
        if events or protocol.unfinished:
            self._give_way()
        elif protocol.close_expected():
            self.fail(protocol.fault)
        elif not self._reading:
            self._reading = True
            self._transport.resume_reading()
        self._write_soon()

    def _note_held(self) -> None:
        """Tells the router how much memory the message takes that is not whole yet; that may be too much for it."""
        held = self._protocol.held
        if held != self.held:
            if not self.held:
                self.held_since = self._heard
            self._router.hold(self, held)

    def _give_way(self) -> None:
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._router.wait_for_turn(self)

    # To the peer.

    @property
    def waiting(self) -> bool:
        """True when bytes wait to be sent."""
        return bool(self._outbox) or self._transport.get_write_buffer_size() > 0

    def put(self, parts: tuple[bytes, ...]) -> bool:
        """A message for the peer. False: too much waits for it already."""
        size = sum(map(len, parts))
        if len(self._outbox) >= self._router.waiting or (self._outbox and self._outbox_size + size > OUTBOX):
            return False
        self._outbox.append(parts)
        self._outbox_size += size
        self._write_soon()
        return True

    def _write_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._router.flush_soon(self)

    def flush(self) -> None:
        """Gives the socket what it takes. What it does not take at once stays in the outbox."""
        self._flush_due = False
        protocol, outbox, transport = self._protocol, self._outbox, self._transport
        while self._writable and not transport.is_closing():
            size = 0
            while outbox and size < WRITE_BUFFER:
                parts = outbox.popleft()
                size += sum(map(len, parts))
                protocol.send_message(parts)
            self._outbox_size -= size
            data = protocol.data_to_send()
            if not data:
                return
            transport.write(data)

    # By the clock, and the end.

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._end_at is not None:
            if now >= self._end_at:
                self.abort()
        elif not self._protocol.opened:
            if now - self._opened_at > HANDSHAKE_SECONDS:
                self.fail("its handshake takes too long")
        elif self._protocol.heartbeats and self._reading:
            silence = now - self._heard
            if silence > DEAD_SECONDS:
                self.abort()
            elif silence > HEARTBEAT_SECONDS and not self._asked:
                self._asked = True
                self._protocol.ping()
                self._write_soon()

    def fail(self, reason: str) -> None:
        """Ends it. After the handshake the peer gets the reason, and a moment to read it; its bytes are not read."""
        if self.ended:
            return
        self.ended = True
        if reason:
            self._router.cut_off(self, reason)
        self._router.hold(self, 0)
        self._events.clear()
        self._protocol.abandon()
        if reason and self._protocol.opened:
            self._protocol.send_message((ERROR, f"{reason}; the connection is closed".encode()))
        self.flush()
        self._end_at = time.monotonic() + REASON_SECONDS
        if self._reading:
            self._transport.pause_reading()
        with contextlib.suppress(OSError, NotImplementedError):
            self._transport.write_eof()

    def abort(self) -> None:
        """At once."""
        self._transport.abort()


_buffer = memoryview(bytearray(READ_BUFFER))
"""All connections are read into it, one after the other."""
