"""A6 on three nodes: standing queries are replicated, so each node pays for dear ones. None is evicted for it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.integration.canary import Canary
from tests.integration.cluster.clients import Client, ask
from tests.integration.cluster.nodes import Nodes, running
from tests.integration.oracle import STANDSTILL
from tests.integration.running import RunningBroker
from tests.integration.test_dear_queries import GENEROUS as GENEROUS_FILE
from tests.integration.test_dear_queries import PRODUCER, TEXT, dear
from tests.ports import free_port

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


@pytest.fixture
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningBroker]]:
    """Three nodes with eyes inside."""
    ports = [free_port() for _ in range(3)]
    brokers: list[RunningBroker] = []
    try:
        for port in ports:
            peers = json.dumps([f"127.0.0.1:{each}" for each in ports[: len(brokers)]])
            config = f'cluster = "127.0.0.1:{port}"\npeer = {peers}\n{GENEROUS_FILE}'
            brokers.append(RunningBroker(tmp_path_factory.mktemp("node"), config, observed=True))
        while not all(len(ask("127.0.0.1", broker.port, b"cluster")["peers"]) == 2 for broker in brokers):
            pass
        yield brokers
        for broker in brokers:
            broker.stop()
    finally:
        for broker in brokers:
            broker.release()


@pytest.mark.parametrize("count", [QUERIES, pytest.param(1_500, marks=[pytest.mark.soak, pytest.mark.timeout(1_200)])])
def test_no_loop_of_three_stands_still(observed: list[RunningBroker], count: int) -> None:
    """A client on one node stands on them, a producer on another says long texts, and then the client goes."""
    canaries = [Canary(broker.port, f"canary-{number}", "x") for number, broker in enumerate(observed)]
    longest = [0.0] * len(observed)

    def look() -> list[dict[str, object]]:
        seen = [broker.observe() for broker in observed]
        longest[:] = [max(before, each["stood_still"]) for before, each in zip(longest, seen, strict=True)]
        return seen

    watcher, speaker = (Client("127.0.0.1", observed[number].port) for number in (0, 1))
    for each in (watcher, speaker):
        each._socket.settimeout(10 * PATIENCE)
    before = look()
    longest[:] = [0.0] * len(observed)
    stand_on(watcher, [dear(number) for number in range(count)])
    for text in ("short", TEXT, TEXT + "b"):
        read(speaker, {"K": text}, b"1")
        speaker.flush()
    watcher.flush()
    look()
    watcher.close()
    while [each["queries"] for each in look()] != [each["queries"] for each in before]:
        pass
    for broker, canary in zip(observed, canaries, strict=True):
        song = canary.listen()
        assert (song.received, song.in_order) == (song.published, True), song
        state = ask("127.0.0.1", broker.port, b"cluster")
        assert (state["lost"], len(state["peers"])) == (0, 2), state
        canary.close()
    speaker.close()
    assert max(longest) <= STANDSTILL, longest
