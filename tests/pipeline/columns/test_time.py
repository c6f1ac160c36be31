"""Windows, days and hours, held to plain Python, in a session that is elsewhere and has summer time."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.time import utc_date, utc_hour, window_start

TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 3, 28, 22, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 3, 29, 1, 0, tzinfo=UTC),  # where clocks are put forward
    datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
    datetime(2026, 10, 25, 1, 30, tzinfo=UTC),  # and back: there it is half past two again
]
WIDTHS = [timedelta(minutes=7), timedelta(hours=1), timedelta(days=1)]


def test_times_are_utc(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        time = sf.col("time")
        starts = [sf.unix_micros(window_start(time, width)) for width in WIDTHS]
        frame = spark.createDataFrame([(each,) for each in TIMES], "time timestamp")
        found = [tuple(row) for row in frame.select(utc_date(time), utc_hour(time), *starts).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert found == [
        (
            f"{each:%Y-%m-%d}",
            f"{each:%H}",
            *[(each - epoch) // width * (width // timedelta(microseconds=1)) for width in WIDTHS],
        )
        for each in TIMES
    ]
