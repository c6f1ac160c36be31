"""Publishing over HTTP (H2): one message, or lines of JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fumarole.core.errors import FumaroleError, TopicError
from fumarole.core.publication import FORGOTTEN, PRIVATE, Publication
from fumarole.core.topic import check_length
from fumarole.exchange.readings import Reading, check_identity, check_metadata, check_number, check_speaks_for
from fumarole.sessions.http import forms
from fumarole.sessions.http.call import Call
from fumarole.sessions.http.routes import topic_of

FUMAROLE_JSON: Final = "application/fumarole+json"
UNTOLD_TYPES: Final = ("", "application/x-www-form-urlencoded")
"""What curl says of every body, and so says nothing of it."""
PASSED_ON: Final = {"traceparent": "traceparent", "tracestate": "tracestate"}
HEADER: Final = "fumarole-header-"
LINES_AT_ONCE: Final = 256
"""Lines of a batch between two looks at the others' work."""
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
    call.json(202, {"delivered_to": hand_in(call, publication)})


def hand_in(call: Call, publication: Publication) -> int:
    """Gives a message to the exchange. How many entities it went to. Raises TopicError, Denied or ReadingError."""
    exchange, plans = call.here()
    limits = call.service.node.limits
    try:
        check_length(publication.topic, limits.control_line)
        if publication.topic.startswith(("$", FORGOTTEN, PRIVATE)):  # T9
            raise TopicError("topics that begin so are the server's own", 0)
        if len(publication.payload) + len(publication.headers) > limits.payload:
            raise forms.FormError(f"a message with its headers has at most {limits.payload} bytes")
        if publication.reading is not None:
            check_speaks_for(call.user, publication.reading.producer)
            return exchange.publish_reading(publication, plans, call.session.now, None, call.session.account)
        return exchange.publish(plans.find(publication.topic.encode()), publication)
    except FumaroleError:
        exchange.counters.refused += 1
        raise


def headers_of(call: Call, kind: str) -> bytes:
    """The header block of a message: its type, where it was told, and what the client sent for others to see."""
    fields = call.head.fields
    pairs: dict[str, str] = {}
    if kind not in UNTOLD_TYPES:
        pairs["Content-Type"] = fields["content-type"]
    for name, value in fields.items():
        if name.startswith(HEADER):
            pairs[name[len(HEADER) :].title()] = value
        elif name in PASSED_ON:
            pairs[PASSED_ON[name]] = value
    return forms.header_block(pairs) if pairs else b""


def _reading(call: Call, topic: str, kind: str) -> Publication:
    """A producer's reading: who it is, what is new about it, and a value."""
    fields = call.head.fields
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
    except (msgspec.DecodeError, UnicodeError):
        raise forms.FormError("Fumarole-Metadata is a JSON object") from None


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise forms.FormError("the body is not JSON") from None
    unknown = set(given) - {"value", "metadata", "producer"} if isinstance(given, dict) else {""}
    if unknown or "value" not in given:
        raise forms.FormError("the body is a JSON object with `value`, and perhaps `metadata` and `producer`")
    return given  # type: ignore[no-any-return]


def batch(call: Call) -> Batch:
    """`POST /v1/topics`: the lines are published as they come."""
    return Batch(call)


class Batch:
    """The lines of one body."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._rest = b""
        self._line = 0
        self._published = 0
        self._delivered = 0
        self._refused = 0
        self._errors: list[dict[str, Any]] = []
        self._longest = LONGEST_LINE * call.service.node.limits.payload
        self._decode = _LINE.decode

    def hear(self, data: bytes) -> None:
        """Some of the body, cut anywhere."""
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._publish(line)
        if len(self._rest) > self._longest:
            self._rest = b""
            self._refuse(forms.FormError("the line is too long"))

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

    def _publish(self, text: bytes) -> None:
        self._line += 1
        if not text.strip():
            return
        try:
            line = self._decode(text)
            publication = forms.publication(line)
            publication.retain = line.retain
            self._delivered += hand_in(self._call, publication)
            self._published += 1
        except msgspec.DecodeError as error:
            self._refuse(forms.FormError(str(error)))
        except FumaroleError as error:
            self._refuse(error)

    def _refuse(self, error: FumaroleError) -> None:
        self._refused += 1
        if len(self._errors) < ERRORS_SHOWN:
            shown: dict[str, Any] = {"line": self._line, "detail": str(error)}
            if isinstance(error, TopicError):
                shown["position"] = error.position
            self._errors.append(shown)


_LINE: Final = msgspec.json.Decoder(forms.Line)
