"""F1, F3 between nodes: what is retained is the same everywhere, and last values are gathered from all live nodes."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from fumarole.cluster.fresh_state import FreshState
from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Last
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.protocols.cluster_protocol import Frame, LastAnswered, LastAsked, RetainedMessages
from tests.exchange.test_gathering import Ear


class Place:
    """A node, as far as it matters here, and the ordered connections to it: what is said waits until it is heard."""

    def __init__(self, name: str, places: dict[str, Place]) -> None:
        clock = HybridClock(lambda: Place.seconds, name)
        self.name = name
        self.leaving = False
        self.namespaces = Namespaces(rules={"default": NamespaceRules(last="all")}, clock=clock)
        self.waiting: dict[str, deque[Frame | tuple[str, bytes]]] = {}
        exchange = self.namespaces.get("default")
        assert exchange is not None
        self.exchange: Exchange = exchange
        self.places = places
        self.fresh_state = FreshState(self.namespaces, self.say_all, self.peers)  # type: ignore[arg-type]
        self.listeners: dict[str, list[str]] = {}
        """What other nodes have told of their consumers: patterns."""
        places[name] = self

    seconds = 1_000.0

    def peers(self) -> list[Wire]:
        return [Wire(self, place) for place in self.places.values() if place is not self]

    def say_all(self, frame: Frame) -> None:
        for wire in self.peers():
            wire.say(frame)

    def hear(self, name: str) -> bool:
        """The next thing that this node has said. False: there is none."""
        if not self.waiting.get(name):
            return False
        said = self.waiting[name].popleft()
        if isinstance(said, tuple):
            publication = Publication(*said)
            publication.node = name
            self.exchange.deliver(self.exchange.plans().find(said[0].encode()), publication, ())
        elif isinstance(said, RetainedMessages):
            self.fresh_state.learn(said)
        elif isinstance(said, LastAsked):
            self.listeners.setdefault(name, []).append(said.pattern)
            self.fresh_state.answer(Wire(self, self.places[name]), said)  # type: ignore[arg-type]
        elif isinstance(said, LastAnswered):
            self.fresh_state.answered(name, said)
        return True

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        publication = Publication(topic, payload)
        publication.retain = retain
        for name in self.listeners:  # a copy for each node that has told of a consumer: forwarded before it is retained
            self.places[name].waiting.setdefault(self.name, deque()).append((topic, payload))
        self.exchange.publish(self.exchange.plans().find(topic.encode()), publication)

    def subscribe(self, ear: Ear, kind: Last) -> Consumer:
        consumer = self.exchange.consumer(ear, ">", "", b"1")
        self.exchange.subscribe(consumer, last=kind)
        return consumer


class Wire:
    """One node as another sees it."""

    def __init__(self, here: Place, there: Place) -> None:
        self._here, self._there = here, there
        self.name = there.name
        self.leaving = False

    def is_linked(self) -> bool:
        return True

    def say(self, frame: Frame) -> None:
        self._there.waiting.setdefault(self._here.name, deque()).append(frame)

    def say_in_time(self, frames: object) -> None:
        from fumarole.protocols.cluster_protocol import LinkProtocol

        protocol = LinkProtocol(1 << 20)
        protocol.trusted = True
        protocol.receive_data(b"".join(frames))  # type: ignore[arg-type]
        while (event := protocol.next_event()) is not None:
            self.say(event)  # type: ignore[arg-type]


def settle(places: dict[str, Place], chance: Random) -> None:
    while any(place.waiting.get(name) for place in places.values() for name in places):
        place, name = chance.choice(list(places.values())), chance.choice(list(places))
        place.hear(name)


@pytest.mark.parametrize("kind", [Last.ALL, Last.RETAINED])
@pytest.mark.parametrize("seed", range(40))
def test_no_gap_and_no_repeat_in_whatever_order_news_come(seed: int, kind: Last) -> None:
    chance = Random(seed)
    places: dict[str, Place] = {}
    for name in "abc":
        Place(name, places)
    newest: dict[str, bytes] = {}
    number = 0

    def say() -> None:
        nonlocal number
        number += 1
        Place.seconds += 0.001
        topic = chance.choice("tuvw")
        node = places["abc"["tuvw".index(topic) % 3]]  # a topic has one publisher, so its newest message is known
        retain = kind is Last.RETAINED or chance.random() < 0.3
        payload = b"" if retain and chance.random() < 0.2 else b"%d" % number
        newest[topic] = payload
        node.publish(topic, payload, retain)

    for _ in range(chance.randrange(30)):
        say()
        for _ in range(chance.randrange(3)):
            chance.choice(list(places.values())).hear(chance.choice("abc"))
    ear = Ear()
    consumer = places["a"].subscribe(ear, kind)
    for _ in range(20):
        if chance.random() < 0.3:
            say()
        chance.choice(list(places.values())).hear(chance.choice("abc"))
    ready = all("a" in place.listeners for name, place in places.items() if name != "a")
    while not ready:  # confirmed when all know
        chance.choice(list(places.values())).hear(chance.choice("abc"))
        ready = all("a" in place.listeners for name, place in places.items() if name != "a")
    begin = number
    places["a"].exchange.send_last(consumer)
    for _ in range(chance.randrange(15)):
        say()
        chance.choice(list(places.values())).hear(chance.choice("abc"))
    settle(places, chance)
    heard = [(topic, payload) for topic, payload, _ in ear.heard]
    payloads = [payload for _, payload in heard if payload]
    assert len(set(payloads)) == len(payloads)  # never twice
    for topic in "tuvw":
        of_it = [int(payload) for name, payload in heard if name == topic and payload]
        assert of_it == sorted(of_it)  # a last value is never behind a newer one
        if newest.get(topic) and (kind is Last.ALL or newest[topic]):
            assert (topic, newest[topic]) in heard  # no gap
    live = {payload for _, payload, is_last in ear.heard if not is_last}
    assert all(b"%d" % each in live or b"%d" % each not in newest.values() for each in range(begin + 1, number + 1))
    assert consumer.stage is None


@pytest.mark.parametrize("seed", range(20))
def test_all_nodes_retain_the_same_in_the_end(seed: int) -> None:
    chance = Random(seed)
    places: dict[str, Place] = {}
    for name in "abc":
        Place(name, places)
    for number in range(60):
        Place.seconds += chance.choice([0.0, 0.01])
        place = chance.choice(list(places.values()))
        place.publish(chance.choice("tuv"), chance.choice([b"", b"%d" % number]), retain=True)
        if chance.random() < 0.5:
            chance.choice(list(places.values())).hear(chance.choice("abc"))
    late = Place("d", places)
    for frame in places["a"].fresh_state.everything():
        late.waiting.setdefault("a", deque()).append(frame)
    settle(places, chance)
    for name in "bc":
        for frame in places[name].fresh_state.everything():
            assert isinstance(frame, RetainedMessages)
            late.fresh_state.learn(frame)
    tables = [{kept.topic: kept for kept in place.exchange.retained} for place in places.values()]
    assert all(table == tables[0] for table in tables)


def test_a_node_that_is_gone_is_not_waited_for() -> None:
    places: dict[str, Place] = {}
    for name in "ab":
        Place(name, places)
    places["a"].publish("t", b"1", retain=True)
    ear = Ear()
    consumer = places["a"].subscribe(ear, Last.ALL)
    places["a"].exchange.send_last(consumer)
    assert ear.heard == []
    places["a"].fresh_state.evict("b")
    assert ear.heard == [("t", b"1", True)]
