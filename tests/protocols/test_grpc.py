"""gRPC over HTTP/2, the server's end. The client is h2's own, which must accept every byte that the server says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError
from hypothesis import given
from hypothesis import strategies as st

from fumarole.protocols.grpc import (
    ALLOWANCE,
    CONNECTION_WINDOW,
    LARGEST_FRAME,
    PREFACE,
    STREAM_WINDOW,
    Bounds,
    Call,
    Cancelled,
    Ended,
    GrpcServer,
    Looked,
    Message,
    Operation,
    Room,
)
from fumarole.protocols.stream import End
from tests.random_examples import examples

BOUNDS = Bounds(message=100_000, halves=150_000, calls=100, metadata=2_000)
HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/kubemq.kubemq/Ping"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


def message(data: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(data)) + data


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


class Client:
    """h2's, and the server that it speaks to."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.server = GrpcServer(bounds)
        self.http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.http.initiate_connection()
        self.heard: list[Any] = []
        self.events: list[Operation | End] = []

    def exchange(self) -> list[Operation | End]:
        """Both say all that they have to say; what the server made of it, but for `Looked` and `Room`."""
        before = len(self.events)
        while True:
            said = self.http.data_to_send()
            self.server.receive_data(said)
            more = True
            while more:
                more = bool(found := self.server.events_received())
                self.events += [event for event in found if type(event) not in (Looked, Room)]
            answer = self.server.data_to_send()
            if not said and not answer:
                return self.events[before:]
            self.heard += self.http.receive_data(answer)

    def begin(self, **more: str) -> int:
        stream = self.http.get_next_available_stream_id()
        self.http.send_headers(stream, [*HEADERS, *more.items()])
        return stream

    def raw(self, data: bytes) -> list[Operation | End]:
        """Bytes that h2 would not say."""
        self.exchange()
        self.server.receive_data(data)
        events: list[Operation | End] = []
        while found := self.server.events_received():
            events += [event for event in found if type(event) not in (Looked, Room)]
        self.heard += self.http.receive_data(self.server.data_to_send())
        return events

    def heard_of(self, kind: type) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]


def test_a_call_and_its_answer() -> None:
    client = Client()
    stream = client.begin(authorization="secret")
    client.http.send_data(stream, message(b"first") + message(b"") + message(b"third"), end_stream=True)
    call, *rest = client.exchange()
    assert isinstance(call, Call)
    assert (call.stream, call.path, call.metadata["authorization"]) == (stream, "/kubemq.kubemq/Ping", "secret")
    assert rest == [Message(stream, b"first"), Message(stream, b""), Message(stream, b"third"), Ended(stream)]
    client.server.begin_answer(stream)
    client.server.send(stream, message(b"x" * 40_000))
    client.server.finish(stream, 0)
    client.exchange()
    assert dict(client.heard_of(ResponseReceived)[0].headers)[b":status"] == b"200"
    assert b"".join(event.data for event in client.heard_of(DataReceived)) == message(b"x" * 40_000)
    assert dict(client.heard_of(TrailersReceived)[0].headers) == {b"grpc-status": b"0"}


def test_a_refusal_is_one_frame_and_its_text_is_percent_encoded() -> None:
    client = Client()
    stream = client.begin()
    client.exchange()
    client.server.finish(stream, 7, "nicht möglich: 100 %\r\n")
    client.exchange()
    headers = dict(client.heard_of(ResponseReceived)[0].headers)
    assert (headers[b"grpc-status"], headers[b"grpc-message"]) == (b"7", b"nicht m%C3%B6glich: 100 %25%0D%0A")
    assert [event.error_code for event in client.heard_of(StreamReset)] == [ErrorCodes.NO_ERROR]


conversation = st.lists(
    st.one_of(
        st.tuples(st.just("message"), st.integers(0, 3), st.binary(max_size=40)),
        st.tuples(st.just("padded"), st.integers(0, 3), st.binary(max_size=40)),
        st.tuples(st.just("half"), st.integers(0, 3), st.binary(min_size=2, max_size=40)),
        st.tuples(st.sampled_from(["end", "reset", "ping", "empty"]), st.integers(0, 3), st.just(b"")),
    ),
    max_size=25,
)


