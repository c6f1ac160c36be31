"""Publications as JSON, and JSON as publications (H2, H3).

    {"topic": "volcanoes.usa.atka", "payload": "21.5", "time": 1773480000.25}
    {"topic": "readings.2f1c…", "producer": "2f1c…", "metadata": {"Room": "410"}, "value": 21.5, "time": 1773480000.25}

A payload that is no text in UTF-8 is `payload_base64`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fumarole.core import headers
from fumarole.core.errors import FumaroleError
from fumarole.core.publication import Publication
from fumarole.exchange.readings import Reading, check_identity, check_metadata, check_number, reading_topic

encode = msgspec.json.Encoder().encode
NOT_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, no UTF-8, or nested too deeply."""


class FormError(FumaroleError):
    """JSON that is no message; the text says what is wrong with it."""


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One message of a batch."""

    topic: str | None = None
    payload: str | None = None
    payload_base64: str | None = None
    value: int | float | str | None = None
    producer: str | None = None
    metadata: dict[str, str | int | float | bool | None] | None = None
    headers: dict[str, str] | list[tuple[str, str]] | None = None
    reply: str = ""
    retain: bool = False


def message(publication: Publication, time: float) -> tuple[str, dict[str, Any]]:
    """What a publication is called here, `reading` or `message`, and its names."""
    reading = publication.reading
    shown: dict[str, Any] = {"topic": publication.topic}
    pairs = headers.parse(publication.headers) if publication.headers else []
    if reading is not None:
        shown |= {"producer": reading.producer, "metadata": dict(reading.metadata), "value": reading.value}
        pairs = [pair for pair in pairs if pair[0] not in ("Producer", "Metadata")]
    else:
        shown |= payload_names(publication.payload)
    if publication.reply:
        shown["reply"] = publication.reply
    if pairs:
        shown["headers"] = told(pairs)
    shown["time"] = time
    return ("message" if reading is None else "reading"), shown


def payload_names(payload: bytes) -> dict[str, Any]:
    """A payload as text where it is text."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode("ascii")}


def told(pairs: list[tuple[str, str]]) -> dict[str, str] | list[tuple[str, str]]:
    """Headers by name; where a name is repeated all of them as pairs, in their order."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else pairs


def publication(line: Line) -> Publication:
    """The message that a line of a batch is. Raises FormError or ReadingError."""
    given = [name for name in ("payload", "payload_base64", "value") if getattr(line, name) is not None]
    if len(given) > 1:
        raise FormError(f"a message has one of payload, payload_base64 and value, not {' and '.join(given)}")
    payload = _payload(line)
    block = header_block(line.headers) if line.headers else b""
    if line.producer is None:
        if line.metadata is not None:
            raise FormError("metadata is a producer's: `producer` is missing")
        if line.topic is None:
            raise FormError("a message without a producer has a topic")
        return Publication(line.topic, payload, line.reply, block)
    producer = check_identity(line.producer)
    value = line.value if line.value is not None else number_or_text(payload)
    if not isinstance(value, str):
        check_number(value)
    reading = Reading(producer, check_metadata(line.metadata or {}), value)
    topic = reading_topic(producer) if line.topic is None else line.topic
    return Publication(topic, payload, line.reply, block, reading)


def _payload(line: Line) -> bytes:
    if line.payload is not None:
        return line.payload.encode()
    if line.payload_base64 is not None:
        try:
            return base64.b64decode(line.payload_base64, validate=True)
        except (binascii.Error, ValueError):
            raise FormError("payload_base64 is not base64") from None
    return b"" if line.value is None else str(line.value).encode()


def number_or_text(payload: bytes) -> int | float | str:
    """A payload that is a number in JSON is one; any other is text (M8)."""
    try:
        return check_number(msgspec.json.decode(payload, type=int | float))
    except (*NOT_JSON, FumaroleError):
        return payload.decode("utf-8", "replace")


def header_block(pairs: Mapping[str, str] | list[tuple[str, str]]) -> bytes:
    """Headers of a message. Raises FormError where one is none."""
    try:
        return headers.build(pairs if isinstance(pairs, list) else pairs.items())
    except ValueError as error:
        raise FormError(str(error)) from None


def merge_patch(body: bytes) -> Any:
    """The JSON object of a change of metadata (M3)."""
    try:
        return msgspec.json.decode(body)
    except NOT_JSON:
        raise FormError("the body is a JSON object: a merge patch of the metadata") from None
