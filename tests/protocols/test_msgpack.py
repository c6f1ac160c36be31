import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.protocols.msgpack import INCOMPLETE, Bounds, Event, Stream, Value, measure, pack, unpack
from fumarole.protocols.stream import End, Fault

BOUNDS = Bounds(length=10_000, depth=4, items=100)


def values(*pieces: bytes) -> list[object]:
    stream = Stream(BOUNDS)
    events: list[Event] = []
    for piece in pieces:
        stream.receive_data(piece)
        events += stream.events_received()
    assert not stream.close_expected()
    assert all(isinstance(event, Value) and pack(event.data) is not None for event in events)
    return [event.data for event in events if isinstance(event, Value)]


scalar = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=40),
    st.binary(max_size=40),
)
value = st.recursive(
    scalar,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
).filter(lambda found: measure(pack(found), 0, Bounds()) > 0)


@given(st.lists(value, max_size=4), st.data())
def test_whole_cut_anywhere_and_byte_by_byte(sent: list[object], data: st.DataObject) -> None:
    shallow = [each for each in sent if _depth(each) <= BOUNDS.depth]
    raw = b"".join(map(pack, shallow))
    place = data.draw(st.integers(0, len(raw)))
    assert values(raw) == shallow
    assert values(raw[:place], raw[place:]) == shallow
    assert values(*(bytes([byte]) for byte in raw)) == shallow
    assert values(raw + b"\x93\x01") == shallow


@given(value)
def test_another_implementation_packs_the_same_bytes(sent: object) -> None:
    assert pack(sent) == msgpack.packb(sent)


def _depth(each: object) -> int:
    inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


# Every width of every kind (M1): the value, and other ways to write it than the shortest.
WIDTHS: list[tuple[str, bytes, object]] = [
    ("positive fixint", b"\x07", 7),
    ("negative fixint", b"\xff", -1),
    *[(f"uint{8 * size}", bytes([0xCC + n]) + (7).to_bytes(size), 7) for n, size in enumerate((1, 2, 4, 8))],
    *[
        (f"int{8 * size}", bytes([0xD0 + n]) + (-7).to_bytes(size, signed=True), -7)
        for n, size in enumerate((1, 2, 4, 8))
    ],
    ("float32", b"\xca" + struct.pack(">f", 1.5), 1.5),
    ("float64", b"\xcb" + struct.pack(">d", 21.6), 21.6),
    ("fixstr", b"\xa2hi", "hi"),
    *[(f"str{8 * size}", bytes([0xD9 + n]) + (2).to_bytes(size) + b"hi", "hi") for n, size in enumerate((1, 2, 4))],
    *[(f"bin{8 * size}", bytes([0xC4 + n]) + (2).to_bytes(size) + b"hi", b"hi") for n, size in enumerate((1, 2, 4))],
    ("fixarray", b"\x92\x01\x02", [1, 2]),
    *[
        (f"array{8 * size}", bytes([0xDC + n]) + (2).to_bytes(size) + b"\x01\x02", [1, 2])
        for n, size in enumerate((2, 4))
    ],
    ("fixmap", b"\x81\xa1a\x01", {"a": 1}),
    *[
        (f"map{8 * size}", bytes([0xDE + n]) + (1).to_bytes(size) + b"\xa1a\x01", {"a": 1})
        for n, size in enumerate((2, 4))
    ],
    ("nil", b"\xc0", None),
    ("false", b"\xc2", False),
    ("true", b"\xc3", True),
]


@pytest.mark.parametrize(("raw", "expected"), [row[1:] for row in WIDTHS], ids=[row[0] for row in WIDTHS])
def test_every_width(raw: bytes, expected: object) -> None:
    assert values(raw) == [expected]
    assert values(*(bytes([byte]) for byte in raw)) == [expected]
    assert measure(raw[:-1], 0, BOUNDS) == INCOMPLETE


FAULTS: list[tuple[str, bytes, str]] = [
    ("never used", b"\xc1", "begins no MsgPack value"),
    ("extension", b"\xd4\x01\x00", "an extension type"),
    ("extension of any size", b"\xc7\x01\x05x", "an extension type"),
    ("timestamp", msgpack.packb(msgpack.Timestamp(1)), "an extension type"),
    ("text of 4 GB, announced", b"\xdb\xff\xff\xff\xff", "longer than 10000 bytes"),
    ("bytes of 4 GB, announced", b"\xc6\xff\xff\xff\xff", "longer than 10000 bytes"),
    ("array of 4 G items, announced", b"\xdd\xff\xff\xff\xff", "more than 100 items"),
    ("map of 4 G items, announced", b"\xdf\xff\xff\xff\xff", "more than 100 items"),
    ("nested 100,000 deep", b"\x91" * 100_000, "nested deeper than 4"),
    ("maps nested", b"\x81\x01" * 100, "nested deeper than 4"),
    (
        "arrays of arrays of nothing",
        b"\x9f" * 3 + b"\x90" * 15 + (b"\x9f" + b"\x90" * 15) * 10,
        "more than 100 items",
    ),
    ("not UTF-8", b"\xa1\xff", "not a value"),
    ("a map as a key", b"\x81\x80\x01", "not a value"),
    ("a map in an array as a key", b"\x81\x91\x80\x01", "not a value"),
]


@pytest.mark.parametrize(("raw", "text"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_faults(raw: bytes, text: str) -> None:
    """Known as early as possible, after what was good before it, and for good."""
    stream = Stream(BOUNDS)
    stream.receive_data(b"\x01" + raw + b"\x02" * 12_000)
    events = stream.events_received()
    assert events == [Value(1, b"\x01")]
    assert text in unpack(stream.data_to_send())["Error"]
    assert stream.close_expected()
    stream.receive_data(b"\x01")
    assert stream.events_received() == []


def test_bytes_that_come_one_by_one_are_looked_at_once() -> None:
    """What is looked at again with every byte would take hours here."""
    stream = Stream(Bounds(length=400_000, items=200_001))
    raw = pack(list(range(100)) * 2_000)
    for byte in raw[:-1]:
        stream.receive_data(bytes([byte]))
        assert not stream.events_received()
    stream.receive_data(raw[-1:])
    assert [event for event in stream.events_received() if isinstance(event, Value)]


def test_much_is_handed_over_in_parts() -> None:
    """The caller has other connections to serve, too."""
    stream = Stream()
    stream.receive_data(b"\x01" * 10_000)
    parts = []
    while events := stream.events_received():
        parts.append(len(events))
    assert parts == [4096, 4096, 1808]


def test_the_end() -> None:
    stream = Stream()
    stream.receive_data(b"\x01\x92")
    stream.receive_eof()
    assert stream.events_received() == [Value(1, b"\x01")]
    assert stream.events_received() == [End()]
    assert stream.close_expected()


def test_sending() -> None:
    stream = Stream()
    stream.send({"New": ["a"], "Del": []})
    stream.send(1)
    assert values(stream.data_to_send()) == [{"New": ["a"], "Del": []}, 1]
    assert stream.data_to_send() == b""


def test_measuring_stops_at_the_first_sign() -> None:
    with pytest.raises(Fault):
        measure(b"\xdd\xff\xff\xff\xff", 0, BOUNDS)
