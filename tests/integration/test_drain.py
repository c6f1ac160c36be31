"""SIGTERM and SIGINT: no new connections, outboxes leave, then the end, with 0 and in time."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest

from tests.integration.conftest import Authority, StartBroker
from tests.integration.raw import RawClient, messages

PAYLOAD = b"x" * 1000
MANY = 3000
"""So much that sockets' buffers cannot hold it, and an outbox can."""


def fill(port: int, count: int = MANY) -> None:
    """Publishes numbered messages to `a`; returns when all are routed."""
    with RawClient(port) as publisher:
        publisher.connect()
        publisher.talk(b"".join(b"PUB a 1008\r\n%08d%b\r\n" % (number, PAYLOAD) for number in range(count)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nobody_is_there(start_broker: StartBroker, number: signal.Signals) -> None:
    assert start_broker().stop(number) < 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_in_an_outbox_leaves_first(start_broker: StartBroker, number: signal.Signals) -> None:
    broker = start_broker()
    consumers = [RawClient(broker.port, receive_buffer=4096) for _ in range(3)]
    for consumer in consumers:
        consumer.connect()
        consumer.talk(b"SUB a 1\r\n")
    fill(broker.port)
    asked = broker.ask_to_end(number)
    for consumer in consumers:
        heard = messages(consumer.read_to_end())
        assert [int(payload[:8]) for *_, payload in heard] == list(range(MANY))
        consumer.close()
    assert broker.await_end(asked) < 10


@pytest.mark.parametrize(
    "engine_name", ["compiled"], indirect=True
)  # it takes its time, and no hot_path has to do with it
def test_a_consumer_that_takes_its_time(start_broker: StartBroker) -> None:
    """Longer than a closed session otherwise gets for its last words."""
    broker = start_broker()
    with RawClient(broker.port, receive_buffer=4096) as consumer:
        consumer.connect()
        consumer.talk(b"SUB a 1\r\n")
        fill(broker.port)
        asked = broker.ask_to_end()
        half = consumer.read_exactly(200_000)
        while time.monotonic() - asked < 6.5:
            time.sleep(0.1)  # this is what the test is about: a pause
        heard = messages(half + consumer.read_to_end())
        assert [int(payload[:8]) for *_, payload in heard] == list(range(MANY))
        consumer.close()
        assert broker.await_end(asked) < 10


def test_a_consumer_that_never_reads(start_broker: StartBroker) -> None:
    broker = start_broker('[limits]\ndrain = "1 s"\n')
    with RawClient(broker.port, receive_buffer=4096) as stuck, RawClient(broker.port) as other:
        for consumer in (stuck, other):
            consumer.connect()
            consumer.talk(b"SUB a 1\r\n")
        taken = bytearray()
        reading = threading.Thread(target=lambda: taken.extend(other.read_to_end()))
        reading.start()
        fill(broker.port)
        asked = broker.ask_to_end()
        reading.join()
        assert len(messages(bytes(taken))) == MANY
        assert broker.await_end(asked) < 5


def test_nobody_new_comes_in(start_broker: StartBroker) -> None:
    broker = start_broker('[limits]\ndrain = "1 s"\n')
    with RawClient(broker.port, receive_buffer=4096) as stuck:
        stuck.connect()
        stuck.talk(b"SUB a 1\r\n")
        fill(broker.port)
        with RawClient(broker.port) as bystander:
            bystander.connect()
            asked = broker.ask_to_end()
            bystander.read_to_end()  # so the drain has begun, and goes on because of the one that is stuck
        with pytest.raises(OSError), RawClient(broker.port):  # noqa: PT011 - refused or reset
            pass
        broker.await_end(asked)


def test_publishers_go_on_until_they_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker()
    with RawClient(broker.port) as publisher, RawClient(broker.port) as consumer:
        publisher.connect()
        consumer.connect()
        consumer.talk(b"SUB a 1\r\n")
        asked = broker.ask_to_end()
        with contextlib.suppress(OSError):
            while True:
                publisher.send(b"PUB a 5\r\nhello\r\n" * 100)
        heard = consumer.read_to_end()
        assert heard == b"MSG a 1 5\r\nhello\r\n" * heard.count(b"MSG")
        consumer.close()
        assert broker.await_end(asked) < 5


def test_tls_clients_too(start_broker: StartBroker, authority: Authority) -> None:
    broker = start_broker(authority.config())
    with RawClient(broker.port, receive_buffer=4096) as consumer, RawClient(broker.port) as publisher:
        for client in (consumer, publisher):
            client.start_tls(authority.client_context())
            client.connect()
        consumer.talk(b"SUB a 1\r\n")
        publisher.talk(b"".join(b"PUB a 1008\r\n%08d%b\r\n" % (number, PAYLOAD) for number in range(MANY)))
        asked = broker.ask_to_end()
        assert len(messages(consumer.read_to_end())) == MANY
        consumer.close()
        publisher.close()
        assert broker.await_end(asked) < 10


def test_in_the_middle_of_logins_and_handshakes(start_broker: StartBroker, authority: Authority) -> None:
    broker = start_broker('users = []\n[limits]\ntls_handshake = "1 s"\n' + authority.config())
    with RawClient(broker.port), RawClient(broker.port) as half:
        half.send(b"\x16\x03\x01\x02\x00\x01")
        assert broker.stop() < 10
