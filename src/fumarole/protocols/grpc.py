"""gRPC, the server's end: calls and their messages, in frames of HTTP/2. Bytes in, events out; no meaning.

HTTP/2's states, its headers and the windows of what leaves are h2's (docs/decisions/h2.md). One path is ours, because
nearly all bytes take it: DATA frames of calls that are open. They are not shown to h2, which would make several
objects of each.

    client                                   events
    HEADERS 1  POST /kubemq.kubemq/…         Call(1, "/kubemq.kubemq/…", {"authorization": …})
    DATA 1     0 00000009 <9 bytes>          Message(1, <9 bytes>)         five bytes before each: compressed?, length
    DATA 1     (END_STREAM)                  Ended(1)
    RST_STREAM 1                             Cancelled(1)

What h2 does not see it does not count: to h2 the windows of what arrives stay full, and this module gives back by
itself what it has taken, as soon as that is half of a window. A client that sends more than its windows allow gains
nothing: what is kept of its data is bounded by itself.

Bounds: a message, all messages half received, header bytes, calls at once (each a limit); and frames that cost the
server more than the client (PING, SETTINGS, RST_STREAM, PRIORITY, empty DATA) are paid from an allowance that grows
with time. A client that overdraws it is told ENHANCE_YOUR_CALM. CONTINUATION frames are bounded by h2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from fumarole.protocols.stream import End, Fault, StreamProtocol

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = 9
"""Bytes before the payload of a frame: length, kind, flags, stream."""
LARGEST_FRAME: Final = 16_384
DATA, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 2, 3, 4, 6, 8
END_STREAM, ACK, PADDED = 1, 1, 8
CONNECTION_WINDOW: Final = 4 * 1024 * 1024
STREAM_WINDOW: Final = 1024 * 1024
FIRST_WINDOW: Final = 65_535
"""Of a connection, before it is enlarged."""
PREFIX: Final = 5
"""Bytes before each message."""
FRAMES_AT_ONCE: Final = 50
"""Frames that h2 looks at before others have their turn: a few milliseconds."""
ALLOWANCE: Final = 4_000
"""Frames that cost more here than there, at once."""
ALLOWANCE_A_SECOND: Final = 1_000
LONGEST_REASON: Final = 1_024

OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 3, 8, 12
TOO_LARGE: Final = "the message is larger than {} bytes, the most that is read here"
COMPRESSED: Final = "compressed messages are not understood here"
TOO_MANY_HALVES: Final = "too many messages of this connection are half received"
TOO_MANY_HEADERS: Final = "more than {} bytes of metadata"


class Call(NamedTuple):
    """A call begins."""

    stream: int
    path: str
    metadata: dict[str, str]


class Message(NamedTuple):
    stream: int
    data: bytes


class Ended(NamedTuple):
    """The client has sent the last message of the call."""

    stream: int


class Cancelled(NamedTuple):
    """The call is over: the client wants no answer, or has been refused one."""

    stream: int


class Room(NamedTuple):
    """There may be room again for what waits to leave."""


class Looked(NamedTuple):
    """So many frames were looked at, and perhaps there are more."""

    frames: int


Operation = Call | Message | Ended | Cancelled | Room | Looked


class Bounds(NamedTuple):
    message: int
    halves: int
    """Bytes of all messages that are half received."""
    calls: int
    metadata: int


class _Incoming:
    """What has come of a call and is not yet a message."""

    __slots__ = ("data", "needed", "untold")

    def __init__(self) -> None:
        self.data = bytearray()
        self.needed = PREFIX
        self.untold = 0
        """Bytes taken from the stream's window and not yet given back."""


