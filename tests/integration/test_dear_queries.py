"""Standing queries that are dear to evaluate, at ten times the size that once stopped the loop, under the oracle (A5, A6)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from tests.integration.conftest import Brokers
from tests.integration.oracle import Target, watched
from tests.integration.raw import RawClient

PRODUCER = "2f1c0a52-9f1e-4c1c-8d5b-3e0d7c1c9a01"
TEXT = "".join(random.Random(1).choices("ab", k=7_900))
"""The automata below are in a dozen states for each character of it."""
GENEROUS = "[limits]\nstanding_cost = 1000000000\nquota = { standing_cost = 1000000000 }\n"
WATCH_SECONDS = 60


def dear(number: int, tests: int = 8) -> str:
    return " OR ".join(f"K MATCHES '.*a.{{12}}b.{{{test}}}{number:04d}'" for test in range(1, 1 + tests))


def wordy(number: int, tests: int = 100) -> str:
    return " OR ".join(f"K LIKE '%a_c%{test}%{number:04d}'" for test in range(tests))


def watch(client: RawClient, queries: list[str]) -> list[dict[str, object]]:
    """Stands on them, on one connection. The answers."""
    client.socket.settimeout(WATCH_SECONDS)
    client.talk(b"SUB _INBOX.w.* 1\r\n")
    answers = []
    for query in queries:
        payload = json.dumps({"where": query}).encode()
        client.send(b"PUB $FUM.where _INBOX.w.1 %d\r\n%b\r\n" % (len(payload), payload))
    for _ in queries:
        head = client.read_until(b"\r\n").split()
        assert head[0] == b"MSG", head
        answers.append(json.loads(client.read_until(b"\r\n")))
    return answers


def read(client: RawClient, text: str, value: bytes = b"1") -> None:
    """A reading with this text in its metadata, and the PONG behind it."""
    client.socket.settimeout(WATCH_SECONDS)
    block = b"NATS/1.0\r\nProducer: %b\r\nMetadata: %b\r\n\r\n" % (PRODUCER.encode(), json.dumps({"K": text}).encode())
    total = len(block) + len(value)
    client.talk(b"HPUB readings.%b %d %d\r\n%b%b\r\n" % (PRODUCER.encode(), len(block), total, block, value))


@pytest.fixture
def generous(brokers: Brokers, engine_name: str) -> Iterator[Target]:
    """A broker that takes every query, whatever it costs."""
    broker = brokers.share(GENEROUS, engine_name, observed=True)
    with watched(broker, brokers.canary(broker)) as target:
        target.memory_margin *= 8
        yield target


@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.soak)])
def test_a_reading_that_very_many_regular_expressions_ask(generous: Target, count: int) -> None:
    attack(generous, [dear(number) for number in range(count)])


@pytest.mark.soak
def test_a_reading_that_very_many_patterns_ask(generous: Target) -> None:
    attack(generous, [wordy(number) for number in range(2_000)])


def attack(target: Target, queries: list[str]) -> None:
    """They stand, and one producer says a long text, and then another."""
    with RawClient(target.port) as watcher, RawClient(target.port) as client:
        watcher.connect()
        client.connect()
        read(client, "short")
        answers = watch(watcher, queries)
        assert all("topic" in answer for answer in answers), answers[:2]
        read(client, TEXT)
        read(client, TEXT + "b")


def test_a_client_gets_no_more_than_its_allowance(brokers: Brokers, engine_name: str) -> None:
    """With the usual settings: what is refused says why, and what stands takes no longer than that."""
    broker = brokers.share("", engine_name, observed=True)
    with watched(broker, brokers.canary(broker)) as target, RawClient(target.port) as watcher:
        target.memory_margin *= 2
        watcher.connect()
        answers = watch(watcher, [dear(number, tests=1) for number in range(100)])
        taken = sum("topic" in answer for answer in answers)
        assert 10 < taken < 60, taken
        refused = {str(answer["error"]).partition(",")[0] for answer in answers if "error" in answer}
        assert refused == {"this connection may have 4000000 of the cost of standing queries"}
        with RawClient(target.port) as client:
            client.connect()
            read(client, TEXT)
