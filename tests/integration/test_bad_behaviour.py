"""Clients that say nothing wrong, but too much of it, or stop in the middle. Each under the oracle of oracle.py."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from tests.integration.conftest import Authority, Brokers, StartBroker
from tests.integration.oracle import MIB, Target, watched
from tests.integration.raw import Closed, RawClient

CONNECT = b'CONNECT {"verbose":false}\r\n'


def cut_off(target: Target, client: RawClient, batch: bytes) -> None:
    """Says it again and again, without reading the answers, until the broker has had enough."""
    client.socket.settimeout(30)
    before = target.settle(lambda seen: True)["cut_off"]
    for _ in range(1000):
        client.send(batch)
        if target.settle(lambda seen: True)["cut_off"] > before:
            return
    raise AssertionError("it never was")


def test_a_million_subscriptions_on_one_connection(target: Target) -> None:
    """65,536 are taken, the others refused; all are gone, and their memory with them, when the connection is.

    Objects so small leave holes that an allocator keeps; so it is done three times, and the second and third take none.
    """
    target.memory_margin = 40 * MIB
    most = 1_000_000 if target.broker.hot_path == "compiled" else 300_000  # plain takes longer, for refusing the same
    for count in (most, 100_000, 100_000):
        with RawClient(target.port) as client:
            client.connect()
            client.socket.settimeout(60)
            refused = 0
            for start in range(0, count, 10_000):
                heard = client.talk(b"".join(b"SUB a.%d %d\r\n" % (n, n) for n in range(start, start + 10_000)))
                refused += heard.count(b": maximum subscriptions exceeded'\r\n")
            assert refused == count - 65_536
            assert target.settle(lambda seen: True)["consumers"]["default"] == 65_536 + 1  # and the canary's
        assert target.settle(lambda seen: seen["consumers"]["default"] == 1)["consumers"]["default"] == 1


@pytest.fixture
def strict_target(brokers: Brokers, engine_name: str) -> Iterator[Target]:
    """With small outboxes, which are full soon."""
    broker = brokers.share('[limits]\noutbox = "256 KiB"\n', engine_name, observed=True)
    with watched(broker, brokers.canary(broker)) as target:
        yield target


def test_refusals_without_reading_them(strict_target: Target) -> None:
    """They fill the outbox, and who reads none of them is cut off."""
    with RawClient(strict_target.port, receive_buffer=4096) as client:
        client.connect()
        cut_off(strict_target, client, b"SUB a.>.b 1\r\n" * 5000)


@pytest.mark.parametrize("ending", ["vanishes", "closes"])
def test_a_client_stops_anywhere(target: Target, ending: str) -> None:
    """Aborted at every byte of a conversation."""
    said = CONNECT + b"SUB a g 1\r\nHPUB a r 12 17\r\nNATS/1.0\r\n\r\nhello\r\nPUB b 100\r\nhel"
    for cut in range(len(said) + 1):
        client = RawClient(target.port)
        client.send(said[:cut])
        if ending == "vanishes":
            client.vanish()
        else:
            client.close()


def test_clients_vanish_in_the_middle_of_large_payloads(target: Target) -> None:
    for _ in range(50):
        client = RawClient(target.port)
        client.send(CONNECT + b"PUB a 1048576\r\n" + b"x" * 500_000)
        client.vanish()


def test_a_thousand_connections_half_through_a_first_frame(target: Target) -> None:
    """Hazard 1: sizes before trust. What is announced costs nothing before it comes, and the time for it is short."""
    before = target.broker.memory()
    clients = [RawClient(target.port) for _ in range(1000)]
    for number, client in enumerate(clients):
        client.send(
            [b'CONNECT {"user":"', b"PUB a 1048576\r\nhel", b"SUB a", b"HPUB a 1000000 1048576\r\n"][number % 4]
        )
    seen = target.settle(lambda seen: bool(seen["connections"] >= 1000))
    assert seen["connections"] == 1000 + 2  # and the canary's
    assert target.broker.memory() - before < 40 * MIB
    began = time.monotonic()
    for client in clients:
        assert client.read_to_end() == b"-ERR 'Authentication Timeout'\r\n"
        client.close()
    assert time.monotonic() - began < 6


def test_silent_connections(target: Target) -> None:
    clients = [RawClient(target.port) for _ in range(1000)]
    for client in clients:
        assert client.read_to_end() == b"-ERR 'Authentication Timeout'\r\n"
        client.close()


def test_pings_without_reading_the_answers(strict_target: Target) -> None:
    with RawClient(strict_target.port, receive_buffer=4096) as client:
        client.connect()
        cut_off(strict_target, client, b"PING\r\n" * 10_000)


def test_unread_answers_in_the_way_of_messages(strict_target: Target) -> None:
    """An outbox full of answers, which may not be dropped, and a busy topic: no message may cost a walk past them all."""
    with RawClient(strict_target.port, receive_buffer=4096) as stuck, RawClient(strict_target.port) as publisher:
        publisher.connect()
        stuck.connect()
        stuck.talk(b"SUB a 1\r\n")
        # More than the outbox takes of messages, less than it takes to be cut off.
        while strict_target.settle(lambda seen: True)["waiting"] < 320 * 1024:
            stuck.send(b"PING\r\n" * 2_000)
        for _ in range(20):
            publisher.talk(b"PUB a 5\r\nhello\r\n" * 500)


def test_thousands_of_wildcards(target: Target) -> None:
    """Hazard 3: patterns that all match one deep topic, each differently. Matching goes on step by step."""
    depth = 16
    patterns = [".".join("*" if n >> bit & 1 else "a" for bit in range(depth)) for n in range(0, 1 << depth, 16)]
    with RawClient(target.port) as client:
        client.connect()
        client.socket.settimeout(30)
        client.talk(b"".join(b"SUB %b %d\r\n" % (pattern.encode(), n) for n, pattern in enumerate(patterns)))
        topic = b".".join([b"a"] * depth)
        assert client.talk(b"PUB %b 0\r\n\r\n" % topic).count(b"MSG ") == len(patterns)
        assert client.talk(b"PUB %b.a 0\r\n\r\n" % topic) == b"PONG\r\n"


def test_globs_that_would_make_a_regular_expression_slow(target: Target) -> None:
    with RawClient(target.port) as client:
        client.connect()
        client.talk(b"SUB %b 1\r\nSUB %bb 2\r\n" % (b"*a" * 1500, b"a*" * 1500))
        for length in range(3000, 3100):
            assert client.talk(b"PUB %b 0\r\n\r\n" % (b"a" * length)).startswith(b"MSG")
            assert client.talk(b"PUB %bc 0\r\n\r\n" % (b"a" * length)) == b"PONG\r\n"


def test_topics_of_two_thousand_words(target: Target) -> None:
    deep = b".".join([b"a"] * 2000)
    with RawClient(target.port) as client:
        client.connect()
        client.talk(b"SUB %b 1\r\nSUB a.> 2\r\nSUB %b 3\r\n" % (deep, b".".join([b"*"] * 2000)))
        for n in range(100):
            assert client.talk(b"PUB %b 0\r\n\r\n" % deep).count(b"MSG ") == 3
            assert client.talk(b"PUB %b.%d 0\r\n\r\n" % (deep, n)).count(b"MSG ") == 1
        assert client.talk(b"PUB %b 0\r\n\r\n" % (b"." * 4000)) == b"PONG\r\n"


def test_deep_patterns_by_the_thousand(target: Target) -> None:
    """Every word of a pattern is a place in the index. What one connection can take up there is bounded."""
    deep = b".".join([b"a"] * 1900)
    before = target.broker.memory()
    with RawClient(target.port) as client:
        client.connect()
        client.socket.settimeout(50)
        for n in range(600):
            client.talk(b"SUB %d.%b %d\r\n" % (n, deep, n))
        assert target.broker.memory() - before < 200 * MIB


@pytest.mark.parametrize("verb", [b"PUB", b"pub"], ids=["as usual", "oddly spelled"])
def test_one_topic_with_very_many_consumers_on_one_connection(target: Target, verb: bytes) -> None:
    """Sixty thousand messages for each one published: the others still get their turn, if only between any two."""
    if target.broker.hot_path == "plain" or verb != b"PUB":
        target.standstill = 0.5
    with RawClient(target.port, receive_buffer=65536) as client, RawClient(target.port) as publisher:
        client.connect()
        client.socket.settimeout(50)
        client.talk(b"".join(b"SUB a %d\r\n" % n for n in range(60_000)))
        publisher.connect()
        publisher.socket.settimeout(50)
        publisher.talk(b"%b a 0\r\n\r\n" % verb * (20 if target.standstill > 0.1 else 200))


def test_reports_on_very_many_consumers(target: Target) -> None:
    """Each looks at thousands of consumers, and one write asks for hundreds of them."""
    with RawClient(target.port) as client:
        client.connect()
        client.socket.settimeout(50)
        client.talk(b"SUB in x\r\n" + b"".join(b"SUB a.%d %d\r\n" % (n, n) for n in range(20_000)))
        heard = client.talk(b"PUB $FUM.consumers in 0\r\n\r\nPUB $FUM.stats in 0\r\n\r\n" * 100)
        assert heard.count(b"MSG in x ") == 200


def test_tls_connections_stop_in_the_handshake(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    """At every few bytes of a client's hello, by closing, by a reset, and by silence."""
    broker = brokers.share(authority.config() + '[limits]\ntls_handshake = "1 s"\n', engine_name, observed=True)
    hello = client_hello(authority)
    with watched(broker, brokers.canary(broker, authority=str(authority.authority_file))):
        silent = []
        for cut in range(0, len(hello), 16):
            closing, vanishing, waiting = (RawClient(broker.port) for _ in range(3))
            for client in (closing, vanishing, waiting):
                client.send(hello[:cut])
            closing.close()
            vanishing.vanish()
            silent.append(waiting)
        garbage = RawClient(broker.port)
        garbage.send(b"CONNECT {}\r\nPING\r\n")
        for client in [*silent, garbage]:
            client.read_to_end()
            client.close()


