"""The pump: moves bytes between one socket and one session, and does nothing else.

What a connection sends is read into one buffer that all connections share, and goes to its session (or, where there
is a compiler, to the compiled reader in front of it). That fills outboxes, its own and others'; whoever got something
is in the node's `ready` list, and is flushed once when the batch is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol, cast

from fumarole.doors.memory import freed
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox
from fumarole.sessions.reader import Reader
from fumarole.sessions.stream import CONSUMERS_AT_ONCE

CONSUMER_SIZE = 1024
"""Bytes that a consumer takes, all in all."""
READ_BUFFER = 64 * 1024
SMALLEST_READ = 4 * 1024
LONG_BATCH = 0.02
"""Seconds. Where a buffer of messages to very many consumers takes longer, less is read at a time: others wait too."""
WRITE_CHUNK = 128 * 1024
"""Bytes: more than what a read becomes on its way out."""
REST_CHUNK = 64 * 1024
"""Bytes of what the socket did not take."""
LARGE_BATCH = 4 * 1024
"""Bytes read. Smaller ones, of many connections in one turn of the loop, are flushed together."""
SAME_TURN = 5e-6
"""Seconds between two reads that are of one turn: less than it takes to wait for anything."""
QUIET = 0.0005
"""Seconds without a read: this process may have waited for a processor, and what comes now for long in the socket."""
CLOSE_DEADLINE = 5.0
"""Seconds that a closed session's last words may take to leave."""
LINGER = 1.0
"""Seconds for the peer to close as well: a socket closed before it was read empty takes our last words back."""


class Session(Reader, Protocol):
    """What the pump needs of a session."""

    outbox: Outbox
    claim: Any

    def receive_eof(self) -> None: ...
    def close_expected(self) -> bool: ...
    def tick(self, now: float) -> None: ...
    def fail(self, text: str) -> None: ...
    def close(self) -> None: ...
    def forget(self) -> bool: ...


