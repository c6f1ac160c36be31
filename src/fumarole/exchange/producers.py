"""The producers of a namespace, their metadata, and the standing queries that select them (M3–M7).

A producer is known from its first reading until it is forgotten, connected or not. A reading may change its metadata.
The query index knows the few queries that such a change can matter to. For each of them it finds whether the producer
enters its set or leaves it. The query's consumers get that diff before the reading is forwarded (M5).

A new query is put to all producers in slices: `exchange/filling.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import Final, Protocol

from fumarole.core.limits import Quotas
from fumarole.core.publication import finds
from fumarole.core.query.evaluation import answered, needs_slices
from fumarole.core.query.index import QueryIndex, StandingQuery
from fumarole.core.query.tree import Query, Value, cost
from fumarole.core.query.view import View
from fumarole.core.topic import Pattern, fits, split
from fumarole.core.values import ONLINE
from fumarole.exchange.consumer import Consumer, tell
from fumarole.exchange.filling import Filling
from fumarole.exchange.preparations import Preparations
from fumarole.exchange.presence import GRACE, Presence, Speaking
from fumarole.exchange.producer import Producer, Said, growth, is_same, may_receive, merged, size_of
from fumarole.exchange.quotas import Account, QuotaError, Usage
from fumarole.exchange.readings import Reading, ReadingError, reading_topic
from fumarole.exchange.slices import Slices
from fumarole.exchange.timers import Timers

NOBODY: Final[Mapping[Consumer, Pattern]] = {}
HEARSAY = 3.0
"""Seconds until all nodes know that a producer has published to one of them, though that one be slow (C4)."""
EXPIRE_AT_ONCE = 1_000
"""Ten milliseconds or so, in producers looked at for their silence and consumers told of it."""
LOOKED_AT_ONCE = 200
"""About a tenth of a millisecond, in producers to which a query of one simple test is put."""
EMPTIED_AT_ONCE = 5_000
"""Producers that leave the set of a query that has no consumer any more: about a millisecond."""


class Shows(Protocol):
    """A live view (`exchange/views.py`)."""

    view: View

    def look_at(self, producer: Producer) -> None:
        """A producer in its set has other metadata now."""


class Producers:
    """The producers of one namespace, its standing queries, and the consumers of each query."""

    def __init__(
        self,
        most_keys: int = 64,
        most_bytes: int = 8 * 1024,
        ttl: float | None = None,
        is_kept: bool = True,
        slices: Slices | None = None,
        usage: Usage | None = None,
        timers: Timers | None = None,
        presence_grace: float = GRACE,
    ) -> None:
        self.usage = Usage("this namespace", Quotas()) if usage is None else usage
        """What the namespace holds, of its quota (A5)."""
        self.known: dict[str, Producer] = {}
        """By identity, in the order of their numbers. Read-only for others."""
        self._appeared = 0
        """How many producers have been known so far."""
        self.queries = QueryIndex()
        """The standing queries. Read-only for others."""
        slices = Slices() if slices is None else slices
        self.preparations = Preparations(self.queries, slices)
        self._members: dict[StandingQuery, dict[Producer, None]] = {}
        self._subscribed: dict[StandingQuery, dict[Consumer, Pattern]] = {}
        self._slices = slices
        self.filling: dict[StandingQuery, Filling] = {}
        """Queries whose sets are not whole yet. While there are any, `settle` is called before `standings` is read."""
        self._most_keys = most_keys
        self._most_bytes = most_bytes
        self.ttl = ttl
        self._due: list[tuple[float, str]] = []
        """A heap: when to check whether a producer has been silent for too long. A check may be early, never late."""
        self._awaited: set[str] = set()
        """The producers in it: each once, also one that is forgotten and publishes again before its time."""
        self.guarded = 0
        """Consumers on queries that may not receive everything (A3), and one more where other nodes may have such."""
        self.views: dict[StandingQuery, dict[Shows, None]] = {}
        """Views by their query (F7): what they show may change while their sets do not."""
        self.generation = 0
        """Increases when a consumer of a query comes or goes."""
        self.told = 0
        """How many diffs consumers got."""
        self._is_kept = is_kept
        self.unsaved: dict[str, None] = {}
        """Producers whose metadata changed since it was last written to disk; empty where none is written."""
        self.changed: Callable[[str, Collection[str]], None] | None = None
        """Replicates the metadata of a producer, changed under these keys; None when the node is not clustered."""
        self.forgotten: Callable[[str, bool], None] | None = None
        """The same for a producer that is about to be forgotten. True: for its silence."""
        self.moved: Callable[[str, bool], None] | None = None
        """The same for one whose reading is on another topic than the one before. True: `changed` is called as well."""
        self.left_out = 0
        """Messages whose metadata had `_online`, which producers cannot write (F5)."""
        self.presence = Presence(
            self.known, self._show_online, Timers() if timers is None else timers, slices, presence_grace
        )
        self.publish_forgotten: Callable[[Producer], None] | None = None
        """Publishes to `_FORGOTTEN`, for consumers that keep a history."""

    def __len__(self) -> int:
        return len(self.known)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self.known.values())

    def get(self, identity: str) -> Producer | None:
        return self.known.get(identity)

    # Readings.

    def hear(
        self,
        reading: Reading,
        now: float,
        topic: str | None = None,
        account: Account | None = None,
        speaking: Speaking | None = None,
    ) -> Producer:
        """Merges the metadata of a reading, and sends diffs to consumers whose set changes. Returns the producer.

        `topic` is where the reading was published; None: on the producer's own topic. `speaking` is of the connection
        that published it, if that puts the producer online. Raises ReadingError, QuotaError or, where the connection
        waits, Unprepared, and then nothing has changed.
        """
        return self.describe(reading.producer, reading.metadata, now, account, (reading.value, topic), speaking)

    def describe(
        self,
        identity: str,
        metadata: Mapping[str, Value | None],
        now: float,
        account: Account | None = None,
        said: Said | None = None,
        speaking: Speaking | None = None,
    ) -> Producer:
        """The same for metadata without a value."""
        if ONLINE in metadata:
            metadata = self.leave_out(metadata)
        producer = self.known.get(identity)
        is_news = producer is None
        was_on = reading_topic(identity) if producer is None or self.moved is None else producer.latest()[0]
        if producer is None:
            merged, size = self._merged({}, 0, metadata)
            self._check_quotas(1, size, (self.usage,) if account is None else account.usages)
            self._prepare_new(identity, merged, speaking, account)
            producer = Producer(identity, self._appeared + 1)
            is_first_here = self.presence.hold(speaking, producer)
            self._appear(producer, merged, now, None if account is None else account.user, said)
            self._note(identity)
        else:
            merged = producer.metadata
            if metadata:
                merged, size = self._merged(merged, producer.bytes, metadata)
                if size > producer.bytes:
                    self._check_quotas(0, size - producer.bytes, self._usages(producer))
            if account is not None and account.waits and self.queries:
                self._prepare_known(producer, merged, metadata, speaking)
            is_first_here = self.presence.hold(speaking, producer)
            if is_first_here:  # with the rest: no set is told of what holds in between only
                merged = {**merged, ONLINE: True}
            if metadata or is_first_here:
                is_news = self._change(producer, merged, (*metadata, ONLINE), said)
            elif said is not None:
                self.take(producer, *said)
        if self.moved is not None and producer.latest()[0] != was_on:  # first: the rest is judged by it
            self.moved(identity, is_news)
        if is_news and self.changed is not None:
            self.changed(identity, metadata.keys())
        elif is_first_here and self.presence.changed is not None:
            self.presence.changed((identity,), True)
        producer.heard = now
        return producer

    def _prepare_new(
        self, identity: str, metadata: dict[str, Value], speaking: Speaking | None, account: Account | None
    ) -> None:
        """The same for a producer that is not known yet."""
        if account is not None and account.waits and self.queries:
            is_online = (speaking is not None and speaking.is_open) or self.presence.is_elsewhere(identity)
            after = {**metadata, ONLINE: is_online}
            self.preparations.require(identity, after, lambda: self.queries.candidates(after))

    def _prepare_known(
        self,
        producer: Producer,
        merged: dict[str, Value],
        metadata: Mapping[str, Value | None],
        speaking: Speaking | None,
    ) -> None:
        """The same for one that is."""
        is_first_here = self.presence.would_hold(speaking, producer)
        if metadata or is_first_here or self.filling:
            self.prepare(producer, {**merged, ONLINE: True} if is_first_here else merged, (*metadata, ONLINE))

    def prepare(self, producer: Producer, after: dict[str, Value], keys: Iterable[str]) -> None:
        """Raises Unprepared where a change to this, under these keys, is too dear to be made at once."""
        if self.queries:
            self.preparations.require(producer.identity, after, lambda: self._concerned(producer, after, keys))

    def _concerned(self, producer: Producer, after: dict[str, Value], keys: Iterable[str]) -> set[StandingQuery]:
        before = producer.metadata
        changed = [key for key in keys if not is_same(before.get(key), after.get(key))]
        concerned = self.queries.affected(before, after, changed)
        concerned.update([filling.standing for filling in self.filling.values() if filling.is_early(producer)])
        return concerned

    def take(self, producer: Producer, value: float | str | None, topic: str | None) -> None:
        """This is its latest reading. On another topic than the one before, others may receive the producer (A3)."""
        before = producer.latest()[0]
        producer.take(value, topic)
        if self.guarded and producer.latest()[0] != before:
            if self.filling:
                self.settle(producer)
            self._move(producer, producer.standings, before)

    def leave_out(self, metadata: Mapping[str, Value | None]) -> dict[str, Value | None]:
        """Metadata without `_online`, which producers cannot write. Such messages are counted (F5)."""
        self.left_out += 1
        return {key: value for key, value in metadata.items() if key != ONLINE}

    def _show_online(self, producer: Producer, is_online: bool) -> None:
        if producer.metadata[ONLINE] is not is_online:
            after = {**producer.metadata, ONLINE: is_online}
            self.prepare(producer, after, (ONLINE,))
            self._change(producer, after, (ONLINE,))

    def restore(self, identity: str, metadata: dict[str, Value], now: float) -> None:
        """A producer from the disk. It is taken as it is, though limits may be lower now."""
        self._appear(Producer(identity, self._appeared + 1), metadata, now).heard_of = now

    def prepare_to_learn(self, identity: str, metadata: dict[str, Value]) -> None:
        """Raises Unprepared where it is too dear to `learn` this at once."""
        producer = self.known.get(identity)
        if producer is not None:
            after = {**metadata, ONLINE: self.presence.is_online(producer)}
            self.prepare(producer, after, {**producer.metadata, **after})
        elif self.queries:
            news = {**metadata, ONLINE: self.presence.is_elsewhere(identity)}
            self.preparations.require(identity, news, lambda: self.queries.candidates(news))

    def learn(self, identity: str, metadata: dict[str, Value], now: float, topic: str | None = None) -> Producer:
        """Another node has newer metadata of a producer (C6). Its latest reading was on this topic; None: as before."""
        producer, said = self.known.get(identity), None if topic is None else (None, topic)
        if producer is None:
            producer = self._appear(Producer(identity, self._appeared + 1), metadata, now, said=said)
            self._note(identity)
        else:
            metadata = {**metadata, ONLINE: self.presence.is_online(producer)}
            self._change(producer, metadata, {**producer.metadata, **metadata}, said)
        producer.heard_of = now
        return producer

    def forget(self, identity: str) -> bool:
        """The producer leaves every set (M7). False: it is not known."""
        return self._forget(identity, is_silent=False)

    def _forget(self, identity: str, is_silent: bool) -> bool:
        producer = self.known.get(identity)
        if producer is None:
            return False
        if self.forgotten is not None:
            self.forgotten(identity, is_silent)
        self.forget_here(identity)
        if self.publish_forgotten is not None:
            self.publish_forgotten(producer)
        return True

    def forget_here(self, identity: str) -> bool:
        """The same, without telling other nodes and consumers of `_FORGOTTEN`."""
        producer = self.known.pop(identity, None)
        if producer is None:
            return False
        self._note(identity)
        self.preparations.forget(identity)
        self.presence.forget(producer)
        self._count(producer, -1, -producer.bytes)
        for standing in producer.standings:
            members = self._members.get(standing)  # None: it is being taken apart
            if members is not None:
                del members[producer]
        self._tell((), producer.standings, producer, producer.latest()[0])
        return True

    def heard_since(self, then: float) -> list[str] | None:
        """Producers that have published here since then; None: no producer is ever forgotten for silence here."""
        if self.ttl is None:
            return None
        return [producer.identity for producer in self if producer.heard > then]

    def is_heard(self, producer: Producer, now: float) -> bool:
        """Has it published here lately enough not to be forgotten for its silence?"""
        return self.ttl is not None and producer.heard + self.ttl > now

    def is_due(self, now: float) -> bool:
        """Is a producer to be checked for its silence?"""
        return bool(self._due) and self._due[0][0] <= now

    def expire(self, now: float, most: int = EXPIRE_AT_ONCE) -> int:
        """Forgets producers that have been silent for longer than the namespace allows. Returns how many. Work beyond
        `most` stays due."""
        forgotten, looked, told = 0, 0, self.told
        while self.ttl is not None and self.is_due(now) and looked + self.told - told < most:
            looked += 1
            _, identity = heappop(self._due)
            producer = self.known.get(identity)
            if producer is not None and (until := self._until(producer, self.ttl)) > now:
                heappush(self._due, (until, identity))
            else:
                self._awaited.remove(identity)
                forgotten += self._forget(identity, is_silent=True)
        return forgotten

    def _until(self, producer: Producer, ttl: float) -> float:
        """When it is forgotten, unless it publishes. In a cluster that is later, because another node may have heard it
        since. It is later still where this node only heard of it: the node that heard the producer itself forgets it
        first, and the others only if that node is gone."""
        hearsay = 0.0 if self.forgotten is None else HEARSAY
        return max(producer.heard, producer.heard_of + hearsay) + hearsay + ttl

    def _note(self, identity: str) -> None:
        """Its metadata has to be written to disk."""
        if self._is_kept:
            self.unsaved[identity] = None

    def _usages(self, producer: Producer) -> tuple[Usage, ...]:
        """The quotas that the producer counts against: of its namespace, and of its first user."""
        return (self.usage,) if producer.owner is None else (self.usage, producer.owner)

    def _check_quotas(self, producers: int, size: int, usages: tuple[Usage, ...]) -> None:
        """May there be so much more? Raises QuotaError."""
        for usage in usages:
            if producers:
                usage.check("producers", producers)
            if size > 0:
                usage.check("metadata_bytes", size)

    def _count(self, producer: Producer, producers: int, size: int) -> None:
        for usage in self._usages(producer):
            usage.force("producers", producers)
            usage.force("metadata_bytes", size)

    def _appear(
        self,
        producer: Producer,
        metadata: dict[str, Value],
        now: float,
        owner: Usage | None = None,
        said: Said | None = None,
    ) -> Producer:
        identity = producer.identity
        self._appeared = producer.number
        producer.metadata = metadata = {**metadata, ONLINE: self.presence.is_online(producer)}
        producer.owner = owner
        if said is not None:
            producer.take(*said)
        producer.bytes = size_of(metadata)
        self._count(producer, 1, producer.bytes)
        self.known[identity] = producer
        if self.ttl is not None and identity not in self._awaited:
            self._awaited.add(identity)
            heappush(self._due, (now + self.ttl, identity))
        entered = self.queries.match(metadata, self.preparations.answers(identity, metadata)) if self.queries else ()
        self._enter(producer, entered)
        self._tell(entered, (), producer, producer.latest()[0])
        return producer

    def _change(
        self, producer: Producer, after: dict[str, Value], keys: Iterable[str], said: Said | None = None
    ) -> bool:
        """The metadata may have changed under these keys. False: it is the same as before, but for `_online`."""
        before = producer.metadata
        changed = [key for key in keys if not is_same(before.get(key), after.get(key))]
        if not changed:
            if self.filling:
                self.settle(producer)
            if said is not None:
                self.take(producer, *said)
            return False
        early = self._taken_early(producer) if self.filling else ()
        was_on = producer.latest()[0] if self.queries else ""
        if said is not None:
            producer.take(*said)
        producer.metadata = after
        is_news = changed != [ONLINE]
        if is_news:
            grown = growth(before, after, changed)
            if grown:
                producer.bytes += grown
                self._count(producer, 0, grown)
            self._note(producer.identity)
        if not self.queries:
            return is_news
        answers = self.preparations.answers(producer.identity, after)
        entered, left = self.queries.change(before, after, changed, producer.standings, answers, early)
        if entered or left:
            producer.plan = None
            for standing in left:
                del producer.standings[standing], self._members[standing][producer]
            self._enter(producer, entered)
            self._tell(entered, left, producer, was_on)
        if self.guarded and producer.latest()[0] != was_on:
            stayed = [standing for standing in producer.standings if standing not in entered]
            self._move(producer, stayed, was_on)
        if self.views:
            self._show(producer, frozenset(entered), changed)
        return is_news

    def _show(self, producer: Producer, entered: Collection[StandingQuery], changed: list[str]) -> None:
        """Views in whose set it was, and that show one of these keys, look at it again."""
        for standing in list(producer.standings):
            if standing not in entered:
                for view in list(self.views.get(standing, ())):
                    if any(key in view.view.keys for key in changed):
                        view.look_at(producer)
                        self.told += 1

    def _enter(self, producer: Producer, standings: Iterable[StandingQuery]) -> None:
        for standing in standings:
            producer.standings[standing] = None
            self._members[standing][producer] = None

    def _tell(
        self, entered: Iterable[StandingQuery], left: Iterable[StandingQuery], producer: Producer, was_on: str
    ) -> None:
        """Sends diffs to consumers that may receive the producer (A3). Its last reading before was on `was_on`."""
        is_on = producer.latest()[0]
        one = (producer.identity,)
        for standings, new, gone, topic in ((entered, one, (), is_on), (left, (), one, was_on)):
            checked, is_shown = None, True  # many consumers are of one user
            for standing in standings:
                if standing in self.filling:
                    continue
                # A consumer that gets a diff may be cut off as too slow.
                for consumer in list(self._subscribed.get(standing, ())):
                    sees = consumer.sees
                    if sees is not None and sees is not checked:
                        checked, is_shown = sees, may_receive(sees, producer, topic)
                    if sees is None or is_shown:
                        tell(consumer, new, gone)
                    self.told += 1

    def _move(self, producer: Producer, standings: Iterable[StandingQuery], was_on: str) -> None:
        """Its last reading is on another topic than the one before. That decides which users may receive it (A3)."""
        if self.guarded == (self.moved is not None):
            return  # only other nodes may have consumers that this concerns
        one = (producer.identity,)
        for standing in list(standings):
            if standing in self.filling:
                continue
            for consumer in list(self._subscribed.get(standing, ())):
                if consumer.sees is None:
                    continue
                is_shown = may_receive(consumer.sees, producer)
                if is_shown != may_receive(consumer.sees, producer, was_on):
                    new, gone = (one, ()) if is_shown else ((), one)
                    tell(consumer, new, gone)
                self.told += 1

    def _merged(
        self, before: Mapping[str, Value], size: int, metadata: Mapping[str, Value | None]
    ) -> tuple[dict[str, Value], int]:
        """The metadata after these changes, and its size, which was `size` before.

        Raises ReadingError where that would be too much for one producer.
        """
        after = merged(before, metadata)
        if len(after) - (ONLINE in after) > self._most_keys:
            raise ReadingError(f"more than {self._most_keys} metadata keys")
        size += growth(before, after, metadata)
        if size > self._most_bytes:
            raise ReadingError(f"more than {self._most_bytes} bytes of metadata")
        return after, size

    def after(self, number: int) -> list[Producer]:
        """Producers with greater numbers, in their order."""
        producers = list(self)
        return producers[bisect_right(producers, number, key=attrgetter("number")) :]

    # Queries.

    def subscribe(self, consumer: Consumer, pattern: Pattern, query: Query) -> None:
        """From now on the consumer gets readings and diffs by the query. `when_whole` tells when its set is whole.

        Raises QuotaError, and then nothing has changed.
        """
        standing = self.queries.add(query)
        is_new = standing not in self._members
        try:
            self._charge(consumer, standing, is_new)
        except QuotaError:
            self.queries.remove(standing)
            raise
        if is_new:
            self._members[standing] = {}
            self._subscribed[standing] = {}
        self._subscribed[standing][consumer] = pattern
        self.guarded += consumer.sees is not None
        consumer.standing = standing
        self.generation += 1
        if is_new:
            filling = self.filling[standing] = Filling(standing, self._appeared)
            self._slices.begin(self._fill(filling))

    def _charge(self, consumer: Consumer, standing: StandingQuery, is_new: bool) -> None:
        """A query that several ask costs the namespace once, and each client of this node all of it (A5)."""
        price, account = standing.price.worst(), consumer.account
        own = () if account is None else tuple([usage for usage in account.usages if usage is not self.usage])
        for usage in (self.usage, *own) if is_new and account is not None else own:
            usage.check("standing_cost", price)
        for usage in (self.usage, *own) if is_new else own:
            usage.force("standing_cost", price)

    def _give_back(self, consumer: Consumer, standing: StandingQuery, is_last: bool) -> None:
        price = standing.price.worst()
        if consumer.account is not None:
            for usage in consumer.account.usages:
                if usage is not self.usage:
                    usage.give_back("standing_cost", price)
        if is_last:
            self.usage.give_back("standing_cost", price)

    def _fill(self, filling: Filling) -> Iterator[None]:
        """Puts a new query to all producers, a few at each step."""
        standing = filling.standing
        few = max(1, LOOKED_AT_ONCE // cost(standing.query))
        producers = list(self)
        for begin in range(0, len(producers), few):
            if begin:
                yield
            if self.filling.get(standing) is not filling:
                return  # the query has no consumer any more
            for producer in producers[begin : begin + few]:
                if self.known.get(producer.identity) is producer:
                    yield from self._look_in_slices(producer, standing)
                    if self.filling.get(standing) is not filling:
                        return
                filling.reached = producer.number
        del self.filling[standing]
        for call in filling.whole:
            call()

    def settle(self, producer: Producer) -> None:
        """The producer is about to publish. It is put to each query that has not reached it yet."""
        early = self._taken_early(producer)
        if early:
            answers = self.preparations.answers(producer.identity, producer.metadata)
            for standing in early:
                self._look_at(producer, standing, answers.get(standing))

    def _taken_early(self, producer: Producer) -> list[StandingQuery]:
        """The queries that were not put to it yet. They are put to it now."""
        return [filling.standing for filling in self.filling.values() if filling.take_early(producer)]

    def _look_in_slices(self, producer: Producer, standing: StandingQuery) -> Iterator[None]:
        """Puts the query to this producer; each step is a slice. It may say something new meanwhile, and be gone."""
        while standing.price.rates and needs_slices(standing, producer.metadata):
            metadata = producer.metadata
            answer = yield from answered(standing, metadata)
            if standing not in self.filling or self.known.get(producer.identity) is not producer:
                return
            if producer.metadata is metadata:
                self._look_at(producer, standing, answer)
                return
        self._look_at(producer, standing)

    def _look_at(self, producer: Producer, standing: StandingQuery, answer: bool | None = None) -> None:
        if standing in producer.standings:
            return
        if standing.selects(producer.metadata) if answer is None else answer:
            producer.plan = None
            self._enter(producer, (standing,))

    def is_whole(self, consumer: Consumer) -> bool:
        """Is the set of its query whole?"""
        return consumer.standing not in self.filling

    def when_whole(self, consumer: Consumer, call: Callable[[], None]) -> None:
        """Calls back when it is: at once, if it is already, or if the consumer has no query."""
        standing = consumer.standing
        if standing is None or standing not in self.filling:
            call()
        else:
            self.filling[standing].whole.append(call)

    def unsubscribe(self, consumer: Consumer) -> None:
        """Undoes `subscribe`."""
        standing = consumer.standing
        assert standing is not None
        consumer.standing = None
        del self._subscribed[standing][consumer]
        self.guarded -= consumer.sees is not None
        self.generation += 1
        is_last = self.queries.remove(standing)
        self._give_back(consumer, standing, is_last)
        if is_last:
            self.filling.pop(standing, None)
            del self._subscribed[standing]
            self._slices.begin(self._empty(standing, self._members.pop(standing)))

    def _empty(self, standing: StandingQuery, members: dict[Producer, None]) -> Iterator[None]:
        """The query has no consumer any more: its set is taken apart, a few at each step.

        Until then its producers know a query that has no consumer, and is not asked.
        """
        for count, producer in enumerate(members, 1):
            producer.standings.pop(standing, None)
            if not count % EMPTIED_AT_ONCE:
                yield

    def members(self, consumer: Consumer) -> Iterator[str]:
        """The set of a consumer's query now, without producers that the consumer may not receive (A3)."""
        assert consumer.standing is not None
        members, sees = self._members[consumer.standing], consumer.sees
        return (each.identity for each in members if sees is None or may_receive(sees, each))

    def consumers(self) -> Iterator[Consumer]:
        """Those with a query."""
        return chain.from_iterable(self._subscribed.values())

    def asking(self) -> int:
        """The number of consumers with a query."""
        return sum(map(len, self._subscribed.values()))

    def standing_queries(self) -> list[tuple[StandingQuery, int]]:
        """Every standing query with the number of its consumers."""
        return [(standing, len(consumers)) for standing, consumers in self._subscribed.items()]

    def subscribed(self, producer: Producer, topic: str) -> Iterator[Consumer]:
        """The consumers in whose set the producer is and whose pattern matches the topic."""
        words, own = split(topic), reading_topic(producer.identity)
        checked, is_shown = None, True  # many consumers are of one user
        for standing in producer.standings:
            for consumer, pattern in self._subscribed.get(standing, NOBODY).items():
                sees = consumer.sees
                if sees is not None:
                    if sees is not checked:
                        checked, is_shown = sees, sees.shows(own, topic)
                    if not is_shown:
                        continue  # A3
                if (consumer.pattern == ">" or fits(pattern, words)) and finds(consumer.pattern, topic):
                    yield consumer
