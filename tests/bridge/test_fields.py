"""Properties and headers: every value comes back as it was, and what cannot be read is said."""

from __future__ import annotations

import contextlib
import random
import struct
from decimal import Decimal
from typing import Any

import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgpack import ExtType, Timestamp

from fumarole.bridge.errors import MalformedError
from fumarole.bridge.fields import (
    DEEPEST,
    PROPERTIES,
    decode_properties,
    encode_properties,
    encode_table,
    from_decimal,
    to_decimal,
)

TEXTS = st.text(max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.binary(max_size=20)
    | st.integers(-(2**40), 2**40).map(lambda seconds: Timestamp(seconds, 0))
    | st.binary(min_size=5, max_size=5).map(lambda data: ExtType(1, data))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10)
SHORT = st.text(max_size=60) | st.binary(max_size=200).filter(lambda data: not _is_text(data))
KINDS = {
    "text": SHORT,
    "octet": st.integers(0, 255),
    "time": st.integers(-(2**63), 2**63 - 1).map(lambda seconds: Timestamp(seconds, 0)),
}


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


ALL = st.fixed_dictionaries(
    {}, optional={name: KINDS[kind] for name, (_, kind) in PROPERTIES.items() if kind != "table"}
)


def test_there_are_14() -> None:
    assert len(PROPERTIES) == 14


@given(ALL, st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_goes_in_comes_out(properties: dict[str, Any], headers: dict[str, Any]) -> None:
    assert decode_properties(encode_properties(properties, headers)) == (properties, headers)


def test_floats_keep_all_their_bits() -> None:
    assert decode_properties(encode_properties({}, {"a": 0.1, "b": 1e308}))[1] == {"a": 0.1, "b": 1e308}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_floats_that_would_cost_all_clients_their_connection(value: float) -> None:
    """RabbitMQ answers with INTERNAL_ERROR. Another broker's are read."""
    for headers in ({"a": value}, {"a": [{"b": value}]}):
        with pytest.raises(MalformedError, match="a header cannot be"):
            encode_properties({}, headers)
    table = b"\x01ad" + struct.pack(">d", value)
    assert repr(decode_properties(b"\x20\x00" + struct.pack(">I", len(table)) + table)[1]["a"]) == repr(value)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        pytest.param(b"b\xff", -1, id="8 bits"),
        pytest.param(b"B\xff", 255, id="8 bits, no sign"),
        pytest.param(b"s\xff\xfe", -2, id="16 bits"),
        pytest.param(b"u\xff\xfe", 65534, id="16 bits, no sign"),
        pytest.param(b"I\xff\xff\xff\xff", -1, id="32 bits"),
        pytest.param(b"i\xff\xff\xff\xff", 2**32 - 1, id="32 bits, no sign"),
        pytest.param(b"L" + b"\xff" * 8, -1, id="64 bits, the other letter"),
        pytest.param(b"f\x3f\x00\x00\x00", 0.5, id="a float of 32 bits"),
        pytest.param(b"S\x00\x00\x00\x01\xff", b"\xff", id="text that is not UTF-8"),
        pytest.param(b"D\x02\xff\xff\xff\xff", ExtType(1, b"\x02\xff\xff\xff\xff"), id="decimal"),
        pytest.param(b"T" + b"\xff" * 8, Timestamp(-1, 0), id="a time before all time"),
    ],
)
def test_types_that_others_write(data: bytes, value: object) -> None:
    table = b"\x01a" + data
    assert decode_properties(b"\x20\x00" + len(table).to_bytes(4, "big") + table) == ({}, {"a": value})


def test_tables_of_another_library_are_read() -> None:
    written = pamqp.encode.field_table({"n": 5, "in": {"list": [1, "two", None, True]}, "d": Decimal("-1.25")})
    assert decode_properties(b"\x20\x00" + written)[1] == {
        "n": 5,
        "in": {"list": [1, "two", None, True]},
        "d": from_decimal(Decimal("-1.25")),
    }


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for bytes_ in (data, b"\x20\x00" + data, b"\xff\xfc" + data):
        with contextlib.suppress(MalformedError):
            decode_properties(bytes_)


def test_every_cut_is_noticed() -> None:
    whole = encode_properties(
        {name: 5 if kind == "octet" else "t" for name, (_, kind) in PROPERTIES.items() if kind in ("octet", "text")},
        {"a": [1, {"b": None}]},
    )
    for length in range(2, len(whole)):
        with pytest.raises(MalformedError):
            decode_properties(whole[:length])


def test_depth_is_bounded_both_ways() -> None:
    value: Any = 1
    for _ in range(DEEPEST - 1):
        value = {"a": value}
    headers = {"a": value}
    assert decode_properties(encode_properties({}, headers["a"])) == ({}, headers["a"])
    with pytest.raises(MalformedError, match="deeper than 16"):
        encode_table({"b": {"a": headers}})
    table = b""
    for _ in range(5_000):
        table = b"\x01aF" + len(table).to_bytes(4, "big") + table
    with pytest.raises(MalformedError, match="deeper than 16"):
        decode_properties(b"\x20\x00" + len(table).to_bytes(4, "big") + table)


@pytest.mark.parametrize("text", ["0", "12.50", "-19.99", "1E+3", "2147483647", "-2147483648", "1E-255"])
def test_decimals(text: str) -> None:
    assert to_decimal(from_decimal(Decimal(text))) == Decimal(text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "2147483648", "1E-256", "1E+20"])
def test_decimals_that_amqp_has_not(text: str) -> None:
    with pytest.raises(MalformedError):
        from_decimal(Decimal(text))


def test_noise_never_takes_long() -> None:
    chance = random.Random(2)
    for _ in range(500):
        with contextlib.suppress(MalformedError):
            decode_properties(b"\x20\x00" + chance.randbytes(300))
