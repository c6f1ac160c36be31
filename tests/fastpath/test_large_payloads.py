"""Large payloads, which outboxes share: the compiled path against the pure one, and against a socket that takes parts."""

from __future__ import annotations

import random
import re
import socket
from typing import Any

import pytest

from fumarole.core.limits import Limits
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.desk import Client, Desk, MqttClient
from tests.fastpath.test_equal import pieces

LIMITS = Limits(payload=100_000)
SIZES = (0, 20, 8_000, 8_186, 8_192, 9_000, 20_000, 70_000)
"""Below and above what is shared, and more than one read brings."""
PATTERNS = ("a", "a.*", ">", "a.b")


def publication(chance: random.Random, number: int) -> bytes:
    """A PUB or HPUB whose payload begins with its number."""
    topic = chance.choice(["a", "a.b", "b"])
    reply = chance.choice(["", "", "r "])
    payload = b"%06d" % number + bytes([chance.randrange(97, 123)]) * chance.choice(SIZES)
    if chance.random() < 0.3:
        block = b"NATS/1.0\r\nA: b\r\n\r\n"
        return f"HPUB {topic} {reply}{len(block)} {len(block) + len(payload)}\r\n".encode() + block + payload + b"\r\n"
    return f"PUB {topic} {reply}{len(payload)}\r\n".encode() + payload + b"\r\n"


def play(hot_path: HotPath, seed: int) -> list[Any]:
    """What the clients of a random conversation hear, and what is counted."""
    chance = random.Random(seed)
    rules = NamespaceRules(overflow=chance.choice(list(Overflow)), outbox=chance.choice([30_000, 150_000, 1 << 22]))
    desk = Desk(hot_path, LIMITS, {"default": rules})
    clients = [desk.connect(headers=number != 1) for number in range(3)]
    devices = [MqttClient(desk), MqttClient(desk, version=4)]
    for number, client in enumerate(clients):
        for pattern in chance.sample(PATTERNS, 2):
            client.say(f"SUB {pattern} {chance.choice(['', 'shared '])}{number}{PATTERNS.index(pattern)}\r\n")
    devices[0].subscribe("#", qos=1)
    devices[1].subscribe("a/+")
    heard: list[Any] = []
    for number in range(0, 60, 3):
        data = b"".join(publication(chance, number + each) for each in range(3))
        for piece in pieces(data, chance.getrandbits(60)):
            clients[chance.randrange(2)].say(piece) if number % 2 else clients[2].say(piece)
        if chance.random() < 0.2:
            heard.append([client.hears() for client in clients])
            heard.append([device.raw() for device in devices])
    heard.append([client.hears() for client in clients])
    heard.append([device.raw() for device in devices])
    heard.append([(k.key, k.accepted, k.dropped) for each in clients for k in each.session._consumers.values()])
    heard.append([each.session.close_expected() for each in clients])
    heard.append(desk.counters())
    return heard


@pytest.mark.parametrize("block", range(4))
def test_the_same_bytes_out(block: int) -> None:
    fast = compiled()
    assert fast is not None
    for seed in range(block * 40, block * 40 + 40):
        assert play(fast, seed) == play(PLAIN, seed), seed


MESSAGE = re.compile(rb"(MSG a 1 (\d+)\r\n)|PONG\r\n")


def messages_in(data: bytes) -> tuple[list[bytes], int]:
    """The payloads of these frames, and the number of PONGs. Anything else is a frame that was cut."""
    payloads, pongs, at = [], 0, 0
    while at < len(data):
        found = MESSAGE.match(data, at)
        assert found, data[at : at + 40]
        at = found.end()
        if found[1]:
            payloads.append(data[at : at + int(found[2])])
            at += int(found[2]) + 2
        else:
            pongs += 1
    return payloads, pongs


class Reader:
    """The other end of a consumer's socket, which reads a little now and then."""

    def __init__(self, client: Client) -> None:
        self.outbox: Any = client.session.outbox
        self.here, self.there = socket.socketpair()
        self.received = bytearray()
        for end in (self.here, self.there):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def read(self, most: int) -> None:
        try:
            self.received += self.there.recv(most)
        except BlockingIOError:
            return

    def take_turn(self, chance: random.Random) -> None:
        """As the pump does: what the socket takes, and sometimes a chunk of the rest by the transport."""
        if not self.outbox.send(self.here.fileno()) and chance.random() < 0.5:
            rest = self.outbox.cut(chance.choice([1, 5_000, 64 * 1024]))
            while rest:
                try:
                    rest = rest[self.here.send(rest) :]
                except BlockingIOError:
                    self.read(8_000)
        self.read(chance.randrange(1, 60_000))

    def finish(self) -> bytes:
        while not self.outbox.send(self.here.fileno()):
            self.read(100_000)
        before = -1
        while len(self.received) > before:
            before = len(self.received)
            self.read(1 << 20)
        self.here.close()
        self.there.close()
        return bytes(self.received)


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
def test_slow_readers_get_whole_frames_in_order(overflow: Overflow) -> None:
    """D4, D6: three consumers share payloads, and each socket takes parts of frames at its own pace."""
    fast = compiled()
    assert fast is not None
    for seed in range(25):
        chance = random.Random(seed)
        desk = Desk(
            fast, LIMITS, {"default": NamespaceRules(overflow=overflow, outbox=chance.choice([80_000, 200_000]))}
        )
        publisher = desk.connect()
        clients = [desk.connect().say("SUB a 1\r\n") for _ in range(3)]
        readers = [Reader(client) for client in clients]
        published = []
        for number in range(60):
            payload = b"%06d" % number + bytes([97 + number % 26]) * chance.choice(SIZES)
            published.append(payload)
            for piece in pieces(b"PUB a %d\r\n%b\r\n" % (len(payload), payload), chance.getrandbits(60)):
                publisher.say(piece)
            if chance.random() < 0.1:
                clients[0].say("PING\r\n")
            chance.choice(readers).take_turn(chance)
        dropped = [k.dropped for client in clients for k in client.session._consumers.values()]
        for reader, missed in zip(readers, dropped, strict=True):
            payloads, _ = messages_in(reader.finish())
            order = {payload: place for place, payload in enumerate(published)}
            assert payloads == sorted(payloads, key=order.__getitem__)
            assert len(payloads) + missed == len(published)
        assert overflow is Overflow.DROP_NEWEST or any(dropped)
        assert all(reader.outbox.size == 0 for reader in readers)
