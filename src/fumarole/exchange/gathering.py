"""What a consumer that asks for `last` gets first (F3): of each topic, or of each producer, the newest that is known.

The values are of this node and of all live nodes. Each node is asked when the subscription is made, right behind it on
the same ordered connection. It answers first with a mark, then with its values as of the mark:

    this node       node b
    subscribe ────▶ knows the consumer
    ask       ────▶ mark: what b publishes from here on, the consumer gets live
              ◀──── mark
              ◀──── values, all older than the mark
              ◀──── the end
    walk: of each topic the newest of all nodes, unless a live message was as new

So there is neither a gap nor a repeat: what b took before its mark is in its values, and what it took after comes
live. A live message that b forwarded before its mark, for others here, is one that the consumer has no right to yet
(D5), and is left out: b's values have it or a newer one. Once the subscription is confirmed, b forwards for the
consumer too, and nothing is left out.

The walk is done in slices and waits for room in the consumer's outbox. Live messages go on meanwhile. They pass through
here, which is the consumer's first `stage`, so that a value is left out where a live one of its topic was as new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from fumarole.core import headers
from fumarole.core.publication import Publication, finds
from fumarole.core.query.compile import closure, compiled
from fumarole.core.query.message import Message
from fumarole.core.query.parts import set_query
from fumarole.core.query.tree import Query, cost, fields, show
from fumarole.core.topic import Pattern, fits, literal_prefix, split
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.expiry import has_expired
from fumarole.exchange.hybrid_clock import MICROSECONDS
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.producer import TEXT_KEPT, Producer, may_receive
from fumarole.exchange.readings import Reading, reading_block, reading_topic
from fumarole.exchange.retained import Kept

if TYPE_CHECKING:
    from fumarole.exchange.exchange import Exchange

LOOKED_AT_ONCE: Final = 2_000
"""Values looked at in one slice, and messages put into an outbox."""
PRODUCERS_AT_ONCE: Final = 500
HANDED_OVER_AT_ONCE: Final = 200
NO_ROOM_SECONDS: Final = 0.02
"""From one look at a full outbox to the next."""
READINGS: Final = reading_topic("")


class Last(Enum):
    """What a consumer asks for besides live messages."""

    NONE = "none"
    RETAINED = "retained"
    """Of each topic the retained message."""
    ALL = "all"
    """And the last message, where the namespace keeps those; with a query, the last reading of each producer."""
    READINGS = "readings"
    """Of named producers the last reading (`exchange/latest_readings.py`)."""


def values(
    exchange: Exchange, pattern: Pattern, text: str, query: Query | None, sees: Permissions | None, kind: Last
) -> Iterator[Kept | None]:
    """What this node has for such a consumer, each topic or producer once; None: a good place to stop for a while."""
    if query is not None:
        yield from _of_producers(exchange, pattern, text, query, sees)
        return
    literal = text if all(isinstance(word, str) for word in pattern) else None
    last = exchange.last_values if kind is Last.ALL else None
    if literal is not None:
        newest = newest_of(exchange, literal, kind)
        if newest is not None and may_see(sees, literal):
            yield newest
        return
    everything = text == ">"
    is_all = everything and sees is None
    """Then only private topics are to be left out, and those begin with `_`."""
    prefix = literal_prefix(pattern)

    def taken(topic: str) -> bool:
        is_asked = topic.startswith(prefix) and (everything or fits(pattern, split(topic))) and finds(text, topic)
        return is_asked and may_see(sees, topic)

    if last is not None:
        for begin in range(0, len(last), LOOKED_AT_ONCE):
            for topic, time, block, payload in last.some(begin, LOOKED_AT_ONCE, prefix):
                if taken(topic):
                    kept = Kept(topic, time, exchange.clock.node, payload, block)
                    retained = exchange.retained.get(topic)
                    yield retained if retained is not None and retained.payload and retained.is_newer(kept) else kept
            yield None
    topics = exchange.retained.topics()
    for begin in range(0, len(topics), LOOKED_AT_ONCE):
        for topic in topics[begin : begin + LOOKED_AT_ONCE]:
            retained = exchange.retained.get(topic)
            if retained is None or not retained.payload or not ((is_all and topic[:1] != "_") or taken(topic)):
                continue
            if last is None:
                yield retained
            elif last.get(topic) is None:
                yield newest_of(exchange, topic, kind)
        yield None
    if last is not None and (not prefix or READINGS.startswith(prefix) or prefix.startswith(READINGS)):
        for number, producer in enumerate(list(exchange.producers)):
            topic, value = producer.latest()
            is_new = value is not None and last.get(topic) is None and exchange.retained.get(topic) is None
            if is_new and taken(topic):
                yield reading_kept(exchange, producer, {})
            if number % PRODUCERS_AT_ONCE == PRODUCERS_AT_ONCE - 1:
                yield None


def newest_of(exchange: Exchange, topic: str, kind: Last) -> Kept | None:
    """The newest message of one topic that this node knows."""
    retained = exchange.retained.get(topic)
    newest = retained if retained is not None and retained.payload else None
    if kind is Last.ALL and exchange.last_values is not None:
        found = exchange.last_values.get(topic)
        if found is not None:
            _, time, block, payload = found
            kept = Kept(topic, time, exchange.clock.node, payload, block)
            newest = kept if kept.is_newer(newest) else newest
        producer = exchange.producers.get(topic.removeprefix(READINGS)) if topic.startswith(READINGS) else None
        if producer is not None and found is None and producer.latest()[0] == topic:
            kept_reading = reading_kept(exchange, producer, {})
            newest = kept_reading if kept_reading is not None and kept_reading.is_newer(newest) else newest
    return newest


def _of_producers(
    exchange: Exchange, pattern: Pattern, text: str, query: Query, sees: Permissions | None
) -> Iterator[Kept | None]:
    """Of each producer the last reading, where the whole query holds for it, tests on messages included (F6)."""
    decides = set_query(query)
    selects = None if decides is None else closure(decides)
    holds = compiled(query) if fields(query) else None
    few = max(1, PRODUCERS_AT_ONCE // cost(query))
    for number, producer in enumerate(list(exchange.producers)):
        topic, value = producer.latest()
        is_asked = value is not None and fits(pattern, split(topic)) and finds(text, topic)
        is_shown = is_asked and (sees is None or (sees.allows(topic) and may_receive(sees, producer)))
        if is_shown and (selects is None or selects(producer.metadata)):
            kept = reading_kept(exchange, producer, producer.metadata)
            if kept is not None and (holds is None or holds(Message(kept.publication(0.0), producer.metadata))):
                yield kept
        if number % few == few - 1:
            yield None


def reading_kept(exchange: Exchange, producer: Producer, metadata: dict[str, int | float | str | bool]) -> Kept | None:
    """The last reading of a producer, with what is known of it."""
    topic, value = producer.latest()
    if value is None:
        return None
    age = exchange.timers.now() - producer.heard
    time = exchange.clock.wall() - int(max(0.0, min(age, 1e9)) * MICROSECONDS)
    block = reading_block(Reading(producer.identity, metadata, value))
    return Kept(topic, time, exchange.clock.node, _payload(exchange, producer, topic, value), block)


def _payload(exchange: Exchange, producer: Producer, topic: str, value: float | str) -> bytes:
    """Of a long text a producer keeps the beginning; all of it is here where the namespace keeps last messages."""
    if isinstance(value, str) and len(value) > TEXT_KEPT and exchange.last_values is not None:
        found = exchange.last_values.get(topic)
        if found is not None and headers.last(found[2], "Producer") == producer.identity:
            return found[3]
    return str(value).encode()


def may_see(sees: Permissions | None, topic: str) -> bool:
    return sees is None or sees.allows(topic)


class Asking(Protocol):
    """A question that goes to all other nodes, and takes their answers."""

    exchange: Exchange
    kind: Last
    has_ended: bool

    @property
    def sees(self) -> Permissions | None:
        """What the client that asks may receive."""

    def question(self) -> tuple[str, str]:
        """The pattern and the query, as text."""

    def ask(self, nodes: Iterable[str]) -> None:
        """These nodes are asked."""

    def marked(self, node: str) -> None:
        """The node has heard the question: its values are of now."""

    def take(self, some: Iterable[Kept]) -> None:
        """Values of another node."""

    def answered(self, node: str) -> None:
        """The node has said all, or is gone."""


def asked_once(
    exchange: Exchange, consumer: Consumer, pattern: Pattern, query: Query | None, asks_nodes: bool = True
) -> Gathering:
    """For a client that asks for what is known now, and for none of what comes. The consumer stays out of the index.

    `begin` goes on, `Exchange.unsubscribe` ends it sooner. Raises QuotaError, and then nothing has changed.
    """
    if consumer.account is not None:
        consumer.account.take("consumers")
    gathering = consumer.stage = Gathering(exchange, consumer, pattern, query, Last.ALL, is_once=True)
    exchange.gatherings[gathering] = None
    if asks_nodes and exchange.ask is not None:
        exchange.ask(gathering)
    return gathering


class Gathering:
    """The first stage of a consumer that asks for `last`, until it has all of it."""

    def __init__(
        self,
        exchange: Exchange,
        consumer: Consumer,
        pattern: Pattern,
        query: Query | None,
        kind: Last,
        is_once: bool = False,
    ) -> None:
        self.exchange = exchange
        self.consumer = consumer
        self.pattern = pattern
        self.query = query
        self.kind = kind
        self.done: Callable[[], None] = lambda: None
        """Called when the consumer has all of it."""
        self.has_ended = False
        self._has_begun = False
        self._asked: set[str] = set()
        """Nodes that have not said their last value yet."""
        self._unmarked: set[str] = set()
        """Nodes whose live messages the consumer does not get yet."""
        self._elsewhere: dict[str, Kept] = {}
        self._live: dict[str, tuple[int, set[str]]] = {}
        """Of each topic or producer: when a live message last came, and from which nodes any did."""
        self._values: Iterator[Kept | None] | None = None
        self._next: Kept | None = None
        """The value that found no room."""
        self._is_once = is_once
        """True when no live messages come here (`asked_once`)."""
        self._send: Callable[[Consumer, Kept], bool] | None = getattr(consumer.outlet, "send_last", None)
        """Sends a value in a shorter way, where the outlet has one. False: it has to be a publication."""

    @property
    def sees(self) -> Permissions | None:
        """What the consumer may receive."""
        return self.consumer.sees

    def question(self) -> tuple[str, str]:
        """The pattern and the query, as text."""
        return self.consumer.pattern, "" if self.query is None else show(self.query)

    def ask(self, nodes: Iterable[str]) -> None:
        """These nodes are asked."""
        self._asked.update(nodes)
        self._unmarked.update(nodes)

    # Live messages.

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        if self.hears(publication):
            self._hand_over(consumer, publication)
        else:
            self.exchange.counters.routed -= 1

    def hears(self, publication: Publication) -> bool:
        """Notes a live message. False: the consumer has no right to it yet.

        Once the subscription is confirmed (C2), all nodes forward for this consumer, whether they have heard the
        question or not.
        """
        node = publication.node
        if node in self._unmarked and not self._has_begun:
            return False
        key = self._key(publication)
        _, nodes = self._live.get(key, (0, set()))
        nodes.add(node or self.exchange.clock.node)
        self._live[key] = self.exchange.clock.now(), nodes
        return True

    def _hand_over(self, consumer: Consumer, publication: Publication) -> None:
        following = consumer.conflation
        (consumer.outlet if following is None else following).accept(consumer, publication)

    def _key(self, publication: Publication) -> str:
        reading = publication.reading
        return publication.topic if self.query is None or reading is None else reading.producer

    # What other nodes have.

    def marked(self, node: str) -> None:
        """What comes from this node from here on is for the consumer."""
        self._unmarked.discard(node)

    def take(self, some: Iterable[Kept]) -> None:
        """Values of another node."""
        for kept in some:
            key = kept.topic if self.query is None else self._key(kept.publication(0.0))
            if kept.is_newer(self._elsewhere.get(key)):
                self._elsewhere[key] = kept

    def answered(self, node: str) -> None:
        """The node has said all, or is gone."""
        self._unmarked.discard(node)
        self._asked.discard(node)
        self._walk()

    # The walk.

    def begin(self, done: Callable[[], None] = lambda: None) -> None:
        """The client knows that its subscription is in force. It has been told its set, if it has one."""
        self.done = done
        self._has_begun = True
        self._walk()

    def end(self) -> None:
        """The consumer is gone, or has all of it."""
        if not self.has_ended:
            self.has_ended = True
            self.consumer.stage = self.consumer.conflation
            self._live.clear()
            self._elsewhere.clear()
            self.exchange.gatherings.pop(self, None)
            if self._is_once and self.consumer.account is not None:
                self.consumer.account.give_back("consumers")
            self.done()

    def _walk(self) -> None:
        if self._has_begun and not self._asked and self._values is None and not self.has_ended:
            self._values = self._newest()
            self.exchange.slices.begin(self._steps())

    def _newest(self) -> Iterator[Kept | None]:
        """Of all nodes, each topic or producer once."""
        exchange, consumer = self.exchange, self.consumer
        for kept in values(exchange, self.pattern, consumer.pattern, self.query, consumer.sees, self.kind):
            if kept is None:
                yield None
                continue
            key = kept.topic if self.query is None else self._key(kept.publication(0.0))
            other = self._elsewhere.pop(key, None)
            yield other if other is not None and other.is_newer(kept) else kept
        for number, kept in enumerate(list(self._elsewhere.values())):
            if may_see(consumer.sees, kept.topic):
                yield kept
            if number % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                yield None

    def _steps(self) -> Iterator[None]:
        """Each step is a slice. It ends when all is done, or where the outbox has no room, and begins again later."""
        assert self._values is not None
        handed_over = 0
        reserve = self.exchange.outbox_limit // 2
        while not self.has_ended:
            if self._next is None:
                kept = next(self._values, END)
                if kept is END:
                    self.end()
                    return
                if not isinstance(kept, Kept):
                    yield
                    continue
                self._next = kept
            if self._is_old(self._next):
                self._next = None
                continue
            if not self.consumer.outlet.has_room(min(reserve, self._next.size() + reserve // 2)):
                self.exchange.timers.after(NO_ROOM_SECONDS, self._go_on)
                return
            kept_now, self._next = self._next, None
            self._deliver(kept_now)
            handed_over += 1
            if handed_over % HANDED_OVER_AT_ONCE == 0:
                yield

    def _go_on(self) -> None:
        if not self.has_ended:
            self.exchange.slices.begin(self._steps())

    def _is_old(self, kept: Kept) -> bool:
        """Did a live message come that is as new, or has the producer left the set?"""
        standing = self.consumer.standing
        if not self._live and standing is None:
            return False
        key = kept.topic if self.query is None else self._key(kept.publication(0.0))
        producer = None if standing is None else self.exchange.producers.get(key)
        if producer is not None and standing not in producer.standings:
            return True
        found = self._live.get(key)
        return found is not None and (kept.node in found[1] or found[0] >= kept.time)

    def _deliver(self, kept: Kept) -> None:
        if self._send is not None and self.consumer.conflation is None and self._send(self.consumer, kept):
            self.exchange.counters.last += 1
            return
        age = self.exchange.clock.age(kept.time)
        if not has_expired(kept.headers, age):
            self.exchange.counters.last += 1
            self._hand_over(self.consumer, kept.publication(age))


END: Final = object()
