"""Windows, days and hours of a time as Spark columns: UTC, whatever the time zone of the session is.

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


def window_start(time: Column, every: timedelta) -> Column:
    """When the window began that a time is in; windows are counted from 1970."""
    return sf.timestamp_micros(_begin(time, every))


def utc_date(time: Column) -> Column:
    """`2026-03-01`."""
    return sf.date_from_unix_date(_count(time, _DAY)).cast("string")


def utc_hour(time: Column) -> Column:
    """`00` to `23`."""
    return sf.lpad(sf.pmod(_count(time, _HOUR), sf.lit(24)).cast("string"), 2, "0")


def _begin(time: Column, width: timedelta) -> Column:
    at = sf.unix_micros(time)
    return at - sf.pmod(at, sf.lit(microseconds(width)))


def _count(time: Column, width: timedelta) -> Column:
    """How many have gone by since 1970."""
    return (_begin(time, width) / sf.lit(microseconds(width))).cast("int")
