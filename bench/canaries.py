"""One small message at a time through each of three doors, and how long it takes back: a process of its own.

    python bench/canaries.py NATS_PORT MSGPACK_PORT KUBEMQ_PORT SECONDS

Every 5 ms each door gets a message, whether the one before has come back or not, so a broker that stands still delays
all that fall into that time. Prints JSON: for each door how many were sent, how many came back, and the 99th percentile
in ms.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgpack

from bench.grpc_load import DATA, Connection, frame, message
from fumarole.protocols.kubemq_pb2 import Event, Subscribe

PERIOD = 0.005
PATIENCE = 10.0
PRODUCER = "6a1f0f3c-8a70-4d0e-9c43-2f3a1b5c7d90"


class Canary:
    """Messages that come back in the order in which they were sent."""

    def __init__(self, publisher: socket.socket, data: bytes, consumer: socket.socket, came: Callable[[], int]) -> None:
        self._publisher = publisher
        self._data = data
        self.consumer = consumer
        self._came = came
        """Reads what is there. How many messages have come in all."""
        self.sent: list[float] = []
        self.took: list[float] = []

    def sing(self) -> None:
        self.sent.append(time.monotonic())
        self._publisher.sendall(self._data)

    def hear(self) -> None:
        now, came = time.monotonic(), self._came()
        self.took += [now - sent for sent in self.sent[len(self.took) : came]]

    def told(self) -> dict[str, float]:
        took = sorted(self.took)
        return {"sent": len(self.sent), "came": len(took), "p99": 1e3 * took[int(len(took) * 0.99)]}


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), PATIENCE)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def counter(consumer: socket.socket, mark: bytes) -> Callable[[], int]:
    """Counts this in what comes, however it is cut."""
    rest, found = b"", 0

    def came() -> int:
        nonlocal rest, found
        data = rest + consumer.recv(1 << 16)
        found += data.count(mark)
        end = data.rfind(mark)
        rest = data[end + len(mark) :] if end >= 0 else data
        return found

    return came


def at_nats(port: int) -> Canary:
    consumer, publisher = connected(port), connected(port)
    for each in (consumer, publisher):
        each.sendall(b'CONNECT {"verbose":false}\r\n')
    consumer.sendall(b"SUB canary.nats 1\r\nPING\r\n")
    said = b""
    while b"PONG\r\n" not in said:
        said += consumer.recv(1 << 16)
    return Canary(
        publisher, b"PUB canary.nats 4\r\n21.5\r\n", consumer, counter(consumer, b"MSG canary.nats 1 4\r\n21.5\r\n")
    )


def at_msgpack(port: int) -> Canary:
    consumer, publisher = connected(port), connected(port)
    packed = msgpack.packb([PRODUCER, {}, 21.5])
    publisher.sendall(msgpack.packb([PRODUCER, {"Canary": True}, 21.5]))
    consumer.sendall(msgpack.packb("Canary = true"))
    mark = msgpack.packb(PRODUCER)
    said = b""
    while mark not in said:  # the set, with this producer in it
        said += consumer.recv(1 << 16)
    return Canary(publisher, packed, consumer, counter(consumer, mark))


def at_kubemq(port: int) -> Canary:
    receiver = Connection(port, "SubscribeToEvents")
    asked = Subscribe(SubscribeTypeData=Subscribe.Events, ClientID="canary", Channel="canary.kubemq")
    receiver.socket.sendall(frame(DATA, 1, 1, message(asked.SerializeToString())))
    while not receiver.has_head:
        receiver.read()
    sender = Connection(port, "SendEventsStream")
    event = Event(EventID="1", ClientID="canary", Channel="canary.kubemq", Body=b"21.5", Store=False)
    data = frame(DATA, 0, 1, message(event.SerializeToString()))
    sender.socket.sendall(data)
    while not receiver.received:
        receiver.read()
    each = receiver.received

    def came() -> int:
        receiver.read()
        return receiver.received // each - 1

    return Canary(sender.socket, data, receiver.socket, came)


def sing(canaries: list[Canary], seconds: float) -> None:
    """Each in its turn; what comes is heard at once."""
    by_socket = {canary.consumer: canary for canary in canaries}
    due = time.monotonic()
    end, turn = due + seconds, 0
    while (now := time.monotonic()) < end + PATIENCE:
        if now >= due and now < end:
            canaries[turn % len(canaries)].sing()
            turn += 1
            due += PERIOD / len(canaries)
        elif now >= end and all(len(each.took) == len(each.sent) for each in canaries):
            return
        waits = max(due - time.monotonic(), 0.0) if now < end else 0.1
        for ready in select.select(list(by_socket), [], [], waits)[0]:
            by_socket[ready].hear()


def main() -> None:
    nats, msgpack_port, kubemq, seconds = sys.argv[1:]
    found = {"NATS": at_nats(int(nats)), "MsgPack": at_msgpack(int(msgpack_port)), "KubeMQ": at_kubemq(int(kubemq))}
    sing(list(found.values()), float(seconds))
    print(json.dumps({door: canary.told() for door, canary in found.items()}))


if __name__ == "__main__":
    main()
