"""The fields of a message in a query (F6): `$value`, `$topic`, `$producer`, `$size`, and fields of a JSON payload.

A message is read lazily: its payload is converted to a number, or parsed, when a test needs it,
and once for all tests.

    topic     the topic
    producer  the producer's id; missing where no producer published it
    size      bytes of the payload. That of a reading from the MsgPack door is its value as text (M8)
    value     the number that the payload is by JSON's grammar, white space around it allowed; missing where it is none
    .a.b      the value under `b` in the object under `a` in the object that the payload is, see `json_object`

A whole number of up to 64 bits is exact, any other is the nearest double. A value of JSON that is neither text, a
number nor true or false is there, but of no kind (`OTHER`); null is missing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final, NoReturn

from fumarole.core.publication import Publication
from fumarole.core.query.tree import DEEPEST_PATH, Field, Key, Metadata, Value
from fumarole.core.values import HIGHEST_INTEGER, LOWEST_INTEGER

LONGEST_JSON: Final = 32 * 1024
"""The largest payload whose fields can be tested. Parsing takes a few milliseconds at most, and blocks the loop."""
LONGEST_NUMBER: Final = 400
"""Characters of a number in such a payload."""
EXACT_DIGITS: Final = 38
"""Digits up to which a number with decimals is seen to be whole: `5.0` is 5."""


class Other(Enum):
    """A value of a message that is there and of no kind: every comparison with it is unknown (M10)."""

    OTHER = "other"


OTHER: Final = Other.OTHER
Found = Value | Other | None
"""The value under a key; None: there is none."""
Reads = Callable[[bytes], dict[tuple[str, ...], Found] | None]
"""Finds the fields of a payload under some paths, by path, quicker than `json_object`. None: it is not sure of them."""

_NUMBER: Final = re.compile(rb"[ \t\n\r]*(-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))[ \t\n\r]*")


class Message:
    """A publication as queries see it, with the metadata of its producer: what `get` and `in` find under keys."""

    __slots__ = ("_found", "_object", "_publication", "_reads", "_value", "metadata")

    def __init__(self, publication: Publication, metadata: Metadata, reads: Reads | None = None) -> None:
        """`reads` finds the fields that are mostly asked for."""
        self._publication = publication
        self.metadata = metadata
        self._reads = reads
        self._found: dict[tuple[str, ...], Found] | None = {} if reads is None else None
        self._value: Any = _UNREAD
        self._object: Any = _UNREAD

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def get(self, key: Key) -> Found:
        """The value under this key."""
        if isinstance(key, str):
            return self.metadata.get(key)
        return _READ[key.name](self, key)

    def value(self) -> int | float | None:
        """`$value`."""
        if self._value is _UNREAD:
            reading = self._publication.reading
            value = None if reading is None else reading.value
            # As the door read it, unless that may have been rounded.
            is_exact = type(value) is int or (type(value) is float and -_SAFE < value < _SAFE)
            self._value = value if is_exact else payload_number(self._publication.payload)
        found: int | float | None = self._value
        return found

    def _json(self) -> dict[str, Any] | None:
        if self._object is _UNREAD:
            self._object = json_object(self._publication.payload)
        read: dict[str, Any] | None = self._object
        return read

    def top_keys(self) -> AbstractSet[str]:
        """The keys of the object that the payload is; none where it is none."""
        return (self._json() or {}).keys()

    def field(self, path: tuple[str, ...]) -> Found:
        """`$.path.to.field`."""
        if self._found is None:
            self._found = (self._reads and self._reads(self._publication.payload)) or {}
        if path in self._found:
            return self._found[path]
        value: Any = self._json()
        for key in path:
            if type(value) is not dict:
                return None
            value = value.get(key)
        kind = type(value)
        if kind is str or kind is bool or kind is int or value is None:
            return value  # type: ignore[no-any-return]
        return value if kind is float and math.isfinite(value) else OTHER

    def topic(self) -> str:
        """`$topic`."""
        return self._publication.topic

    def producer(self) -> str | None:
        """`$producer`."""
        reading = self._publication.reading
        producer: str | None = None if reading is None else reading.producer
        return producer

    def size(self) -> int:
        """`$size`."""
        return len(self._publication.payload)


_UNREAD: Final = object()
_SAFE: Final = 2.0**53
_READ: Final[dict[str, Callable[[Message, Field], Found]]] = {
    "value": lambda message, _: message.value(),
    "topic": lambda message, _: message.topic(),
    "producer": lambda message, _: message.producer(),
    "size": lambda message, _: message.size(),
    "": lambda message, field: message.field(field.path),
}


def payload_number(payload: bytes) -> int | float | None:
    """The finite number that a payload is, by JSON's grammar."""
    found = _NUMBER.fullmatch(payload)
    if found is None:
        return None
    text = found[1].decode()
    value = _decimal(text) if found[2] else _whole(text)
    return value if -math.inf < value < math.inf else None


def _whole(text: str) -> int | float:
    """A number without decimals or exponent."""
    exact = int(text) if len(text) <= _LONGEST_WHOLE else HIGHEST_INTEGER + 1
    return exact if LOWEST_INTEGER <= exact <= HIGHEST_INTEGER else float(text)


def _decimal(text: str) -> int | float:
    """A number with either. Beyond 2⁵³ it matters whether it is a whole one, of which doubles are only some."""
    value = float(text)
    if -_SAFE < value < _SAFE or _ZEROS.fullmatch(text) is None or sum(map(str.isdigit, text)) > EXACT_DIGITS:
        return value
    return _whole(text.partition(".")[0])


_LONGEST_WHOLE: Final = len(str(LOWEST_INTEGER))
_ZEROS: Final = re.compile(r"-?[0-9]+\.0+")


# JSON.


def json_object(payload: bytes) -> dict[str, Any] | None:
    """The object that a payload is in JSON; None where it is none, or beyond what is looked at.

    JSON is RFC 8259's, in UTF-8, and all of the payload. What parsers disagree about is none here: a key twice in an
    object, and half a surrogate pair as an escape. At most LONGEST_JSON bytes, arrays and objects DEEPEST_PATH deep,
    numbers of LONGEST_NUMBER characters.
    """
    if len(payload) > LONGEST_JSON or _is_too_deep(payload):
        return None
    try:
        value = _DECODER.decode(payload.decode())
    except ValueError:
        return None
    return value if type(value) is dict and not _has_half_a_pair(payload) else None


def _is_too_deep(payload: bytes) -> bool:
    """The parser recurses, so this is found out before. Nearly always there are too few brackets for it."""
    if payload.count(b"{") + payload.count(b"[") <= DEEPEST_PATH:
        return False
    depth = 0
    for bracket in _STRING.sub(b"", payload).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST_PATH:
            return True
    return False


def _has_half_a_pair(payload: bytes) -> bool:
    """True when its escapes have half a surrogate pair, which is no character, although Python accepts it."""
    if b"\\u" not in payload:
        return False
    escapes = _PAIR.sub(b"", payload.replace(rb"\\", b""))
    return _HALF.search(escapes) is not None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice")
    return made


def _bounded(number: Callable[[str], int | float]) -> Callable[[str], int | float]:
    def bounded(text: str) -> int | float:
        if len(text) > LONGEST_NUMBER:
            raise ValueError("a number too long")
        return number(text)

    return bounded


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# One without its end goes on to the end of the payload: no part of it is looked at twice.
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS: Final = bytes(sorted({*range(256)} - {*b"[]{}"}))
_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_distinct,
    parse_int=_bounded(_whole),
    parse_float=_bounded(_decimal),
    parse_constant=_no_constant,
)
