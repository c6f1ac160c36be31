"""What the values of a MsgPack client mean to the exchange (M1, M2).

The first value decides what the client is:

    "select Room where Kind = 'thermostat'"             a subscriber to a view (F7)
    "Kind = 'temperature'"                              a subscriber, by what producers say of themselves
    {"where": "…", "topic": "volcanoes.>", "group": "g"}    a subscriber too; each key may be missing; with `last` it
                                                        gets what is known first, with `every` not all of it (F3, F4)
    ["2f1c…", {"Room": "410"}, 21.5]                    a publisher, which may go on
    {"id": "2f1c…", "metadata": {…}, "value": 21.5, "topic": "…"}   the same, on a topic of its choice; `retain` keeps
                                                                    it (F1), `traceparent` is its trace (O3)
    {"forget": "2f1c…"}                                 a producer is no more

Where authentication is on, `{"token": "…"}` or `{"user": "…", "pass": "…"}` goes before. What a subscriber hears:
first its set, then readings, and a diff before the first reading that a change of the set lets through or holds back
(M4, M5).

A subscriber may be too slow for its readings, which are then dropped (D6), but it never misses a diff: one that finds
no room is kept, joined with those that follow, and sent before the next reading.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fumarole.core import headers
from fumarole.core.errors import FumaroleError, PatternError, TopicError
from fumarole.core.pattern_options import Options, parse_with_options
from fumarole.core.periods import parse_every
from fumarole.core.publication import Publication
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import Query
from fumarole.core.query.view import is_view, parse_view
from fumarole.core.topic import Grammar, check_length, check_topic
from fumarole.core.tracing import is_traceparent
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.gathering import Last
from fumarole.exchange.node import Node
from fumarole.exchange.plans import SHOWN_TOPIC, Denied
from fumarole.exchange.quotas import QuotaError
from fumarole.exchange.readings import (
    Reading,
    ReadingError,
    check_identity,
    check_metadata,
    check_number,
    check_speaks_for,
    reading_topic,
)
from fumarole.exchange.views import LiveView
from fumarole.protocols.msgpack import Bounds, Event, Stream, Value, error, pack
from fumarole.protocols.stream import End
from fumarole.sessions.diff import Diff, EarlyMessages, drop
from fumarole.sessions.stream import Claim, RemoteAddress, State, StreamSession

SUBSCRIPTION = frozenset({"where", "topic", "group", "last", "every"})
READING = frozenset({"id", "metadata", "value", "topic", "retain", "traceparent"})
CLAIM = frozenset({"user", "pass", "token"})
FORGET = frozenset({"forget"})
KEY = b"1"
"""A connection has one consumer."""
WORK_OF_A_DIFF = 10


class MsgPackSession(StreamSession):
    """One publisher or one subscriber."""

    takes_readings = True
    """The compiled reader may write readings straight into its outbox, unless diffs are late."""
    NOT_ADMITTED = "this token, or user and password, are not known here"

    def __init__(self, node: Node, remote: RemoteAddress, now: float, owner: Any, namespace: str) -> None:
        protocol = Stream(Bounds(length=node.limits.msgpack_value, depth=node.limits.msgpack_depth))
        super().__init__(node, remote, now, owner, protocol)
        self._namespace = namespace
        self.publishes = False
        """It has said a reading, and may go on with more of them."""
        self._live_view: LiveView | None = None
        self._late = Diff()
        """What the subscriber has not been told yet, for want of room."""
        self._confirmed = False
        """Has the subscriber been told its set? Before that it is told nothing else (D5)."""
        self._early = EarlyMessages()

    def tick(self, now: float) -> None:
        """The handshake's deadline, and diffs that were late. After the handshake a client may be silent for ever: the
        door finds out whether it is still there (`keep_alive`)."""
        self.now = now
        if self.state is State.START and now > self._deadline and self.claim is None:
            self.fail("nothing was said in time")
        elif self._late:
            self._catch_up()
        elif self._live_view is not None:
            self._live_view.flush()

    def _begin(self, namespace: str) -> None:
        self._join(namespace)

    def _error(self, text: str) -> bytes:
        return error(text)

    # An outlet of the exchange.

    def has_room(self, weight: int) -> bool:
        """Not before the subscriber knows its set: until then others of its group are chosen (G3). Late diffs go before
        all else, and need their room too."""
        return self._confirmed and self.outbox.has_room(weight + self._late.size() if self._late else weight)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        assert self.exchange is not None
        if not self._confirmed:
            if not self._early.keep(consumer, publication, self.outbox.has_room):
                drop(consumer, self.exchange)
        elif self._late and not self._catch_up():
            drop(consumer, self.exchange)
        else:
            form = publication.form
            if form is None or form[0] is not FORM:
                form = publication.form = FORM, _frame(publication)
            consumer.accepted += 1
            self.outbox.push(form[1], consumer)

    def tell(self, _consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        if self._confirmed:
            self._late.add(new, gone)
            self._catch_up()

    def _catch_up(self) -> bool:
        """Sends what is late, if there is room. True: nothing is late any more."""
        if self._late and self.exchange is not None:
            size = self._late.size()  # the frame itself is made once, when there is room for it
            # Diffs are not dropped, so they may take as much room again as readings may.
            room = 2 * self.exchange.outbox_limit
            if size > room:
                self.fail("so many producers came and went that they cannot be listed; subscribe again")
            if self.outbox.size + size > room:
                self.outbox.late = True
                return False
            self.outbox.push(pack(self._late.told()))
            self._late.clear()
            self.outbox.late = False
        return True

    # Values.

    def _take(self, event: Event) -> int:
        """A byte of a value, which may be an item, is as much work as a message put into an outbox."""
        if isinstance(event, End):
            self.close()
            return 0
        return len(event.raw) + self._value(event)

    def _value(self, event: Value) -> int:
        """How much work it was: to how many it went, and what was looked at to find them."""
        data = event.data
        try:
            kind = self._kind(data)
            if kind is CLAIM:
                self._claim(data)
            elif self.node.authentication and self.state is State.START:
                self.fail('say who you are first: {"token": "…"} or {"user": "…", "pass": "…"}')
            elif self._consumers:
                self.fail("a subscriber has said all it can with its query; open another connection")
            elif self._joined():
                if isinstance(data, str) and is_view(data):
                    self._view(data)
                elif kind is SUBSCRIPTION:
                    self._subscribe(data)
                elif kind is READING:
                    return self._read(data, event.raw)
                else:
                    self._forget(data["forget"])
        except QueryError as error:
            self.note_refused(str(error))
            place = {"Position": error.position, "Found": error.found, "Expected": error.expected}
            self.outbox.push(pack({"Error": str(error), **place}))
        except (PatternError, TopicError) as error:
            self.note_refused(str(error))
            self.outbox.push(pack({"Error": str(error), "Position": error.position}))
        except QuotaError as refused:
            self.note_refused(str(refused))
            self.outbox.push(self._error(str(refused)))
        except FumaroleError as error:
            self.fail(str(error))
        return 0

    def _kind(self, data: object) -> frozenset[str]:
        """Which of the forms above it is. Raises where it is none of them, or not what this client may say now."""
        if isinstance(data, str):
            kind = SUBSCRIPTION
        elif isinstance(data, list) and len(data) == 3:
            kind = READING
        elif isinstance(data, dict):
            kind = next((kind for kind in (SUBSCRIPTION, READING, FORGET, CLAIM) if kind.issuperset(data)), frozenset())
        else:
            kind = frozenset()
        if not kind or (self.publishes and kind not in (READING, FORGET)):
            what = "a reading" if self.publishes else "a query (text), or a reading"
            raise ReadingError(f"expected {what}: [id, map, number], not {_shown(data)}")
        return kind

    def _joined(self) -> bool:
        return self.state is State.OPEN or self._join(self._namespace)

    def _claim(self, data: dict[str, Any]) -> None:
        given = [data.get(key) for key in ("user", "pass", "token")]
        if self.state is State.OPEN or not all(value is None or isinstance(value, str) for value in given):
            raise ReadingError("user, pass and token are text, and are said first and once")
        if self.node.authentication:
            self.claim = Claim(*given)
        else:
            self._join(given[0] or given[2] or self._namespace)

    def _subscribe(self, data: str | dict[str, Any]) -> None:
        assert self.exchange is not None
        asked = {"where": data} if isinstance(data, str) else data
        where, pattern, group = (_text(asked, key) for key in ("where", "topic", "group"))
        query: Query | None = None if where is None else parse(where, self.node.limits)
        pattern = ">" if pattern is None else pattern  # T6
        for text in (pattern, group or ""):
            check_length(text, self.node.limits.control_line)
        options, pattern, parsed = parse_with_options(pattern, self.exchange.grammar)
        last, every = _options(asked, options)
        if group:
            check_topic(group, Grammar.CHANNEL)
        sees = self._user.subscribe if self._user else None
        if sees is not None and not sees.allows_pattern(parsed):
            raise Denied(pattern, f"you may not subscribe to {pattern[:SHOWN_TOPIC]}")
        consumer = self.exchange.consumer(self, pattern, group or "", KEY, sees, self.account)
        self.exchange.subscribe(consumer, query, pattern=parsed, last=last, every=every)
        self.outbox.late = True
        self._consumers[KEY] = consumer
        confirmations, producers = self.node.confirmations, self.exchange.producers
        is_whole = partial(producers.when_whole, consumer, lambda: self._confirm(consumer))
        confirmations.after(confirmations.ticket(), is_whole)

    def _view(self, text: str) -> None:
        """F7: what the view holds, then its changes."""
        assert self.exchange is not None
        live = LiveView(self.exchange, parse_view(text, self.node.limits), self.label, self._say_change)
        sees = self._user.subscribe if self._user else None
        self._consumers[KEY] = self.exchange.subscribe_view(live, sees, self.account, KEY)
        self._live_view = live
        live.begin(self._consumers[KEY], self._introduce)

    def _introduce(self, content: dict[str, Any]) -> None:
        if self.state is not State.CLOSED and not self._say_change(content):
            self.fail(f"the view has {len(content['New'])} entries, which is more than can be listed; narrow the query")

    def _say_change(self, change: dict[str, Any]) -> bool:
        """False: there is no room now. Changes are not dropped, so they may take as much room again as readings."""
        if self.state is State.CLOSED or self.exchange is None:
            return True
        frame = pack(change)
        if self.outbox.size + len(frame) > 2 * self.exchange.outbox_limit:
            if not self.outbox.size:
                self.fail("so much of the view has changed that it cannot be told; subscribe again")
            return False
        self.outbox.push(frame)
        return True

    def _confirm(self, consumer: Consumer) -> None:
        """The subscription is in force everywhere (C2): its set, as it is now."""
        if self.state is State.CLOSED or self.exchange is None:
            return
        members = [] if consumer.standing is None else list(self.exchange.producers.members(consumer))
        self._confirmed = True
        self.outbox.late = False
        first = pack({"New": members, "Del": []})
        if len(first) > 2 * self.exchange.outbox_limit:
            self.fail(f"{len(members)} producers match, which is more than can be listed; narrow the query")
        else:
            self.outbox.push(first)
            if self._early:
                self._tell_early(consumer, set(members))
            self.exchange.send_last(consumer)

    def _tell_early(self, consumer: Consumer, members: set[str]) -> None:
        """What was kept, but for readings of producers that have left the set since (M5)."""
        assert self.exchange is not None
        for publication in self._early.take():
            if consumer.standing is None or publication.reading.producer in members:
                self.accept(consumer, publication)
            else:
                drop(consumer, self.exchange)

    def _read(self, data: list[Any] | dict[str, Any], raw: bytes) -> int:
        assert self.exchange is not None
        assert self.plans is not None
        self.publishes = True
        topic = retain = traceparent = None
        if isinstance(data, list):
            identity, metadata, value = data
        else:
            identity, metadata, value, raw = data.get("id"), data.get("metadata", {}), data.get("value"), b""
            topic, retain = _text(data, "topic"), _truth(data, "retain")
            traceparent = _trace_parent(data)
        name = check_identity(identity)
        reading = Reading(name, check_metadata(metadata), check_number(value), raw if identity == name else b"")
        publication = published(reading, reading_topic(name) if topic is None else topic)
        publication.retain = bool(retain)
        if traceparent is not None:
            publication.headers = headers.added(publication.headers, "traceparent", traceparent)
        producers, index = self.exchange.producers, self.exchange.index
        told, looked_at = producers.told, index.looked_at
        try:
            if topic is not None:
                check_length(topic, self.node.limits.control_line)
                if topic.startswith("$"):  # T9
                    raise TopicError("topics that begin with `$` are the server's own", 0)
                check_speaks_for(self._user, name)
            if self.account.has_rates:
                self.account.check_rates(self.exchange.timers.now())
            routed = self.exchange.publish_reading(publication, self.plans, self.now, self, self.account, self.speaking)
            if self.account.has_rates:
                self.account.published(publication.size())
        except (Denied, QuotaError, TopicError):
            self.exchange.counters.refused += 1
            raise
        return routed + (producers.told - told) * WORK_OF_A_DIFF + index.looked_at - looked_at

    def _forget(self, identity: object) -> None:
        assert self.exchange is not None
        self.publishes = True
        producer = check_identity(identity)
        check_speaks_for(self._user, producer)
        self.exchange.producers.forget(producer)


def published(reading: Reading, topic: str) -> Publication:
    """A reading as the exchange knows it; its payload at other doors is the value as text (M8)."""
    return Publication(topic, str(reading.value).encode(), reading=reading)


FORM = object()
"""Marks what this door has made of a publication."""


def _frame(publication: Publication) -> bytes:
    """M6; what no producer said is sent with its topic."""
    reading = publication.reading
    if reading is None:
        said = {"topic": publication.topic, "payload": publication.payload}
        return pack(said if publication.age is None else {**said, "last": publication.age})
    if publication.age is not None:  # F3
        return pack([reading.producer, dict(reading.metadata), reading.value, publication.age])
    raw: bytes = reading.raw
    return raw or pack([reading.producer, dict(reading.metadata), reading.value])


def _options(asked: dict[str, Any], options: Options) -> tuple[Last, float | None]:
    """What was asked for by keys, or by leading words of the pattern (F9)."""
    wants_last, every = _truth(asked, "last"), asked.get("every")
    last = Last.ALL if wants_last or (wants_last is None and options.last) else Last.NONE
    return last, options.every if every is None else parse_every(every)


def _truth(data: dict[str, Any], key: str) -> bool | None:
    value = data.get(key)
    if value is not None and not isinstance(value, bool):
        raise ReadingError(f"{key} is true or false")
    return value


def _trace_parent(data: dict[str, Any]) -> str | None:
    """What travels on as the header `traceparent` (O3)."""
    text = _text(data, "traceparent")
    if text is not None and not is_traceparent(text):
        raise ReadingError("traceparent is VERSION-TRACE-SPAN-FLAGS, as W3C writes it")
    return text


def _text(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    if value is not None and not isinstance(value, str):
        raise ReadingError(f"{key} is text")
    return value


def _shown(data: object) -> str:
    """What was sent instead, in a word or two."""
    if isinstance(data, list):
        return f"an array of {len(data)}"
    if isinstance(data, dict):
        return "a map with other keys"
    return f"a value of type {type(data).__name__}"