def said(steps: list[tuple[str, int, bytes]]) -> bytes:
    """The bytes of a client that does this in up to four calls."""
    http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    http.initiate_connection()
    for number in range(4):
        http.send_headers(2 * number + 1, HEADERS)
    out = []
    for what, number, data in steps:
        stream = 2 * number + 1
        try:
            if what == "message":
                http.send_data(stream, message(data))
            elif what == "padded":
                http.send_data(stream, message(data), pad_length=7)
            elif what == "half":
                http.send_data(stream, message(data)[:6])
                http.send_data(stream, message(data)[6:])
            elif what == "end":
                http.end_stream(stream)
            elif what == "reset":
                http.reset_stream(stream)
            elif what == "ping":
                http.ping(b"12345678")
            else:
                http.send_data(stream, b"")
        except ProtocolError:
            pass  # that call was over
        out.append(http.data_to_send())
    return b"".join(out)


def heard(pieces: list[bytes]) -> tuple[list[Operation | End], bytes]:
    server = GrpcServer(BOUNDS)
    events: list[Operation | End] = []
    for piece in pieces:
        server.receive_data(piece)
        while found := server.events_received():
            events += [event for event in found if type(event) not in (Looked, Room)]
    return events, server.data_to_send()


@examples(60)
@given(conversation, st.data())
def test_however_it_is_cut(steps: list[tuple[str, int, bytes]], data: st.DataObject) -> None:
    whole = said(steps)
    expected = heard([whole])
    assert [event for event in expected[0] if isinstance(event, Message)] == [
        Message(2 * number + 1, content)
        for at, (what, number, content) in enumerate(steps)
        if what in ("message", "padded", "half")
        and not any(other in ("end", "reset") and of == number for other, of, _ in steps[:at])
    ]
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    assert heard([whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]) == expected
    assert heard([whole[at : at + 1] for at in range(len(whole))])[0] == expected[0]


def test_windows_are_given_back_for_ever() -> None:
    """A client of h2, which counts each byte, sends ten times the windows in several calls, and is never held up."""
    client = Client()
    streams = [client.begin() for _ in range(3)]
    client.exchange()
    total = 0
    while total < 10 * CONNECTION_WINDOW:
        for stream in streams:
            assert client.http.local_flow_control_window(stream) >= 50_005
            for piece in range(0, 50_005, LARGEST_FRAME):
                client.http.send_data(stream, message(b"x" * 50_000)[piece : piece + LARGEST_FRAME])
            total += 50_005
        assert len(client.exchange()) == len(streams)
    assert STREAM_WINDOW < CONNECTION_WINDOW


BROKEN: dict[str, tuple[bytes, int, str]] = {
    "larger than the limit": (b"\0" + struct.pack(">I", 100_001), 8, "larger than 100000 bytes"),
    "a length beyond all": (b"\0\xff\xff\xff\xff", 8, "larger than"),
    "compressed": (b"\1" + struct.pack(">I", 3) + b"abc", 12, "compressed"),
}


