"""What producers say of themselves, on every node (C6).

The node that receives a reading that changes a producer's metadata tells the others all of it, with a version: how
often it has changed, and where last. The newer one holds, and of two with the same number the one from the node whose
name comes later; so all nodes come to the same, in whatever order they hear of it.

A producer may say something new to two nodes at once. So for a while each key that was said has a version of its own,
and goes with the rest: of each such key the newer one holds, be it a value or that there is none, and nothing that only
one of the two was told is lost.

    node a   {"Room": "kitchen"}         version 7 a, said: Room 7 a
    node b   {"Floor": 2}                version 7 b, said: Floor 7 b
    both     {"Room": "kitchen", "Floor": 2}, version 7 b

A producer that was forgotten leaves its version behind for a while, so that a node that was away does not bring it
back. If it speaks again, that version stays with it: of what nodes tell of it, all that was said before does not hold.

    node a   {"Room": "kitchen"}         version 7 a, said: Room 7 a
    node b   forgotten                   version 7 b
    node c   {"Floor": 2}                version 8 c, said: Floor 8 c, since 7 b; c had heard of b's
    all      {"Floor": 2}, version 8 c   in whatever order they hear of these

Where silent producers are forgotten (M7), each node tells the others once a second which producers have published to
it. Each measures silence by its own clock, from when it heard a producer or was told that another did, and waits a
little longer than was set for the others' news. The node that heard the producer last forgets it first, and the others
follow. They do so by themselves only when that node must be gone. A node that was cut off, or has slept, may forget a
producer that still publishes at another node. The other node knows better, and sends all its metadata once more.

    node a   {"Room": "kitchen"}         version 7 a, heard just now
    node b   forgotten for its silence   version 8 b
    node a   {"Room": "kitchen"}         version 9 a, said: Room 9 a, since 8 b
    all      {"Room": "kitchen"}         had b been asked to forget it, it would be forgotten

Each node tells all others what it was told itself, and nothing that it has heard. Only when a node is gone, which may
have been before it could tell every node, the others tell each other what they have heard from it lately: as much at a
time as each takes, for it may be very much.

`_online` (F5) is no part of this metadata: each node keeps it of what the others say of their connections
(`exchange/presence.py`). A description says that too, so that a node takes in both at once.

Readings go only to the nodes that have a consumer for them, like all messages, and on the same ordered connection: so a
node knows the new metadata before the reading that brought it (M5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from heapq import nlargest
from itertools import chain, groupby, islice
from operator import itemgetter
from sys import intern
from typing import NamedTuple, TypeVar

import msgspec

from fumarole.cluster.late_changes import LateChanges
from fumarole.cluster.spoken import checked
from fumarole.cluster.whereabouts import Whereabouts, told_topic
from fumarole.core.errors import FumaroleError
from fumarole.core.limits import Limits
from fumarole.core.publication import Publication
from fumarole.core.topic import Grammar, check_topic
from fumarole.core.values import ONLINE
from fumarole.exchange.exchange import Exchange, NearlyFull
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.presence import said_by_producer
from fumarole.exchange.producer import NEVER, Producer
from fumarole.exchange.readings import Reading, check_identity, check_metadata, is_identity
from fumarole.protocols.cluster_protocol import (
    Described,
    Frame,
    Heard,
    Moved,
    Online,
    Producers,
    Spoken,
    frame,
    slices,
)

GRAVES_KEPT = 100_000
GRAVE_SECONDS = 600.0
HEARD_EVERY = 1.0
SAID_KEPT = 100_000
"""Producers whose keys have versions of their own."""
SAID_SECONDS = 60.0
PART = 2_000
"""Producers that are looked through at a time: so many that clients do not notice."""

MOST_CHANGES = 1 << 48
"""Of one producer. A version this high is impossible; the peer's update is rejected."""

Key = tuple[str, str]
"""A namespace, and the identity of a producer there."""
Value = TypeVar("Value")
Version = tuple[int, str]
KEPT: Version = (0, "")
"""Of a producer that is known from a disk, and has said nothing new since."""


_DEFAULTS = Limits()


class Grave(NamedTuple):
    """What is left of a producer that was forgotten."""

    version: Version
    silent: bool
    at: float

    def describe(self, identity: str) -> Described:
        return Described(identity, *self.version, None, silent=self.silent)


