"""Frames between nodes: whole, byte by byte, with others behind them; and what is none."""

import pytest

from fumarole.protocols.cluster_protocol import (
    SLICE,
    STRANGER_BYTES,
    Beat,
    Changes,
    ClusterProtocolError,
    Entry,
    Event,
    Forwarded,
    Hello,
    LinkProtocol,
    Mark,
    Spoken,
    frame,
    message,
    slices,
)

HELLO = Hello(1, "0.1", "lab", "a", 7, "127.0.0.1:6222", ("127.0.0.1:4222",), "data", b"n" * 32)
ENTRY = Entry("default", "a.*", "g", 3, "Kind = 'x'", ("a.>",), ("a.no",))
FRAMES: dict[str, tuple[bytes, Event]] = {
    "hello": (frame(HELLO), HELLO),
    "changes": (frame(Changes(8, (ENTRY,))), Changes(8, (ENTRY,))),
    "beat": (frame(Beat(1.5)), Beat(1.5)),
    "message": (message(b"a.b", b"default", b"", b"", b"hi"), Forwarded(b"a.b", b"default", b"", b"", b"hi")),
    "reply": (message(b"a", b"default", b"7", b"", b""), Forwarded(b"a", b"default", b"7", b"", b"")),
    "groups": (message(b"a", b"d\x01g\x01h", b"", b"", b"x"), Forwarded(b"a", b"d\x01g\x01h", b"", b"", b"x")),
    "headers": (
        message(b"a", b"d", b"r", b"NATS/1.0\r\n\r\n", b"\r\n"),
        Forwarded(b"a", b"d", b"r", b"NATS/1.0\r\n\r\n", b"\r\n"),
    ),
    "empty topic": (message(b"", b"d", b"", b"", b"x"), Forwarded(b"", b"d", b"", b"", b"x")),
}


def events(*pieces: bytes, trusted: bool = True) -> list[Event]:
    protocol = LinkProtocol(1024)
    protocol.trusted = trusted
    found = []
    for piece in pieces:
        protocol.receive_data(piece)
        while (event := protocol.next_event()) is not None:
            found.append(event)
    return found


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_whole_in_pieces_and_with_more_behind(name: str) -> None:
    data, event = FRAMES[name]
    assert events(data) == [event]
    assert events(*(bytes([byte]) for byte in data)) == [event]
    assert events(data + frame(Mark(2.0)) + data) == [event, Mark(2.0), event]


BROKEN = {
    "garbage": b"GET / HTTP/1.1\r\n",
    "a client": b"PING\r\n",
    "bare line end": b"CTL 1\n",
    "four gigabytes": b"CTL 4294967296\r\n",
    "many megabytes": b"CTL 99999999\r\n",
    "a sign": b"CTL +5\r\n",
    "other digits": "CTL ٣\r\n".encode(),
    "an underscore": b"CTL 1_0\r\n",
    "not MsgPack": b"CTL 2\r\n\xc1\xc1\r\n",
    "of no kind": b"CTL 6\r\n\x91\xa4what\r\n",
    "of the wrong shape": b"CTL 6\r\n\x91\xa4beat\r\n",
    "longer than it said": b"CTL 1\r\nabc\r\n",
    "payload too large": b"MSG a d 1025\r\n",
    "headers beyond the message": b"HMSG a d 9 5\r\n",
    "too few words": b"MSG a 5\r\n",
    "too many words": b"MSG a b c d 5\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_frame_is_refused(name: str) -> None:
    with pytest.raises(ClusterProtocolError):
        events(BROKEN[name])


def test_many_things_are_told_in_parts_that_fit() -> None:
    things = [ENTRY] * 1234
    parts = list(slices(things))
    assert [thing for part in parts for thing in part] == things
    assert max(map(len, parts)) <= SLICE
    large = [Entry("default", "a" * 100_000, "", 1)] * 5
    assert [len(part) for part in slices(large)] == [3, 2]
    assert list(slices([])) == []


def test_a_reading_of_the_largest_payload_fits() -> None:
    largest, protocol = 3 * 1024 * 1024, LinkProtocol(3 * 1024 * 1024)
    protocol.trusted = True
    spoken = Spoken(b"d", "a", "", b"", b"x" * largest, "p", {}, "x" * largest, b"x" * largest)
    protocol.receive_data(frame(spoken))
    assert protocol.next_event() == spoken


def test_a_stranger_may_say_little() -> None:
    assert events(FRAMES["hello"][0], trusted=False) == [HELLO]
    for data in (FRAMES["message"][0], b"CTL %d\r\n" % (STRANGER_BYTES + 1), b"x" * STRANGER_BYTES):
        with pytest.raises(ClusterProtocolError):
            events(data, trusted=False)
