"""Very many clients that connect, speak and leave together, at the doors for many clients (hazards 1, 14 and 17).

The broker is stopped while they speak and while they leave. So all that they say arrives in one turn of the loop.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import NONE
from fumarole.protocols.mqtt_packets import V3, Connect, Publish
from tests.integration.conftest import Brokers
from tests.integration.mqtt.test_mqtt import port_of as mqtt_port_of
from tests.integration.mqtt.test_mqtt import web_port_of
from tests.integration.oracle import MIB, watched
from tests.integration.running import RunningBroker

CONFIG: Final = '[doors]\nmqtt = ["127.0.0.1:0"]\nhttp = ["127.0.0.1:0"]\n'
AT_ONCE: Final = 1_000
"""Clients that connect before the first of them says who it is: that has to be within two seconds."""
MESSAGES: Final = 150_000
"""Of all clients together, each with a topic of its own."""
PATIENCE: Final = 60.0
MEMORY_MARGIN: Final = 512 * MIB
NATS_HELLO: Final = b"CONNECT {}\r\nPING\r\n"
UPGRADE: Final = (
    b"GET /nats HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Clients(NamedTuple):
    """What the clients of one door say, and the last bytes of the answer."""

    port: Callable[[RunningBroker], int]
    hello: Callable[[int], bytes]
    welcome: bytes
    words: Callable[[int, int], bytes]
    answer: bytes


def nats_words(number: int, messages: int) -> bytes:
    return b"".join(b"PUB t.%d.%d 4\r\n21.5\r\n" % (number, each) for each in range(messages)) + b"PING\r\n"


def mqtt_hello(number: int) -> bytes:
    return packets.connect(Connect(V3, f"c{number}", True, 0, None, None, None, NONE))


def mqtt_words(number: int, messages: int) -> bytes:
    said = (Publish(f"t/{number}/{each}", b"21.5", 0, False, False, 0, NONE) for each in range(messages))
    return b"".join(packets.publish(each, V3) for each in said) + packets.PINGREQ


def in_frame(data: bytes) -> bytes:
    """With a mask of zeros."""
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x82" + size + bytes(4) + data


CLIENTS: Final = {
    "nats": Clients(lambda broker: broker.port, lambda _: NATS_HELLO, b"PONG\r\n", nats_words, b"PONG\r\n"),
    "mqtt": Clients(mqtt_port_of, mqtt_hello, b"\x20\x02\x00\x00", mqtt_words, packets.PINGRESP),
    "websocket": Clients(
        web_port_of,
        lambda _: UPGRADE + in_frame(NATS_HELLO),
        b"PONG\r\n",
        lambda number, messages: in_frame(nats_words(number, messages)),
        b"PONG\r\n",
    ),
}


@contextmanager
def stopped(broker: RunningBroker) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def connected(clients: Clients, port: int, count: int) -> list[socket.socket]:
    peers: list[socket.socket] = []
    while len(peers) < count:
        fresh = []
        for _ in range(min(AT_ONCE, count - len(peers))):
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))
            peer.settimeout(PATIENCE)
            fresh.append(peer)
        for number, peer in enumerate(fresh, len(peers)):
            peer.sendall(clients.hello(number))
        peers += fresh
    return peers


def heard(peer: socket.socket, last: bytes) -> None:
    data = b""
    while not data.endswith(last):
        more = peer.recv(4096)
        assert more, data
        data += more


@pytest.mark.parametrize("door", CLIENTS)
@pytest.mark.parametrize("count", [1_500, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_a_storm(brokers: Brokers, door: str, count: int) -> None:
    """Each is let in, heard and answered, and the loop serves others meanwhile."""
    broker, clients = brokers.share(CONFIG, observed=True), CLIENTS[door]
    with watched(broker, brokers.canary(broker)) as target:
        target.memory_margin = MEMORY_MARGIN
        peers = connected(clients, clients.port(broker), count)
        for peer in peers:
            heard(peer, clients.welcome)
        with stopped(broker):
            for number, peer in enumerate(peers):
                peer.sendall(clients.words(number, MESSAGES // count))
        for peer in peers:
            heard(peer, clients.answer)
        with stopped(broker):
            for number, peer in enumerate(peers):
                peer.sendall(clients.words(number, MESSAGES // count))
                peer.close()
