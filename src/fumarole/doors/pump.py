"""The pump moves bytes between one socket and one session. Client connections and node links have the same pump.

It promises:

- The reader gets every byte once, in order. Nothing is read while the reader has unfinished work, while a claim is
  verified, while other connections have their turn, or while a batch is put off.
- The outbox leaves in order. What the socket does not take stays in the outbox, which is bounded (D6); the transport
  holds one chunk at most.
- A closed session gets no more bytes. Its outbox is sent or discarded, and then the connection ends,
  within a deadline.
- A connection is connected once and disconnected once. Afterwards nothing is sent.

All else is policy, and each policy is an object of its own, beside this module:

    may this batch be taken in now                 standstill.py
    how much is read at a time                     read_size.py
    when filled outboxes are flushed               flushing.py
    whether the loop polls or sleeps afterwards    busy_poll.py
    when other connections are read instead        turn_taking.py
    when a batch is put off                        turn_limit.py
    what an overflowing outbox leads to            slow_consumers.py
    how the connection ends                        closing.py
    when an ended connection is taken apart        ending.py
    what happens to what it held                   release.py

`Policies` names those of one kind of connection: doors/stream.py has the clients', cluster/peer_link.py the links'.

One read of a busy publisher, as an example. The loop asks for memory and gets 128 KiB, which all clients share. The
kernel fills 64 KiB: 992 times `PUB volcanoes.usa.atka 37␍␊…␍␊`, 66 bytes each, and the first 64 bytes of the next.

1. The last batch was done 20 µs ago, so this process has not stood still.
2. The reader routes 992 messages to three consumers and keeps the 64 bytes. The outboxes of the three were empty, so
   their pumps are now in the node's `ready` list.
3. The batch is large: the outboxes are flushed at once, each with one system call. One socket takes half of its 66 KiB.
   The other half goes to the transport, and that pump sends nothing more until `resume_writing`.
4. All of that took 0.4 ms: the read size stays. The loop will poll for 300 µs, because more may come.
5. More does come. Now the publisher has used more than 0.5 ms of the loop: the others are read once, then it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, Protocol, cast

from fumarole.doors.closing import Closing
from fumarole.doors.ending import Ending
from fumarole.doors.flushing import LARGE_BATCH, Flushing
from fumarole.doors.read_size import LONG_BATCH, ReadSize
from fumarole.doors.turn_limit import TurnLimit
from fumarole.doors.turn_taking import TURN, TurnTaking
from fumarole.exchange.outbox import Outbox
from fumarole.protocols.stream import Data
from fumarole.sessions.reader import Reader


class Session(Reader, Protocol):
    """The part of a session or a lane that the pump uses."""

    outbox: Outbox
    claim: Any
    waits_for_room: bool
    """Call `refill` once the outbox is empty."""

    def receive_eof(self) -> None: ...
    def close_expected(self) -> bool: ...
    def tick(self, now: float) -> None: ...
    def fail(self, text: str) -> None: ...
    def close(self) -> None: ...
    def refill(self) -> None: ...


class SendingOutbox(Protocol):
    """The part of an outbox that the pump uses. `send` and `cut` are there only where it is compiled."""

    size: int
    overflowed: bool

    def take(self, most: int) -> bytes: ...

    def send(self, descriptor: int) -> bool:
        """Writes to the socket what it takes. True: the outbox is empty."""

    def cut(self, most: int) -> bytes:
        """The same as `take`, but of a longer frame no more than the beginning."""


class Framing(Protocol):
    """The framing between a session and the bytes of its connection: WebSocket."""

    def wrap(self, data: bytes) -> bytes:
        """These bytes as they leave."""

    def last(self) -> bytes:
        """The last bytes of the connection. Empty if they were sent before."""


class Policies(NamedTuple):
    """The policies of a kind of connections. All connections of a kind share one."""

    ready: list[Any]
    """The node's: owners of filled outboxes."""
    before_batch: Callable[[float], None]
    flushing: Flushing
    batch_done: Callable[[], None]
    """A batch was taken in and answered; the loop may poll for the next."""
    read_size: ReadSize
    write_chunk: int
    """Bytes that the transport gets at a time: more than what a read becomes on its way out."""
    rest_chunk: int
    """The same where outboxes are written to the socket, and the transport only gets what it did not take."""
    closing: Callable[[Any], Closing]
    """The policy for the end of the connection of this session."""
    ending: Ending
    turn_limit: TurnLimit
    cut: Callable[[Any], None]
    """Ends a session whose outbox has overflowed."""
    release: Callable[[Any], None]
    """The connection of this session is gone."""


