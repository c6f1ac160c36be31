"""Consumers that do not read, or hardly: publishers never wait for them, others lose nothing, memory stays bounded (D6, G3)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.integration.conftest import Authority, Brokers, StartBroker
from tests.integration.oracle import MIB, Target, watched
from tests.integration.raw import RawClient, messages

KILO = b"x" * 992
Ending = Callable[[RawClient], None]


class Listener:
    """Reads everything, in a thread of its own, until the last message."""

    def __init__(self, client: RawClient, last: bytes) -> None:
        self._client = client
        self._last = last
        self.heard = b""
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        self.heard = self._client.read_until(self._last)

    def wait(self) -> bytes:
        self._thread.join()
        return self.heard


@contextmanager
def stuck_consumers(
    port: int, count: int, subscription: bytes = b"SUB a 1\r\n", ending: Ending = RawClient.vanish
) -> Iterator[list[RawClient]]:
    clients = [RawClient(port, receive_buffer=4096) for _ in range(count)]
    try:
        for client in clients:
            client.connect()
            client.talk(subscription)
        yield clients
    finally:
        for client in clients:
            ending(client)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("payload", "total"), [(992, 200 * MIB), (92, 20 * MIB)], ids=["1 kB", "100 B"])
def test_twenty_consumers_never_read(target: Target, payload: int, total: int) -> None:
    """Hazard 8. nats-server 2.15.1 grows to 1,524 MB while 200 MB is published; here it stays below 200."""
    if target.broker.hot_path == "plain":
        total //= 4  # takes several times as long, and the outboxes have long been full
    with stuck_consumers(target.port, 20), RawClient(target.port) as reader, RawClient(target.port) as publisher:
        reader.connect()
        reader.talk(b"SUB a 1\r\n")
        publisher.connect()
        publisher.socket.settimeout(60)
        batch = b"PUB a %d\r\n%b\r\n" % (payload, b"x" * payload) * (MIB // payload)
        count = 0
        for _ in range(total // len(batch)):
            listener = Listener(reader, b"the end\r\n")
            publisher.talk(batch + b"PUB a 7\r\nthe end\r\n")
            count += listener.wait().count(b"MSG a 1 ")
        assert count == total // len(batch) * (MIB // payload + 1), "the one who reads lost something"
        assert target.broker.memory() < 200 * MIB
    assert target.broker.peak_memory() < 200 * MIB


def test_drop_oldest_keeps_the_newest(brokers: Brokers, engine_name: str) -> None:
    """The default: sensor data is best fresh. Whole messages, in order, the last one always there, drops counted."""
    broker = brokers.share('[namespaces.default]\noutbox = "256 KiB"\n', engine_name)
    heard, sent, dropped = flood(broker.port)
    assert heard[-1] == sent - 1
    assert heard == sorted(heard)
    assert heard[0] == 0, "what was in the socket before could not be dropped"
    assert 0 < len(heard) == sent - dropped


def test_drop_newest_keeps_the_oldest(brokers: Brokers, engine_name: str) -> None:
    broker = brokers.share('[namespaces.default]\noverflow = "drop-newest"\noutbox = "256 KiB"\n', engine_name)
    heard, sent, dropped = flood(broker.port)
    assert heard == list(range(len(heard)))
    assert 0 < len(heard) == sent - dropped


def test_disconnect_says_why(brokers: Brokers, engine_name: str) -> None:
    broker = brokers.share('[namespaces.default]\noverflow = "disconnect"\noutbox = "256 KiB"\n', engine_name)
    with stuck_consumers(broker.port, 1) as (stuck,):
        with RawClient(broker.port) as publisher:
            publisher.connect()
            publisher.talk(numbered(10_000))
        heard = stuck.read_to_end()
    assert heard.endswith(b"\r\n-ERR 'Slow Consumer'\r\n")
    numbers = [int(payload[:8]) for *_, payload in messages(heard)]
    assert numbers == list(range(len(numbers)))


def numbered(count: int) -> bytes:
    return b"".join(b"PUB a 1000\r\n%08d%b\r\n" % (number, KILO) for number in range(count))


def flood(port: int, count: int = 10_000) -> tuple[list[int], int, int]:
    """Numbers that a consumer finds when it begins to read after so many were published; how many those were; drops counted."""
    with stuck_consumers(port, 1) as (slow,), RawClient(port) as publisher:
        publisher.connect()
        publisher.talk(b"SUB in 2\r\n")
        before = dropped(publisher)
        publisher.talk(numbered(count))
        heard = messages(slow.talk(b""))
        drops = dropped(publisher) - before
    return [int(payload[:8]) for *_, payload in heard], count, drops


def dropped(client: RawClient) -> int:
    """What the namespace has counted as dropped because an outbox was full. The client has subscribed to `in`."""
    client.send(b"PUB $FUM.stats in 0\r\n\r\nPING\r\n")
    ((*_, stats),) = messages(client.read_until(b"PONG\r\n"))
    count: int = json.loads(stats)["dropped"]["outbox full"]
    return count


def test_a_group_does_without_its_stuck_members(target: Target) -> None:
    """G3: while one is healthy, a group loses nothing to the others' ill health."""
    stuck = stuck_consumers(target.port, 3, b"SUB work g 1\r\n")
    with stuck, RawClient(target.port) as healthy, RawClient(target.port) as publisher:
        healthy.connect()
        healthy.talk(b"SUB work g 1\r\nSUB in 2\r\n")
        publisher.connect()
        before = dropped(healthy)
        batch = b"PUB work 1000\r\n" + b"x" * 1000 + b"\r\n"
        while target.settle(lambda seen: True)["waiting"] < 3 * 4 * MIB - 100_000:
            publisher.talk(batch * 500)
            healthy.talk(b"")
        heard = 0
        for _ in range(20):
            publisher.talk(batch * 100)
            heard += healthy.talk(b"").count(b"MSG work 1 ")
        assert heard >= 1900, "the stuck ones have hardly any room left"
        assert dropped(healthy) == before