class Metadata:
    """This node's part in it."""

    def __init__(
        self, namespaces: Namespaces, author: str, say: Callable[[Frame], None], limits: Limits = _DEFAULTS
    ) -> None:
        self._namespaces = namespaces
        # Twice what a producer can have: those that it has, and as many that it has taken back.
        self._most_stamps, self._most_stamped = 2 * limits.metadata_keys, 2 * limits.metadata_bytes
        self._author = author
        """The author of versions here: a node and its incarnation. After a restart it is another author."""
        self._say = say
        self._graves: dict[Key, Grave] = {}
        self._said: dict[Key, tuple[dict[str, Version], float]] = {}
        """Of producers that were described lately: each key that was said, with its version, and when."""
        self._told_heard = 0.0
        self.now = 0.0
        self._late = LateChanges(namespaces.slices)
        self.whereabouts = Whereabouts(author, say)

    # What this node tells.

    def described(self, exchange: Exchange, identity: str, keys: Collection[str]) -> None:
        """A producer here has said something new of itself, with these keys."""
        producer = exchange.producers.get(identity)
        assert producer is not None
        grave = self._graves.pop((exchange.name, identity), None)
        if grave is not None:
            producer.since = grave.version
        producer.version = max(producer.version, producer.since)[0] + 1, self._author
        said = {**self._said_of(exchange, identity), **dict.fromkeys(keys, producer.version)}
        self._remember(exchange, identity, said)
        self._say(Producers(exchange.name, (self._describe(exchange, producer),)))

    def forgotten(self, exchange: Exchange, identity: str, silent: bool) -> None:
        """A producer is about to be forgotten here."""
        producer = exchange.producers.get(identity)
        assert producer is not None
        version = producer.version[0] + 1, self._author
        grave = self._bury(exchange.name, identity, version, silent)
        self._say(Producers(exchange.name, (grave.describe(identity),)))

    def came(self, exchange: Exchange, identities: Collection[str], is_online: bool) -> None:
        """Producers are online here now, or not any more."""
        for some in slices(identities):
            self._say(Online(exchange.name, some, is_online))

    def everything(self) -> Iterator[Producers]:
        """All that is known, for a node that has just come."""
        for exchange in list(self._namespaces):
            for some in slices(self._describe(exchange, producer) for producer in list(exchange.producers)):
                yield Producers(exchange.name, some)
        yield from _describe_graves(list(self._graves.items()))

    def _describe(self, exchange: Exchange, producer: Producer) -> Described:
        said = self._said_of(exchange, producer.identity)
        metadata = said_by_producer(producer.metadata)
        online = producer.here > 0
        on = told_topic(producer), producer.moved
        return Described(producer.identity, *producer.version, metadata, said, producer.since, False, online, *on)

    def said_by(self, gone: Collection[str]) -> Iterator[Producers | None]:
        """These nodes are gone: all that they have said lately, and that may not have reached every node.

        It is found among all that any node has said, a part at a time. None comes at the end of each part.
        """
        is_gone = cache(lambda author: _giver(author) in gone)
        lately = self.now - SAID_SECONDS
        said, graves, moves = _parts(self._said), _parts(self._graves), _parts(self.whereabouts.lately)
        by_them = chain(
            ((key for key, (stamps, _) in part if any(is_gone(by) for _, by in stamps.values())) for part in said),
            ((key for key, (by, _) in part if is_gone(by)) for part in moves),
        )
        for keys in by_them:
            for namespace, of_it in groupby(keys, key=itemgetter(0)):
                for some in slices(self._describe_known(of_it)):
                    yield Producers(namespace, some)
            yield None
        for buried in graves:
            yield from _describe_graves(
                (key, grave) for key, grave in buried if is_gone(grave.version[1]) and grave.at > lately
            )
            yield None

    def _describe_known(self, keys: Iterable[Key]) -> Iterator[Described]:
        for namespace, identity in keys:
            exchange = self._namespaces.get(namespace)
            producer = None if exchange is None else exchange.producers.get(identity)
            if exchange is not None and producer is not None:  # it may have been forgotten meanwhile
                yield self._describe(exchange, producer)

    def tick(self, now: float) -> None:
        """Tells other nodes now and then which producers have published here, so that they do not forget them."""
        self.now = now
        if now - self._told_heard < HEARD_EVERY:
            return
        since, self._told_heard = self._told_heard, now
        for exchange in self._namespaces:
            # Sessions know the time only as of their last tick, so what they heard may look a little older than it is.
            for some in slices(exchange.producers.heard_since(since - HEARD_EVERY) or ()):
                self._say(Heard(exchange.name, some))
        self.whereabouts.tick(now)
        while self._graves and next(iter(self._graves.values())).at < now - GRAVE_SECONDS:
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

    def learn(self, said: Producers, node: str = "") -> None:
        for described in said.producers:
            self._late.take((said.namespace, described.identity), partial(self._take, said.namespace, described, node))

    def move(self, said: Moved) -> None:
        """A node says on which topic the latest reading of a producer was."""
        self._late.take((said.namespace, said.identity), partial(self._move, said))

    def _move(self, said: Moved, waits: bool) -> None:
        exchange = self._namespaces.get(said.namespace)
        producer = None if exchange is None else exchange.producers.get(said.identity)
        if exchange is not None and producer is not None:
            self.whereabouts.take(exchange, producer, said, waits)

    def _take(self, namespace: str, described: Described, node: str, waits: bool) -> None:
        """What a node says of one producer. Raises Unprepared, and then nothing has happened that counts."""
        try:
            exchange = self._namespaces.open(namespace)
        except FumaroleError:
            return
        presence = exchange.producers.presence
        is_online = described.online and is_identity(described.identity)
        if is_online:  # before: both are told of as one change
            presence.note(node, described.identity)
        self._learn(exchange, described, waits)
        if is_online:  # again: it may have been forgotten first, and its presence with it
            presence.told(node, (described.identity,), True)
        self._namespaces.release(exchange)

    def _learn(self, exchange: Exchange, described: Described, waits: bool) -> None:
        try:
            identity = check_identity(described.identity)
            check_metadata(described.metadata or {})
        except FumaroleError:
            return
        if described.metadata is not None and ONLINE in described.metadata:
            described = msgspec.structs.replace(described, metadata=said_by_producer(described.metadata))
        if max(described.version, described.since[0], *(stamp[0] for stamp in described.said.values())) > MOST_CHANGES:
            return
        version = described.version, intern(described.node)
        if described.metadata is None:
            self._forget(exchange, identity, version, waits, described.silent)
            return
        self._forget(exchange, identity, described.since, waits)
        since = self._since(exchange, identity)
        if version <= since:
            return
        if described.since < since:
            described = _said_after(since, described)
        producer = exchange.producers.get(identity)
        if producer is not None:
            self._merge(exchange, producer, described, waits)
            return
        assert described.metadata is not None
        if waits:
            exchange.producers.prepare_to_learn(identity, described.metadata)
        self._graves.pop((exchange.name, identity), None)
        self._remember(exchange, identity, described.said)
        topic = self.whereabouts.news(described, NEVER)
        producer = exchange.producers.learn(identity, described.metadata, self.now, topic)
        producer.version, producer.since = version, since
        if topic is not None:
            self.whereabouts.note(exchange, producer, described.moved)

    def _since(self, exchange: Exchange, identity: str) -> Version:
        """When a producer was last forgotten, as far as is known here."""
        producer = exchange.producers.get(identity)
        if producer is not None:
            return producer.since
        grave = self._graves.get((exchange.name, identity))
        return NEVER if grave is None else grave.version

    def _forget(self, exchange: Exchange, identity: str, then: Version, waits: bool, silent: bool = False) -> None:
        """A producer was forgotten then: only what it has said after that holds."""
        if then <= self._since(exchange, identity):
            return
        producer = exchange.producers.get(identity)
        if silent and producer is not None and exchange.producers.is_heard(producer, self.now):
            # As if it had been forgotten then, and had said all of it again.
            producer.since = then
            self.described(exchange, identity, said_by_producer(producer.metadata).keys())
            return
        if producer is None or producer.version <= then:
            self._bury(exchange.name, identity, then, silent)
            exchange.producers.forget_here(identity)
            return
        kept = _said_after(then, self._describe(exchange, producer))
        assert kept.metadata is not None
        if waits:
            exchange.producers.prepare_to_learn(identity, kept.metadata)
        self._remember(exchange, identity, kept.said)
        exchange.producers.learn(identity, kept.metadata, self.now).since = then

    def _merge(self, exchange: Exchange, producer: Producer, described: Described, waits: bool) -> None:
        """Of each key that either was told lately the newer holds; of all others, what the newer description has."""
        assert described.metadata is not None
        here, there = self._said_of(exchange, producer.identity), described.said
        version = described.version, described.node
        news = {key: stamp for key, stamp in there.items() if stamp > here.get(key, NEVER)}
        is_newer = version > producer.version or (
            version == KEPT == producer.version and _is_larger(described, producer)
        )
        if not is_newer and not news:
            self.whereabouts.take(exchange, producer, described, waits)
            return
        newer, older = described.metadata, said_by_producer(producer.metadata)
        kept = {key for key, stamp in here.items() if stamp > there.get(key, NEVER)}
        if not is_newer:
            newer, older = older, newer
            kept = set(news)
        merged = {key: value for key, value in newer.items() if key not in kept}
        merged.update((key, older[key]) for key in kept if key in older)
        if waits:
            exchange.producers.prepare_to_learn(producer.identity, merged)
        self._remember(exchange, producer.identity, {**here, **news})
        topic = self.whereabouts.news(described, producer.moved)
        exchange.producers.learn(producer.identity, merged, self.now, topic).version = max(version, producer.version)
        if topic is not None:
            self.whereabouts.note(exchange, producer, described.moved)

    def _said_of(self, exchange: Exchange, identity: str) -> dict[str, Version]:
        found = self._said.get((exchange.name, identity))
        return {} if found is None else found[0]

    def _remember(self, exchange: Exchange, identity: str, said: dict[str, Version]) -> None:
        self._said.pop((exchange.name, identity), None)
        if len(said) > self._most_stamps or sum(map(len, said)) > self._most_stamped:
            said = self._newest(said)
        if said:
            if len(self._said) >= SAID_KEPT:
                del self._said[next(iter(self._said))]
            self._said[exchange.name, identity] = said, self.now

    def _newest(self, said: dict[str, Version]) -> dict[str, Version]:
        """As many as are kept of one producer."""
        kept: dict[str, Version] = {}
        size = 0
        for key, stamp in nlargest(self._most_stamps, said.items(), key=lambda each: each[1]):
            size += len(key)
            if size > self._most_stamped:
                break
            kept[key] = stamp
        return kept

    def online(self, said: Online, node: str) -> None:
        exchange = self._namespaces.get(said.namespace)
        if exchange is not None:
            exchange.producers.presence.told(
                node, [each for each in said.identities if is_identity(each)], said.is_online
            )

    def evict(self, node: str) -> None:
        """This node is gone. Producers that were online there stay so for the grace."""
        for exchange in list(self._namespaces):
            exchange.producers.presence.evict(node)

    def heard(self, said: Heard) -> None:
        exchange = self._namespaces.get(said.namespace)
        for identity in said.identities if exchange is not None else ():
            producer = exchange.producers.get(identity) if exchange is not None else None
            if producer is not None:
                producer.heard_of = self.now

    def deliver(
        self, said: Spoken, exchange: Exchange, groups: tuple[str, ...], nearly_full: NearlyFull, node: str = ""
    ) -> None:
        """Delivers a reading of another node to consumers of this one. Raises FumaroleError."""
        if said.reply:
            check_topic(said.reply, Grammar.CHANNEL)
        reading = checked(said)
        publication = Publication(said.topic, said.payload, said.reply, said.headers, reading)
        publication.node = node
        exchange.own_plans().find(said.topic.encode())
        key = exchange.name, said.producer
        self._late.take(key, partial(self._deliver, said, publication, exchange, groups, nearly_full))

    def _deliver(
        self,
        said: Spoken,
        publication: Publication,
        exchange: Exchange,
        groups: tuple[str, ...],
        nearly_full: NearlyFull,
        waits: bool,
    ) -> None:
        """Raises Unprepared, and then nothing has happened."""
        topic, plans = said.topic.encode(), exchange.own_plans()
        plan = plans.find(topic)
        producer = exchange.producers.get(said.producer)
        if producer is not None:
            if waits and exchange.producers.filling:
                exchange.producers.prepare(producer, producer.metadata, ())
            producer.heard_of = self.now
            if said.topic == producer.latest()[0]:  # else another node has told of a newer one
                producer.take(said.value, said.topic)
            plan = exchange.plan_for_message(publication, producer, topic, plans)
        exchange.deliver(plan, publication, groups, nearly_full)

    def _bury(self, namespace: str, identity: str, version: Version, silent: bool) -> Grave:
        if len(self._graves) >= GRAVES_KEPT:
            del self._graves[next(iter(self._graves))]
        self._graves.pop((namespace, identity), None)
        self._said.pop((namespace, identity), None)
        grave = self._graves[namespace, identity] = Grave(version, silent, self.now)
        return grave


