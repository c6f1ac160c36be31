"""What no client should say on the MsgPack door, on both hot paths, each under the oracle of oracle.py (M1, L1, L2).

The answer is an error value, then the end of that connection where the stream cannot go on; nobody else notices.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgpack
import pytest

from tests.integration.conftest import Brokers
from tests.integration.oracle import MIB, Target, watched
from tests.integration.peer import DOORS, Peer

A, B = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e61"
KIB = 1024


@pytest.fixture
def target(brokers: Brokers, engine_name: str) -> Iterator[Target]:
    broker = brokers.share(DOORS, engine_name, observed=True)
    with watched(broker, brokers.canary(broker)) as watched_target:
        yield watched_target


class Bad(NamedTuple):
    name: str
    said: bytes
    error: str
    """A part of the answer."""
    closed: bool = True


def bad(name: str, value: Any, error: str, *, closed: bool = True) -> Bad:
    return Bad(name, msgpack.packb(value), error, closed)


def reading(value: bytes) -> bytes:
    return b"\x93\xd9\x24" + A.encode() + b"\x80" + value


WANTED = "expected a query (text), or a reading"
FIRST_VALUES = [
    bad("nil", None, WANTED),
    bad("true", True, WANTED),
    bad("fixint", 7, WANTED),
    bad("negative fixint", -7, WANTED),
    *[Bad(f"uint{8 << n}", bytes([0xCC + n]) + bytes(1 << n), WANTED) for n in range(4)],
    *[Bad(f"int{8 << n}", bytes([0xD0 + n]) + bytes(1 << n), WANTED) for n in range(4)],
    Bad("float32", b"\xca" + struct.pack(">f", 1.5), WANTED),
    Bad("float64", b"\xcb" + struct.pack(">d", 1.5), WANTED),
    *[Bad(f"bin{8 << n}", bytes([0xC4 + n]) + (2).to_bytes(1 << n) + b"hi", WANTED) for n in range(3)],
    bad("empty array", [], WANTED),
    bad("array of 2", [A, {}], WANTED),
    bad("array of 4", [A, {}, 1, 2], WANTED),
    Bad("array16", b"\xdc\x00\x01\x01", WANTED),
    Bad("array32", b"\xdd\x00\x00\x00\x01\x01", WANTED),
    bad("map of something else", {"hello": 1}, WANTED),
    bad("map of two things", {"where": "a = 1", "id": A}, WANTED),
    *[Bad(f"fixext{1 << n}", bytes([0xD4 + n, 1]) + bytes(1 << n), "an extension type") for n in range(5)],
    *[Bad(f"ext{8 << n}", bytes([0xC7 + n]) + (2).to_bytes(1 << n) + b"\x01hi", "an extension type") for n in range(3)],
    bad("timestamp", msgpack.Timestamp(1), "an extension type"),
    Bad("never used", b"\xc1", "begins no MsgPack value"),
    Bad("NATS", b'CONNECT {"verbose":false}\r\n', WANTED),
    Bad("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", WANTED),
    Bad("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", WANTED),
]
SIZES = [
    Bad("text of 4 GB, announced", b"\xdb\xff\xff\xff\xff", "longer than"),
    Bad("bytes of 4 GB, announced", b"\xc6\xff\xff\xff\xff", "longer than"),
    Bad("array of 4 G, announced", b"\xdd\xff\xff\xff\xff", "items"),
    Bad("map of 4 G, announced", b"\xdf\xff\xff\xff\xff", "items"),
    Bad("value of 4 GB in a reading", b"\x93" + msgpack.packb(A) + b"\x81\xa1a\xdb\xff\xff\xff\xff", "longer than"),
    Bad("100,000 arrays in each other", b"\x91" * 100_000, "nested deeper"),
    Bad("100,000 maps in each other", b"\x81\xa1a" * 100_000, "nested deeper"),
    Bad("a million empty arrays", (b"\xdd\x00\x00\x10\x00" + b"\x90" * 4096) * 244, WANTED),
    bad("10,000 keys", [A, {f"key{n}": 1 for n in range(10_000)}, 1], "items"),
    bad("1,000 keys", [A, {f"key{n}": 1 for n in range(1_000)}, 1], "metadata keys"),
    bad("a value of 10 MB", [A, {"a": "x" * 10_000_000}, 1], "longer than"),
    bad("a value of 100 kB", [A, {"a": "x" * 100_000}, 1], "bytes of metadata"),
    bad("a key of 100 kB", [A, {"x" * 100_000: 1}, 1], "bytes of metadata"),
]
READINGS = [
    bad("no UUID", ["sensor-1", {}, 1], "UUID of version 4"),
    bad("a UUID of version 1", ["2f1c0a52-6d0f-1c8e-9a5e-3b1f7d2c4e60", {}, 1], "UUID of version 4"),
    bad("a UUID without dashes", [A.replace("-", ""), {}, 1], "UUID of version 4"),
    bad("a UUID as bytes", [A.encode(), {}, 1], "UUID of version 4"),
    bad("a UUID with a line end", [A[:-1] + "\n", {}, 1], "UUID of version 4"),
    bad("a number as id", [1, {}, 1], "UUID of version 4"),
    bad("a number as key", [A, {1: 1}, 1], "key is text"),
    bad("nil as key", [A, {None: 1}, 1], "key is text"),
    bad("bytes as key", [A, {b"a": 1}, 1], "key is text"),
    Bad("an array as key", b"\x93" + msgpack.packb(A) + b"\x81\x91\x01\x01\x01", "key is text"),
    Bad("a map as key", b"\x93" + msgpack.packb(A) + b"\x81\x80\x01\x01", "not a value"),
    Bad("a key twice, then a map", b"\x93" + msgpack.packb(A) + b"\x82\xa1a\x01\xa1a\x80\x01", "neither text"),
    bad("an array as value", [A, {"a": [1]}, 1], "neither text"),
    bad("a map as value", [A, {"a": {"b": 1}}, 1], "neither text"),
    bad("bytes as value", [A, {"a": b"x"}, 1], "neither text"),
    bad("NaN as value", [A, {"a": math.nan}, 1], "not a finite number"),
    bad("infinity as value", [A, {"a": -math.inf}, 1], "not a finite number"),
    bad("no map", [A, [], 1], "is a map"),
    bad("nil for a map", [A, None, 1], "is a map"),
    Bad("NaN", reading(b"\xcb" + struct.pack(">d", math.nan)), "finite"),
    Bad("infinity", reading(b"\xcb" + struct.pack(">d", math.inf)), "finite"),
    Bad("NaN in four bytes", reading(b"\xca" + struct.pack(">f", math.nan)), "finite"),
    bad("text as reading", [A, {}, "21.5"], "is a number"),
    bad("truth as reading", [A, {}, True], "is a number"),
    bad("nothing as reading", [A, {}, None], "is a number"),
    bad("wildcard as topic", {"id": A, "value": 1, "topic": "a.*"}, "wildcards", closed=False),
    bad("line end in the topic", {"id": A, "value": 1, "topic": "a\r\nMSG b"}, "not allowed", closed=False),
    bad("topic of the server", {"id": A, "value": 1, "topic": "$FUM.stats"}, "the server's own", closed=False),
    bad("a number as topic", {"id": A, "value": 1, "topic": 7}, "topic is text"),
    Bad("text that is not UTF-8", b"\x93\xa4\xff\xfe\xfd\xfc\x80\x01", "not a value"),
]
QUERIES = [
    bad("a query of 1 MB", "a = '" + "x" * MIB + "'", "longer than"),
    bad("a query of 100 kB", "a = '" + "x" * 100_000 + "'", "bytes", closed=False),
    bad("10,000 parentheses", "(" * 10_000 + "a = 1" + ")" * 10_000, "", closed=False),
    bad("10,000 NOTs", "not " * 4_000 + "a = 1", "", closed=False),
    bad("10,000 terms", " or ".join(f"a={n}" for n in range(2_000)), "", closed=False),
    bad("a regular expression that is none", "a matches '('", "", closed=False),
    bad("100 regular expressions", " or ".join(f"a matches 'x{n}'" for n in range(100)), "", closed=False),
    bad("a quote that does not end", "a = 'b", "", closed=False),
    bad("nothing", "", "", closed=False),
    bad("NUL", "a = '\0' \0", "", closed=False),
    bad("a pattern that is none", {"topic": "a.>.b"}, "last word", closed=False),
    bad("a number for a query", {"where": 1}, "where is text"),
    bad("a group with a line end", {"where": "a = 1", "group": "g\r\nSUB"}, "", closed=False),
]
ALL = [*FIRST_VALUES, *SIZES, *READINGS, *QUERIES]


@pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
def test_the_answer_is_an_error(target: Target, case: Bad) -> None:
    target.sent = [case.said.decode("latin-1")]
    with Peer(target.broker, namespace=None) as peer:
        with contextlib.suppress(ConnectionError):  # of a very long value the end is not listened to
            peer.socket.sendall(case.said)
        error = peer.hear()
        assert case.error in error["Error"], error
        if case.closed:
            assert peer.hears_no_more()
        else:
            peer.say("Kind = 'temperature'" if case in QUERIES else [A, {}, 1])
            if case in QUERIES:
                assert set(peer.hear()) == {"New", "Del"}


GOOD_QUERIES = {
    "a regular expression that others take for ever for": "a matches '(a+)+$'",
    "keys that begin with keywords": "order = 1 and android = 2 and nothing = 3 and `in` = 4 and likely like 'x%'",
    "quotes in text": """a = 'it''s' and b = "say ""hi\"\"" """,
    "Unicode": "`Straße` = 'Ätna 🌋'",
}


@pytest.mark.parametrize("query", GOOD_QUERIES.values(), ids=GOOD_QUERIES.keys())
def test_odd_but_right(target: Target, query: str) -> None:
    with Peer(target.broker, query) as subscriber, Peer(target.broker) as sensor:
        assert subscriber.hear() == {"New": [], "Del": []}
        sensor.say([A, {"a": "a" * 5_000 + "!", "Straße": "Ätna 🌋"}, 1])
        sensor.say([A, {"a": None, "Straße": None}, 1], {"forget": A})


def test_a_fault_is_that_of_one_connection(target: Target) -> None:
    """What came before it holds, and others go on."""
    with Peer(target.broker, "Room = '410'") as subscriber, Peer(target.broker) as good, Peer(target.broker) as other:
        assert subscriber.hear() == {"New": [], "Del": []}
        other.socket.sendall(msgpack.packb([B, {"Room": "410"}, 1]) + b"\xc1" + msgpack.packb([B, {}, 2]))
        assert subscriber.hear() == {"New": [B], "Del": []}
        assert subscriber.hear() == [B, {"Room": "410"}, 1]
        assert "begins no MsgPack value" in other.hear()["Error"]
        good.say([A, {"Room": "410"}, 3], {"forget": A}, {"forget": B})
        assert subscriber.hear() == {"New": [A], "Del": []}
        assert subscriber.hear() == [A, {"Room": "410"}, 3]


def test_byte_by_byte(target: Target) -> None:
    """A long value in very many pieces costs no more than its bytes."""
    with Peer(target.broker) as peer:
        for byte in msgpack.packb([A, {f"key{n}": n for n in range(60)}, 1]) + msgpack.packb([A, {}, 2]) * 50:
            peer.socket.sendall(bytes([byte]))
        peer.say({"forget": A})


def test_gone_in_the_middle_of_a_value(target: Target) -> None:
    said = msgpack.packb([A, {"Room": "410"}, 21.5])
    for length in range(len(said)):
        with Peer(target.broker) as peer:
            peer.socket.sendall(said[:length])
    with Peer(target.broker) as peer:
        peer.say({"forget": A})


def test_a_thousand_half_values(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            peer = stack.enter_context(Peer(target.broker, namespace=None))
            peer.socket.sendall(b"\xdb\x00\x03\x00\x00" + b"x" * 100)


def test_unique_producers_without_end(target: Target) -> None:
    """Each is remembered until it is forgotten; forgetting gives the memory back."""
    target.memory_margin = 48 * MIB
    with Peer(target.broker) as peer:
        for action in ("say", "forget"):
            for begin in range(0, 20_000, 1_000):
                names = [f"{n:08x}-0000-4000-8000-000000000000" for n in range(begin, begin + 1_000)]
                peer.say(*([name, {"Room": name}, 1] if action == "say" else {"forget": name} for name in names))
        with Peer(target.broker, "has Room") as subscriber:
            left = set(subscriber.hear()["New"])
            while left:
                heard = subscriber.hear()
                left -= set(heard["Del"] if isinstance(heard, dict) else ())


def test_a_dear_query_over_many_producers(target: Target) -> None:
    """It takes seconds, and no other client notices. A client that leaves before the answer ends the work."""
    names = [f"{n:08x}-0000-4000-8000-000000000000" for n in range(1_000)]
    query = " OR ".join(f"Room LIKE '%{n}%y%'" for n in range(450)) + " OR Room = 'x7'"
    with Peer(target.broker) as sensor:
        sensor.say(*([name, {"Room": f"x{n}"}, 1] for n, name in enumerate(names)))
        with Peer(target.broker, "HAS Room") as everybody:
            known = set(everybody.hear()["New"])
            while len(known) < len(names):
                heard = everybody.hear()
                known.update(heard["New"] if isinstance(heard, dict) else ())
        with Peer(target.broker, query):
            pass
        with Peer(target.broker, query) as subscriber:
            assert subscriber.hear() == {"New": [names[7]], "Del": []}
        sensor.say(*({"forget": name} for name in names))
        with Peer(target.broker, "HAS Room") as subscriber:
            left = set(subscriber.hear()["New"])
            while left:
                heard = subscriber.hear()
                left -= set(heard["Del"] if isinstance(heard, dict) else ())


def test_one_who_never_reads(target: Target) -> None:
    """Readings for it are dropped; memory is bounded; a neighbour with the same query hears all."""
    with (
        Peer(target.broker, "Room = '410'", receive_buffer=4096),
        Peer(target.broker, "Room = '410'") as neighbour,
        Peer(target.broker) as sensor,
    ):
        assert neighbour.hear() == {"New": [], "Del": []}
        sensor.say([A, {"Room": "410"}, 0])
        assert neighbour.hear() == {"New": [A], "Del": []}
        assert neighbour.hear() == [A, {"Room": "410"}, 0]
        for batch in range(100):
            numbers = range(batch * 2_000, (batch + 1) * 2_000)
            sensor.say(*([A, {}, float(number)] for number in numbers))
            assert [neighbour.hear()[2] for _ in numbers] == list(numbers)
        sensor.say({"forget": A})


def test_metadata_that_flickers_before_many(target: Target) -> None:
    """Each change is a diff to each of many subscribers: the others get their turn between any two."""
    with contextlib.ExitStack() as stack:
        subscribers = [stack.enter_context(Peer(target.broker, "Room = '410'")) for _ in range(200)]
        for subscriber in subscribers:
            subscriber.hear()
        with Peer(target.broker) as sensor:
            sensor.say(*([A, {"Room": room}, 1] for room in ("410", "411") * 500), {"forget": A})
        last = subscribers[0]
        count = 0
        while count < 500:
            value = last.hear()
            count += isinstance(value, dict) and bool(value["Del"])
