"""Times and durations as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fumarole.pipeline.errors import PipelineError

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_SECONDS = {"s": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}


def duration(text: str | timedelta) -> timedelta:
    """`90s`, `1 minute`, `1h`, `2 days`. Raises PipelineError."""
    if isinstance(text, timedelta):
        found = text
    else:
        match = _DURATION.fullmatch(text)
        unit = match[2].lower() if match else ""
        seconds = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
        if match is None or seconds is None:
            raise PipelineError(f"{text!r} is no duration; write it as 90s, 1 minute, 1h or 2 days")
        found = timedelta(seconds=float(match[1]) * seconds)
    if found <= timedelta(0):
        raise PipelineError(f"a duration of {text} is none; it must be more than nothing")
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
    """A point in time: ISO text or a datetime; without a zone it is UTC. Raises PipelineError."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PipelineError(f"{value!r} is no time; write it as 2026-01-31 or 2026-01-31T12:00:00Z") from None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
