"""Publishing over HTTP (H2): one message, or lines of JSON."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from fumarole.core.errors import FumaroleError, TopicError
from fumarole.core.publication import Publication
from fumarole.core.query.evaluation import Unprepared
from fumarole.core.topic import Grammar, check_length, check_topic
from fumarole.core.tracing import sampled
from fumarole.exchange.readings import (
    Reading,
    check_identity,
    check_metadata,
    check_number,
    check_speaks_for,
    with_reading,
)
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import Call
from fumarole.sessions.http.routes import topic_of

FUMAROLE_JSON: Final = "application/fumarole+json"
UNTOLD_TYPES: Final = ("", "application/x-www-form-urlencoded")
"""What curl says of every body, and so says nothing of it."""
PASSED_ON: Final = {"traceparent": "traceparent", "tracestate": "tracestate"}
HEADER: Final = "fumarole-header-"
WORK_OF_A_LINE: Final = 10
WORK_AT_ONCE: Final = 1_000
"""A millisecond or so."""
LONGEST_LINE: Final = 2
"""Times the largest payload: as base64 or escaped it is longer than itself."""
ERRORS_SHOWN: Final = 20
REFUSALS: Final = (FumaroleError,)


def publish(call: Call) -> None:
    """`POST /v1/topics/{topic}`."""
    if call.prepared is None:
        fields = call.head.fields
        kind = fields.get("content-type", "").partition(";")[0].strip().lower()
        is_reading = kind == FUMAROLE_JSON or "fumarole-producer" in fields
        call.prepared = topic_of(call.words), kind, is_reading, b"" if is_reading else headers_of(call, kind)
    topic, kind, is_reading, block = call.prepared
    publication = _reading(call, topic, kind) if is_reading else Publication(topic, call.body, "", block)
    publication.retain = call.options.get("retain", False)
    reached = hand_in(call, publication)
    call.session.spent += reached
    is_traced = call.here()[0].tracer is not None and sampled(block) is not None
    if not (is_reading or is_traced or publication.retain or publication.topic.startswith("_")):
        call.repeats = topic.encode(), block
    call.json(202, {"delivered_to": reached})


def remove(call: Call) -> None:
    """`DELETE /v1/topics/{topic}`: the retained message of a topic (F1). Consumers get an empty message."""
    exchange, _ = call.here()
    publication = Publication(topic_of(call.words), b"")
    publication.retain = True
    kept = exchange.retained.get(publication.topic)
    sees = call.user.subscribe if call.user else None
    is_known = kept is not None and kept.payload and (sees is None or sees.allows(publication.topic))
    if is_known:
        hand_in(call, publication)
        call.empty(204)
    else:
        exchange.plans(None if call.user is None else call.user.publish).find(publication.topic.encode())
        call.problem(404, "no message of this topic is retained")


def hand_in(call: Call, publication: Publication) -> int:
    """Gives a message to the exchange. How many entities it went to. Raises TopicError, Denied or ReadingError."""
    exchange, plans = call.here()
    limits = call.service.node.limits
    try:
        check_length(publication.topic, limits.control_line)
        if publication.reply:
            check_length(publication.reply, limits.control_line)
            check_topic(publication.reply, Grammar.OPEN)
        if publication.topic.startswith("$"):  # T9
            raise TopicError("topics that begin so are the server's own", 0)
        if len(publication.payload) + len(publication.headers) > limits.payload:
            raise forms.FormError(f"a message with its headers has at most {limits.payload} bytes")
        account = call.session.account
        if account.has_rates:
            account.check_rates(exchange.timers.now())
        if publication.reading is not None:
            check_speaks_for(call.user, publication.reading.producer)
            if publication.headers:
                publication.headers = with_reading(publication.headers, publication.reading)
            reached = exchange.publish_reading(publication, plans, call.session.now, None, account)
        else:
            reached = exchange.publish(plans.find(publication.topic.encode()), publication, None, account)
        if account.has_rates:
            account.published(publication.size())
        return reached
    except FumaroleError:
        exchange.counters.refused += 1
        raise


def headers_of(call: Call, kind: str) -> bytes:
    """The header block of a message: its type, where it was told, and what the client sent for others to see."""
    fields = call.head.fields
    pairs: dict[str, str] = {}
    if kind not in UNTOLD_TYPES:
        pairs["Content-Type"] = fields["content-type"]
    if "content-encoding" in fields:
        pairs["Content-Encoding"] = fields["content-encoding"]
    for name, value in fields.items():
        if name.startswith(HEADER):
            pairs[name[len(HEADER) :].title()] = value
        elif name in PASSED_ON:
            pairs[PASSED_ON[name]] = value
    return forms.header_block(pairs) if pairs else b""


def _reading(call: Call, topic: str, kind: str) -> Publication:
    """A producer's reading: its identity, changes of its metadata, and a value."""
    fields = call.head.fields
    if "content-encoding" in fields:
        raise forms.FormError("the body of a reading is read here, and not unpacked: send it without Content-Encoding")
    producer, metadata = fields.get("fumarole-producer"), _metadata(fields.get("fumarole-metadata"))
    payload, value = call.body, forms.number_or_text(call.body) if kind != FUMAROLE_JSON else None
    if kind == FUMAROLE_JSON:
        given = _parsed(call.body)
        producer = given.get("producer", producer)
        metadata = given.get("metadata", metadata)
        value = check_number(given.get("value"))
        payload = str(value).encode()
    assert value is not None
    reading = Reading(check_identity(producer), check_metadata(metadata), value)
    block = headers_of(call, "") if kind == FUMAROLE_JSON else headers_of(call, kind)
    return Publication(topic, payload, "", block, reading)


