"""What producers say of themselves, on every node (C6).

Whoever hears a reading that changes a producer's metadata tells the others all of it, with a version: how often it has
changed, and where last. The newer one holds, and of two with the same number the one from the node whose name comes
later; so all nodes come to the same, in whatever order they hear of it.

A producer may say something new to two nodes at once. So for a while each key that was said has a version of its own,
and goes with the rest: of each such key the newer one holds, be it a value or that there is none, and nothing that only
one of the two was told is lost.

    node a   {"Room": "kitchen"}         version 7 a, said: Room 7 a
    node b   {"Floor": 2}                version 7 b, said: Floor 7 b
    both     {"Room": "kitchen", "Floor": 2}, version 7 b

A producer that was forgotten leaves its version behind for a while, so that a node that was away does not bring it
back.

Readings go only to the nodes that have somebody for them, like all messages, and on the same ordered connection: so a
node knows the new metadata before the reading that brought it (M5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import groupby

from fumarole.core.errors import FumaroleError
from fumarole.core.publication import Publication
from fumarole.exchange.exchange import Exchange, Tired
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.producers import Producer, Reading, check_identity
from fumarole.protocols.link import Described, Frame, Heard, Producers, Spoken, frame, slices

GRAVES_KEPT = 100_000
GRAVE_SECONDS = 600.0
HEARD_EVERY = 1.0
SAID_KEPT = 100_000
"""Producers whose keys have versions of their own."""
SAID_SECONDS = 60.0

Version = tuple[int, str]
NEVER: Version = (-1, "")


class Metadata:
    """This node's part in it."""

    def __init__(self, namespaces: Namespaces, node: str, say: Callable[[Frame], None]) -> None:
        self._namespaces = namespaces
        self._node = node
        self._say = say
        self._graves: dict[tuple[str, str], tuple[Version, float]] = {}
        self._said: dict[tuple[str, str], tuple[dict[str, Version], float]] = {}
        """Of producers that were described lately: each key that was said, with its version, and when."""
        self._told_heard = 0.0
        self.now = 0.0

    # What this node tells.

    def described(self, exchange: Exchange, identity: str, keys: Collection[str]) -> None:
        """A producer here has said something new of itself, with these keys."""
        producer = exchange.producers.get(identity)
        assert producer is not None
        grave = self._graves.pop((exchange.name, identity), None)
        newest = max(producer.version, grave[0] if grave is not None else (0, ""))
        producer.version = newest[0] + 1, self._node
        said = {**self._said_of(exchange, identity), **dict.fromkeys(keys, producer.version)}
        self._remember(exchange, identity, said)
        self._say(Producers(exchange.name, (self._describe(exchange, producer),)))

    def forgotten(self, exchange: Exchange, identity: str) -> None:
        producer = exchange.producers.get(identity)
        assert producer is not None
        version = producer.version[0] + 1, self._node
        self._bury(exchange.name, identity, version)
        self._say(Producers(exchange.name, (Described(identity, *version, None),)))

    def everything(self) -> Iterator[Producers]:
        """All that is known, for a node that has just come."""
        for exchange in list(self._namespaces):
            for some in slices(self._describe(exchange, producer) for producer in list(exchange.producers)):
                yield Producers(exchange.name, some)
        for namespace, graves in groupby(list(self._graves.items()), key=lambda grave: grave[0][0]):
            for gone in slices(Described(identity, *version, None) for (_, identity), (version, _) in graves):
                yield Producers(namespace, gone)

    def _describe(self, exchange: Exchange, producer: Producer) -> Described:
        said = self._said_of(exchange, producer.identity)
        return Described(producer.identity, *producer.version, producer.metadata, said)

    def tick(self, now: float) -> None:
        """Now and then says who has published: others must not forget them for their silence."""
        self.now = now
        if now - self._told_heard < HEARD_EVERY:
            return
        since, self._told_heard = self._told_heard, now
        for exchange in self._namespaces:
            # Sessions know the time only as of their last tick, so what they heard may look a little older than it is.
            for some in slices(exchange.producers.heard_since(since - HEARD_EVERY) or ()):
                self._say(Heard(exchange.name, some))
        while self._graves and next(iter(self._graves.values()))[1] < now - GRAVE_SECONDS:
            del self._graves[next(iter(self._graves))]
        while self._said and next(iter(self._said.values()))[1] < now - SAID_SECONDS:
            del self._said[next(iter(self._said))]

    def encode(self, key: bytes, publication: Publication) -> bytes:
        """A reading on the wire."""
        reading: Reading = publication.reading
        return frame(
            Spoken(
                key,
                publication.topic,
                publication.reply,
                publication.headers,
                publication.payload,
                reading.producer,
                dict(reading.metadata),
                reading.value,
                reading.raw,
            )
        )

    # What this node hears.

    def learn(self, said: Producers) -> None:
        try:
            exchange = self._namespaces.restore(said.namespace)
        except FumaroleError:
            return
        for described in said.producers:
            self._learn(exchange, described)
        self._namespaces.release(exchange)

    def _learn(self, exchange: Exchange, described: Described) -> None:
        try:
            identity = check_identity(described.identity)
        except FumaroleError:
            return
        version = described.version, described.node
        producer, grave = exchange.producers.get(identity), self._graves.get((exchange.name, identity))
        known = producer.version if producer is not None else grave[0] if grave is not None else (-1, "")
        if described.metadata is None:
            if version > known:
                self._bury(exchange.name, identity, version)
                exchange.producers.lose(identity)
        elif producer is not None:
            self._merge(exchange, producer, described)
        elif version > known:
            self._graves.pop((exchange.name, identity), None)
            self._remember(exchange, identity, described.said)
            exchange.producers.learn(identity, described.metadata, self.now).version = version

    def _merge(self, exchange: Exchange, producer: Producer, described: Described) -> None:
        """Of each key that either was told lately the newer holds; of all others, what the newer description has."""
        assert described.metadata is not None
        here, there = self._said_of(exchange, producer.identity), described.said
        version = described.version, described.node
        news = {key: stamp for key, stamp in there.items() if stamp > here.get(key, NEVER)}
        if version <= producer.version and not news:
            return
        newer, older = described.metadata, producer.metadata
        kept = {key for key, stamp in here.items() if stamp > there.get(key, NEVER)}
        if version <= producer.version:
            newer, older = older, newer
            kept = set(news)
        merged = {key: value for key, value in newer.items() if key not in kept}
        merged.update((key, older[key]) for key in kept if key in older)
        self._remember(exchange, producer.identity, {**here, **news})
        exchange.producers.learn(producer.identity, merged, self.now).version = max(version, producer.version)

    def _said_of(self, exchange: Exchange, identity: str) -> dict[str, Version]:
        found = self._said.get((exchange.name, identity))
        return {} if found is None else found[0]

    def _remember(self, exchange: Exchange, identity: str, said: dict[str, Version]) -> None:
        self._said.pop((exchange.name, identity), None)
        if said:
            if len(self._said) >= SAID_KEPT:
                del self._said[next(iter(self._said))]
            self._said[exchange.name, identity] = said, self.now

    def heard(self, said: Heard) -> None:
        exchange = self._namespaces.get(said.namespace)
        for identity in said.identities if exchange is not None else ():
            producer = exchange.producers.get(identity) if exchange is not None else None
            if producer is not None:
                producer.heard = max(producer.heard, self.now)

    def deliver(self, said: Spoken, exchange: Exchange, groups: tuple[str, ...], tired: Tired) -> None:
        """A reading that was heard elsewhere, to those who are here. Raises FumaroleError."""
        reading = Reading(said.producer, said.metadata, said.value, said.raw)
        publication = Publication(said.topic, said.payload, said.reply, said.headers, reading)
        topic, plans = said.topic.encode(), exchange.plans()
        plan = plans.find(topic)
        producer = exchange.producers.get(said.producer)
        if producer is not None:
            producer.heard, producer.value = self.now, said.value
            plan = exchange.plan_for(producer, topic, plans)
        exchange.deliver(plan, publication, groups, tired)

    def _bury(self, namespace: str, identity: str, version: Version) -> None:
        if len(self._graves) >= GRAVES_KEPT:
            del self._graves[next(iter(self._graves))]
        self._graves.pop((namespace, identity), None)
        self._said.pop((namespace, identity), None)
        self._graves[namespace, identity] = version, self.now
