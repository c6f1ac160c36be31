"""Decoding of declared payloads: the definition (P6), slow and meant to be read. `pipeline.columns.payload`
does the same with Spark's columns, and is tested for equality with it.

A payload is read by its format; then each field is looked up by its path and must be of its type. What is missing or
null is null. A payload does not fit

- where it cannot be read: no JSON, a length that no row of floats has;
- where something on a path, or at its end, is of another kind; then that field is null, and others are as they are;
- where it has none of what is declared: it is most likely another's.

NaN and infinities are numbers here (P7). JSON has no word for them.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, NamedTuple

from fumarole.core import msgpack, sparkplug
from fumarole.core.payloads import FLOATS, Field, Path, Payload, TimeField, Unit, time_regex

Scalar = float | int | bool | str
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ISO: Final = (
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)
"""The part of ISO 8601 that sensors write: a date and a time, with an offset from UTC, or else in UTC."""
ISO_PARTS: Final = ["%Y", "%m", "%d", "%H", "%M", "%S", "%f", "%z"]
EARLIEST: Final = -62_135_596_800_000_000
LATEST: Final = 253_402_300_799_999_999
"""Microseconds since 1970 of the years 1 and 9999."""
PER_SECOND: Final[dict[Unit, float]] = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
MOST_OFFSET: Final = 18 * 60
"""Minutes. No place is further from UTC, and Spark knows no more."""

# Numbers in texts, CSV and plain, also in the forms +5, .5 and 05.
DECIMAL: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NO_NUMBER: Final = r"nan"
INFINITE: Final = r"[+-]?inf(?:inity)?"
INTEGER: Final = r"[+-]?[0-9]{1,19}"
BLANK: Final = " \t\r\n"
_DECIMAL, _NO_NUMBER, _INFINITE = (re.compile(text, re.IGNORECASE) for text in (DECIMAL, NO_NUMBER, INFINITE))
_INTEGER = re.compile(INTEGER)
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


class Decoded(NamedTuple):
    """The values in a payload."""

    fields: dict[str, Scalar | None]
    value: float | None
    time: int | None
    """The sensor's time, in microseconds since 1970; believed or not."""
    fits: bool


class _UnfitError(Exception):
    """A value of another kind than declared."""


class _UnreadableError(Exception):
    """No payload of this format."""


class _Missing:
    pass


_MISSING: Final = _Missing()


def decode(payload: bytes, declared: Payload) -> Decoded:
    """The fields, the value and the time of a payload."""
    names = [each.name for each in declared.fields]
    try:
        found = _READERS[declared.format](payload, declared)
    except _UnreadableError:
        return Decoded(dict.fromkeys(names), None, None, fits=False)
    fits, some = True, False
    fields: dict[str, Scalar | None] = {}
    from_text = declared.format in {"csv", "text"}
    for each in declared.fields:
        try:
            raw = _at(found, each.path)
            fields[each.name] = _typed(raw, each, from_text)
            some = some or fields[each.name] is not None
        except _UnfitError:
            fields[each.name], fits, some = None, False, True
    time: int | None = None
    if declared.time is not None:
        try:
            time = _time(_at(found, declared.time.path), declared.time, from_text)
            some = some or time is not None
        except _UnfitError:
            fits, some = False, True
    value = None if declared.value is None else fields[declared.value]
    assert not isinstance(value, str)
    return Decoded(fields, None if value is None else float(value), time, fits and some)


def header_time(text: str) -> int | None:
    """The time in a header `Time`, ISO 8601 or seconds since 1970, in microseconds; None: no time."""
    bare = text.strip(BLANK)
    try:
        return _micros(float(bare), "s") if _DECIMAL.fullmatch(bare) else _written(bare, ISO, ISO_PARTS)
    except _UnfitError:
        return None


# Formats: from bytes to what paths lead through.


