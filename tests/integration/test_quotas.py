"""A client that takes all it can get, in a namespace with quotas, beside a canary in another one (A5).

Each resource is asked for until it is refused. The refusal is a sentence, `$FUM.stats` counts it, and the canary notices
nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fumarole.core import headers
from tests.integration.conftest import Brokers
from tests.integration.oracle import Target, watched
from tests.integration.raw import Closed, RawClient

CONFIG = """
[limits]
namespaces = 20
[namespaces.greedy]
last = "all"
[namespaces.greedy.quota]
connections = 40
consumers = 500
standing_cost = 1000000
producers = 300
metadata_bytes = "64 KiB"
retained_bytes = "16 KiB"
last_bytes = "32 KiB"
[namespaces.fast.quota]
messages_per_second = 1000
bytes_per_second = "1 MiB"
"""


@pytest.fixture
def target(brokers: Brokers, engine_name: str) -> Iterator[Target]:
    broker = brokers.share(CONFIG, engine_name, observed=True)
    with RawClient(broker.port) as client:
        client.connect(user="greedy")
        client.talk(reading(1, {"K": "short"}) + retained(1))
    while not all((broker.folder / "data" / f"{store}.sqlite").exists() for store in ("producers", "retained")):
        pass  # the files of the stores are open from here on
    with watched(broker, brokers.canary(broker)) as watched_target:
        yield watched_target


def come(target: Target, namespace: str = "greedy") -> RawClient:
    client = RawClient(target.port)
    client.connect(user=namespace)
    return client


def stats(client: RawClient) -> dict[str, Any]:
    """The quotas of its namespace, and what was refused."""
    client.send(b"PUB $FUM.stats _INBOX.w 0\r\n\r\n")
    client.read_until(b"MSG _INBOX.w w ")
    size = int(client.read_until(b"\r\n"))
    found: dict[str, Any] = json.loads(client.read_exactly(size))["quotas"]
    client.talk(b"")
    return found


def reading(number: int, metadata: dict[str, Any]) -> bytes:
    identity = f"2f1c0a52-9f1e-4c1c-8d5b-{number:012d}"
    block = headers.build([("Producer", identity), ("Metadata", json.dumps(metadata))])
    return b"HPUB readings.%b %d %d\r\n%b1\r\n" % (identity.encode(), len(block), len(block) + 1, block)


def retained(number: int) -> bytes:
    block = headers.build([("Retain", "1")])
    return b"HPUB kept.%d %d %d\r\n%b%b\r\n" % (number, len(block), len(block) + 200, block, b"x" * 200)


def standing(number: int) -> bytes:
    payload = json.dumps({"where": f"K MATCHES '.*a.{{8}}b{number}'"}).encode()
    return b"PUB $FUM.where _INBOX.w %d\r\n%b\r\n" % (len(payload), payload)


GREED: dict[str, tuple[Callable[[int], bytes], int, str, str]] = {
    "subscriptions": (lambda n: b"SUB a.%d %d\r\n" % (n, n), 700, "consumers", "500 consumers"),
    "groups": (lambda n: b"SUB a g%d %d\r\n" % (n, n), 700, "consumers", "500 consumers"),
    "queries": (standing, 200, "standing_cost", "1000000 of the cost of standing queries"),
    "producers": (lambda n: reading(n, {}), 500, "producers", "300 producers"),
    "metadata": (lambda n: reading(1 + n % 20, {f"Key{n % 7}": "x" * 1_000}), 140, "metadata_bytes", "65536 metadata"),
    "retained messages": (retained, 200, "retained_bytes", "16384 retained"),
}
"""What is asked for again and again, how often, the resource, and what the refusal says."""


@pytest.mark.parametrize("what", GREED)
def test_what_is_over_a_quota_is_refused(target: Target, what: str) -> None:
    ask, count, resource, sentence = GREED[what]
    refusal = f"namespace greedy may have {sentence}".encode()
    target.canary.listen()
    with come(target) as client:
        client.talk(b"SUB _INBOX.w w\r\n")
        before = stats(client)["refused"].get(resource, 0)
        heard = client.talk(b"".join(ask(number) for number in range(1, 1 + count)))
        assert client.talk(b"") == b"PONG\r\n", "the client goes on"
        after = stats(client)["refused"][resource]
        assert after - before == heard.count(refusal) > 10


def test_connections_over_the_quota_are_told_why(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        refusals = set()
        for _ in range(60):
            client = stack.enter_context(RawClient(target.port))
            try:
                client.connect(user="greedy")
            except Closed as closed:
                refusals.add(closed.args[0])
        assert refusals == {
            b"-ERR 'maximum connections exceeded: namespace greedy may have 40 connections, and has 40'\r\n"
        }
        with come(target, "default") as other:
            assert other.talk(b"") == b"PONG\r\n"


def test_namespaces_are_not_made_without_end(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        refusals = set()
        for number in range(40):
            client = stack.enter_context(RawClient(target.port))
            try:
                client.connect(user=f"made-up-{number}")
            except Closed as closed:
                refusals.add(closed.args[0])
        assert refusals
        assert all(b"20 namespaces already" in each for each in refusals)


def test_messages_a_second(target: Target) -> None:
    """What is over the rate is dropped and told, and the second after it goes on."""
    with come(target, "fast") as client:
        heard = client.talk(b"SUB a 1\r\n" + b"PUB a 1\r\nx\r\n" * 5_000)
        assert b"may publish 1000 messages a second" in heard
        assert 1_000 <= heard.count(b"MSG a 1 1\r\n") < 5_000
        heard = client.talk(b"PUB a 4096\r\n%b\r\n" % (b"x" * 4096) * 1_000)
        assert heard.count(b"MSG a 1 4096\r\n") < 1_000


def test_last_messages_take_no_more_than_their_quota(target: Target) -> None:
    """The messages themselves go on; only the last ones of further topics are not kept."""
    with come(target) as client:
        client.talk(b"SUB topics.> 1\r\nSUB _INBOX.w w\r\n")
        batch = b"".join(b"PUB topics.%d 200\r\n%b\r\n" % (number, b"x" * 200) for number in range(1_000))
        assert client.talk(batch).count(b"MSG topics.") == 1_000
        held = stats(client)["held"]["last_bytes"]
        assert 30 * 1024 < held["used"] <= held["most"] == 32 * 1024
