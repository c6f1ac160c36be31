"""Whatever is sent from either side: an error or nothing, and no other client is disturbed (L1, B5). The oracle watches."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aio_pika
import msgpack
import pytest
import zmq
import zmq.auth
from aiormq.abc import ChannelFrame

from fumarole.bridge.connections import ReadyProperties
from fumarole.bridge.frames import publication
from tests.integration.bridge.bridges import Dealer, RunningBridge, dealers, make_keys, pack
from tests.integration.bridge.conftest import StartBridge
from tests.integration.bridge.rabbitmq import RabbitMq
from tests.integration.oracle import LOG_LINES, MEMORY_MARGIN, MIB, STANDSTILL

GOOD = pack(b"x")
SETTLE_SECONDS = 5.0


@contextmanager
def watched(bridge: RunningBridge) -> Iterator[Dealer]:
    """Gives a client that misbehaves. A canary publishes to itself, through the broker, before, during and after."""
    before = bridge.observe()
    descriptors, memory, logged = bridge.descriptors(), bridge.memory(), len(bridge.log)
    with dealers(bridge.endpoint, 2) as (canary, attacker):
        canary.bind("canary", "canary.#")
        for number in range(20):
            canary.say(b"send", b"amq.topic", b"canary.a", pack(b"before %d" % number))
        yield attacker
        attacker.close()
        for number in range(20):
            canary.say(b"send", b"amq.topic", b"canary.a", pack(b"after %d" % number))
        heard = [each["payload"] for _, each in canary.messages(40)]
        assert heard == [b"%s %d" % (when, number) for when in (b"before", b"after") for number in range(20)]
        canary.say(b"unbind", b"canary", b"canary.#")
        canary.flush()
    assert bridge.is_running(), bridge.tail()
    deadline = time.monotonic() + SETTLE_SECONDS
    stood_still = 0.0
    while True:
        after = bridge.observe()
        stood_still = max(stood_still, after["stood_still"])
        settled = after["tasks"] <= before["tasks"] and bridge.descriptors() <= descriptors
        if (settled and bridge.memory() <= memory + MEMORY_MARGIN) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert after["tasks"] <= before["tasks"]
    assert bridge.descriptors() <= descriptors
    assert bridge.memory() <= memory + MEMORY_MARGIN
    assert stood_still <= STANDSTILL
    assert after["status"]["calls"] == 0
    assert len(bridge.log) - logged <= LOG_LINES, bridge.tail()
    assert "Traceback" not in "\n".join(bridge.log[logged:])


def call(options: object) -> tuple[bytes, ...]:
    return b"call", b"1", b"amq.topic", b"k", GOOD, msgpack.packb(options)


def raw(**fields: object) -> tuple[bytes, ...]:
    return b"send", b"amq.topic", b"k", msgpack.packb(fields)


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, tuple[tuple[bytes, ...], str]] = {
    "an empty part": ((b"",), "unknown operation b''"),
    "an unknown operation": ((b"publish", b"a"), "unknown operation b'publish'"),
    "an operation in capitals": ((b"BIND", b"a"), "unknown operation b'BIND'"),
    "noise": ((b"\xff" * 5000,), "unknown operation b'\\xff"),
    "bind, 1 part": ((b"bind",), "bind has a direct name"),
    "unbind, 1 part": ((b"unbind",), "unbind has a direct name"),
    "send, 1 part": ((b"send",), "send has four parts, not 1"),
    "send, 5 parts": ((b"send", b"a", b"b", GOOD, b""), "send has four parts, not 5"),
    "call, 1 part": ((b"call",), "call has six parts, not 1"),
    "call, no id": ((b"call", b"", b"amq.topic", b"k", GOOD, b""), "call has an id"),
    "call, a long id": ((b"call", b"x" * 256, b"amq.topic", b"k", GOOD, b""), "call has an id"),
    "flush, no id": ((b"flush",), "flush has an id"),
    "status, no id": ((b"status",), "status has an id"),
    "bind, 10,000 parts": ((b"bind", b"", *[b"t"] * 9_998), "bind has 9998 topics; at most 1024"),
    "10,000 empty parts": ((b"",) * 10_000, "unknown operation b''"),
    "send, 10,000 parts": ((b"send", *[b"a"] * 9_999), "send has four parts, not 10000"),
    "a topic that is not UTF-8": ((b"bind", b"", b"\xff\xfe"), "a topic is not UTF-8"),
    "a direct name that is not UTF-8": ((b"bind", b"\xff"), "the direct name is not UTF-8"),
    "a key that is not UTF-8": ((b"send", b"amq.topic", b"\xc3", GOOD), "the key is not UTF-8"),
    "an exchange that is not UTF-8": ((b"send", b"\x80", b"k", GOOD), "the exchange is not UTF-8"),
    "a key of 256 bytes": ((b"send", b"amq.topic", b"k" * 256, GOOD), "the key has 256 bytes"),
    "a key of 256 bytes, few characters": ((b"send", b"amq.topic", "ž".encode() * 128, GOOD), "the key has 256 bytes"),
    "a topic of 256 bytes": ((b"bind", b"", b"t" * 256), "a topic has 256 bytes"),
    "a direct name of 256 bytes": ((b"bind", b"t" * 256), "the direct name has 256 bytes"),
    "an exchange of 300 bytes": ((b"send", b"e" * 300, b"k", GOOD), "the exchange has 300 bytes"),
    "no MsgPack": ((b"send", b"amq.topic", b"k", b"\xc1"), "the message is not MsgPack"),
    "half a MsgPack": ((b"send", b"amq.topic", b"k", GOOD[:-1]), "the message is not MsgPack"),
    "MsgPack and more": ((b"send", b"amq.topic", b"k", GOOD + b"\x00"), "the message is not MsgPack"),
    "an empty message": ((b"send", b"amq.topic", b"k", b""), "the message is not MsgPack"),
    "a length beyond all": ((b"send", b"amq.topic", b"k", b"\xc6\xff\xff\xff\xff"), "the message is not MsgPack"),
    "arrays within arrays": ((b"send", b"amq.topic", b"k", b"\x91" * 50_000), "the message is not MsgPack"),
    "half a megabyte of arrays": (
        (b"send", b"amq.topic", b"k", b"\x81\xa7headers\xdd" + struct.pack(">I", 500_000) + b"\x90" * 500_000),
        "properties and headers have more than",
    ),
    "an array": ((b"send", b"amq.topic", b"k", b"\x90"), "a message is a MsgPack map"),
    "an unknown entry": (raw(payload=b"", paylod=b""), "a message is a MsgPack map"),
    "a payload of text": (raw(payload="text"), "payload is MsgPack bin"),
    "properties that are none": (raw(properties=[1]), "properties and headers are MsgPack maps"),
    "headers that are none": (raw(headers="h"), "properties and headers are MsgPack maps"),
    "an unknown property": (raw(properties={"content-type": "a"}), "'content-type' is no property"),
    "headers among the properties": (raw(properties={"headers": {}}), "'headers' is no property"),
    "a number for text": (raw(properties={"type": 5}), "type is text, not 5"),
    "a text too long": (raw(properties={"app_id": "a" * 256}), "app_id has 256 bytes"),
    "a priority of 256": (raw(properties={"priority": 256}), "priority is a whole number from 0 to 255"),
    "a delivery mode that ends connections": (raw(properties={"delivery_mode": 3}), "delivery_mode is 1"),
    "an expiration that ends channels": (raw(properties={"expiration": "soon"}), "expiration is milliseconds"),
    "an expiration of another script": (raw(properties={"expiration": "٣"}), "expiration is milliseconds"),
    "somebody else's user": (raw(properties={"user_id": "admin"}), "user_id is the name"),
    "a time that is none": (raw(properties={"timestamp": "now"}), "timestamp is a MsgPack timestamp"),
    "copies that end channels": (raw(headers={"CC": "a"}), "the header CC is a list"),
    "copies of numbers": (raw(headers={"BCC": [1]}), "the header BCC is a list"),
    "an integer beyond AMQP": (raw(headers={"a": 2**64 - 1}), "18446744073709551615 does not fit"),
    "a header too deep": (raw(headers={"a": deep(40)}), "headers are nested deeper"),
    "an extension nobody knows": (raw(headers={"a": msgpack.ExtType(9, b"x")}), "MsgPack extension 9"),
    "a header's name too long": (raw(headers={"n" * 256: 1}), "the name of a header has 256 bytes"),
    "a header's name that is a number": (
        (b"send", b"amq.topic", b"k", b"\x81\xa7headers\x81\x05\x05"),
        "the message is not MsgPack",
    ),
    "an unknown exchange": ((b"send", b"no-such-exchange", b"k", GOOD), "there is no exchange 'no-such-exchange'"),
    "an exchange of the broker's own": ((b"send", b"amq.rabbitmq.trace", b"k", GOOD), "the broker refused it"),
    "a call to an unknown exchange": (
        (b"call", b"1", b"no-such-exchange", b"k", GOOD, b""),
        "there is no exchange 'no-such-exchange'",
    ),
    "minus one reply": (call({"replies": -1}), "replies is a whole number"),
    "no replies": (call({"replies": 0}), "replies is a whole number"),
    "half a reply": (call({"replies": 0.5}), "replies is a whole number"),
    "true replies": (call({"replies": True}), "replies is a whole number"),
    "absurd replies": (call({"replies": 2**63}), "replies is a whole number"),
    "a negative time": (call({"timeout": -1}), "timeout is seconds"),
    "no time": (call({"timeout": 0}), "timeout is seconds"),
    "an absurd time": (call({"timeout": 1e308}), "timeout is seconds"),
    "infinity": (call({"timeout": float("inf")}), "timeout is seconds"),
    "not a number": (call({"timeout": float("nan")}), "timeout is seconds"),
    "a time of text": (call({"timeout": "5"}), "timeout is seconds"),
    "unknown options": (call({"retries": 1}), "the options of a call"),
    "options that are none": ((b"call", b"1", b"amq.topic", b"k", GOOD, b"\xc1"), "the options of a call"),
}


@pytest.mark.parametrize("rows", [list(REFUSED)[at::4] for at in range(4)], ids=["first", "second", "third", "fourth"])
def test_what_is_refused(bridge: RunningBridge, rows: list[str]) -> None:
    """Each row, many times: one error each, and nothing else."""
    with watched(bridge) as attacker:
        for name in rows:
            parts, text = REFUSED[name]
            for _ in range(3):
                answer = attacker.ask(*parts)
                assert answer[0] == b"error", name
                assert answer[1].decode().startswith(text), name
                assert len(answer[1]) < 400
                assert answer[2:] == (
                    [parts[1]] if parts[0] in (b"call", b"flush", b"status") and len(parts) > 1 else []
                )
        assert attacker.silent(0.1)


def test_a_part_of_100_mb(bridge: RunningBridge) -> None:
    """The connection ends at the header that announces it, with an error; the same client may come again."""
    with watched(bridge) as attacker:
        part = bytes(100 * MIB)
        attacker.socket.setsockopt(zmq.SNDTIMEO, 5_000)
        for _ in range(3):
            attacker.socket.send_multipart([b"send", b"amq.topic", b"k", part], copy=False)
            said = b"a part of 104857600 bytes; 1114112 are allowed; the connection is closed"
            assert attacker.hear() == [b"error", said]
        assert attacker.flush() == []


def test_a_length_that_is_announced_and_never_comes(bridge: RunningBridge) -> None:
    with watched(bridge):
        host, port = bridge.endpoint.removeprefix("tcp://").split(":")
        for _ in range(20):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48))
                connection.sendall(b"\x02" + struct.pack(">Q", 1 << 40))


def test_a_publish_to_the_default_exchange(bridge: RunningBridge) -> None:
    """It goes to the queue of that name. Where there is none AMQP drops it, and so it is here."""
    with watched(bridge) as attacker:
        for _ in range(100):
            attacker.say(b"send", b"", b"no-such-queue", GOOD)
        assert attacker.flush() == []


def test_more_topics_than_a_client_may_have(bridge: RunningBridge) -> None:
    with watched(bridge) as attacker:
        topics = [b"many.%d" % number for number in range(2_000)]
        attacker.say(b"bind", b"", *topics[:1_000])
        attacker.say(b"bind", b"", *topics[1_000:])
        assert attacker.flush() == [[b"error", b"a client may have 1024 topics"]]
        attacker.say(b"unbind", b"", *topics[:1_000])
        assert attacker.flush() == []


async def test_what_an_amqp_publisher_may_do(bridge: RunningBridge, rabbitmq: RabbitMq) -> None:
    """Keys and properties that no library of ours would write: the message is delivered, or dropped and counted."""
    lists = {
        "text that is not UTF-8": b"\x80\x00\x02\xff\xfe",
        "a time beyond all years": b"\x00\x40" + b"\x7f" * 8,
        "tables within tables": b"\x20\x00" + nested(200),
    }
    with watched(bridge) as attacker:
        attacker.bind("", "evil.#")
        connection = await aio_pika.connect(rabbitmq.url)
        channel = await connection.channel(publisher_confirms=False)
        underlay: Any = await channel.get_underlay_channel()
        for body, property_list in lists.items():
            await underlay.basic_publish(
                body.encode(), exchange="amq.topic", routing_key="evil.a", properties=ReadyProperties(property_list)
            )
        frames = publication(underlay.number, b"amq.topic", b"evil.\xff", b"\x00\x00", b"no key", 131_072)
        await underlay.write_queue.put(ChannelFrame(frames, False))
        await underlay.basic_publish(b"good", exchange="amq.topic", routing_key="evil.b")
        heard = [each["payload"] for _, each in attacker.messages(3)]
        await connection.close()
        attacker.say(b"unbind", b"", b"evil.#")
        attacker.flush()
    assert heard == [b"text that is not UTF-8", b"a time beyond all years", b"good"]


def nested(levels: int) -> bytes:
    table = b""
    for _ in range(levels):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    return struct.pack(">I", len(table)) + table


def test_a_stranger_is_not_answered(start_bridge: StartBridge, tmp_path: Path) -> None:
    """CURVE: who has no key, or one that is not in the folder, is not heard; who has one is."""
    keys = {name: make_keys(tmp_path, name) for name in ("bridge", "friend", "stranger")}
    clients = tmp_path / "clients"
    clients.mkdir()
    Path(keys["friend"][0]).rename(clients / "friend.key")
    bridge = start_bridge("--curve-key", keys["bridge"][1], "--curve-clients", str(clients))
    public = zmq.auth.load_certificate(keys["bridge"][0])[0]

    def curve(name: str) -> dict[str, Any]:
        own_public, own_secret = zmq.auth.load_certificate(keys[name][1])
        return {"curve_serverkey": public, "curve_publickey": own_public, "curve_secretkey": own_secret}

    with dealers(bridge.endpoint, **curve("friend")) as (friend,):
        friend.bind("", "secret.#")
        with dealers(bridge.endpoint) as (plain,), dealers(bridge.endpoint, **curve("stranger")) as (stranger,):
            for outsider in (plain, stranger):
                outsider.socket.setsockopt(zmq.SNDTIMEO, 200)
                with contextlib.suppress(zmq.Again):  # ZeroMQ may have given up already
                    outsider.say(b"bind", b"", b"secret.#")
                    outsider.say(b"status", b"1")
                assert outsider.silent(0.5)
        friend.say(b"send", b"amq.topic", b"secret.a", GOOD)
        assert [key for key, _ in friend.messages(1)] == ["secret.a"]
        assert bridge.status()["routes"]["count"] == 1
