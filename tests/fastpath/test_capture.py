"""The compiled sieve against the pure one: the same bytes in, the same columns and the same other events out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.fastpath import capture
from fumarole.protocols import columns, nats
from tests.random_examples import examples

LIMITS = Limits(control_line=200)

topics = st.sampled_from(["a", "a.b", "$EMPTY", "ä.ö", "x" * 150, "volcanoes.usa.atka", "$EMPTYx", "a:b"])
numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers().map(str),
    st.from_regex(r"\A[ \t\n\r]?-?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,4})?[ \t\n\r]?\Z"),
    st.sampled_from(["-0", "1e400", "1e-400", "9" * 350, "9" * 500, "0." + "0" * 450 + "1", "1.", ".5", "01", "1_0", "٣", "NaN", "true"]),
)  # fmt: skip
payloads = st.one_of(
    st.binary(max_size=20), numbers.map(str.encode), st.sampled_from([b"", b"\r\n", b"MSG a 1 1\r\nx\r\n"])
)
names = st.sampled_from(["Producer", "Metadata", "Unit", "unit", "A-B", " Producer ", "Ü", "", "x\x1cy", "Trace"])
texts = st.one_of(
    st.sampled_from(
        ["2F1C0A52-6D0F-4C8E-9A5E-3B1F7D2C4E60", "", " k ", '{"Room": "410"}', "ü", "a:b", "\x1f", "İ", "a\rb"]
    ),
    st.text(max_size=8),
)
header_lines = st.lists(st.builds("{}:{}".format, names, texts) | st.sampled_from(["no colon", ":x"]), max_size=20)


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    first = draw(st.sampled_from(["NATS/1.0", "NATS/1.0 503", "a: b", ""]))
    block = "\r\n".join([first, *draw(header_lines)]).encode("utf-8", "replace") + draw(
        st.sampled_from([b"\r\n\r\n", b"", b"\r"])
    )
    return block.replace(b"u", draw(st.sampled_from([b"u", b"u", b"\xff"])))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    payload, block = draw(payloads), draw(st.one_of(st.just(b""), blocks()))
    words = [
        b"HMSG" if block else b"MSG",
        draw(topics).encode(),
        draw(st.sampled_from([b"1", b"1", b"1", b"2", b"11"])),
    ]
    words += draw(st.sampled_from([[], [], [b"reply"]]))
    if block:
        words.append(b"%d" % len(block))
    size = len(block) + len(payload)
    words.append(
        draw(
            st.sampled_from([b"%d" % size] * 20 + [b"0%d" % size, b"", b"-1", b"x", b"9999999999", b"%d" % (size + 1)])
        )
    )
    end = draw(st.sampled_from([b"\r\n"] * 9 + [b"\n"]))
    return b" ".join(words) + end + block + payload + draw(st.sampled_from([b"\r\n"] * 30 + [b"\n", b"xx"]))


others = st.sampled_from(
    [b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'no'\r\n", b'INFO {"a":1}\r\n', b"MSG\r\n", b"msg a 1 1\r\nx\r\n", b"MSG a  1\r\n", b"\r\n", b"I" * 201]
)  # fmt: skip
streams = st.lists(st.one_of(messages(), messages(), messages(), others), max_size=12).map(b"".join)


def run(
    sieve: columns.Sieve | capture.Sieve, pieces: list[bytes], taken_after: int
) -> tuple[list[object], list[columns.Columns]]:
    events: list[object] = []
    batches = []
    for number, piece in enumerate(pieces):
        events += sieve.receive_data(piece, 1_000 + number)
        if number == taken_after:
            batches.append(sieve.take())
    assert sieve.rows >= 0
    batches.append(sieve.take())
    return events, batches


@examples(200, deadline=None)
@given(
    streams,
    st.lists(st.integers(0, 4_000), max_size=6),
    st.integers(0, 6),
    st.integers(0, 20),
    st.sampled_from([None, b"2"]),
)
@example(b"MSG a 1 2\r\n-0\r\nMSG a 1 4\r\n21.5\r\n", [3, 12], 1, 0, None)
@example(b"MSG a 1 1\r\nx\r\nMSG b 2 1\r\ny\r\nMSG a 1 1\r\nz\r\n", [], 1, 0, b"2")
def test_equal(stream: bytes, cuts: list[int], taken_after: int, pending: int, also: bytes | None) -> None:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[begin:end] for begin, end in pairwise(edges)]
    results = []
    for kind in (columns.Sieve, capture.Sieve):
        protocol = nats.ClientProtocol(LIMITS)
        # A sieve may be put before a protocol that has begun to hear something.
        begun = b"MSG a 1 30\r\n" + b"y" * pending if pending else b""
        protocol.receive_data(begun)
        assert protocol.events_received() == []
        sieve = kind(protocol, b"1", also)
        rest = [b"z" * (30 - pending) + b"\r\n"] if pending else []
        results.append((run(sieve, rest + pieces, taken_after), protocol.close_expected(), protocol.data_to_send()))
    assert results[0] == results[1]


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("length", [LIMITS.control_line, LIMITS.control_line + 1])
def test_the_longest_line(length: int, end: str) -> None:
    line = f"MSG {'a' * (length - 8)} 1 2{end}hi\r\n".encode()
    for pieces in ([line], [bytes([byte]) for byte in line]):
        for kind in (columns.Sieve, capture.Sieve):
            protocol = nats.ClientProtocol(LIMITS)
            _, (taken,) = run(kind(protocol, b"1"), pieces, -1)
            is_allowed = length == LIMITS.control_line
            assert (taken.rows, protocol.close_expected()) == (is_allowed, not is_allowed)


@examples(200)
@given(streams, st.integers(0, 400))
@example(b"MSG a 1 2\r\n-0\r\nMSG a 2 4\r\n21.5\r\n", 28)
def test_another_goes_on_where_one_has_left(stream: bytes, cut: int) -> None:
    results = []
    for kind in (columns.Sieve, capture.Sieve):
        protocol = nats.ClientProtocol(LIMITS)
        first = kind(protocol, b"1")
        events = first.receive_data(stream[:cut], 1_000)
        begun = first.reclaim()
        assert first.reclaim() == b""
        protocol.receive_data(begun)
        second = kind(protocol, b"2")
        events += second.receive_data(stream[cut:], 1_001)
        said = events, first.take(), second.take(), second.reclaim()
        results.append((begun, said, protocol.close_expected(), protocol.data_to_send()))
    assert results[0] == results[1]


@given(payloads)
def test_numbers_are_json_numbers(payload: bytes) -> None:
    """What JSON takes for a finite number, and nothing else."""
    import json
    import math

    try:
        value = json.loads(payload.decode("ascii"), parse_int=float)
    except ValueError:
        value = None
    expected = value if isinstance(value, float) and math.isfinite(value) else None
    assert columns.number(payload) == expected


def test_byte_by_byte_and_size() -> None:
    stream = b"MSG a.b 7 4\r\n21.5\r\nPING\r\nHMSG c 7 30 32\r\nNATS/1.0\r\nProducer: AbC\r\n\r\n\r\nhi\r\n"
    stream = stream.replace(b"30 32", b"27 29").replace(b"\r\n\r\n\r\nhi", b"\r\n\r\nhi")
    whole, bit_by_bit = (
        capture.Sieve(nats.ClientProtocol(LIMITS), b"7"),
        capture.Sieve(nats.ClientProtocol(LIMITS), b"7"),
    )
    assert whole.receive_data(stream, 5) == [nats.Ping()]
    assert [event for byte in stream for event in bit_by_bit.receive_data(bytes([byte]), 5)] == [nats.Ping()]
    assert whole.rows == bit_by_bit.rows == 2
    assert whole.size == bit_by_bit.size == 2 * columns.ROW_BYTES + len("a.b21.5chiabc")
    taken = whole.take()
    assert taken == bit_by_bit.take()
    assert (taken.rows, taken.topics.data, taken.payloads.data, taken.producers.data) == (2, b"a.bc", b"21.5hi", b"abc")
    assert (whole.rows, whole.size) == (0, 0)


@pytest.mark.parametrize("sieve", [columns.Sieve, capture.Sieve], ids=["plain", "compiled"])
def test_the_example_of_the_module(sieve: type[columns.Sieve | capture.Sieve]) -> None:
    block = b"NATS/1.0\r\nProducer: P\r\nUnit: K\r\n\r\n"
    frames = [
        nats.message(b"a.b", b"1", b"21.5"),
        nats.message(b"c", b"1", b""),
        nats.message(b"a.b", b"1", b"x", b"", block),
    ]
    made = sieve(nats.ClientProtocol(LIMITS), b"1")
    assert made.receive_data(b"".join(frames), 9) == []
    taken = made.take()
    assert list(memoryview(taken.topics.offsets).cast("i")) == [0, 3, 4, 7]
    assert taken.topics.data == b"a.bca.b"
    assert (taken.has_value, taken.has_producer, taken.has_headers) == (b"\x01", b"\x04", b"\x04")
    assert (taken.producers.data, taken.header_names.data, taken.header_texts.data) == (b"p", b"Unit", b"K")


@pytest.mark.parametrize("sieve", [columns.Sieve, capture.Sieve], ids=["plain", "compiled"])
@pytest.mark.parametrize("name", [b"Producer ", b" Producer", b"producer"])
def test_what_is_no_reading_to_the_broker_is_none_here(sieve: type[columns.Sieve | capture.Sieve], name: bytes) -> None:
    """Who may not speak for a producer must not do so by a header that looks alike."""
    block = b"NATS/1.0\r\n" + name + b": P\r\nMetadata: {}\r\n\r\n"
    made = sieve(nats.ClientProtocol(LIMITS), b"1")
    made.receive_data(nats.message(b"a", b"1", b"x", b"", block), 9)
    taken = made.take()
    assert (taken.has_producer, taken.metadata_rows) == (b"\x00", b"")
    assert taken.header_names.data == name + b"Metadata"


@pytest.mark.parametrize("sieve", [columns.Sieve, capture.Sieve], ids=["plain", "compiled"])
def test_what_is_new_holds_from_its_message_on(sieve: type[columns.Sieve | capture.Sieve]) -> None:
    """All of them received at once, so the clock does not tell them apart (M5). One that was set back is followed."""
    plain = nats.message(b"a", b"1", b"x")
    news = nats.message(b"a", b"1", b"x", b"", b'NATS/1.0\r\nProducer: P\r\nMetadata: {"Room": "410"}\r\n\r\n')
    made = sieve(nats.ClientProtocol(LIMITS), b"1")
    made.receive_data(b"".join([news, plain, news, news, plain]), 5_000_000)
    taken = made.take()
    assert list(memoryview(taken.times).cast("q")) == [5_000_000, 5_000_000, 5_000_001, 5_000_002, 5_000_002]
    for now in (5_000_001, 5_000_001, 3_000_000, 3_000_000):
        made.receive_data(news, now)
    taken = made.take()
    assert list(memoryview(taken.times).cast("q")) == [5_000_003, 5_000_004, 3_000_000, 3_000_001]


@pytest.mark.parametrize("sieve", [columns.Sieve, capture.Sieve], ids=["plain", "compiled"])
def test_two_subscriptions_in_the_order_in_which_they_came(sieve: type[columns.Sieve | capture.Sieve]) -> None:
    both = sieve(nats.ClientProtocol(LIMITS), b"1", b"2")
    stream = b"MSG a 1 1\r\nx\r\nMSG b 2 1\r\ny\r\nMSG c 3 1\r\nz\r\nMSG a 1 1\r\nx\r\n"
    assert both.receive_data(stream, 5) == [nats.Message(b"c", b"3", b"", b"", b"z")]
    assert both.take().topics.data == b"aba"
