"""A6 on three nodes: standing queries are replicated, so each node pays for dear ones. None is evicted for it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import Nodes, running
from tests.integration.test_dear_queries import PRODUCER, TEXT, dear

GENEROUS = ("--limits-standing-cost", "1000000000", "--limits-quota-standing-cost", "1000000000")
PATIENCE = 60.0
QUERIES = 25


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("dear"), 3, flags=GENEROUS) as three:
        yield three


def client(nodes: Nodes, number: int) -> Client:
    made = Client(nodes[number].host, nodes[number].port)
    made._socket.settimeout(PATIENCE)
    return made


def stand_on(asking: Client, queries: list[str]) -> None:
    asking.say(b"SUB _INBOX.w.* 1\r\n")
    for query in queries:
        payload = json.dumps({"where": query}).encode()
        asking.say(b"PUB $FUM.where _INBOX.w.1 %d\r\n%b\r\n" % (len(payload), payload))
    for _ in queries:
        assert b'"topic"' in asking.hear_until(b"}\r\n")


def read(speaker: Client, metadata: dict[str, object], value: bytes) -> None:
    said = json.dumps(metadata).encode()
    block = b"NATS/1.0\r\nProducer: %b\r\nMetadata: %b\r\n\r\n" % (PRODUCER.encode(), said)
    speaker.say(b"HPUB room %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(value), block, value))


def test_dear_queries_evict_no_node_and_keep_the_order(nodes: Nodes) -> None:
    watcher, honest, hearer, speaker, singer = (client(nodes, number) for number in (0, 2, 2, 1, 1))
    read(speaker, {"K": "short", "L": 0}, b"0")
    speaker.flush()
    stand_on(watcher, [dear(number) for number in range(QUERIES)])
    hearer.say(b"SUB canary 1\r\nSUB room 2\r\n")
    hearer.flush()
    honest.say(b"SUB _INBOX.h 1\r\n")
    payload = json.dumps({"where": "L = 1"}).encode()
    honest.say(b"PUB $FUM.where _INBOX.h %d\r\n%b\r\n" % (len(payload), payload))
    topic = json.loads(honest.hear_until(b"}\r\n").split(b"\r\n")[1])["topic"].encode()
    honest.say(b"SUB %b 2\r\nSUB %b.diff 3\r\n" % (topic, topic))
    honest.flush()
    read(speaker, {"K": TEXT, "L": 1}, b"1")
    read(speaker, {"K": "short", "L": 2}, b"2")
    for number in range(300):
        singer.say(b"PUB canary %d\r\n%d\r\n" % (len(b"%d" % number), number))
        singer.flush()
    speaker.flush()
    said = honest.hear_until(b'"Del": ["%b"]' % PRODUCER.encode())
    new, value = said.index(b'"New": ["%b"]' % PRODUCER.encode()), said.index(b'"value": 1')
    assert new < value, "the reading came before the set it was delivered under (M5)"
    heard = hearer.hear_until(b"MSG canary 1 3\r\n299\r\n")
    numbers = [int(line) for line in heard.split(b"\r\n") if line.isdigit()]
    assert numbers == list(range(300))
    for number in range(3):
        state = nodes[number].ask("cluster")
        assert state["lost"] == 0, state
        assert len(state["peers"]) == 2, state
    for each in (watcher, honest, hearer, speaker, singer):
        each.close()
