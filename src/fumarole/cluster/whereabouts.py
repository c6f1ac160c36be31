"""The topic of each producer's latest reading, on every node: it decides which users may receive the producer (A3).

Readings go only to the nodes that have a consumer for them. The topic is told to all nodes: with the metadata, and
alone when only the topic has changed. It is told before the reading is forwarded. The value of the reading is not.

    node a   a reading on plant.boiler         moved at 100 by a: plant.boiler
    node b   a reading on secret.boiler        moved at 107 by b: secret.boiler
    all      secret.boiler, since 107 by b     in whatever order they hear of these

The time is that of the clock on the wall, and later than the time known before. So the newer change holds on all nodes,
also where a producer was forgotten in between. A reading that another node forwards never changes the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Final

from fumarole.core.errors import TopicError
from fumarole.core.topic import Grammar, check_length, check_topic
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.producer import Elsewhere, Producer
from fumarole.exchange.readings import reading_topic
from fumarole.protocols.cluster_protocol import MOST_MICROSECONDS, Described, Frame, Moved

LATELY_KEPT: Final = 100_000
LATELY_SECONDS: Final = 60.0
TOPIC_BYTES: Final = 64 * 1024
"""Of a topic that a peer tells: nodes may have other limits, and a topic that is left out would be judged wrongly."""

Key = tuple[str, str]
"""A namespace, and the identity of a producer there."""


class Whereabouts:
    """This node's part in it."""

    def __init__(self, author: str, say: Callable[[Frame], None]) -> None:
        self._author = author
        self._say = say
        self._now = 0.0
        self.lately: dict[Key, tuple[str, float]] = {}
        """Which node has said lately that a producer has moved, and when: other nodes may not have heard of it."""

    def changed(self, exchange: Exchange, identity: str, is_described: bool) -> None:
        """A reading here is on another topic than the one before. A description, if one follows, says it."""
        producer = exchange.producers.get(identity)
        assert producer is not None
        producer.moved = max(exchange.clock.wall(), producer.moved[0] + 1), self._author
        if not is_described:
            self._say(Moved(exchange.name, identity, told_topic(producer), producer.moved))

    def news(self, said: Described | Moved, known: tuple[int, str]) -> str | None:
        """The topic that a node tells, if that is newer than what is known and can be a topic (A9)."""
        if said.moved <= known or said.moved[0] > MOST_MICROSECONDS:
            return None
        if said.topic is None:
            return reading_topic(said.identity)
        try:
            check_length(said.topic, TOPIC_BYTES)
            if said.topic:
                check_topic(said.topic, Grammar.OPEN)  # a strict namespace has the empty one too
        except TopicError:
            return None
        return said.topic

    def take(self, exchange: Exchange, producer: Producer, said: Described | Moved, waits: bool) -> None:
        """What a node tells of a producer that is known. Raises Unprepared, and then nothing has happened."""
        topic = self.news(said, producer.moved)
        if topic is None:
            return
        if waits and exchange.producers.filling:
            exchange.producers.prepare(producer, producer.metadata, ())
        exchange.producers.take(producer, None, topic)
        self.note(exchange, producer, said.moved)

    def note(self, exchange: Exchange, producer: Producer, moved: tuple[int, str]) -> None:
        """This was the latest change of its topic."""
        producer.moved = moved[0], intern(moved[1])
        key = exchange.name, producer.identity
        self.lately.pop(key, None)
        if len(self.lately) >= LATELY_KEPT:
            del self.lately[next(iter(self.lately))]
        self.lately[key] = producer.moved[1], self._now

    def tick(self, now: float) -> None:
        """Forgets what all nodes have heard of by now."""
        self._now = now
        while self.lately and next(iter(self.lately.values()))[1] < now - LATELY_SECONDS:
            del self.lately[next(iter(self.lately))]


def told_topic(producer: Producer) -> str | None:
    """The topic of its latest reading; None: its own."""
    return producer.value.topic if isinstance(producer.value, Elsewhere) else None
