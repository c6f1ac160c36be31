"""What the protocols on a byte stream share: the five verbs, and operations that are half received.

The verbs are `receive_data`, `receive_eof`, `events_received`, `data_to_send` and `close_expected`. A protocol brings
`_parse`, which makes events of bytes, and `_error`, how it says what was wrong. What breaks the protocol becomes an
error in `data_to_send` and closes; everything else is an event, whose meaning is the session's matter.
"""

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

Data = bytes | bytearray | memoryview


class End(NamedTuple):
    """The peer has sent all it ever will."""


class Fault(Exception):
    """The peer broke the protocol; the text is what it is told before it is cut off."""


Operation = TypeVar("Operation")


class StreamProtocol(ABC, Generic[Operation]):
    """One end of a connection: bytes in, events out."""

    __slots__ = ("_closing", "_ended", "_needed", "_out", "_pending", "_put_back")

    def __init__(self) -> None:
        self._pending = bytearray()
        self._needed = 1
        """Nothing can be made of fewer pending bytes than this."""
        self._put_back: list[Operation | End] | None = None
        self._ended = False
        self._out: list[bytes] = []
        self._closing = False

    def receive_data(self, data: Data) -> None:
        """Bytes from the peer, cut anywhere."""
        if not self._closing:
            self._pending += data

    def receive_eof(self) -> None:
        """The peer has closed its side."""
        self._ended = True

    def events_received(self) -> list[Operation | End]:
        """What the peer has said. There may be more of it: an empty list says that there is not."""
        events, self._put_back = self._put_back or [], None
        if not events and len(self._pending) >= self._needed and not self._closing:
            try:
                end = self._parse(events)
                del self._pending[:end]
            except Fault as fault:
                self.fail(str(fault))
        if self._ended and not events and not self._closing:
            self._closing = True
            events.append(End())
        return events

    def put_back(self, events: list[Operation | End]) -> None:
        """These are to be heard again later."""
        self._put_back = events

    def data_to_send(self) -> bytes:
        """Bytes for the peer."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def close_expected(self) -> bool:
        """After sending, the connection is over."""
        return self._closing

    def fail(self, text: str) -> None:
        """Tells the peer why, and closes."""
        self._out.append(self._error(text))
        self._pending.clear()
        self._closing = True

    @property
    def pending(self) -> int:
        """Bytes that were received and are not yet events."""
        return len(self._pending)

    def wanted(self) -> int:
        """How many more bytes the operation that is half received takes at least."""
        return max(self._needed - len(self._pending), 0) if self._pending else 0

    def reclaim(self) -> bytes:
        """Gives back what was received and not yet made into events: whole operations, and the beginning of one."""
        pending = bytes(self._pending)
        self._pending.clear()
        self._needed = 1
        return pending

    @abstractmethod
    def _parse(self, events: list[Operation | End]) -> int:
        """Makes events of the pending bytes and sets `_needed`. How many bytes are done with; raises Fault."""

    @abstractmethod
    def _error(self, text: str) -> bytes:
        """An error in the words of the protocol."""
