"""Times and durations as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fumarole.pipeline.errors import TimeError

_PIECE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS: Final = {
    "milliseconds": ("ms", "millisecond", "milliseconds"),
    "seconds": ("s", "second", "seconds"),
    "minutes": ("m", "min", "minute", "minutes"),
    "hours": ("h", "hour", "hours"),
    "days": ("d", "day", "days"),
    "weeks": ("w", "week", "weeks"),
}
_UNIT_OF: Final = {word: unit for unit, words in _UNITS.items() for word in words}


def duration(text: str | timedelta) -> timedelta:
    """`500ms`, `90s`, `1 minute`, `1h30m`, `2 days`, `1 week`. Raises TimeError."""
    if isinstance(text, timedelta):
        found = text
    else:
        pieces = [(number, _UNIT_OF.get(unit.lower())) for number, unit in _PIECE.findall(text)]
        if not pieces or _PIECE.sub("", text) or any(unit is None for _, unit in pieces):
            raise TimeError(f"{text!r} is no duration; write it as 500ms, 90s, 1 minute, 1h30m or 2 days")
        try:
            found = sum((timedelta(**{str(unit): float(number)}) for number, unit in pieces), timedelta())
        except OverflowError:
            raise TimeError(f"a duration of {text} is longer than can be counted") from None
    if found <= timedelta(0):
        raise TimeError(f"a duration of {text} is none; it must be more than nothing")
    return found


def shown(length: timedelta) -> str:
    """As short as it goes: `1m`, `1h30m`."""
    rest, text = length.total_seconds(), ""
    for unit, seconds in (("d", 86_400), ("h", 3600), ("m", 60)):
        if rest >= seconds:
            text += f"{int(rest // seconds)}{unit}"
            rest %= seconds
    return text + (f"{rest:g}s" if rest or not text else "")


def microseconds(length: timedelta) -> int:
    """The whole of it."""
    return length // timedelta(microseconds=1)


def moment(value: str | datetime | None) -> datetime | None:
    """A point in time: ISO text or a datetime; without a zone it is UTC. Raises TimeError."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise TimeError(f"{value!r} is no time; write it as 2026-01-31 or 2026-01-31T12:00:00Z") from None


def between(since: str | datetime | None, until: str | datetime | None) -> tuple[datetime | None, datetime | None]:
    """Both as points in time. Raises TimeError, also where there is nothing between them."""
    begin, end = moment(since), moment(until)
    if begin is not None and end is not None and begin >= end:
        raise TimeError(f"since {since} is not before until {until}: there is nothing between them")
    return begin, end


def as_utc(collected: datetime) -> datetime:
    """A time out of a DataFrame: PySpark gives it in the zone of this machine, without saying so."""
    return collected.astimezone(UTC)


def zone_of(name: str) -> str:
    """A time zone by its name, such as Europe/Rome. Raises TimeError."""
    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise TimeError(f"{name!r} is no time zone; write it as Europe/Rome or UTC") from None