@pytest.mark.parametrize(("data", "status", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_messages_that_end_their_call(data: bytes, status: int, text: str) -> None:
    """And no other call."""
    client = Client()
    stream, other = client.begin(), client.begin()
    client.http.send_data(stream, data)
    client.http.send_data(other, message(b"x"))
    assert client.exchange()[2:] == [Cancelled(stream), Message(other, b"x")]
    headers = dict(client.heard_of(ResponseReceived)[0].headers)
    assert int(headers[b"grpc-status"]) == status
    assert text in headers[b"grpc-message"].decode()
    client.http.send_data(other, message(b"y"))
    assert client.exchange() == [Message(other, b"y")]


def test_messages_half_received_are_bounded_together() -> None:
    client = Client()
    streams = [client.begin() for _ in range(4)]
    client.exchange()
    for stream in streams:
        for piece in range(0, 60_000, LARGEST_FRAME):
            client.http.send_data(stream, message(b"x" * 90_000)[piece : piece + LARGEST_FRAME])
    assert client.exchange() == [Cancelled(streams[2]), Cancelled(streams[3])]


def test_too_much_metadata_ends_the_call() -> None:
    client = Client()
    client.begin(authorization="x" * 3_000)
    assert client.exchange() == []
    assert dict(client.heard_of(ResponseReceived)[0].headers)[b"grpc-status"] == b"8"
    assert not client.server.close_expected()


def rapid_resets(count: int) -> bytes:
    http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    http.initiate_connection()
    for number in range(count):
        http.send_headers(2 * number + 1, HEADERS)
        http.reset_stream(2 * number + 1)
    return http.data_to_send()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "rapid reset": lambda: rapid_resets(ALLOWANCE + 1),
    "pings": lambda: PREFACE + frame(4, 0, 0, b"") + frame(6, 0, 0, b"12345678") * (ALLOWANCE + 1),
    "settings": lambda: PREFACE + frame(4, 0, 0, b"") * (ALLOWANCE + 2),
    "priorities": lambda: PREFACE + frame(4, 0, 0, b"") + frame(2, 0, 1, b"\0\0\0\0\1") * (ALLOWANCE + 1),
    "empty data": lambda: said([]) + frame(0, 0, 1, b"") * (ALLOWANCE + 1),
    "continuations": lambda: PREFACE + frame(4, 0, 0, b"") + frame(1, 0, 1, b"\x88") + frame(9, 0, 1, b"") * 1000,
    "a window beyond all": lambda: said([]) + frame(8, 0, 1, b"\x7f\xff\xff\xff") * 2 + frame(8, 0, 0, b"\0\0\0\0"),
    "a frame beyond all limits": lambda: said([]) + b"\xff\xff\xff\0\0\0\0\0\1" + b"x" * 1000,
    "headers of 100 KiB": lambda: (
        said([])
        + b"".join(frame(kind, 0, 9, (b"\x00\x01a\x7f\x81\x7d" + b"x" * 15_000)) for kind in (1, 9, 9, 9, 9, 9, 9))
    ),
    "HTTP/1": lambda: b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100,
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_clients_are_cut_off(hostile: Callable[[], bytes]) -> None:
    """Not before they have done what costs, and what they are told is not more than what they said."""
    data = hostile()
    server = GrpcServer(BOUNDS)
    heard_of = 0
    for at in range(0, len(data), 65_536):
        server.receive_data(data[at : at + 65_536])
        while found := server.events_received():
            heard_of += sum(type(event) is Call for event in found)
    assert server.close_expected()
    assert heard_of <= ALLOWANCE + 5
    assert len(server.data_to_send()) < 2 * len(data) + 1_000
    assert len(server._incoming) <= BOUNDS.calls


def test_what_an_allowance_allows_goes_on() -> None:
    """The same pings, as time passes."""
    client = Client()
    for _ in range(4):
        assert client.raw(frame(6, 0, 0, b"12345678") * (ALLOWANCE // 2)) == []
        client.server.refill(ALLOWANCE / 2 / 1_000)
    assert not client.server.close_expected()


def test_more_calls_than_are_allowed() -> None:
    """h2 refuses the connection: the client knew the limit."""
    client = Client()
    client.exchange()
    raw = rapid_resets(0)[len(PREFACE) :]
    heads = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    heads.initiate_connection()
    heads.data_to_send()
    for number in range(BOUNDS.calls + 1):
        heads.send_headers(2 * number + 1, HEADERS)
    events = client.raw(raw + heads.data_to_send())
    assert len([event for event in events if type(event) is Call]) <= BOUNDS.calls
    assert client.server.close_expected()
    assert client.heard_of(ConnectionTerminated)
