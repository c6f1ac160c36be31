"""Declarations of payloads, and what they make of payloads: the definition (P6)."""

import json
import math
import struct
from typing import Any

import msgpack as reference
import pytest

from fumarole.core import msgpack, sparkplug
from fumarole.core.decoding import decode, header_time
from fumarole.core.payloads import AHEAD, BEHIND, DeclarationError, Field, Payload, TimeField, parse, path_of

WEATHER: dict[str, Any] = {
    "topic": "volcanoes.*.weather",
    "format": "json",
    "fields": {"temperature": "double", "pressure": {"type": "double", "path": "$.air.pressure"}, "ok": "boolean"},
    "value": "temperature",
    "time": "ts",
}


def one(**changes: Any) -> Payload:
    return parse([{key: value for key, value in {**WEATHER, **changes}.items() if value is not None}]).declared[0]


def test_a_declaration() -> None:
    assert one() == Payload(
        "volcanoes.*.weather",
        "json",
        (
            Field("temperature", "double", ("temperature",)),
            Field("pressure", "double", ("air", "pressure")),
            Field("ok", "boolean", ("ok",)),
        ),
        "temperature",
        TimeField(("ts",)),
    )
    assert one(time={"path": "$.at", "unit": "ms"}).time == TimeField(("at",), "ms")
    csv = one(format="csv", fields={"a": "double", "b": {"type": "text", "path": "$[4]"}}, value="a", time="b")
    assert [each.path for each in csv.fields] == [(0,), (4,)]
    assert csv.time == TimeField((4,))
    plain = one(format="float32", fields=None, value=None, time=None, order="big", ahead="5 s", behind="2 days")
    assert plain == Payload(
        WEATHER["topic"],
        "float32",
        (Field("value", "double", (0,)),),
        "value",
        None,
        True,
        ",",
        5_000_000,
        172_800_000_000,
    )


def test_the_first_that_matches_counts() -> None:
    declared = parse([{**WEATHER, "topic": "a.*"}, {**WEATHER, "topic": "a.>", "value": None} | {"value": "pressure"}])
    assert [declared.of(topic) for topic in ("a.b", "a.b.c", "b")] == [declared.declared[0], declared.declared[1], None]
    assert declared.types == {"temperature": "double", "pressure": "double", "ok": "boolean"}
    assert parse([]).of("a") is None


def test_the_digest_is_of_the_meaning() -> None:
    same = {**WEATHER, "time": {"path": "$.ts"}, "order": "little"}
    assert parse([WEATHER]).digest == parse([same]).digest != parse([{**WEATHER, "value": "pressure"}]).digest
    assert (len(parse([WEATHER]).digest), parse([]).digest) == (32, "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topic": "a.>.b"}, "payloads[0].topic: found 'a.>.b', expected a topic pattern"),
        ({"topic": None}, "payloads[0]: found no topic, expected a topic pattern"),
        ({"format": "jsn"}, "payloads[0].format: found 'jsn', expected one of json, csv, msgpack"),
        ({"format": None}, "payloads[0]: found no format, expected one of json"),
        ({"feilds": {}}, "payloads[0].feilds: found an unknown key, expected one of topic, format"),
        ({"fields": None}, "payloads[0].fields: found no fields, expected a table of fields"),
        (
            {"fields": {"a": "float"}},
            "payloads[0].fields.a: found 'float', expected one of double, long, boolean, text",
        ),
        (
            {"fields": {"a": {"type": "double", "path": "air"}}},
            "payloads[0].fields.a.path: found 'air', expected a path",
        ),
        ({"fields": {"a": {"type": "double", "pat": "$"}}}, "payloads[0].fields.a.pat: found an unknown key"),
        (
            {"value": "temp"},
            "payloads[0].value: found 'temp', expected a field that is a number: temperature, pressure",
        ),
        ({"time": {"path": "ts", "unit": "min"}}, "payloads[0].time.unit: found 'min', expected one of s, ms, us, ns"),
        ({"time": {"path": "ts", "format": "%Q"}}, "payloads[0].time.format: found '%Q', expected signs and %Y"),
        ({"time": {"path": "ts", "format": "%H"}}, "with a whole date"),
        ({"time": {"unit": "s"}}, "payloads[0].time.path: found no path, expected a path"),
        ({"time": {"path": "ts", "unit": "s", "format": "%Y"}}, "payloads[0].time: found a unit and a format"),
        ({"format": "csv", "time": "when"}, "payloads[0].time.path: found 'when', expected a place, counted from 0"),
        ({"format": "float32", "time": None}, "payloads[0].fields.ok: found 'boolean', expected one of double"),
        ({"delimiter": "ab"}, "payloads[0].delimiter: found 'ab', expected one character"),
        ({"ahead": "soon"}, "payloads[0].ahead: found 'soon', expected a length of time"),
        ({"order": "middle"}, "payloads[0].order: found 'middle', expected one of little, big"),
    ],
)
def test_mistakes(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DeclarationError) as error:
        one(**changes)
    assert said in str(error.value)


