"""A subscription as server-sent events (H3).

    event: set                                  the producers that the query selects, then each change of them
    data: {"New":["2f1c…"],"Del":[]}

    event: reading                              or `message`, where no producer sent it
    id: 5f0c-1207
    data: {"topic":"readings.2f1c…","producer":"2f1c…","metadata":{},"value":21.5,"time":1773480000.25}

    event: dropped                              so many messages found no room (D6)
    data: {"count":12,"total":30}

A client that comes back says the last id that it saw. Messages are not kept, so the first event is then `gap`, with how
many the namespace has taken in since, where this is the node that gave the id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fumarole.core.pattern_options import parse_with_options
from fumarole.core.periods import parse_every
from fumarole.core.publication import Publication
from fumarole.core.query.parse import parse
from fumarole.core.query.view import is_view
from fumarole.core.topic import Grammar, check_length, check_topic
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Last
from fumarole.exchange.plans import SHOWN_TOPIC, Denied
from fumarole.exchange.quotas import QuotaError
from fumarole.sessions.diff import Diff, EarlyMessages, drop
from fumarole.sessions.http import forms, views, watch
from fumarole.sessions.http.call import Call
from fumarole.sessions.http.routes import BadParameterError, topic_of
from fumarole.sessions.http.streams import KEY, SHOWN_FIELDS, Stream, event
from fumarole.sessions.stream import State

NO_READINGS: Final = "-"
"""The topic of a stream of a set alone. For a set no right to a topic is needed: it has the producers that the user may
receive."""
NOT_OF_A_SET: Final = ("topic", "group", "last")


def subscribe(call: Call) -> None:
    """`GET /v1/stream?where=&topic=&group=`."""
    options = call.options
    where = options.get("where")
    if where is not None and is_view(where):
        views.begin(call, where)
        return
    if options.get("readings") is False:
        begin_set(call)
        return
    every = options.get("every")
    period = None if every is None else parse_every(every)
    begin(call, options.get("topic"), where, options.get("group", ""), options.get("last"), period)


def begin_set(call: Call) -> None:
    """`GET /v1/stream?where=&readings=0`, with `every` if values of some producers are wanted."""
    for name in NOT_OF_A_SET:
        if name in call.options:
            raise BadParameterError(f"with `readings=0` there are no messages, so `{name}` means nothing")
    where = call.options.get("where", "")
    if not where.strip():
        raise BadParameterError("`readings=0` needs `where`: of which producers")
    every = call.options.get("every")
    period = None if every is None else watch.period(every)
    if call.head.method == "HEAD":
        call.session.answer(200, list(SHOWN_FIELDS), None)
        return
    exchange, _ = call.here()
    query = parse(where, call.service.node.limits)
    open_stream(call, SetStream(call, exchange, period), NO_READINGS, partial(exchange.subscribe, query=query))


def topic(call: Call) -> None:
    """`GET /v1/topics/{pattern}` with `Accept: text/event-stream`."""
    begin(call, topic_of(call.words), None, "", True, None)


def begin(
    call: Call, pattern: str | None, where: str | None, group: str, wants_last: bool | None, every: float | None
) -> None:
    """Subscribes, and answers when that is in force."""
    exchange, _ = call.here()
    node = call.service.node
    query = None if where is None or not where.strip() else parse(where, node.limits)
    pattern = ">" if pattern is None else pattern  # T6
    for text in (pattern, group):
        check_length(text, node.limits.control_line)
    asked, pattern, parsed = parse_with_options(pattern, exchange.grammar)
    last = Last.ALL if wants_last or (wants_last is None and asked.last) else Last.NONE
    every = asked.every if every is None else every
    if group:
        check_topic(group, Grammar.CHANNEL)
    sees = call.user.subscribe if call.user else None
    if sees is not None and not sees.allows_pattern(parsed):
        raise Denied(pattern, f"you may not subscribe to {pattern[:SHOWN_TOPIC]}")
    if call.head.method == "HEAD":
        call.session.answer(200, list(SHOWN_FIELDS), None)
        return
    subscribing = partial(exchange.subscribe, query=query, pattern=parsed, last=last, every=every)
    open_stream(call, EventStream(call, exchange), pattern, subscribing, group)


def open_stream(
    call: Call, stream: EventStream, pattern: str, subscribing: Callable[[Consumer], None], group: str = ""
) -> None:
    """Its consumer subscribes, and the answer begins when that is in force."""
    if not stream.may_open(call):
        return
    exchange, _ = call.here()
    sees = call.user.subscribe if call.user else None
    consumer = exchange.consumer(stream, pattern, group, KEY, sees, call.session.account)
    stream.begin(consumer)
    call.session.consume(KEY, consumer)
    still_waits = call.later()
    try:
        subscribing(consumer)
    except QuotaError:
        stream.close()
        raise
    confirmations = call.service.node.confirmations
    confirm = partial(stream.go_ahead, call.head.fields.get("last-event-id"), still_waits)
    confirmations.after(confirmations.ticket(), partial(exchange.producers.when_whole, consumer, confirm))


class EventStream(Stream):
    """The outlet of one consumer."""

    echo = True

    def __init__(self, call: Call, exchange: Exchange) -> None:
        super().__init__(call)
        self._exchange = exchange
        self._consumer: Consumer | None = None
        self._late = Diff()
        """What the client has not been told of its set, for want of room."""
        self._early = EarlyMessages()
        self._is_behind = True
        """It has no head yet, or changes of its set are late: messages have to wait or are dropped."""
        self._push = call.session.outbox.push
        self._dropped_told = 0

    def begin(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.open()

    def close(self) -> None:
        self._consumer = None
        super().close()

    def go_ahead(self, last_id: str | None, still_waits: Any) -> None:
        """The subscription is in force everywhere (C2): the head of the answer says so, then its set as it is now."""
        consumer = self._consumer
        if consumer is None or not still_waits() or self._session.state is State.CLOSED:
            return
        session = self._session
        self.confirm()
        self._is_behind = False
        if last_id:
            session.outbox.push(event("gap", self._gap(last_id)))
        if consumer.standing is not None:
            members = list(self._exchange.producers.members(consumer))
            frame = event("set", {"New": members, "Del": []})
            if len(frame) > 2 * self._exchange.outbox_limit:
                self.end(f"{len(members)} producers match, which is more than can be listed; narrow the query")
                return
            session.outbox.push(frame)
        for publication in self._early.take():
            self.accept(consumer, publication)
        self._exchange.send_last(consumer)

    def _gap(self, last_id: str) -> dict[str, Any]:
        """What can be said of the time since an event: messages are counted for the whole namespace."""
        boot, _, number = last_id.rpartition("-")
        taken_in = self._exchange.counters.received
        if boot != self._service.boot or not (number.isascii() and number.isdigit() and len(number) < 19):
            return {"missed": None}
        at_most = taken_in - int(number)
        if at_most < 0:
            return {"missed": None}
        return {"missed": 0} if not at_most else {"missed": None, "at_most": at_most}

    # An outlet of the exchange.

    def has_room(self, weight: int) -> bool:
        """Not before the client knows its set: until then others of its group are chosen (G3)."""
        return not self._is_behind and self._session.outbox.has_room(weight)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        if self._is_behind and not self._is_ready(consumer, publication):
            return
        form = publication.form
        if form is None or form[0] is not FORM:
            form = publication.form = FORM, self._frame(publication)
        consumer.accepted += 1
        self._push(form[1], consumer)

    def _is_ready(self, consumer: Consumer, publication: Publication) -> bool:
        """False: the message is kept until the client has its head, or dropped."""
        if self._is_confirmed and self._catch_up():
            return True
        if self._is_confirmed or not self._early.keep(consumer, publication, self._may_wait):
            drop(consumer, self._exchange)
        return False

    def _may_wait(self, size: int) -> bool:
        return size < self._exchange.outbox_limit

    def _frame(self, publication: Publication) -> bytes:
        kind, shown = forms.message(publication, round(self._service.wall() - (publication.age or 0.0), 3))
        if publication.age is not None:
            shown["age"] = round(publication.age, 3)
        number = self._exchange.counters.received + 1
        return b"event: %b\nid: %b-%d\ndata: %b\n\n" % (
            kind.encode(),
            self._service.boot.encode(),
            number,
            forms.encode(shown),
        )

    def tell(self, _consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        if self._is_confirmed:
            self._late.add(new, gone)
            self._is_behind = True
            self._catch_up()

    def _catch_up(self) -> bool:
        """Sends the changes of the set that are late, if there is room. True: nothing is late any more."""
        if self._late:
            room = 2 * self._exchange.outbox_limit
            size = self._late.size()
            if size > room:
                self.end("too many producers came and went; subscribe again")
            if self._session.outbox.size + size > room:
                return False
            self._session.outbox.push(event("set", self._late.told()))
            self._late.clear()
        self._is_behind = False
        return True

    def tick(self, now: float) -> None:
        """What was dropped, what is late, and a sign of life."""
        consumer, outbox = self._consumer, self._session.outbox
        if consumer is None or not self._is_confirmed:
            return
        self._catch_up()
        is_due = now >= self._next_comment
        if consumer.dropped != self._dropped_told and (is_due or not outbox.size):
            count = consumer.dropped - self._dropped_told
            self._dropped_told = consumer.dropped
            self.say("dropped", {"count": count, "total": consumer.dropped})
        super().tick(now)


FORM: Final = object()
"""Marks what this door has made of a publication."""


class SetStream(EventStream):
    """Of a set alone: messages on its topic are not sent. With a period, values of the producers that are watched."""

    def __init__(self, call: Call, exchange: Exchange, every: float | None) -> None:
        super().__init__(call, exchange)
        self._watch = None if every is None else watch.Watch(call, exchange, self, every)

    def begin(self, consumer: Consumer) -> None:
        if self._watch is not None:
            self._watch.begin(consumer)
        super().begin(consumer)

    def confirm(self) -> None:
        super().confirm()
        if self._watch is not None:
            self.say("stream", {"id": self._watch.name})

    def close(self) -> None:
        if self._watch is not None:
            self._watch.end()
        super().close()

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        pass
