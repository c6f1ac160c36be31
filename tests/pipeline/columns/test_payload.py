"""Declared payloads as Spark columns, held to `core.decoding` on random payloads (P6)."""

import json
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fumarole.core.decoding import Decoded, decode
from fumarole.core.payloads import Payload, parse
from fumarole.pipeline.columns.payload import Reading

JSON = {
    "topic": "a",
    "format": "json",
    "fields": {
        "t": "double",
        "n": "long",
        "b": "boolean",
        "s": "text",
        "deep": {"type": "double", "path": "$.o.p.q"},
        "deep_text": {"type": "text", "path": "$.o.p.s"},
        "same": {"type": "text", "path": "$.t"},
        "whole": {"type": "text", "path": "$.o"},
        "item": {"type": "double", "path": "$.list[1]"},
        "within": {"type": "long", "path": "$.list[0].x"},
        "odd": {"type": "double", "path": '$["a.b c"]'},
        "upper": {"type": "double", "path": "$.T"},
    },
    "value": "t",
    "time": {"path": "$.ts", "unit": "ms"},
}
ISO = {"topic": "a", "format": "json", "fields": {"v": "boolean"}, "time": "ts", "value": "v"}
SCALAR = {"topic": "a", "format": "json", "fields": {"v": {"type": "double", "path": "$"}}, "value": "v"}
CSV = {
    "topic": "a",
    "format": "csv",
    "fields": {"t": "double", "n": "long", "b": "boolean", "s": "text", "last": {"type": "double", "path": "$[5]"}},
    "delimiter": ";",
    "time": {"path": "$[4]", "format": "%d.%m.%Y %H:%M:%S"},
}
TEXT = {
    "topic": "a",
    "format": "text",
    "fields": {"v": "double", "n": "long", "b": "boolean", "s": "text"},
    "value": "v",
}
ROWS = {"topic": "a", "format": "float32", "fields": {"x": "double", "z": {"type": "double", "path": "$[3]"}}}
PACKED = {**JSON, "format": "msgpack"}

LEAVES: list[Any] = [
    None, True, False, 0, -1, 1.5, -0.0, 1e308, 12345678901234567890, 2**63 - 1, "", "x", "1.5", "NaN", "true", "ü☃", [], {}, [1, "x"],
    {"q": 1.5}, {"q": "x"}, {"p": {"q": 2, "s": "y"}}, {"p": {"q": None}}, {"p": 5}, {"p": [1]}, [{"x": 4}, 2.5], [{"x": "a"}, "b"], [None, None],
    [5, 6], 1767225600000, 1767225600123.5, -1, 1e300, "2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", {"T": 3},
]  # fmt: skip
KEYS = ["t", "n", "b", "s", "o", "list", "a.b c", "T", "ts", "v", "other"]
TIMES = [
    "2026-03-01T12:30:45Z", "2026-03-01 12:30:45.5+01:00", "2026-03-01T12:30", "2026-03-01T12:30+0530", "2026-03-01T12:30:45.123456789-08",
    "2026-02-30T00:00:00Z", "2026-03-01T24:00:00Z", "2026-03-01T12:60Z", "2026-03-01T12:30:60Z", "2026-03-01", "2026-03-01T12:30:45+19:00",
    "2026-03-01T12:30:45+18:00", "2026-03-01T12:30:45+17:75", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "", "x",
    " 2026-03-01T12:30:45Z ", "2026-03-01t12:30:45z", "1969-12-31T23:59:59.999999Z", "2024-02-29T00:00:00-00:30",
]  # fmt: skip
BROKEN = [
    b"", b" ", b"{", b"}", b"[1]", b"5", b"null", b'{"t":1}}', b'{"t":1} x', b'{"t":1,}', b'{"t":NaN}', b"{'t':1}", b'{"t":01}', b"\xff", b'{"s":"\xff"}',
    b'{"s":"\\ud800"}', b'{"s":"a\tb"}', b'{"s":"\\u0000"}', b'{"t":1e400,"n":1}', b'{"t":1}\n', b'{"t":1 "s":2}', b'\xef\xbb\xbf{"t":1}',
]  # fmt: skip


