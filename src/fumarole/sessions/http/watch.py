"""The producers that a stream of a set watches: their newest values, at most once in a period (F4).

    GET /v1/stream?where=Region = 'italy'&readings=0&every=1s

    event: stream
    data: {"id":"9f2c…"}

    PUT /v1/streams/9f2c…        {"ids":["2f1c…","07aa…"]}

    event: producers
    data: {"producers":[{"id":"2f1c…","metadata":{"Kind":"so2"},"topic":"…","value":21.5,"age":0.2}]}

A page shows fifty rows of a set of fifty thousand, and other rows after a turn of the wheel. A subscription to the rows
would be put to all producers at each turn. So nothing subscribes: a reading costs no more than without the stream. Each
watched producer is looked at when its period is over, and told if something of it is new: the metadata if it is other
than what was told last, the value if a reading has come since.

`PUT` may come to any node or worker. It is published to a private topic that only the stream listens to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fumarole.core.periods import LONGEST_EVERY, parse_every
from fumarole.core.publication import PRIVATE, Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.latest_readings import LatestReadings
from fumarole.exchange.plans import reaches_nobody
from fumarole.exchange.producer import Producer, may_receive
from fumarole.exchange.readings import check_identity
from fumarole.exchange.retained import Kept
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import PIECE, Call
from fumarole.sessions.http.producers import MOST_ASKED, newest
from fumarole.sessions.http.routes import BadParameterError, word_of
from fumarole.sessions.http.streams import event

if TYPE_CHECKING:
    from fumarole.sessions.http.stream import EventStream

KEY: Final = b"watch"
"""Of the consumer that hears what is to be watched."""
TOPIC: Final = PRIVATE + "watch."
SHORTEST: Final = 0.1
"""Seconds."""
LOOKS: Final = 8
"""In a period at most, or one in a tenth of a second: however often a client names others, it does not cause more."""
LOOKED_AT_ONCE: Final = 20
"""Producers: about a tenth of a millisecond."""
ALMOST: Final = 1e-6
"""Seconds, or parts of a turn, by which sums of floats may be wrong."""
NO_SUCH: Final = "no stream of this id watches producers"
_IDS = re.compile(r"[0-9a-z]{1,64}")


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `PUT`."""

    ids: list[str]
    every: str | int | float | None = None


def period(given: object) -> float:
    """Raises PeriodError or BadParameterError."""
    seconds = parse_every(given)
    if seconds < SHORTEST:
        raise BadParameterError(f"watched producers have an `every` from {SHORTEST:g} to {LONGEST_EVERY:g} seconds")
    return seconds


def change(call: Call) -> None:
    """`PUT /v1/streams/{id}`: the producers that are watched from here on, in place of those before."""
    exchange, _ = call.here()
    name = word_of(call.words)
    try:
        asked = msgspec.json.decode(call.body, type=Asked)
    except forms.NOT_JSON:
        raise BadParameterError("the body is a JSON object with `ids`, a list, and perhaps `every`") from None
    if len(asked.ids) > MOST_ASKED:
        raise BadParameterError(f"a stream watches at most {MOST_ASKED} producers")
    for each in asked.ids:
        check_identity(each)
    if asked.every is not None:
        period(asked.every)
    topic = f"{TOPIC}{name}"
    plan = exchange.own_plans().find(topic.encode()) if _IDS.fullmatch(name) else None
    if plan is None or reaches_nobody(plan):
        call.problem(404, NO_SUCH)
        return
    publication = Publication(topic, forms.encode(asked))
    publication.vital = True
    exchange.say(plan, publication)
    call.empty(204)


class Row:
    """What the client was told of one producer."""

    __slots__ = ("due", "metadata", "reading")

    def __init__(self, due: float) -> None:
        self.due = due
        """When its period is over."""
        self.metadata: Mapping[str, Any] | None = None
        self.reading: Any = None