@pytest.mark.parametrize("secure", [False, True], ids=["plain text", "TLS"])
def test_a_slow_reader_gets_it_all_in_the_end(start_broker: StartBroker, authority: Authority, secure: bool) -> None:
    """Frames larger than any buffer, read in small pieces, while others are served: nothing is lost below the limit."""
    broker = start_broker(authority.config() if secure else "")
    with RawClient(broker.port, receive_buffer=4096) as slow, RawClient(broker.port) as publisher:
        for client in (slow, publisher):
            if secure:
                client.start_tls(authority.client_context())
            client.connect()
        slow.talk(b"SUB a 1\r\n")
        payloads = [bytes([65 + n]) * 1_000_000 for n in range(3)]
        publisher.talk(b"".join(b"PUB a 1000000\r\n%b\r\n" % payload for payload in payloads))
        slow.send(b"PING\r\n")
        assert [payload for *_, payload in messages(slow.read_until(b"PONG\r\n"))] == payloads


def test_stuck_tls_readers(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    """TLS has buffers of its own, which must not become a second outbox."""
    broker = brokers.share(authority.config(), engine_name, observed=True)
    with watched(broker, brokers.canary(broker, authority=str(authority.authority_file))):
        stuck = [RawClient(broker.port, receive_buffer=4096) for _ in range(10)]
        for client in stuck:
            client.start_tls(authority.client_context())
            client.connect()
            client.talk(b"SUB a 1\r\n")
        with RawClient(broker.port) as publisher:
            publisher.start_tls(authority.client_context())
            publisher.connect()
            publisher.socket.settimeout(60)
            for _ in range(60):
                publisher.talk(numbered(1000))
            assert broker.memory() < 150 * MIB
        for client in stuck:
            client.vanish()


def test_a_message_larger_than_an_outbox(brokers: Brokers, engine_name: str) -> None:
    """It can never be delivered, and takes nothing else with it."""
    broker = brokers.share('[namespaces.default]\noutbox = "64 KiB"\n', engine_name)
    with RawClient(broker.port) as client:
        client.connect()
        heard = client.talk(b"SUB a 1\r\nPUB a 1\r\n1\r\nPUB a 100000\r\n" + bytes(100_000) + b"\r\nPUB a 1\r\n2\r\n")
        assert heard == b"MSG a 1 1\r\n1\r\nMSG a 1 1\r\n2\r\nPONG\r\n"


@pytest.mark.parametrize("ending", [RawClient.vanish, RawClient.close], ids=["vanish", "close"])
def test_full_outboxes_go_with_their_connections(target: Target, ending: Ending) -> None:
    """Round after round: memory has a plateau."""
    target.memory_margin = 24 * MIB
    for _ in range(4):
        with stuck_consumers(target.port, 15, ending=ending), RawClient(target.port) as publisher:
            publisher.connect()
            publisher.talk(numbered(8000))
        target.settle(lambda seen: bool(seen["connections"] == 2))
