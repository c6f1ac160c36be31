"""Messages in MsgPack: to AMQP, from AMQP, and Python's own types."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from decimal import Decimal

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.bridge.errors import MalformedError
from fumarole.bridge.fields import encode_properties
from fumarole.bridge.messages import Message, from_amqp, from_wire, pack, read, to_amqp, to_wire, unpack


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 200_000])
def test_payloads_of_every_width(size: int) -> None:
    payload = bytes(size)
    property_list = encode_properties({"type": "t"}, {"a": 1})
    message = from_amqp(property_list, payload)
    assert msgpack.unpackb(message) == {"payload": payload, "properties": {"type": "t"}, "headers": {"a": 1}}
    assert unpack(message) == (payload, {"type": "t"}, {"a": 1})
    assert unpack(pack(payload, {"type": "t"}, {"a": 1})) == (payload, {"type": "t"}, {"a": 1})


def test_everything_may_be_left_out() -> None:
    assert unpack(b"\x80") == (b"", {}, {})
    assert unpack(msgpack.packb({"headers": None, "properties": None})) == (b"", {}, {})
    assert to_amqp({}, {}, "guest") == b"\x00\x00"


def test_what_is_no_message() -> None:
    """Rows of what is refused are in tests/integration/bridge, over the wire; here, what is large."""
    with pytest.raises(MalformedError, match="properties and headers have more than"):
        unpack(msgpack.packb({"headers": {"a": "x" * 70_000}, "payload": b""}))
    with pytest.raises(MalformedError, match="a key of the message is too long"):
        unpack(msgpack.packb({"x" * 70_000: b""}))
    with pytest.raises(MalformedError, match="not MsgPack"):
        unpack(b"\xdd\x7f\xff\xff\xff" + bytes(70_000))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for part in (data, b"\x81\xa7headers" + data, b"\x81\xaaproperties" + data):
        with contextlib.suppress(MalformedError):
            unpack(part)


def test_the_user_may_be_named_only_as_who_it_is() -> None:
    assert to_amqp({"user_id": "guest"}, {}, "guest")
    with pytest.raises(MalformedError, match="user_id"):
        to_amqp({"user_id": "guest"}, {}, "other")


def test_pythons_own_types() -> None:
    when = datetime(2026, 1, 31, 12, tzinfo=UTC)
    value = {"at": when, "list": [Decimal("1.5"), {"deep": (when,)}], "text": "t"}
    wire = to_wire(value)
    assert wire["at"] == msgpack.Timestamp(int(when.timestamp()), 0)
    assert from_wire(msgpack.unpackb(msgpack.packb(wire))) == {
        "at": when,
        "list": [Decimal("1.5"), {"deep": [when]}],
        "text": "t",
    }
    far = msgpack.Timestamp(2**60, 0)
    assert from_wire([far, msgpack.ExtType(9, b"")]) == [far, msgpack.ExtType(9, b"")]
    assert read("k", pack(b"p", {"timestamp": msgpack.Timestamp(0, 0)}, {})) == Message(
        "k", b"p", {"timestamp": datetime(1970, 1, 1, tzinfo=UTC)}
    )
