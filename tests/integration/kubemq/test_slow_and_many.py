"""Receivers that do not read, and very many receivers."""

from __future__ import annotations

import json
import threading
from typing import Any

from tests.integration.conftest import Brokers
from tests.integration.kubemq.calls import Calls, Receiver
from tests.integration.kubemq.conftest import DOOR, alone, kubemq_port
from tests.integration.oracle import MIB
from tests.integration.raw import RawClient
from tests.integration.running import RunningBroker

OUTBOX = 256 * 1024
SMALL_WINDOW = {"grpc.http2.lookahead_bytes": 65536, "grpc.http2.bdp_probe": 0}
"""What a client that does not read takes all the same."""


def consumers(nats: RawClient) -> list[dict[str, Any]]:
    nats.talk(b"SUB inbox.consumers 9\r\n")
    nats.talk(b"PUB $FUM.consumers inbox.consumers 0\r\n\r\n", until=b"MSG inbox.consumers 9 ")
    report: dict[str, Any] = json.loads(nats.read_until(b"}\r\n").split(b"\r\n", 1)[1])
    worst: list[dict[str, Any]] = report["worst"]
    return worst


def test_slow_receivers_get_the_freshest(brokers: Brokers, engine_name: str) -> None:
    """D6: 20 that do not read cost no memory and no other receiver's time; drops are counted to the message."""
    broker = brokers.share(DOOR + f"namespaces.kubemq.outbox = {OUTBOX}\n", engine_name, observed=True)
    payload, count = b"x" * 32_768, 2000
    with alone(brokers, broker) as target, RawClient(broker.port) as nats:
        target.memory_margin = 48 * MIB
        nats.connect(user="kubemq")
        with Calls(kubemq_port(broker), options=SMALL_WINDOW) as calls:
            slow = [calls.receiver("slow.>") for _ in range(20)]
            for number in range(count):
                nats.send(b"PUB slow.%d %d\r\n%b\r\n" % (number, len(payload), payload))
                if number % 50 == 49:
                    nats.talk(b"")
            peak = broker.memory()
            reports = [report for report in consumers(nats) if report["pattern"] == "slow.>"]
            assert len(reports) == 20
            for receiver in slow:
                numbers = _read_until(receiver, count - 1)
                assert numbers == sorted(set(numbers))
                # What is left is what was sent first, in the client's own buffers, and what was sent last.
                freshest = OUTBOX // (len(payload) + 128)
                assert numbers[-freshest:] == list(range(count - freshest, count))
                assert len(numbers) in [report["delivered"] for report in reports]
            assert all(report["delivered"] + report["dropped"] == count for report in reports)
            assert min(report["dropped"] for report in reports) > count // 2
        assert peak < 200 * MIB


def _read_until(receiver: Receiver, last: int) -> list[int]:
    numbers: list[int] = []
    while not numbers or numbers[-1] != last:
        numbers.append(int(receiver.next().Channel.removeprefix("slow.")))
    return numbers


def test_slow_receivers_are_cut_off_where_the_namespace_says_so(brokers: Brokers, engine_name: str) -> None:
    """At once, though it reads nothing; what it is told, it hears when it reads."""
    config = DOOR + '[namespaces.kubemq]\noverflow = "disconnect"\noutbox = 65536\n'
    broker = brokers.share(config, engine_name, observed=True)
    with Calls(kubemq_port(broker), options=SMALL_WINDOW) as calls, RawClient(broker.port) as nats:
        nats.connect(user="kubemq")
        slow, well = calls.receiver("slow"), calls.receiver("well")
        nats.talk(b"PUB slow 32768\r\n" + b"x" * 32768 + b"\r\n")
        for _ in range(200):
            nats.talk(b"PUB slow 32768\r\n" + b"x" * 32768 + b"\r\nPUB well 1\r\nx\r\n")
            well.next()
        assert broker.observe()["consumers"]["kubemq"] == 1
        assert _last_words(slow) == ("RESOURCE_EXHAUSTED", "slow consumer: the outbox is full")


def _last_words(receiver: Receiver) -> tuple[str, str]:
    for _ in range(200):
        try:
            return receiver.fault()
        except AssertionError:
            continue
    raise AssertionError("it was not cut off")


def test_a_thousand_subscriptions(broker: RunningBroker, brokers: Brokers) -> None:
    """At the same time, on one connection, each with a message of its own, and one for all. Then they are gone."""
    with alone(brokers, broker) as target, Calls(kubemq_port(broker)) as calls:
        target.memory_margin = 64 * MIB
        before = broker.observe()["consumers"]["kubemq"]
        receivers = [calls.receiver(f"many.{number}.*", confirmed=False) for number in range(1000)]
        for receiver in receivers:
            receiver.await_confirmation()
        assert broker.observe()["consumers"]["kubemq"] == before + 1000
        stream = calls.stream()
        for number in range(1000):
            stream.send(f"many.{number}.own", b"%d" % number)
        assert [int(receiver.next().Body) for receiver in receivers] == list(range(1000))
        assert stream.end() == []
        wide = [calls.receiver("many.>") for _ in range(10)]
        calls.send("many.7.all", b"all")
        assert [receiver.next().Body for receiver in (*wide, receivers[7])] == [b"all"] * 11


def test_subscriptions_come_and_go_without_a_trace(broker: RunningBroker, brokers: Brokers) -> None:
    """While others go on: they lose nothing."""
    with alone(brokers, broker) as target, Calls(kubemq_port(broker)) as calls:
        target.memory_margin = 48 * MIB
        steady, stream = calls.receiver("steady"), calls.stream()
        ended = threading.Event()

        def come_and_go() -> None:
            for _ in range(3):
                receivers = [calls.receiver(f"passing.{number % 7}.>", "g" * (number % 3)) for number in range(100)]
                for receiver in receivers:
                    receiver.cancel()
            ended.set()

        others = threading.Thread(target=come_and_go)
        others.start()
        sent = 0
        while not ended.is_set() or sent < 100:
            stream.send("steady", b"%d" % sent)
            assert int(steady.next().Body) == sent
            sent += 1
        others.join()
        assert stream.end() == []