def json_payload(chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.choice(BROKEN)
    made = {key: chance.choice(LEAVES) for key in chance.sample(KEYS, chance.randrange(1, 6))}
    return json.dumps(made, ensure_ascii=chance.random() < 0.5).encode()


def iso_payload(chance: random.Random) -> bytes:
    return json.dumps({"v": chance.choice([True, None]), "ts": chance.choice([*TIMES, 5, None])}).encode()


def scalar_payload(chance: random.Random) -> bytes:
    return chance.choice([*BROKEN, b"1.5", b" -2e3 ", b'"1"', b"true", b"[]"])


WORDS = ["", " ", "1.5", "+5", ".5", "5.", "05", "-1e-3", "1e400", "nan", "-INF", "Infinity", "0x1F", "1_0", "1d", "true", "FALSE", "1", "0", "x",
         "9223372036854775807", "9223372036854775808", "12345678901234567890123", " 7 ", "ü", "01.03.2026 12:30:45", "31.02.2026 12:30:45", "1.3.2026"]  # fmt: skip


def csv_payload(chance: random.Random) -> bytes:
    cells = [
        chance.choice([*WORDS, '"a;b"', '"say ""x"""', '""', '"open', 'in"side']) for _ in range(chance.randrange(8))
    ]
    if chance.random() < 0.5:  # mostly as declared
        cells = ["1.5", "7", "true", "x", "01.03.2026 12:30:45", "2"][: chance.randrange(1, 7)]
    return (";".join(cells) + chance.choice(["", "\n", "\r\n", "\r", "\n\n"])).encode() + chance.choice(
        [b"", b"", b"", b"\xff"]
    )


def text_payload(chance: random.Random) -> bytes:
    return chance.choice([*[word.encode() for word in WORDS], b"\xfe"])


def rows_payload(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([0, 3, 4, 8, 15, 16, 20]))


def packed_payload(chance: random.Random) -> bytes:
    made = {key: chance.choice([*LEAVES, b"bytes"]) for key in chance.sample(KEYS, chance.randrange(1, 6))}
    everything: dict[Any, Any] = {**made, 5: 1}
    whole: bytes = msgpack.packb(everything) if chance.random() < 0.9 else b"\xc1"
    return chance.choice([whole, whole, whole, whole[:-1], whole + b"\x00"])


def alike(found: Any) -> Any:
    """Comparable: NaN is itself, and -0.0 is not 0.0."""
    return repr(found)


def expected(found: Decoded) -> Any:
    return alike((list(found.fields.values()), found.value, found.time, found.fits))


@pytest.mark.parametrize(
    ("declared", "made"),
    [
        pytest.param(JSON, json_payload, id="json"),
        pytest.param(ISO, iso_payload, id="times"),
        pytest.param(SCALAR, scalar_payload, id="one scalar"),
        pytest.param(CSV, csv_payload, id="csv"),
        pytest.param(TEXT, text_payload, id="text"),
        pytest.param(ROWS, rows_payload, id="float32"),
        pytest.param({**ROWS, "order": "big"}, rows_payload, id="float32, big"),
        pytest.param(
            {**ROWS, "format": "float64"}, lambda chance: chance.randbytes(8 * chance.randrange(5)), id="float64"
        ),
        pytest.param(PACKED, packed_payload, id="msgpack"),
    ],
)
def test_random_payloads(spark: SparkSession, declared: dict[str, Any], made: Callable[[random.Random], bytes]) -> None:
    chance = random.Random(7)
    payloads = [made(chance) for _ in range(600)]
    check(spark, parse([declared]).declared[0], payloads)


def test_floats_at_their_borders(spark: SparkSession) -> None:
    numbers = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        math.inf,
        -math.inf,
        math.nan,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
    ]
    short = [0.0, -0.0, 1e-45, 1.1754943508222875e-38, 3.4028234663852886e38, math.inf, -2.5]
    for form, order, values in (("float64", "<d", numbers), ("float64", ">d", numbers), ("float32", "<f", short)):
        declared = {"topic": "a", "format": form, "order": "big" if order[0] == ">" else "little"}
        check(spark, parse([declared]).declared[0], [struct.pack(order, value) for value in values])


def check(spark: SparkSession, declared: Payload, payloads: list[bytes]) -> None:
    frame = spark.createDataFrame([(n, bytearray(each)) for n, each in enumerate(payloads)], "n int, payload binary")
    reading = Reading(declared, "_r")
    read = frame.withColumns(reading.prepared(sf.col("payload"))).withColumns(reading.read())
    found = reading.decoded()
    nothing = sf.lit(None)
    time = nothing.cast("bigint") if found.time is None else found.time
    value = nothing.cast("double") if found.value is None else found.value
    rows = read.select("n", *found.fields.values(), value, time, found.fits)
    answers = {row[0]: alike((list(row[1:-3]), row[-3], row[-2], row[-1])) for row in rows.collect()}
    definition = {number: expected(decode(each, declared)) for number, each in enumerate(payloads)}
    wrong = {payloads[n]: (answers[n], definition[n]) for n in answers if answers[n] != definition[n]}
    assert wrong == {}
    assert len(answers) == len(payloads)
    assert len(set(definition.values())) > 3
