"""ZMTP as a ROUTER speaks it: every version's handshake, every cut, and what is not taken (B1, L1, L2)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.bridge.errors import MalformedError
from fumarole.bridge.zmtp import (
    COMMAND,
    LONG,
    MORE,
    SIGNATURE,
    MessageLimits,
    NullMechanism,
    Opened,
    Received,
    ServerProtocol,
    encode_frame,
    encode_old_frame,
    metadata,
    read_metadata,
    ready_command,
)

LIMITS = MessageLimits(part=1000, message=2000, parts=50)
NULL = b"NULL".ljust(20, b"\0")
PROPERTIES = ((b"Socket-Type", b"DEALER"), (b"Identity", b""))


def ready(*properties: tuple[bytes, bytes]) -> bytes:
    return encode_frame(COMMAND, b"\x05READY" + metadata(*(properties or PROPERTIES)))


GREETING = SIGNATURE + b"\x03\x01" + NULL + bytes(32)
HELLO = GREETING + ready()
VERSION_2 = SIGNATURE + b"\x01\x05" + encode_frame(0, b"")
VERSION_1 = encode_old_frame(0, b"")


def heard(pieces: Iterable[bytes], limits: MessageLimits = LIMITS) -> tuple[list[Any], bytes, bool]:
    """Events, what was said, and whether it is over."""
    protocol = ServerProtocol(limits, NullMechanism())
    events: list[Any] = []
    said = protocol.data_to_send()
    for piece in pieces:
        protocol.receive_data(piece)
        events += protocol.events_received()
        said += protocol.data_to_send()
    return events, said, protocol.close_expected()


def cuts(data: bytes) -> list[list[bytes]]:
    chance = random.Random(len(data))
    places = sorted(chance.randrange(len(data) + 1) for _ in range(5))
    pieces = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    return [[data], [data[at : at + 1] for at in range(len(data))], pieces]


def message(*parts: bytes) -> bytes:
    return b"".join(encode_frame(MORE if at < len(parts) - 1 else 0, part) for at, part in enumerate(parts))


MESSAGES = [[b"bind", b"", b"test.#"], [b""], [b"x" * 255, b"y" * 256, b"z" * 1000], [b"send", b"a", b"b", bytes(300)]]


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        pytest.param(HELLO, GREETING + encode_frame(COMMAND, ready_command()), id="3.1"),
        pytest.param(
            SIGNATURE + b"\x03\x00" + NULL + bytes(32) + ready(),
            GREETING + encode_frame(COMMAND, ready_command()),
            id="3.0",
        ),
        pytest.param(VERSION_2, SIGNATURE + b"\x03\x06\x00\x00", id="2.0"),
        pytest.param(VERSION_1, SIGNATURE, id="1.0"),
        pytest.param(b"\xff" + (1).to_bytes(8, "big") + b"\x00", SIGNATURE, id="1.0, the length in 8 bytes"),
    ],
)
def test_each_version_however_it_is_cut(hello: bytes, said: bytes) -> None:
    old = hello[:1] == b"\x01" or hello[9:10] == b"\x00"
    encode = encode_old_frame if old else encode_frame
    traffic = b"".join(
        encode(MORE if at < len(parts) - 1 else 0, part) for parts in MESSAGES for at, part in enumerate(parts)
    )
    expected = [Opened(b""), *map(Received, MESSAGES)]
    for pieces in cuts(hello + traffic):
        assert heard(pieces) == (expected, said, False)


def test_an_old_peer_is_written_to_in_its_own_way() -> None:
    for hello, encode in ((VERSION_1, encode_old_frame), (VERSION_2, encode_frame), (HELLO, encode_frame)):
        protocol = ServerProtocol(LIMITS, NullMechanism())
        protocol.receive_data(hello)
        protocol.events_received()
        protocol.data_to_send()
        protocol.send_message((b"msg", b"k", bytes(300)))
        assert protocol.data_to_send() == encode(MORE, b"msg") + encode(MORE, b"k") + encode(0, bytes(300))


def test_heartbeats_are_for_those_who_know_them() -> None:
    for hello, known in ((HELLO, True), (GREETING[:11] + b"\x00" + GREETING[12:] + ready(), False), (VERSION_2, False)):
        protocol = ServerProtocol(LIMITS, NullMechanism())
        protocol.receive_data(hello)
        protocol.events_received()
        assert protocol.heartbeats == known


def test_a_ping_is_answered_once_for_all_that_came_together() -> None:
    ping = b"".join(encode_frame(COMMAND, b"\x04PING\x00\x64" + context) for context in (b"", b"a", b"b" * 20))
    for pieces in cuts(HELLO + message(b"a") + ping + message(b"b")):
        events, said, ended = heard(pieces)
        assert (events, ended) == ([Opened(b""), Received([b"a"]), Received([b"b"])], False)
        assert said.endswith(encode_frame(COMMAND, b"\x04PONG" + b"b" * 16))
    assert heard([HELLO + ping])[1].count(b"PONG") == 1


def test_our_own_ping() -> None:
    protocol = ServerProtocol(LIMITS, NullMechanism())
    protocol.receive_data(HELLO)
    protocol.events_received()
    protocol.data_to_send()
    protocol.ping()
    assert protocol.data_to_send() == encode_frame(COMMAND, b"\x04PING\x00\x00")
    protocol.receive_data(encode_frame(COMMAND, b"\x04PONG"))
    assert (protocol.events_received(), protocol.close_expected()) == ([], False)


def test_identities() -> None:
    assert heard([GREETING + ready((b"socket-type", b"REQ"), (b"IDENTITY", b"me"))])[0] == [Opened(b"me")]
    for identity in (b"\0me", b"x" * 256):
        events, _, ended = heard([GREETING + ready((b"Socket-Type", b"DEALER"), (b"Identity", identity))])
        assert (events, ended) == ([], True)


WRONG = {
    "a web browser": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "another mechanism": SIGNATURE + b"\x03\x01" + b"PLAIN".ljust(20, b"\0") + bytes(32),
    "a subscriber": GREETING + ready((b"Socket-Type", b"SUB")),
    "no kind of socket": GREETING + ready((b"Identity", b"")),
    "a subscriber of 2.0": SIGNATURE + b"\x01\x02" + encode_frame(0, b""),
    "a message before the handshake": GREETING + message(b"bind", b""),
    "another command": GREETING + encode_frame(COMMAND, b"\x05HELLO"),
    "an empty command": GREETING + encode_frame(COMMAND, b""),
    "a command shorter than its name": GREETING + encode_frame(COMMAND, b"\x05REA"),
    "metadata cut off": GREETING + encode_frame(COMMAND, b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEAL"),
    "metadata with a length that lies": GREETING + encode_frame(COMMAND, b"\x05READY\x01a\xff\xff\xff\xff"),
    "metadata without a name": GREETING + encode_frame(COMMAND, b"\x05READY\x00\x00\x00\x00\x00"),
    "a command too large": GREETING + encode_frame(COMMAND, b"\x05READY" + bytes(5000)),
    "flags that do not exist": HELLO + b"\x08\x00",
    "all flags": HELLO + b"\xff\x00",
    "a command with more to come": HELLO + b"\x05\x05\x04PING",
    "a part too large": HELLO + b"\x02" + (1001).to_bytes(8, "big"),
    "a part beyond all memory": HELLO + b"\x03" + b"\xff" * 8,
    "a message too large": HELLO + encode_frame(MORE, bytes(1000)) * 3,
    "a message too large, of short parts": HELLO + encode_frame(MORE, bytes(200)) * 11,
    "a message too large, whole": HELLO + encode_frame(MORE, bytes(1000)) * 2 + encode_frame(0, b"x"),
    "too many parts": HELLO + encode_frame(MORE, b"") * 51,
    "too many parts, whole": HELLO + encode_frame(MORE, b"") * 50 + encode_frame(0, b""),
    "too many parts of 1.0": VERSION_1 + encode_old_frame(MORE, b"") * 51,
    "an identity of several parts": SIGNATURE + b"\x01\x05" + encode_frame(MORE, b"a"),
    "an identity of several parts, 1.0": encode_old_frame(MORE, b"a"),
    "flags that 1.0 has not": VERSION_1 + b"\x01\x02",
    "a frame of 1.0 without flags": VERSION_1 + b"\x00\x00",
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_what_ends_the_connection(data: bytes) -> None:
    """It ends, however the bytes are cut; nothing is kept, and nothing that follows is looked at."""
    for pieces in cuts(data):
        protocol = ServerProtocol(LIMITS, NullMechanism())
        events: list[Any] = []
        for piece in [*pieces, message(b"later")]:
            protocol.receive_data(piece)
            events += protocol.events_received()
        assert protocol.close_expected()
        assert protocol.fault
        assert protocol.held == 0
        assert [event for event in events if isinstance(event, Received)] == []


def test_the_largest_that_is_taken() -> None:
    large = [bytes(1000), bytes(1000), *[b""] * 48]
    assert heard([HELLO + message(*large)])[0] == [Opened(b""), Received(large)]


def test_held_is_bounded_at_every_moment() -> None:
    """L2: a peer that never finishes its message never takes more than the limits say."""
    for size in (0, 1, 100, 255, 256, 1000):
        protocol = ServerProtocol(LIMITS, NullMechanism())
        protocol.receive_data(HELLO)
        protocol.events_received()
        chunk = encode_frame(MORE, bytes(size)) * 3
        for _ in range(100):
            for at in range(0, len(chunk), 700):
                protocol.receive_data(chunk[at : at + 700])
                protocol.events_received()
                assert protocol.held <= LIMITS.message + LIMITS.part + 64 * LIMITS.parts + 700
        assert protocol.close_expected()


def test_events_come_in_portions() -> None:
    protocol = ServerProtocol(LIMITS, NullMechanism())
    protocol.receive_data(HELLO + message(b"a") * 10 + encode_frame(MORE, b"half"))
    portions = []
    while True:
        portions.append(protocol.events_received(3))
        if not protocol.unfinished:
            break
    assert [len(portion) for portion in portions] == [3, 3, 3, 2]
    assert protocol.held > 0


def test_at_the_end_whole_messages_are_still_given() -> None:
    protocol = ServerProtocol(LIMITS, NullMechanism())
    protocol.receive_data(HELLO + message(b"a") + encode_frame(MORE, b"half"))
    protocol.receive_eof()
    assert not protocol.close_expected()
    assert protocol.events_received() == [Opened(b""), Received([b"a"])]
    assert protocol.close_expected()
    assert (protocol.fault, protocol.held) == ("", 0)


@given(st.dictionaries(st.binary(min_size=1, max_size=255).map(bytes.lower), st.binary(max_size=300), max_size=5))
def test_metadata_both_ways(properties: dict[bytes, bytes]) -> None:
    assert read_metadata(metadata(*properties.items())) == properties


@given(st.binary(max_size=100))
def test_any_metadata_is_read_or_refused(data: bytes) -> None:
    try:
        found = read_metadata(data)
    except MalformedError:
        return
    # A name that is there twice has its last value.
    assert len(metadata(*found.items())) <= len(data)
    assert all(name in data.lower() and value in data for name, value in found.items())


# The definition: what a whole stream of traffic means, the slow way.


def definition(data: bytes, limits: MessageLimits) -> tuple[list[list[bytes]], bool]:
    """Messages, and whether the connection ends."""
    messages: list[list[bytes]] = []
    parts: list[bytes] = []
    while len(data) >= 2:
        flags, size, rest = data[0], data[1], data[2:]
        if flags > 7 or (flags & COMMAND and flags & MORE):
            return messages, True
        if flags & LONG:
            if len(data) < 9:
                break
            size, rest = int.from_bytes(data[1:9], "big"), data[9:]
        if size > limits.part:
            return messages, True
        if len(rest) < size:
            break
        body, data = rest[:size], rest[size:]
        if flags & COMMAND:
            if not body or len(body) <= body[0]:
                return messages, True
            continue
        parts.append(body)
        if sum(map(len, parts)) > limits.message or len(parts) > limits.parts:
            return messages, True
        if not flags & MORE:
            messages.append(parts)
            parts = []
    return messages, False


def traffic(chance: random.Random) -> bytes:
    said = b""
    for _ in range(chance.randrange(12)):
        kind = chance.random()
        if kind < 0.7:
            sizes = [chance.choice([0, 1, 5, 255, 256, 999, 1000]) for _ in range(chance.randrange(1, 5))]
            said += message(*(chance.randbytes(size) for size in sizes))
        elif kind < 0.8:
            said += encode_frame(COMMAND, chance.choice([b"\x04PING\x00\x00abc", b"\x04PONG", b"\x03NEW", b"\x01x"]))
        elif kind < 0.85:
            said += encode_frame(MORE, b"") * chance.choice([3, 49, 50, 51, 3000])
        elif kind < 0.9:
            said += encode_frame(chance.choice([0, MORE]), bytes(chance.choice([200, 1000, 1001]))) * chance.randrange(
                12
            )
        else:
            said += chance.randbytes(chance.randrange(1, 12))
    if chance.random() < 0.2 and said:
        at = chance.randrange(len(said))
        said = said[:at] + chance.randbytes(1) + said[at + 1 :]
    return said


@pytest.mark.parametrize("part", range(4))
def test_random_traffic_is_what_the_definition_says(part: int) -> None:
    """T8's way: the fast form against the slow one, whole, byte by byte and cut anywhere."""
    for seed in range(part * 150, part * 150 + 150):
        said = traffic(random.Random(seed))
        messages, ends = definition(said, LIMITS)
        expected = [Opened(b""), *map(Received, messages)]
        for pieces in cuts(said):
            events, _, ended = heard([HELLO, *pieces])
            assert (events, ended) == (expected, ends), seed
