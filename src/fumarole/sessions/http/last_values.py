"""`GET /v1/topics/{pattern}`: the last values of the topics that match, once (H3).

They are gathered as for any consumer that asks for `last` (F3). What is published meanwhile does not come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from fumarole.core.pattern_options import parse_with_options
from fumarole.core.publication import Publication
from fumarole.core.topic import Pattern, check_length
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import asked_once
from fumarole.exchange.plans import SHOWN_TOPIC, Denied
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import JSON, NDJSON, Answer, Call
from fumarole.sessions.http.routes import topic_of

KEY: Final = b"last"
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of values in one answer; ask for less with a narrower pattern."""
TOLD_AT_ONCE: Final = 100
"""Values of one piece of an answer."""
TOO_MUCH: Final = "the last values have more than {} bytes together; ask with a narrower pattern"
FIELDS: Final[tuple[Answer, ...]] = (("Cache-Control", "no-store"),)


def read(call: Call) -> None:
    """All of them, as one JSON object or as lines."""
    exchange, _ = call.here()
    text = topic_of(call.words)
    check_length(text, call.service.node.limits.control_line)
    _, pattern, parsed = parse_with_options(text, exchange.grammar)
    sees = call.user.subscribe if call.user else None
    if sees is not None and not sees.allows_pattern(parsed):
        raise Denied(pattern, f"you may not subscribe to {pattern[:SHOWN_TOPIC]}")
    LastValues(call, exchange).begin(pattern, parsed)


class LastValues:
    """The outlet of one such question. By topic, in the order in which they come."""

    label = "http last values"
    echo = True

    def __init__(self, call: Call, exchange: Exchange) -> None:
        self.call = call
        self._exchange = exchange
        self._found: dict[str, dict[str, Any]] = {}
        self._bytes = 0

    def begin(self, pattern: str, parsed: Pattern) -> None:
        """Asks for what matches. The answer comes later."""
        exchange, session = self._exchange, self.call.session
        sees = self.call.user.subscribe if self.call.user else None
        consumer = exchange.consumer(self, pattern, "", KEY, sees, session.account)
        gathering = asked_once(exchange, consumer, parsed, None, asks_nodes=not self.call.is_local)
        session.consume(KEY, consumer)
        gathering.begin(partial(self._end, consumer, self.call.later()))

    def has_room(self, weight: int) -> bool:  # noqa: ARG002 - what is too much is counted, and refused at the end
        return True

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self.keep(publication, publication.age or 0.0)

    def keep(self, publication: Publication, age: float) -> None:
        """One of the values."""
        if self.takes(publication):
            self._found[publication.topic] = self.shown(publication, age)

    def takes(self, publication: Publication) -> bool:
        """Counts its bytes. False: there were too many."""
        self._bytes += publication.weight()
        return self._bytes <= MOST_BYTES

    def shown(self, publication: Publication, age: float) -> dict[str, Any]:
        """A value as it is told."""
        _, names = forms.message(publication, round(self.call.service.wall() - age, 3))
        if self._exchange.retained.get(publication.topic) is not None:
            names["retain"] = True
        return {**names, "age": round(age, 3)}

    def _end(self, consumer: Consumer, still_waits: Callable[[], bool]) -> None:
        self._exchange.unsubscribe(consumer)
        self.call.session.consumed(KEY)
        if not still_waits():
            return
        if self._bytes > MOST_BYTES:
            self.call.problem(413, TOO_MUCH.format(MOST_BYTES))
        else:
            self.answer()
        self.call.service.later(0.0, self.call.session.go_on_after)

    def answer(self) -> None:
        """All of them have come."""
        values = self._found.values()
        if self.call.accepts(NDJSON):
            self.call.pieces(200, NDJSON, as_lines(values), FIELDS)
        else:
            self.call.pieces(200, JSON, as_array(b'{"values":[', values, b"]}\n"), FIELDS)


def as_lines(values: Iterable[Any]) -> Iterator[bytes]:
    """Lines of JSON, in pieces."""
    following = iter(values)
    while some := list(islice(following, TOLD_AT_ONCE)):
        yield b"".join([forms.encode(each) + b"\n" for each in some])


def as_array(before: bytes, values: Iterable[Any], after: bytes) -> Iterator[bytes]:
    """An array between these, in pieces."""
    following = iter(values)
    while some := list(islice(following, TOLD_AT_ONCE)):
        yield before + b",\n".join([forms.encode(each) for each in some])
        before = b",\n"
    yield after if before == b",\n" else before + after
