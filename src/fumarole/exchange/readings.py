"""Readings: their checks, and their form as headers (M3, M8, M10)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from fumarole.core import headers
from fumarole.core.errors import FumaroleError
from fumarole.core.publication import Publication
from fumarole.core.query.tree import Value
from fumarole.core.values import ONLINE, wrong_number, wrong_text, wrong_value
from fumarole.exchange.permissions import User
from fumarole.exchange.plans import Denied

_IDENTITY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class ReadingError(FumaroleError):
    """A reading that is refused. The text says what is wrong with it."""


def reading_topic(identity: str) -> str:
    """Where a producer's readings are published unless it says otherwise (M8)."""
    return f"readings.{identity}"


def check_speaks_for(user: User | None, identity: str) -> None:
    """A user who may publish to the topic of a producer may publish its readings elsewhere too, describe and forget it.

    Raises Denied where this user may not.
    """
    if user is None or user.publish is None:
        return
    topic = reading_topic(identity)
    if not user.publish.allows(topic):
        raise Denied(topic, f"you may not publish to {topic}, so you may not speak for that producer anywhere")


class Reading(NamedTuple):
    """A producer's identity, changes of its metadata (None deletes a key), and a value."""

    producer: str
    metadata: Mapping[str, Value | None]
    value: int | float | str
    """A number; only a message of another protocol may have text here."""
    raw: bytes = b""
    """As MsgPack, if it came that way."""


def check_identity(identity: object) -> str:
    """The identity of a producer in its usual form: a UUID of version 4 or 5 (a door may derive one), small letters."""
    text = identity.lower() if isinstance(identity, str) else ""
    if not _IDENTITY.fullmatch(text):
        raise ReadingError("a producer is named by a UUID of version 4, such as 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60")
    return text


def is_identity(text: str | None) -> bool:
    """Can this be the identity of a producer? A header of the same name that holds anything else is ordinary (M8)."""
    return text is not None and _IDENTITY.fullmatch(text.lower()) is not None


def check_number(value: object) -> int | float:
    """The value of a reading (M10: neither NaN nor an infinity)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ReadingError("the value of a reading is a number")
    wrong = wrong_number(value)
    if wrong:
        raise ReadingError(f"the value of a reading is {wrong}")
    return value


def check_metadata(metadata: object) -> Mapping[str, Value | None]:
    """What a reading brings: text keys, and text, numbers, truth values or nothing under them (M3)."""
    if not isinstance(metadata, dict | Mapping):  # the first is what it is, and quicker to find out
        raise ReadingError("the metadata of a reading is a map")
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ReadingError("a metadata key is text")
        wrong = wrong_text(key)
        if wrong:
            raise ReadingError(f"the metadata key {key[:32]!r} is {wrong}")
        wrong = wrong_value(value)
        if wrong:
            raise ReadingError(f"the metadata value of {key[:32]!r} is {wrong}")
    return metadata


# Readings as headers: from NATS clients, and in retained messages.

PRODUCER: Final = b"\r\nProducer:"
"""In a header block: the producer of the message (M8)."""
NUMBER_BEGINS: Final = tuple("-0123456789")


def reading_block(reading: Reading | None) -> bytes:
    """The headers of a reading, as a NATS client would have written them."""
    if reading is None:
        return b""
    pairs = [("Producer", reading.producer)]
    if reading.metadata:
        pairs.append(("Metadata", json.dumps(dict(reading.metadata))))
    return headers.build(pairs)


def with_reading(block: bytes, reading: Reading) -> bytes:
    """A header block that other doors brought with a reading: it says whose reading it is, and what is new (M8)."""
    said = headers.without(headers.without(block, "Producer"), "Metadata")
    return headers.build(headers.parse(reading_block(reading)) + headers.parse(said))


def leave_out_online(publication: Publication) -> None:
    """Takes `_online` out of a reading and of its headers. Only the server says what is online (F5)."""
    reading: Reading = publication.reading
    metadata = {key: value for key, value in reading.metadata.items() if key != ONLINE}
    publication.reading = reading._replace(metadata=metadata, raw=b"")
    if headers.last(publication.headers, "Metadata") is not None:
        block = headers.without(publication.headers, "Metadata")
        publication.headers = headers.added(block, "Metadata", json.dumps(metadata)) if metadata else block


def reading_value(payload: bytes) -> int | float | str:
    """A number, if that is what the payload is in JSON; else text."""
    text = payload.decode("utf-8", "replace")
    if text.lstrip().startswith(NUMBER_BEGINS):
        try:
            return check_number(json.loads(text))
        except (ValueError, ReadingError):
            pass
    return text


def reading_in(publication: Publication) -> Reading | None:
    """The reading that a kept message is; None: it is none, or not one that is taken any more."""
    block = publication.headers
    if PRODUCER not in block:
        return None
    try:
        said = headers.last(block, "Metadata")
        metadata = check_metadata(json.loads(said)) if said else {}
        return Reading(check_identity(headers.last(block, "Producer")), metadata, reading_value(publication.payload))
    except (ValueError, RecursionError, ReadingError):
        return None
