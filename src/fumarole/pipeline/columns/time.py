"""Windows, days and hours of a time as Spark columns: UTC, or the zone that is asked for; never the session's.

Spark's own `window`, `date_format` and `hour` follow the session, where days have 23 hours now and then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from fumarole.pipeline.times import microseconds

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)
_MONDAY: Final = timedelta(days=4)
"""From 1970, which began on a Thursday, to its first Monday."""


def window_start(time: Column, every: timedelta, zone: str | None = None) -> Column:
    """When the window began that a time is in. Windows are counted from 1970, those of whole weeks from a Monday.

    In a zone, by its calendar and clocks: a day has 23 or 25 hours now and then. Windows of an hour or less go by the
    offset of that moment, so that the hour which comes twice is two windows.
    """
    anchor = microseconds(_MONDAY) if is_weeks(every) else 0
    if zone is None:
        return sf.timestamp_micros(_floor(sf.unix_micros(time), every, anchor))
    local = sf.unix_micros(sf.from_utc_timestamp(time, sf.lit(zone)))
    if every <= _HOUR:
        offset = local - sf.unix_micros(time)
        return sf.timestamp_micros(_floor(local, every, anchor) - offset)
    return sf.to_utc_timestamp(sf.timestamp_micros(_floor(local, every, anchor)), sf.lit(zone))


def is_weeks(every: timedelta) -> bool:
    """Whole weeks, which begin on Mondays."""
    return not every % _WEEK


def utc_date(time: Column) -> Column:
    """`2026-03-01`."""
    return sf.date_from_unix_date(_count(time, _DAY)).cast("string")


def utc_hour(time: Column) -> Column:
    """`00` to `23`."""
    return sf.lpad(sf.pmod(_count(time, _HOUR), sf.lit(24)).cast("string"), 2, "0")


def _begin(time: Column, width: timedelta) -> Column:
    return _floor(sf.unix_micros(time), width, 0)


def _floor(at: Column, width: timedelta, anchor: int) -> Column:
    return at - sf.pmod(at - anchor if anchor else at, sf.lit(microseconds(width)))


def _count(time: Column, width: timedelta) -> Column:
    """How many have gone by since 1970."""
    return (_begin(time, width) / sf.lit(microseconds(width))).cast("int")