def _metadata(text: str | None) -> Any:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text.encode("latin-1"))
    except forms.NOT_JSON:
        raise forms.FormError("Fumarole-Metadata is a JSON object") from None


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(body)
    except forms.NOT_JSON:
        raise forms.FormError("the body is not JSON") from None
    unknown = set(given) - {"value", "metadata", "producer"} if isinstance(given, dict) else {""}
    if unknown or "value" not in given:
        raise forms.FormError("the body is a JSON object with `value`, and perhaps `metadata` and `producer`")
    return given  # type: ignore[no-any-return]


class LineReader(Protocol):
    """Publishes lines in the usual form: `{"topic": "a.b", "payload": "text"}`, or `value` and a number."""

    lines: int
    delivered: int
    spent: int
    """What the last `take` did."""

    def take(self, data: bytes, at: int) -> int:
        """Publishes from here on, up to the first line that has to be looked at. Where that begins."""


def batch(call: Call) -> Batch:
    """`POST /v1/topics`: the lines are published as they come."""
    return Batch(call)


class Batch:
    """The lines of one body. Those in the usual form are published by a compiled reader, where there is one."""

    def __init__(self, call: Call) -> None:
        self._call = call
        exchange, plans = call.here()
        make, limits = call.service.line_reader, call.service.node.limits
        is_counted = call.session.account.has_rates
        self._usual = None if make is None or is_counted else make(exchange, plans, limits)
        self.unfinished = False
        self._rest = b""
        self._is_too_long = False
        """What comes up to the end of the line belongs to one that was refused."""
        self._line = 0
        self._published = 0
        self._delivered = 0
        self._refused = 0
        self._errors: list[dict[str, Any]] = []
        self._longest = LONGEST_LINE * limits.payload
        self._decode = _LINE.decode

    def hear(self, data: bytes) -> int:
        """Some of the body, cut anywhere. How much work it was."""
        if self._is_too_long:
            end = data.find(b"\n")
            if end < 0:
                return 0
            data = data[end + 1 :]
            self._is_too_long = False
        self._rest = self._rest + data if self._rest else data
        return self.go_on()

    def go_on(self) -> int:
        """Publishes the lines that are whole, or as many of them as may be at once. How much work it was."""
        data, at, spent = self._rest, 0, 0
        self.unfinished = False
        while True:
            if self._usual is not None:
                at, work = self._take_usual(self._usual, data, at)
                spent += work
            end = data.find(b"\n", at)
            if end < 0:
                break
            if spent >= WORK_AT_ONCE:
                self.unfinished = True
                break
            try:
                spent += WORK_OF_A_LINE + self._publish(data[at:end])
            except Unprepared as change:
                self.unfinished = True
                self._rest = data[at:]
                self._call.session.hold(change)
                return spent
            at = end + 1
        self._rest = data[at:] if at else data
        if not self.unfinished and len(self._rest) > self._longest:
            self._rest = b""
            self._is_too_long = True
            self._line += 1
            self._refuse(forms.FormError("the line is too long"))
        return spent

    def _take_usual(self, usual: LineReader, data: bytes, at: int) -> tuple[int, int]:
        """The lines in the usual form from here on. Where they end, and how much work they were."""
        past = usual.take(data, at)
        self._line += usual.lines
        self._published += usual.lines
        self._delivered += usual.delivered
        return past, usual.spent

    def end(self) -> None:
        """That was all of it."""
        if self._rest:
            self._publish(self._rest)
        told: dict[str, Any] = {"published": self._published, "delivered_to": self._delivered}
        if self._refused:
            told |= {"refused": self._refused, "errors": self._errors}
        if self._refused and not self._published:
            self._call.problem(400, "no line of this batch can be published", **told)
        else:
            self._call.json(202, told)

    def _publish(self, text: bytes) -> int:
        """Publishes a line. How many entities it went to."""
        self._line += 1
        if not text.strip():
            return 0
        try:
            line = self._decode(text)
            publication = forms.publication(line)
            publication.retain = line.retain
            reached = hand_in(self._call, publication)
        except Unprepared:
            self._line -= 1  # it comes again
            raise
        except forms.NOT_JSON as error:
            self._refuse(forms.FormError(str(error)))
        except FumaroleError as error:
            self._refuse(error)
        else:
            self._delivered += reached
            self._published += 1
            return reached
        return 0

    def _refuse(self, error: FumaroleError) -> None:
        self._refused += 1
        if len(self._errors) < ERRORS_SHOWN:
            shown: dict[str, Any] = {"line": self._line, "detail": str(error)}
            if isinstance(error, TopicError):
                shown["position"] = error.position
            self._errors.append(shown)


_LINE: Final = msgspec.json.Decoder(forms.Line)
