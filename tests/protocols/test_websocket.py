"""Frames of WebSocket clients, in both forms: what they carry, whole and in pieces, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.fastpath.hot_path import HotPath, compiled
from fumarole.protocols import http, websocket
from fumarole.protocols.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    MOST_CONTROLS,
    PING,
    PONG,
    TEXT,
    FrameFault,
    FrameReader,
    Frames,
)

KEY = b"\x01\x82\x33\xf4"


def masked(opcode: int, content: bytes = b"", *, last: bool = True, key: bytes = KEY, wide: int = 0) -> bytes:
    """A frame of a client. `wide` is the width of its length, where that is not the shortest."""
    size = len(content)
    first = (0x80 if last else 0) | opcode
    if wide == 8 or size >= 1 << 16:
        head = bytes((first, 0x80 | 127)) + size.to_bytes(8, "big")
    elif wide == 2 or size > 125:
        head = bytes((first, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, 0x80 | size))
    return head + key + bytes(byte ^ key[at & 3] for at, byte in enumerate(content))


def carried(frames: FrameReader, *pieces: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    data, controls = b"", []
    for piece in pieces:
        data += frames.take(piece)
        controls += frames.controls
    return data, controls


STREAMS: dict[str, tuple[bytes, bytes, list[tuple[int, bytes]]]] = {
    "nothing": (b"", b"", []),
    "one frame": (masked(BINARY, b"PING\r\n"), b"PING\r\n", []),
    "an empty frame": (masked(BINARY) + masked(BINARY, b"a"), b"a", []),
    "a long frame": (masked(BINARY, b"x" * 70_000), b"x" * 70_000, []),
    "a middling frame": (masked(BINARY, b"x" * 126), b"x" * 126, []),
    "a length wider than it needs": (masked(BINARY, b"a", wide=8) + masked(BINARY, b"b", wide=2), b"ab", []),
    "fragments": (
        masked(BINARY, b"a", last=False) + masked(CONTINUATION, b"b", last=False) + masked(CONTINUATION, b"c"),
        b"abc",
        [],
    ),
    "a ping among fragments": (
        masked(BINARY, b"a", last=False) + masked(PING, b"p") + masked(CONTINUATION, b"b"),
        b"ab",
        [(PING, b"p")],
    ),
    "pongs": (masked(PONG, b"x") + masked(BINARY, b"a"), b"a", []),
    "the end": (masked(CLOSE), b"", [(CLOSE, b"")]),
    "the end with a reason": (masked(CLOSE, b"\x03\xe8bye"), b"", [(CLOSE, b"\x03\xe8bye")]),
    "what follows the end": (masked(CLOSE) + masked(BINARY, b"a") + b"nonsense", b"", [(CLOSE, b"")]),
}


@pytest.mark.parametrize(("data", "content", "controls"), STREAMS.values(), ids=STREAMS)
def test_what_frames_carry(hot_path: HotPath, data: bytes, content: bytes, controls: list[tuple[int, bytes]]) -> None:
    assert carried(hot_path.websocket_frames(), data) == (content, controls)
    small = data if len(data) < 1000 else data[:50] + data[50:]
    pieces = [small[at : at + 1] for at in range(len(small))] if len(small) < 1000 else [data[:3], data[3:9], data[9:]]
    assert carried(hot_path.websocket_frames(), *pieces) == (content, controls)


HOSTILE = {
    "no mask": (b"\x82\x01a", 1002),
    "a reserved bit": (b"\xc2\x80" + KEY, 1002),
    "text": (masked(TEXT, b"PING\r\n"), 1003),
    "an unknown opcode": (masked(3), 1002),
    "an unknown control": (masked(11), 1002),
    "a continuation of nothing": (masked(CONTINUATION, b"a"), 1002),
    "a message within a message": (masked(BINARY, b"a", last=False) + masked(BINARY, b"b"), 1002),
    "a fragmented ping": (masked(PING, b"a", last=False), 1002),
    "a long ping": (masked(PING, b"a" * 126), 1002),
    "a length of 64 bits": (b"\x82\xff" + b"\xff" * 8 + KEY, 1002),
    "a close of one byte": (masked(CLOSE, b"\x03"), 1002),
    "a close with a code that nobody sends": (masked(CLOSE, b"\x03\xed"), 1002),
    "a close with a code below all": (masked(CLOSE, b"\x00\x01"), 1002),
    "a close with no UTF-8": (masked(CLOSE, b"\x03\xe8\xff"), 1007),
}


@pytest.mark.parametrize(("data", "code"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_frames_are_refused(hot_path: HotPath, data: bytes, code: int) -> None:
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        frames = hot_path.websocket_frames()
        assert frames.take(masked(BINARY, b"before")) == b"before"
        with pytest.raises(FrameFault) as caught:
            carried(frames, *pieces)
        assert caught.value.code == code


def test_of_very_many_pings_the_last_are_answered(hot_path: HotPath) -> None:
    frames = hot_path.websocket_frames()
    data = b"".join(masked(PING, b"%d" % number) for number in range(1000))
    assert frames.take(data) == b""
    assert len(frames.controls) == MOST_CONTROLS
    assert frames.controls[-1] == (PING, b"999")
    assert frames.take(masked(BINARY, b"a")) == b"a"
    assert frames.controls == []


PARTS = st.one_of(
    st.builds(
        lambda content, key, wide: masked(BINARY, content, key=key, wide=wide),
        st.binary(max_size=300),
        st.binary(min_size=4, max_size=4),
        st.sampled_from([0, 0, 2, 8]),
    ),
    st.builds(lambda content: masked(PING, content), st.binary(max_size=10)),
    st.builds(lambda content: masked(BINARY, content, last=False), st.binary(max_size=10)),
    st.builds(lambda content, last: masked(CONTINUATION, content, last=last), st.binary(max_size=10), st.booleans()),
    st.just(masked(PONG)),
    st.binary(max_size=3),
    st.just(masked(CLOSE)),
)


@given(parts=st.lists(PARTS, max_size=12), cuts=st.lists(st.integers(1, 400), max_size=6))
def test_both_forms_are_equal(parts: list[bytes], cuts: list[int]) -> None:
    built = compiled()
    if built is None:
        pytest.skip("the fast path is not compiled")
    data = b"".join(parts)
    pieces = [data[begin:end] for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True)]
    slow, fast = Frames(), built.websocket_frames()
    for piece in pieces:
        outcomes = [outcome(frames, piece) for frames in (slow, fast)]
        assert outcomes[0] == outcomes[1]
        if isinstance(outcomes[0], int):
            return


def outcome(frames: FrameReader, piece: bytes) -> tuple[bytes, list[tuple[int, bytes]]] | int:
    try:
        return frames.take(piece), list(frames.controls)
    except FrameFault as fault:
        return fault.code


@given(st.binary(max_size=100), st.binary(min_size=4, max_size=4), st.integers(0, 9))
def test_unmasking(data: bytes, key: bytes, offset: int) -> None:
    assert websocket.unmask(data, key, offset) == bytes(b ^ key[(offset + at) & 3] for at, b in enumerate(data))


def test_frames_of_a_server() -> None:
    for size in (0, 125, 126, 65_535, 65_536):
        made = websocket.frame(BINARY, b"x" * size)
        head = made[: len(made) - size]
        assert len(head) == (2 if size < 126 else 4 if size < 65_536 else 10)
    assert websocket.close_frame(1000, "bye") == b"\x88\x05\x03\xe8bye"


def upgrade(**fields: str) -> http.Head:
    given = {"connection": "keep-alive, Upgrade", "upgrade": "WebSocket", "sec-websocket-version": "13"}
    given |= {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "host": "localhost"}
    given |= {name.replace("_", "-"): value for name, value in fields.items()}
    return http.Head("GET", "/nats", "", given, 0, True, False)


def test_the_handshake_of_the_rfc() -> None:
    said = websocket.accept(upgrade())
    assert ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in said
    assert not isinstance(said, str)
    assert ("Sec-WebSocket-Protocol", "mqtt") in websocket.accept(upgrade(sec_websocket_protocol="a, mqtt"), "mqtt")
    assert "Sec-WebSocket-Protocol" not in dict(websocket.accept(upgrade(sec_websocket_protocol="a"), "mqtt"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "head",
    [
        upgrade(connection="keep-alive"),
        upgrade(upgrade="h2c"),
        upgrade(sec_websocket_version="8"),
        upgrade(sec_websocket_key=""),
        upgrade(sec_websocket_key="x"),
        upgrade(sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ"),
        upgrade()._replace(method="POST"),
        upgrade()._replace(is_old=True),
    ],
)
def test_what_is_no_upgrade(head: http.Head) -> None:
    assert isinstance(websocket.accept(head), str)