class Pump(asyncio.BufferedProtocol):
    """One connection. The owner of its session's outbox."""

    __slots__ = (
        "__weakref__",
        "_batch_done",
        "_before_batch",
        "_chunk",
        "_closing",
        "_descriptor",
        "_early",
        "_ended",
        "_flushing",
        "_framing",
        "_hears",
        "_left",
        "_limit",
        "_lost",
        "_outbox",
        "_over",
        "_owner",
        "_paused",
        "_policies",
        "_read_size",
        "_reader",
        "_sends",
        "_transport",
        "_turns",
        "session",
    )

    def __init__(self, owner: PumpOwner, policies: Policies) -> None:
        self._owner = owner
        self._policies = policies
        self._before_batch = policies.before_batch
        self._flushing = policies.flushing
        self._batch_done = policies.batch_done
        self._read_size = policies.read_size
        self._limit = policies.turn_limit
        self._turns = TurnTaking()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.session: Session = cast(Session, None)
        self._closing: Closing | None = None
        self._reader: Reader = cast(Reader, None)
        self._outbox: SendingOutbox = cast(SendingOutbox, None)
        self._descriptor = -1
        self._sends = False
        """Does the outbox write to the socket itself? Compiled ones can."""
        self._framing: Framing | None = None
        self._chunk = 0
        self._hears = False
        self._early: bytearray | None = None
        """Bytes that were read too early: over TLS before `upgraded`, since a client may send them with the end of its
        handshake, or when the turn was over."""
        self._left = LARGE_BATCH
        """Bytes that count for the last piece of a batch: those that did not count for the pieces before it."""
        self._paused = False
        self._over = False
        self._lost = False
        self._ended = False

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.session is None:
            self._owner.connected(self, self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._limit.space if self._limit.is_over else self._read_size.space

    def buffer_updated(self, nbytes: int) -> None:
        if self._limit.is_over:
            self._put_off(self._limit.space[:nbytes])
        elif self._hears:
            self._take_in(self._read_size.space[:nbytes])
        elif self._early is not None:
            self._early += self._read_size.space[:nbytes]

    def _take_in(self, data: Data) -> None:
        began = monotonic()
        self._before_batch(began)
        self._reader.receive_data(data)
        self._after_batch(began, len(data))

    def _put_off(self, data: Data) -> None:
        """This turn is over."""
        if self._hears:
            self._transport.pause_reading()
            self._early = bytearray(data)
            self._limit.put_off(self._take_early)
        elif self._early is not None:
            self._early += data

    def _take_early(self) -> None:
        """A batch that was put off has its turn."""
        if self._early is None or self._transport.is_closing():
            return
        if self._reader.unfinished or not self._may_read():
            return  # `_go_on` comes here again
        early, self._early = self._early, None
        self._take_in(early)
        if self._may_read():
            self._transport.resume_reading()

    def _may_read(self) -> bool:
        """No claim is being verified, and no other connection goes first."""
        return self.session.claim is None and not self._turns.gives_way

    def _after_batch(self, began: float, size: int) -> None:
        is_claimed = self.session.claim is not None
        if is_claimed:
            self._transport.pause_reading()
            self._owner.authenticate(self)
        flushing = self._flushing
        if self._reader.unfinished:
            self._left = max(size - LARGE_BATCH, LARGE_BATCH)
            size = LARGE_BATCH
        took = flushing.batch_done(began, size) - began
        self._batch_done()
        if took > LONG_BATCH or self._read_size.is_reduced:
            self._read_size = self._read_size.after(took)
        limit, turns = self._limit, self._turns
        limit.busy += took
        if limit.busy > limit.worth_a_look:
            limit.look()
        turns.busy += took
        must_wait = flushing.must_wait()
        if must_wait or turns.busy > TURN or self._reader.unfinished:
            turns.busy = 0.0
            if not is_claimed:
                turns.give_way(self._transport, self._go_on, flushing.when_flushed if must_wait else None)

    def _go_on(self) -> None:
        """The others have had their turn, or a claim was verified."""
        turns = self._turns
        turns.gives_way = False
        if self._transport.is_closing():
            return
        if self._reader.unfinished:
            began = monotonic()
            self._reader.go_on()
            self._after_batch(began, self._left)
        if self._may_read():
            if self._early is not None and self._hears:
                self._take_early()
            else:
                self._transport.resume_reading()

    def eof_received(self) -> bool:
        if self.session is None:
            return False
        stays_open = self.closing.receive_eof(self._transport)
        if stays_open:
            self._policies.ending.take(self._receive_eof)
        else:
            self._receive_eof()
        return stays_open

    def _receive_eof(self) -> None:
        if self._ended:
            return
        if self._hears and self._early:  # the end came with a batch that was put off: TLS reports both at once
            early, self._early = self._early, None
            self._reader.receive_data(early)
        while self._reader.unfinished:
            self._reader.go_on()
        self.session.receive_eof()
        if self.session.close_expected():
            self._policies.ready.append(self)
        self._flushing.flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._paused = self._over = True
        if self._lost or self.session is None:  # uvloop may report a failed TLS handshake after the door did
            return
        self._lost = True
        self._policies.ending.take(self._end)

    def _end(self) -> None:
        self._ended = True
        self._owner.disconnected(self)
        self.session.close()
        self._reader = self.session  # the compiled reader knows plans of a namespace that may end now
        self._policies.release(self.session)
        self._flushing.flush()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        if not self._over:
            self._paused = False
            self.flush()

    # What the owner calls.

    @property
    def closing(self) -> Closing:
        """The end of this connection. Made when it is needed, because most connections are open."""
        if self._closing is None:
            self._closing = self._policies.closing(self.session)
        return self._closing

    def begin(self, session: Session, reader: Reader, descriptor: int = -1, framing: Framing | None = None) -> None:
        """The connection has its session. `descriptor` is its socket's; -1 where TLS or a framing is between it and the
        outbox."""
        self.session = session
        self._framing = framing
        self._reader = reader
        self._descriptor = descriptor
        self.adopt(session.outbox)
        self._hears = True
        self._flushing.flush()

    def renewed(self) -> None:
        """Renews the compiled reader's copy of session state that has changed."""
        renew = getattr(self._reader, "renew", None)
        if renew is not None and self._reader is not self.session:
            renew()
        if self.session.close_expected() or self._outbox.size:
            self._policies.ready.append(self)

    def adopt(self, outbox: Outbox) -> None:
        """From now on this outbox leaves here."""
        self._outbox = cast(SendingOutbox, outbox)
        self._sends = self._descriptor >= 0 and hasattr(outbox, "send")
        self._chunk = self._policies.rest_chunk if self._sends else self._policies.write_chunk
        # With `send` the transport has only the bytes that the socket did not take, and reports when they have left.
        self._transport.set_write_buffer_limits(high=0 if self._sends else self._chunk)

    def upgrade(self) -> None:
        """TLS is about to begin. Until `upgraded`, nothing is sent in plain text, and nothing is read."""
        self._paused = True
        self._hears = False
        self._early = bytearray()

    def spoke_early(self) -> bool:
        """True when the peer has sent bytes since `upgrade`: in plain text, before TLS, perhaps from an attacker."""
        return bool(self._early)

    def upgraded(self, transport: asyncio.Transport) -> None:
        """TLS has begun on this connection."""
        early, self._early = self._early, None
        self._transport = transport
        self._paused = False
        self._hears = True
        transport.set_write_buffer_limits(high=self._chunk)
        if early:
            began = monotonic()
            self._reader.receive_data(early)
            self._after_batch(began, len(early))
        self.flush()

    def write_now(self, data: bytes) -> None:
        """These bytes leave before what is in the outbox. There are few of them."""
        if data and not self._over:
            self._transport.write(data)

    def write_if_free(self, data: bytes) -> None:
        """The same, unless the peer is slow to take what was sent before: then they are dropped."""
        if not self._paused:
            self.write_now(data)

    def admitted(self) -> None:
        """The claim was verified, or what was waited for is there."""
        if not self._turns.gives_way:
            self._go_on()
        self._flushing.flush()

    def flush(self) -> None:
        """Sends what the outbox has and the socket takes."""
        outbox = self._outbox
        if outbox.overflowed:
            self._policies.cut(self.session)
        is_closing = self.session.close_expected()
        if is_closing and self.closing.discards():
            self.abort()
            return
        while outbox.size and not self._paused:
            if self._sends and outbox.send(self._descriptor):
                break
            data = outbox.cut(self._chunk) if self._sends else outbox.take(self._chunk)
            self._transport.write(data if self._framing is None else self._framing.wrap(data))
        if self._paused or outbox.size:
            return
        if is_closing:
            if self._framing is not None and (last := self._framing.last()):
                self._transport.write(last)
            self.closing.finish(self._transport)
        elif self.session.waits_for_room:
            self.session.refill()

    def tick(self, now: float) -> None:
        """Time passes."""
        self.session.tick(now)
        if self.session.close_expected() and self.closing.is_overdue(now):
            self.abort()

    def close(self) -> None:
        """Ends the connection. What is in its transport and its socket still leaves."""
        self._paused = self._over = True
        self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        self._paused = self._over = True
        self.closing.abort(self._transport)


class PumpOwner(Protocol):
    """The part of a door or link that the pump uses."""

    def connected(self, pump: Pump, transport: asyncio.Transport) -> None: ...
    def disconnected(self, pump: Pump) -> None: ...
    def authenticate(self, pump: Pump) -> None: ...