class Watch:
    """What one stream watches, and the outlet of the consumer that hears what that is."""

    echo = True

    def __init__(self, call: Call, exchange: Exchange, stream: EventStream, every: float) -> None:
        self.name = call.service.new_id()
        self.label = stream.label
        self._session = call.session
        self._service = call.service
        self._exchange = exchange
        self._is_local = call.is_local
        self._every = every
        self._consumer: Consumer | None = None
        """That of the set: it knows what the user may receive."""
        self._hears: Consumer | None = None
        self._rows: dict[str, Row] = {}
        self._take_back: Callable[[], None] | None = None
        self._is_looking = False
        self._begun = exchange.timers.now()

    def begin(self, consumer: Consumer) -> None:
        """Raises QuotaError, and then nothing has changed."""
        hears = self._exchange.consumer(self, f"{TOPIC}{self.name}", "", KEY, None, self._session.account)
        self._exchange.subscribe(hears)
        self._session.consume(KEY, hears)
        self._hears, self._consumer = hears, consumer

    def end(self) -> None:
        """The stream is over. Twice is harmless."""
        if self._hears is not None:
            self._exchange.unsubscribe(self._hears)
            self._session.consumed(KEY)
        self._hears = self._consumer = None
        self._rows = {}
        self._wait(None)

    # An outlet of the exchange.

    def has_room(self, _weight: int) -> bool:
        return True

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        if self._consumer is None:
            return
        asked = msgspec.json.decode(publication.payload, type=Asked)  # `change` has checked it
        if asked.every is not None:
            every = period(asked.every)
            for row in self._rows.values():
                row.due += every - self._every
            self._every = every
            for row in self._rows.values():
                row.due = self._turn_after(row.due)
        before = self._rows
        now = self._exchange.timers.now()
        self._rows = {identity: before.get(identity) or Row(self._turn_after(now)) for identity in asked.ids}
        self._arrange()

    # Looking. All periods end at turns, of which a period is a whole number.

    def _turn_after(self, time: float) -> float:
        turn = self._every / max(LOOKS, round(self._every / SHORTEST))
        return self._begun + ceil((time - self._begun) / turn - ALMOST) * turn

    def _arrange(self) -> None:
        """The next look is when the first period is over."""
        if self._is_looking or not self._rows:
            self._wait(None)
            return
        first = min([row.due for row in self._rows.values()])
        self._wait(max(0.0, first - self._exchange.timers.now()))

    def _wait(self, seconds: float | None) -> None:
        if self._take_back is not None:
            self._take_back()
        self._take_back = None if seconds is None else self._service.later(seconds, self._look)

    def _look(self) -> None:
        self._take_back = None
        consumer = self._consumer
        if consumer is None:
            return
        now = self._exchange.timers.now()
        due = [identity for identity, row in self._rows.items() if row.due <= now + ALMOST]
        for identity in due:
            row = self._rows[identity]
            row.due = max(row.due + self._every, self._turn_after(now))
        self._is_looking = True
        if self._exchange.ask is None or self._is_local:
            self._tell(due, {})
        else:
            LatestReadings(self._exchange, due, consumer.sees, lambda latest: self._tell(due, latest)).begin()
        self._service.flush()

    def _tell(self, due: list[str], latest: Mapping[str, Kept]) -> None:
        self._service.slices.begin(self._told(due, latest))

    def _told(self, due: list[str], latest: Mapping[str, Kept]) -> Iterator[None]:
        told: list[tuple[Row, Row, bytes]] = []
        for count, identity in enumerate(due, 1):
            row, consumer = self._rows.get(identity), self._consumer
            if row is not None and consumer is not None:
                producer = self._exchange.producers.get(identity)
                if producer is None or not may_receive(consumer.sees, producer):
                    row.metadata = row.reading = None
                elif news := self._news(row, producer, latest.get(identity)):
                    told.append(news)
            if sum(len(each) for *_, each in told) >= PIECE:
                self._send(told)
                told = []
            if not count % LOOKED_AT_ONCE:
                yield
        self._send(told)
        self._is_looking = False
        self._arrange()

    def _news(self, row: Row, producer: Producer, kept: Kept | None) -> tuple[Row, Row, bytes] | None:
        """What is new of a producer: its row, how the row is when that was told, and the text."""
        shown = newest(self._exchange, producer, self._exchange.timers.now(), kept)
        after = Row(row.due)
        after.metadata = producer.metadata
        heard = producer.heard if kept is None else kept.time
        after.reading = (shown["topic"], shown["value"], heard) if "value" in shown else None
        if after.metadata is row.metadata:  # it is never altered: a change makes another
            del shown["metadata"]
        if after.reading == row.reading:
            for name in ("topic", "value", "age"):
                shown.pop(name, None)
        return (row, after, forms.encode(shown)) if len(shown) > 1 else None

    def _send(self, told: list[tuple[Row, Row, bytes]]) -> None:
        """Where there is no room, it is told when the next period is over, as it is then."""
        if not told or self._consumer is None:
            return
        frame = event("producers", {"producers": [msgspec.Raw(text) for *_, text in told]})
        if self._session.outbox.has_room(len(frame)):
            self._session.outbox.push(frame)
            for row, after, _ in told:
                row.metadata, row.reading = after.metadata, after.reading