def client_hello(authority: Authority) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def test_no_file_descriptors_are_left(start_broker: StartBroker) -> None:
    """Who comes then is closed again or waits; those who are in notice nothing, and later it is as before."""
    broker = start_broker()
    with RawClient(broker.port) as client:
        client.connect()
        _, most = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        few = broker.descriptors() + 20
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (few, most))
        crowd = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(60)]
        while not any("no file descriptors are left" in line for line in broker.log):
            client.talk(b"")
        assert client.talk(b"SUB a 1\r\nPUB a 0\r\n\r\n") == b"MSG a 1 0\r\n\r\nPONG\r\n"
        assert broker.descriptors() <= few
        for one in crowd:
            one.close()
        assert client.talk(b"") == b"PONG\r\n"
        with RawClient(broker.port) as late:
            late.connect()
    assert "Traceback" not in broker.tail()
    assert len(broker.log) <= 5


def test_half_a_line_then_nothing_but_time(brokers: Brokers, engine_name: str) -> None:
    """After the greeting silence is cut off too, whatever is half said."""
    broker = brokers.share('[limits]\nidle = "200 ms"\n', engine_name, observed=True)
    with watched(broker, brokers.canary(broker)):
        clients = [RawClient(broker.port) for _ in range(20)]
        for client in clients:
            client.connect()
            client.send(b"PUB a.b.c")
        for client in clients:
            assert client.read_to_end().endswith(b"-ERR 'Stale Connection'\r\n")
            client.close()


def test_who_was_refused_is_not_listened_to(target: Target) -> None:
    """After the error, whatever else was in the same packet, or comes, does not matter."""
    with RawClient(target.port) as witness, RawClient(target.port) as client:
        witness.connect()
        witness.talk(b"SUB evil 1\r\n")
        client.connect()
        with pytest.raises((Closed, OSError)):
            client.talk(b"FOO\r\nPUB evil 0\r\n\r\nSUB evil 1\r\n")
        with contextlib.suppress(OSError):
            client.send(b"PUB evil 0\r\n\r\n")
        assert witness.talk(b"") == b"PONG\r\n"