def _read_json(payload: bytes, _: Payload) -> Any:
    try:
        return json.loads(payload.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _UnreadableError from None


def _refuse(word: str) -> None:
    raise ValueError(word)


def _read_csv(payload: bytes, declared: Payload) -> list[str | None]:
    """One record: cells with a delimiter between them; quotes around a cell, doubled inside it (RFC 4180)."""
    text = _text(payload)
    cell = cell_regex(declared.delimiter)
    sign = re.escape(declared.delimiter)
    if not re.fullmatch(rf"(?:{cell})(?:{sign}(?:{cell}))*\r?\n?", text):
        raise _UnreadableError
    cells = re.findall(rf"{sign}({cell})", declared.delimiter + text.rstrip("\r\n"))
    return [each[1:-1].replace('""', '"') if each.startswith('"') else each for each in cells]


def cell_regex(delimiter: str) -> str:
    """A cell of a record, for Python and Java alike."""
    return rf'"[^"]*+(?:""[^"]*+)*+"|[^"\r\n{re.escape(delimiter)}]*+'


def _read_text(payload: bytes, _: Payload) -> str:
    return _text(payload)


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise _UnreadableError from None


def _read_msgpack(payload: bytes, _: Payload) -> Any:
    try:
        return msgpack.unpack(payload)
    except ValueError:
        raise _UnreadableError from None


def _read_sparkplug(payload: bytes, _: Payload) -> Any:
    try:
        return sparkplug.metrics(payload)
    except ValueError:
        raise _UnreadableError from None


def _read_floats(payload: bytes, declared: Payload) -> list[float]:
    size = FLOATS[declared.format]
    if not payload or len(payload) % size:
        raise _UnreadableError
    signs = ("f" if size == 4 else "d") * (len(payload) // size)
    return list(struct.unpack((">" if declared.big else "<") + signs, payload))


_READERS: Final[Mapping[str, Callable[[bytes, Payload], Any]]] = {
    "json": _read_json,
    "csv": _read_csv,
    "text": _read_text,
    "msgpack": _read_msgpack,
    "sparkplug": _read_sparkplug,
    "float32": _read_floats,
    "float64": _read_floats,
}


def _at(found: Any, path: Path) -> Any:
    """The value at a path; `_MISSING` where there is none. Raises _UnfitError where the path goes through a scalar."""
    for step in path:
        if found is None or found is _MISSING:
            return _MISSING
        if isinstance(step, str) and isinstance(found, dict):
            found = found.get(step, _MISSING)
        elif isinstance(step, int) and isinstance(found, list):
            found = found[step] if step < len(found) else _MISSING
        else:
            raise _UnfitError
    return found


# Types.


def _typed(raw: Any, declared: Field, from_text: bool) -> Scalar | None:
    if raw is None or raw is _MISSING:
        return None
    if from_text:
        return _from_text(raw, declared.type)
    match declared.type:
        case "double" if isinstance(raw, int | float) and not isinstance(raw, bool):
            return _double(raw)
        case "long" if isinstance(raw, int) and not isinstance(raw, bool) and -(2**63) <= raw < 2**63:
            return raw
        case "boolean" if isinstance(raw, bool):
            return raw
        case "text" if isinstance(raw, str) and _is_whole(raw):
            return raw
    raise _UnfitError


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _is_whole(text: str) -> bool:
    """Without halves of characters, which JSON can write and UTF-8 cannot."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def _from_text(text: str, kind: str) -> Scalar | None:
    if kind == "text":
        return text or None
    bare = text.strip(BLANK)
    if not bare:
        return None
    if kind == "double":
        return number_of(bare)
    if kind == "long":
        if _INTEGER.fullmatch(bare) and -(2**63) <= int(bare) < 2**63:
            return int(bare)
    elif bare.lower() in _TRUTHS:
        return _TRUTHS[bare.lower()]
    raise _UnfitError


def number_of(bare: str) -> float:
    """A number as text has it. Raises _UnfitError."""
    if _DECIMAL.fullmatch(bare) or _INFINITE.fullmatch(bare) or _NO_NUMBER.fullmatch(bare):
        return float(bare)
    raise _UnfitError


# Times.


def _time(raw: Any, declared: TimeField, from_text: bool) -> int | None:
    if raw is None or raw is _MISSING or (from_text and not raw.strip(BLANK)):
        return None
    if declared.unit is not None:
        number = number_of(raw.strip(BLANK)) if from_text else raw
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _UnfitError
        return _micros(_double(number), declared.unit)
    if not isinstance(raw, str):
        raise _UnfitError
    regex, parts = (ISO, ISO_PARTS) if declared.format is None else time_regex(declared.format)
    return _written(raw.strip(BLANK), regex, parts)


def _micros(number: float, unit: Unit) -> int:
    """To the nearest microsecond. Raises _UnfitError where it is in no year of four digits."""
    exact = number * (1e6 / PER_SECOND[unit]) if unit in {"s", "ms"} else number / (PER_SECOND[unit] / 1e6)
    if not EARLIEST <= exact <= LATEST:  # NaN is not
        raise _UnfitError
    return math.floor(exact + 0.5)


def _written(text: str, regex: str, parts: list[str]) -> int:
    found = re.fullmatch(regex, text)
    if found is None:
        raise _UnfitError
    said = {part: group for part, group in zip(parts, found.groups(), strict=True) if group is not None}
    numbers = [int(said.get(part, "0")) for part in ("%Y", "%m", "%d", "%H", "%M", "%S")]
    fraction = int(said.get("%f", "0").ljust(6, "0")[:6])
    offset = _offset(said.get("%z", "Z"))
    try:
        time = datetime(*numbers, fraction, tzinfo=timezone(offset))  # type: ignore[misc, arg-type]
    except ValueError:
        raise _UnfitError from None
    return (time - EPOCH) // timedelta(microseconds=1)


def _offset(text: str) -> timedelta:
    if text == "Z":
        return timedelta(0)
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if minutes > MOST_OFFSET or int(digits[2:]) > 59:
        raise _UnfitError
    return timedelta(minutes=-minutes if text[0] == "-" else minutes)
