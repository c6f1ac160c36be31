"""AMQP frames: what is published is what another library reads, and deliveries come through whole however they are cut."""

from __future__ import annotations

import struct
from typing import Any

import pamqp.commands
import pamqp.frame
import pytest

from fumarole.bridge.fields import encode_properties
from fumarole.bridge.frames import RAW, Deliveries, publication

PROPERTIES = encode_properties({"content_type": "text/plain", "message_id": "m"}, {"a": [1, 0.5]})


def frames_of(data: bytes) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    while data:
        length, channel, frame = pamqp.frame.unmarshal(data)
        found.append((channel, frame))
        data = data[length:]
    return found


@pytest.mark.parametrize("size", [0, 1, 120, 121, 1000])
def test_a_publication_is_what_another_library_reads(size: int) -> None:
    body = bytes(number % 251 for number in range(size))
    data = publication(7, b"amq.topic", "ž.b".encode(), PROPERTIES, body, 128)
    assert all(channel == 7 for channel, _ in frames_of(data))
    method, header, *bodies = [frame for _, frame in frames_of(data)]
    assert isinstance(method, pamqp.commands.Basic.Publish)
    assert (method.exchange, method.routing_key, method.mandatory) == ("amq.topic", "ž.b", False)
    assert header.body_size == size
    assert header.properties.content_type == "text/plain"
    assert header.properties.headers == {"a": [1, 0.5]}
    assert b"".join(each.value for each in bodies) == body
    assert all(len(each.value) <= 120 for each in bodies)


def delivery(key: bytes, body: bytes, properties: bytes = PROPERTIES, channel: int = 3) -> bytes:
    method = (
        struct.pack(">HH", 60, 60) + b"\x03tag" + struct.pack(">QB", 1, 0) + b"\x09amq.topic" + bytes((len(key),)) + key
    )
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties
    frames = [(1, method), (2, header), *([(3, body)] if body else [])]
    return b"".join(struct.pack(">BHI", kind, channel, len(data)) + data + b"\xce" for kind, data in frames)


STREAM = (
    delivery(b"a.b", b"one")
    + delivery(b"bad.\xff", b"lost")
    + delivery(b"bad.\xfe", b"")
    + delivery(b"c", b"two", b"\x80\x00\x02\xff\xff")
)


@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_deliveries_however_they_are_cut(step: int) -> None:
    deliveries = Deliveries()
    out = b"".join(deliveries.receive_data(STREAM[at : at + step]) for at in range(0, len(STREAM), step))
    frames = [frame for _, frame in frames_of(out)]
    assert [frame.routing_key for frame in frames[::3]] == ["a.b", "c"]
    raw = [bytes(frame.properties.headers[RAW]) for frame in frames[1::3]]
    assert raw == [PROPERTIES, b"\x80\x00\x02\xff\xff"]
    assert [frame.value for frame in frames[2::3]] == [b"one", b"two"]
    assert deliveries.left_out == 2


def test_other_frames_pass_as_they_are() -> None:
    others = pamqp.frame.marshal(pamqp.commands.Channel.OpenOk(), 1) + b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert Deliveries().receive_data(others) == others
