"""Requests over HTTP (R1): a message goes out, and what comes back is the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fumarole.core import headers
from fumarole.core.periods import parse_period
from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.sessions.http import forms, topics
from fumarole.sessions.http.call import Call
from fumarole.sessions.http.routes import BadParameterError, topic_of

INBOX: Final = "_INBOX."
TIMEOUT: Final = 5.0
LONGEST_TIMEOUT: Final = 60.0
MOST_REPLIES: Final = 10_000
ALL: Final = "all"
NO_RESPONDERS: Final = "503"
NOBODY: Final = "no consumer matches this topic, so no reply can come"


def ask(call: Call) -> None:
    """`POST /v1/requests/{topic}?replies=&timeout=`."""
    replies, timeout = _replies(call.options.get("replies", "1")), _seconds(call.options.get("timeout"))
    exchange, _ = call.here()
    topic = topic_of(call.words)
    question = Question(call, exchange, replies)
    still_waits = call.later()
    question.begin()
    confirmations = call.service.node.confirmations
    confirmations.after(confirmations.ticket(), partial(_send, call, question, topic, timeout, still_waits))


def _send(call: Call, question: Question, topic: str, timeout: float, still_waits: Callable[[], bool]) -> None:
    """All nodes know where replies go (C2)."""
    if not still_waits():
        question.end()
        return
    kind = call.head.fields.get("content-type", "").partition(";")[0].strip().lower()
    publication = Publication(topic, call.body, question.topic, topics.headers_of(call, kind))
    try:
        routed = topics.hand_in(call, publication)
    except topics.REFUSALS as error:
        question.end()
        call.session.refused(call, error)
        call.session.go_on_after()
        return
    if question.is_done:
        return
    if not routed:
        question.end()
        call.problem(404, NOBODY)
        call.session.go_on_after()
        return
    question.take_back = call.service.later(timeout, question.time_is_up)


class Question:
    """One request under way: the outlet of the consumer that its replies go to."""

    label = "http request"
    echo = True

    def __init__(self, call: Call, exchange: Exchange, replies: int | None) -> None:
        self.topic = INBOX + call.service.new_id()
        self.is_done = False
        self.take_back: Callable[[], None] | None = None
        self._call = call
        self._exchange = exchange
        self._wanted = replies
        """None: all that come in time."""
        self._replies: list[dict[str, Any]] = []
        self._bytes = 0
        self._consumer: Consumer | None = None

    def begin(self) -> None:
        self._consumer = self._exchange.consumer(self, self.topic, "", b"", None, self._call.session.account)
        self._call.session.consume(b"reply", self._consumer)
        self._exchange.subscribe(self._consumer)

    def end(self) -> None:
        """No reply is expected any more."""
        self.is_done = True
        if self.take_back is not None:
            self.take_back()
        if self._consumer is not None:
            self._exchange.unsubscribe(self._consumer)
            self._call.session.consumed(b"reply")
            self._consumer = None

    def has_room(self, weight: int) -> bool:
        return self._bytes + weight <= self._exchange.outbox_limit

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        if self.is_done:
            return
        if headers.status(publication.headers) == NO_RESPONDERS:
            return
        if not self.has_room(publication.weight()):
            consumer.dropped += 1
            self._exchange.counters.overflowed += 1
            return
        self._bytes += publication.weight()
        shown = forms.payload_names(publication.payload)
        if publication.headers:
            shown["headers"] = forms.told(headers.parse(publication.headers))
        self._replies.append(shown)
        if self._wanted is not None and len(self._replies) >= self._wanted:
            self._answer(200)

    def time_is_up(self) -> None:
        """What has come is the answer."""
        self.take_back = None
        if not self.is_done:
            self._answer(200 if self._wanted is None else 504)

    def _answer(self, status: int) -> None:
        self.end()
        if status == 504:
            detail = f"{len(self._replies)} of {self._wanted} replies came in time"
            self._call.problem(504, detail, replies=self._replies)
        else:
            self._call.json(200, {"replies": self._replies})
        # The message that brought the reply is still on its way to others.
        self._call.service.later(0.0, self._call.session.go_on_after)


def _replies(text: str) -> int | None:
    if text == ALL:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_REPLIES):
        raise BadParameterError(f"`replies` is 1 to {MOST_REPLIES}, or `{ALL}`")
    return int(text)


def _seconds(text: str | None) -> float:
    """The period `timeout` (F9)."""
    if text is None:
        return TIMEOUT
    seconds = parse_period(text)
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise BadParameterError(f"`timeout` is more than 0 and at most {LONGEST_TIMEOUT:g} seconds")
    return seconds