def author(node: str, incarnation: int) -> str:
    """The name that a node gives versions in."""
    return f"{node}@{incarnation:x}"


def _giver(author: str) -> str:
    """The node that gives versions in this name."""
    return author.rpartition("@")[0]


def _parts(table: dict[Key, Value]) -> Iterator[list[tuple[Key, Value]]]:
    """What it holds when this is called, a part at a time."""
    rest = zip(list(table), list(table.values()), strict=True)
    return iter(lambda: list(islice(rest, PART)), [])


def _describe_graves(graves: Iterable[tuple[Key, Grave]]) -> Iterator[Producers]:
    for namespace, of_it in groupby(graves, key=lambda each: each[0][0]):
        for some in slices(grave.describe(identity) for (_, identity), grave in of_it):
            yield Producers(namespace, some)


def _said_after(then: Version, described: Described) -> Described:
    """What is left of a description if all that was said by then does not hold."""
    assert described.metadata is not None
    said = {key: stamp for key, stamp in described.said.items() if stamp > then}
    metadata = {key: value for key, value in described.metadata.items() if key in said}
    return msgspec.structs.replace(described, metadata=metadata, said=said, since=then)


def _is_larger(described: Described, producer: Producer) -> bool:
    """Any order will do: of two of which neither is known to be newer, all nodes have to take the same."""
    known = said_by_producer(producer.metadata)
    one, other = (msgspec.msgpack.encode(sorted((m or {}).items())) for m in (described.metadata, known))
    return one > other