class Pump(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, node: Node, door: PumpOwner, adopted: bool = False) -> None:
        self._node = node
        self._door = door
        self.adopted = adopted
        """Did another process give it to this one?"""
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.session: Session = cast(Session, None)
        self._reader: Reader = cast(Reader, None)
        self._outbox: Outbox = cast(Outbox, None)
        self._send: Callable[[], bool] | None = None
        self._read_size = READ_BUFFER
        self._gives_way = False
        self._busy = 0.0
        self._paused = False
        self._early: bytearray | None = None
        """Bytes that came over TLS before `upgraded`: a client may send them with the end of its handshake."""
        self._ended = False
        self._lost = False
        self._peer_ended = False
        self._linger_until: float | None = None
        self.close_by: float | None = None
        """When a closed session's last words must have left: set by the door, else by the first tick afterwards."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.session is None:
            self._door.connected(self, self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return _buffer[: self._read_size]

    def buffer_updated(self, nbytes: int) -> None:
        if self.session is None:
            return
        if self._early is not None:
            self._early += _buffer[:nbytes]
        else:
            self._take_in(_buffer[:nbytes])

    def _take_in(self, data: memoryview | bytearray) -> None:
        began = monotonic()
        if began > self._node.late_after:
            self._node.wake(began)
        elif began - _turn.read_at > QUIET:
            self._node.look()
        self._reader.receive_data(data)
        self._after_work(began, alone=len(data) >= LARGE_BATCH or began - _turn.read_at > SAME_TURN)

    def _after_work(self, began: float, alone: bool = True) -> None:
        if self.session.claim is not None:
            self._transport.pause_reading()
            self._door.authenticate(self)
        if alone:
            flush(self._node.ready)
        else:
            _turn.flush_at_its_end(self._node.ready)
        _turn.read_at = monotonic()
        took = _turn.read_at - began
        self._node.batch_done()
        if took > LONG_BATCH and self._read_size > SMALLEST_READ:
            self._read_size //= 2
        elif took < LONG_BATCH / 4 and self._read_size < READ_BUFFER:
            self._read_size *= 2
        self._busy += took
        if self._busy > LONG_BATCH or self._reader.unfinished:
            self._give_way()

    def _give_way(self) -> None:
        """A connection that always has more to read is read many times in a row; now it is the others' turn."""
        self._busy = 0.0
        if self.session.claim is None and not self._gives_way and not self._transport.is_closing():
            self._gives_way = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._gives_way = False
        if self._transport.is_closing():
            return
        if self._reader.unfinished:
            began = monotonic()
            self._reader.go_on()
            self._after_work(began)
        if self.session.claim is None and not self._gives_way:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        if self.session is None:
            return False
        self._peer_ended = True
        while self._reader.unfinished:
            self._reader.go_on()
        self.session.receive_eof()
        if self.session.close_expected():
            self._node.ready.append(self)
        flush(self._node.ready)
        return self._transport.can_write_eof()  # not over TLS, where half a connection cannot be

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._paused = True
        if self._lost:  # where a TLS handshake fails, uvloop may say so after the door has found out
            return
        self._lost = True
        if self.session is not None:
            self.session.close()
            self._door.disconnected(self)
            freed(self._outbox.size)
            self._outbox.clear()
            self._reader = self.session  # the compiled reader knows plans of a namespace that may end now
            self._forget()
            flush(self._node.ready)

    def _forget(self) -> None:
        if not self.session.forget():
            freed(CONSUMERS_AT_ONCE * CONSUMER_SIZE)
            asyncio.get_running_loop().call_soon(self._forget)
        else:
            # Pump, session and outbox hold on to one another. Where there are very many consumers, the collector of
            # cycles must not be needed often: it would stop everything for seconds.
            self._outbox.owner = GONE

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.flush()

    # What the door calls.

    def begin(self, session: Session, reader: Reader, send: Callable[[], bool] | None) -> None:
        """The connection has its session. `send` writes the outbox to the socket; False: it would not take all."""
        self.session = session
        self._reader = reader
        self._outbox = session.outbox
        self._send = send
        # With `send`, the transport is only used for what the socket did not take, and tells when it is gone.
        self._transport.set_write_buffer_limits(high=0 if send else WRITE_CHUNK)
        flush(self._node.ready)

    def upgrade(self) -> None:
        """TLS is about to begin: until `upgraded`, not a byte may leave in plain text, and none is listened to."""
        self._paused = True
        self._early = bytearray()

    def spoke_early(self) -> bool:
        """Has the peer said something since `upgrade`? What came before TLS was in plain text, from anybody."""
        return bool(self._early)

    def upgraded(self, transport: asyncio.Transport) -> None:
        """TLS has begun on this connection."""
        early, self._early = self._early, None
        self._transport = transport
        self._paused = False
        transport.set_write_buffer_limits(high=WRITE_CHUNK)
        if early:
            self._take_in(early)
        self.flush()

    def admitted(self) -> None:
        """The claim was looked at."""
        self._go_on()
        flush(self._node.ready)

    def flush(self) -> None:
        """Sends what the outbox has and the socket takes."""
        outbox = self._outbox
        if outbox.overflowed:
            self._node.slow_consumers += not self.session.close_expected()
            self.session.fail("Slow Consumer")
        while outbox.size and not self._paused:
            if self._send is not None and self._send():
                break
            self._transport.write(outbox.take(WRITE_CHUNK if self._send is None else REST_CHUNK))
        if not outbox.size and not self._paused and self.session.close_expected():
            self._end()

    def _end(self) -> None:
        if self._peer_ended or not self._transport.can_write_eof():
            self._transport.close()
        elif not self._ended:
            self._ended = True
            self._transport.write_eof()

    def tick(self, now: float) -> None:
        """Time passes."""
        self.session.tick(now)
        if not self.session.close_expected():
            return
        if self.close_by is None:
            self.close_by = now + CLOSE_DEADLINE
        if self._ended and self._linger_until is None:
            self._linger_until = now + LINGER
        if now > self.close_by or (self._linger_until is not None and now > self._linger_until):
            self._transport.abort()

    def abort(self) -> None:
        """Ends the connection at once."""
        self._transport.abort()


class PumpOwner(Protocol):
    """What a pump asks of its door."""

    def connected(self, pump: Pump, transport: asyncio.Transport) -> None: ...
    def disconnected(self, pump: Pump) -> None: ...
    def authenticate(self, pump: Pump) -> None: ...


class _Gone:
    """The owner of an outbox whose connection is over."""

    def flush(self) -> None:
        """There is nobody to send anything to."""


GONE = _Gone()

# One for all connections: the loop is one thread, and what is read is taken in before anything else is read.
_buffer = memoryview(bytearray(READ_BUFFER))


class _Turn:
    """A turn of the loop: everybody who has something to say is read once."""

    def __init__(self) -> None:
        self.read_at = 0.0
        self._flush_is_due = False

    def flush_at_its_end(self, ready: list[Any]) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush, ready)

    def _flush(self, ready: list[Any]) -> None:
        self._flush_is_due = False
        flush(ready)


_turn = _Turn()


def flush(ready: list[Any]) -> None:
    """Flushes every connection that got something. Flushing may close, and closing may make others ready."""
    while ready:
        pumps = ready[:]
        ready.clear()
        for pump in pumps:
            pump.flush()