class GrpcServer(StreamProtocol[Operation]):
    """One connection."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._bounds = bounds
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._http.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: bounds.calls,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: bounds.metadata,
                SettingCodes.MAX_FRAME_SIZE: LARGEST_FRAME,
            },
        )
        self._greeted = False
        self._incoming: dict[int, _Incoming] = {}
        """Calls that may still send."""
        self._answered: set[int] = set()
        """Calls of which the head of the answer has left."""
        self._halves = 0
        self._untold = 0
        """Bytes taken from the connection's window and not yet given back."""
        self._allowance = float(ALLOWANCE)
        self.size = 0
        """Bytes that wait in `data_to_send`."""
        self._needed = len(PREFACE)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(CONNECTION_WINDOW - FIRST_WINDOW)
        self._emit()

    # In.

    def _parse(self, events: list[Operation | End]) -> int:
        """Whole frames, until there is something to say or h2 has looked at enough of them."""
        pending = self._pending
        at, looked = 0, 0
        try:
            if not self._greeted:
                at = self._greet()
            while len(pending) - at >= HEAD:
                size = pending[at] << 16 | pending[at + 1] << 8 | pending[at + 2]
                kind, flags = pending[at + 3], pending[at + 4]
                end = at + HEAD + size
                if size > LARGEST_FRAME:
                    end = len(pending)  # h2 finds the fault in its head
                elif end > len(pending):
                    break
                if kind == DATA and not flags & PADDED:
                    stream = int.from_bytes(pending[at + 5 : at + HEAD]) & 0x7FFF_FFFF
                    incoming = self._incoming.get(stream)
                    if incoming is not None:
                        self._take_data(stream, incoming, bytes(pending[at + HEAD : end]), events)
                        if not size:
                            self._charge()
                        if flags & END_STREAM:
                            self._to_http(_frame(DATA, END_STREAM, stream, b""), events)
                            looked += 1
                        at = end
                        if looked >= FRAMES_AT_ONCE or len(events) >= FRAMES_AT_ONCE:
                            break
                        continue
                if kind in _COSTLY and not (flags & ACK and kind in (SETTINGS, PING)):
                    self._charge()
                self._to_http(bytes(pending[at:end]), events)
                at = end
                looked += 1
                if looked >= FRAMES_AT_ONCE:
                    break
        except ProtocolError as error:
            raise Fault(f"{type(error).__name__}: {error}") from None
        self._emit()
        if looked:
            events.append(Looked(looked))
        rest = len(pending) - at
        self._needed = HEAD if rest < HEAD else HEAD + int.from_bytes(pending[at : at + 3])
        return at

    def _greet(self) -> int:
        """The client's first bytes."""
        if not self._pending.startswith(PREFACE):
            raise Fault("this is not HTTP/2")
        self._http.receive_data(PREFACE)
        self._greeted = True
        return len(PREFACE)

    def _take_data(self, stream: int, incoming: _Incoming, data: bytes, events: list[Operation | End]) -> None:
        """Messages, or parts of them, whose windows are counted here."""
        self._untold += len(data)
        incoming.untold += len(data)
        if incoming.untold > STREAM_WINDOW // 2:
            self._write(_frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", incoming.untold)))
            incoming.untold = 0
        if self._untold > CONNECTION_WINDOW // 2:
            self._write(_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", self._untold)))
            self._untold = 0
        self._take_messages(stream, incoming, data, events)

    def _take_messages(self, stream: int, incoming: _Incoming, data: bytes, events: list[Operation | End]) -> None:
        held = len(incoming.data)
        if held:
            incoming.data += data
            self._halves += len(data)
            if len(incoming.data) < incoming.needed:
                if self._halves > self._bounds.halves:
                    self._refuse(stream, RESOURCE_EXHAUSTED, TOO_MANY_HALVES, events)
                return
            data = bytes(incoming.data)
            self._halves -= len(data)
            incoming.data.clear()
        at, length = 0, len(data)
        while length - at >= PREFIX:
            size = int.from_bytes(data[at + 1 : at + PREFIX])
            if data[at]:
                self._refuse(stream, UNIMPLEMENTED, COMPRESSED, events)
                return
            if size > self._bounds.message:
                self._refuse(stream, RESOURCE_EXHAUSTED, TOO_LARGE.format(self._bounds.message), events)
                return
            following = at + PREFIX + size
            if following > length:
                break
            events.append(Message(stream, data[at + PREFIX : following]))
            at = following
        rest = length - at
        if rest:
            incoming.data += data[at:]
            incoming.needed = PREFIX if rest < PREFIX else PREFIX + int.from_bytes(data[at + 1 : at + PREFIX])
            self._halves += rest
            if self._halves > self._bounds.halves:
                self._refuse(stream, RESOURCE_EXHAUSTED, TOO_MANY_HALVES, events)

    def _refuse(self, stream: int, status: int, text: str, events: list[Operation | End]) -> None:
        """Nothing more is heard of this call."""
        self.finish(stream, status, text)
        events.append(Cancelled(stream))

    def _to_http(self, frame: bytes, events: list[Operation | End]) -> None:
        for event in self._http.receive_data(frame):
            take = _TAKEN.get(type(event))
            if take is not None:
                take(self, event, events)

    def _begin(self, event: RequestReceived, events: list[Operation | End]) -> None:
        stream = event.stream_id
        assert stream is not None
        found: dict[str, str] = {}
        size = 0
        for name, value in event.headers or ():
            found[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
            size += len(name) + len(value) + 32
        self._incoming[stream] = _Incoming()
        if not found.get("content-type", "").startswith("application/grpc"):
            self._http.send_headers(stream, [(":status", "415")], end_stream=True)
            self._end_both(stream)
        elif size > self._bounds.metadata:
            self.finish(stream, RESOURCE_EXHAUSTED, TOO_MANY_HEADERS.format(self._bounds.metadata))
        else:
            events.append(Call(stream, found.get(":path", ""), found))

    def _data(self, event: DataReceived, events: list[Operation | End]) -> None:
        """Data that h2 has seen and counted: padded, or the end of a call."""
        stream = event.stream_id
        assert stream is not None
        taken = event.flow_controlled_length
        if taken:
            self._say(lambda: self._http.acknowledge_received_data(taken, stream))
        incoming = self._incoming.get(stream)
        if incoming is not None and event.data:
            self._take_messages(stream, incoming, event.data, events)

    def _end(self, event: StreamEnded, events: list[Operation | End]) -> None:
        assert event.stream_id is not None
        if self._forget(event.stream_id):
            events.append(Ended(event.stream_id))

    def _reset(self, event: StreamReset, events: list[Operation | End]) -> None:
        assert event.stream_id is not None
        self._forget(event.stream_id)
        self._answered.discard(event.stream_id)
        events.append(Cancelled(event.stream_id))

    def _room(self, _event: Event, events: list[Operation | End]) -> None:
        if not events or type(events[-1]) is not Room:
            events.append(Room())

    def _forget(self, stream: int) -> bool:
        """The client sends no more in this call. False: that was known."""
        incoming = self._incoming.pop(stream, None)
        if incoming is None:
            return False
        self._halves -= len(incoming.data)
        return True

    def _charge(self) -> None:
        self._allowance -= 1
        if self._allowance < 0:
            raise Fault("too many frames that say nothing")

    # Out.

    def room(self, stream: int) -> int:
        """Bytes that may leave in this call now."""
        try:
            return max(self._http.local_flow_control_window(stream), 0)
        except ProtocolError:
            return 0

    def begin_answer(self, stream: int) -> None:
        """The head of the answer: messages may follow."""
        self._answered.add(stream)
        self._say(lambda: self._http.send_headers(stream, _ANSWER))

    def send(self, stream: int, data: bytes) -> None:
        """Messages with their prefixes, or a piece of them; not more than there is room for."""
        largest = self._http.max_outbound_frame_size
        for at in range(0, len(data), largest):
            self._http.send_data(stream, data[at : at + largest])
        self._emit()

    def finish(self, stream: int, status: int, text: str = "") -> None:
        """The end of the call, and how it went. What the client still sends is not heard."""
        trailers = [("grpc-status", str(status))]
        if text:
            trailers.append(("grpc-message", quote(text[:LONGEST_REASON], safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")))
        headers = trailers if stream in self._answered else _ANSWER + trailers
        self._answered.discard(stream)
        self._say(lambda: self._http.send_headers(stream, headers, end_stream=True))
        self._end_both(stream)

    def _end_both(self, stream: int) -> None:
        if self._forget(stream):
            self._say(lambda: self._http.reset_stream(stream, ErrorCodes.NO_ERROR))

    def cancel(self, stream: int) -> None:
        """The call ends without a word."""
        self._forget(stream)
        self._answered.discard(stream)
        self._say(lambda: self._http.reset_stream(stream, ErrorCodes.CANCEL))

    def ping(self) -> None:
        """Asks the client for a sign of life."""
        self._say(lambda: self._http.ping(b"fumarole"))

    def refill(self, seconds: float) -> None:
        """So much time has passed."""
        self._allowance = min(self._allowance + seconds * ALLOWANCE_A_SECOND, ALLOWANCE)

    def goodbye(self, text: str = "") -> bytes:
        """The connection ends: in order, or for this reason."""
        return self._error(text) if text else self._goaway(ErrorCodes.NO_ERROR, "")

    def data_to_send(self) -> bytes:
        self.size = 0
        return super().data_to_send()

    def _error(self, text: str) -> bytes:
        code = ErrorCodes.ENHANCE_YOUR_CALM if text.startswith("too many") else ErrorCodes.PROTOCOL_ERROR
        return self._goaway(code, text)

    def _goaway(self, code: ErrorCodes, text: str) -> bytes:
        said = self._http.data_to_send()  # h2 may have said what is wrong already
        if not self._greeted:
            return said
        try:
            self._http.close_connection(code, text.encode()[:LONGEST_REASON])
        except ProtocolError:
            return said
        return said + self._http.data_to_send()

    def _say(self, say: Callable[[], None]) -> None:
        """A call may have ended meanwhile, by the client or the server: then there is nothing to send."""
        try:
            say()
        except ProtocolError:
            return
        self._emit()

    def _emit(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        self.size += len(data)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


_COSTLY: Final = frozenset({PRIORITY, RST_STREAM, SETTINGS, PING})
_ANSWER: Final = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-accept-encoding", "identity")]
_TAKEN: Final[dict[type, Callable[[GrpcServer, Any, list[Operation | End]], None]]] = {
    RequestReceived: GrpcServer._begin,
    DataReceived: GrpcServer._data,
    StreamEnded: GrpcServer._end,
    StreamReset: GrpcServer._reset,
    WindowUpdated: GrpcServer._room,
    RemoteSettingsChanged: GrpcServer._room,
}