def test_mistakes_of_several_declarations_are_told_at_once() -> None:
    with pytest.raises(DeclarationError) as error:
        parse([5, {**WEATHER, "value": 1}, {**WEATHER, "order": 1}])
    assert [each.place for each in error.value.wrong] == [(0,), (1, "value"), (2, "order")]
    with pytest.raises(DeclarationError, match=r"\[1\].fields.ok: found text, expected boolean, as in payloads\[0\]"):
        parse([WEATHER, {**WEATHER, "fields": {"ok": "text", "temperature": "double"}}])
    with pytest.raises(DeclarationError, match=r"found OK, expected ok, as in payloads\[0\]"):
        parse([WEATHER, {**WEATHER, "fields": {"OK": "boolean", "temperature": "double"}}])
    with pytest.raises(DeclarationError, match=r"expected a list of tables: \[\[payloads\]\]"):
        parse({"topic": "a"})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$", ()),
        ("$.a.b-c", ("a", "b-c")),
        ("$[2]", (2,)),
        ("$.a[0].b", ("a", 0, "b")),
        ("$['a.b'][\"c d\"]", ("a.b", "c d")),
        ("a", None),
        ("$a", None),
        ("$.", None),
        ("$.a..b", None),
        ("$[x]", None),
    ],
)
def test_paths(text: str, path: Any) -> None:
    assert path_of(text) == path


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"temperature": 21.5, "air": {"pressure": 3}, "ok": True}, ([21.5, 3.0, True], 21.5, None, True)),
        ({"temperature": 1, "ts": "1970-01-01T00:00:01.5Z"}, ([1.0, None, None], 1.0, 1_500_000, True)),
        ({"temperature": "warm", "ok": True}, ([None, None, True], None, None, False)),
        ({"temperature": 5, "air": 7}, ([5.0, None, None], 5.0, None, False)),
        ({"temperature": 5, "ts": "yesterday"}, ([5.0, None, None], 5.0, None, False)),
        ({"temperature": None}, ([None, None, None], None, None, False)),
        ({"humidity": 5}, ([None, None, None], None, None, False)),
        ([], ([None, None, None], None, None, False)),
    ],
)
def test_what_fits(said: Any, expected: Any) -> None:
    fields, value, time, fits = decode(json.dumps(said).encode(), one())
    assert (list(fields.values()), value, time, fits) == expected


def test_numbers_that_are_none() -> None:
    """P7: NaN and infinities are numbers, where a format has them."""
    declared = one(format="float64", fields=None, value=None, time=None)
    assert decode(struct.pack("<d", math.inf), declared).value == math.inf
    found = decode(struct.pack("<d", math.nan), declared)
    assert found.value is not None
    assert math.isnan(found.value)
    assert found.fits
    assert not decode(b'{"temperature": NaN}', one()).fits


def test_a_clock_that_is_wrong_is_not_believed() -> None:
    """P7."""
    now = 1_767_225_600_000_000
    assert [one().believes(now + off, now) for off in (0, AHEAD, AHEAD + 1, -BEHIND, -BEHIND - 1)] == [
        *(True, True, False, True, False)
    ]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1970-01-01T01:00:00+01:00", 0),
        ("1.5", 1_500_000),
        (" 2 ", 2_000_000),
        ("1970-01-01 00:00", 0),
        ("noon", None),
        ("", None),
        ("1e300", None),
        ("nan", None),
    ],
)
def test_times_of_headers(text: str, time: int | None) -> None:
    assert header_time(text) == time


VALUES: list[Any] = [
    None, True, 0, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**64 - 1, -1, -32, -33, -129, -40_000, -(2**40), 1.5, "", "x" * 31, "x" * 32, "y" * 300,
    "z" * 70_000, b"", b"b" * 300, [], [1, [2, [3]]], list(range(20)), list(range(70_000)), {"a": {"b": None}}, {str(n): n for n in range(20)},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=map(str, range(len(VALUES))))
def test_msgpack_is_read_as_others_read_it(value: Any) -> None:
    packed: bytes = reference.packb(value)
    assert msgpack.unpack(packed) == value
    for wrong in (packed[:-1], packed + b"\xc0"):
        with pytest.raises(ValueError, match=r"it ends too early|more behind"):
            msgpack.unpack(wrong)


def test_msgpack_with_parts_that_no_path_leads_to() -> None:
    extended: bytes = reference.packb({"t": reference.ExtType(5, b"abcd"), 7: 1, "f": 2})
    assert msgpack.unpack(extended) == {"t": msgpack.Extension(5, b"abcd"), "f": 2}
    deep = b"\x91" * 100 + b"\x01"
    with pytest.raises(ValueError, match="too deep"):
        msgpack.unpack(deep)


def metric(name: str, number: int, value: bytes, datatype: int = 0) -> bytes:
    """A field 2 of a payload. Lengths and numbers are below 128, so each is one byte."""
    body = b"\x0a" + bytes([len(name)]) + name.encode() + bytes([4 << 3, datatype]) + bytes([number]) + value
    return b"\x12" + bytes([len(body)]) + body


def test_sparkplug() -> None:
    payload = (
        b"\x08\x05"  # timestamp 5
        + metric("Temp", (13 << 3) | 1, struct.pack("<d", 21.5))
        + metric("Small", (12 << 3) | 5, struct.pack("<f", 0.5))
        + metric("Below", 10 << 3, b"\xff\xff\xff\xff\x0f", datatype=3)  # -1 as an unsigned number of 32 bits
        + metric("On", 14 << 3, b"\x01")
        + metric("Name", (15 << 3) | 2, b"\x02hi")
        + metric("Nothing", 7 << 3, b"\x01")
        + b"\x18\x07"  # seq
    )
    found = sparkplug.metrics(payload)
    assert found == {
        "timestamp": 5, "Temp": 21.5, "Small": 0.5, "Below": -1, "On": True, "Name": "hi", "Nothing": None,
    }  # fmt: skip
    declared = one(format="sparkplug", fields={"temp": {"type": "double", "path": '$["Temp"]'}, "On": "boolean"},
                   value="temp", time={"path": "timestamp", "unit": "ms"})  # fmt: skip
    assert decode(payload, declared) == ({"temp": 21.5, "On": True}, 21.5, 5_000, True)
    for length in range(1, len(payload)):
        if length not in {2, len(payload) - 2}:
            decode(payload[:length], declared)  # fits or not, it is never an error
    assert not decode(b"\x12\x05ab", declared).fits
