"""`GET /v1/topics/{pattern}`: the last values of the topics that match, once (H3).

They are gathered as for any consumer that asks for `last` (F3): this one leaves when all of them have come. What comes
live meanwhile is no last value and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from fumarole.core.pattern_options import parse_with_options
from fumarole.core.publication import Publication
from fumarole.core.topic import check_length
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.gathering import Last
from fumarole.exchange.plans import SHOWN_TOPIC, Denied
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import JSON, NDJSON, Call
from fumarole.sessions.http.routes import topic_of

KEY: Final = b"last"
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of values in one answer; ask for less with a narrower pattern."""
TOLD_AT_ONCE: Final = 100
"""Values of one piece of an answer."""
TOO_MUCH: Final = "the last values have more than {} bytes together; ask with a narrower pattern"


def read(call: Call) -> None:
    """All of them, as one JSON object or as lines."""
    exchange, _ = call.here()
    text = topic_of(call.words)
    check_length(text, call.service.node.limits.control_line)
    _, pattern, parsed = parse_with_options(text, exchange.grammar)
    sees = call.user.subscribe if call.user else None
    if sees is not None and not sees.allows_pattern(parsed):
        raise Denied(pattern, f"you may not subscribe to {pattern[:SHOWN_TOPIC]}")
    values = LastValues(call, exchange)
    consumer = exchange.consumer(values, pattern, "", KEY, sees, call.session.account)
    exchange.subscribe(consumer, pattern=parsed, last=Last.ALL)
    call.session.consume(KEY, consumer)
    still_waits = call.later()
    confirmations = call.service.node.confirmations
    confirmations.after(confirmations.ticket(), partial(values.gather, consumer, still_waits))


class LastValues:
    """The outlet of one such question."""

    label = "http last values"
    echo = True

    def __init__(self, call: Call, exchange: Exchange) -> None:
        self._call = call
        self._exchange = exchange
        self._found: dict[str, dict[str, Any]] = {}
        self._bytes = 0

    def gather(self, consumer: Consumer, still_waits: Any) -> None:
        """The subscription is in force everywhere (C2)."""
        if still_waits():
            self._exchange.send_last(consumer, partial(self._answer, consumer, still_waits))

    def has_room(self, weight: int) -> bool:
        return self._bytes + weight <= MOST_BYTES

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        if publication.age is None:
            return
        self._bytes += publication.weight()
        if self._bytes <= MOST_BYTES:
            _, shown = forms.message(publication, round(self._call.service.wall() - publication.age, 3))
            self._found[publication.topic] = {**shown, "age": round(publication.age, 3)}

    def _answer(self, consumer: Consumer, still_waits: Any) -> None:
        self._exchange.unsubscribe(consumer)
        self._call.session.consumed(KEY)
        if not still_waits():
            return
        fields = [("Cache-Control", "no-store")]
        if self._bytes > MOST_BYTES:
            self._call.problem(413, TOO_MUCH.format(MOST_BYTES))
        elif self._call.accepts(NDJSON):
            self._call.pieces(200, NDJSON, self._lines(), fields)
        else:
            self._call.pieces(200, JSON, self._object(), fields)
        self._call.service.later(0.0, self._call.session.go_on_after)

    def _lines(self) -> Iterator[bytes]:
        values = iter(self._found.values())
        while some := list(islice(values, TOLD_AT_ONCE)):
            yield b"".join([forms.encode(each) + b"\n" for each in some])

    def _object(self) -> Iterator[bytes]:
        values = iter(self._found.values())
        before = b'{"values":['
        while some := list(islice(values, TOLD_AT_ONCE)):
            yield before + b",\n".join([forms.encode(each) for each in some])
            before = b",\n"
        yield b"]}\n" if self._found else before + b"]}\n"
