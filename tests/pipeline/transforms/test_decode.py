"""Recorded messages with what their payloads say (P6), by the sensors' own times (P7), and the questions of P8."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fumarole import pipeline
from fumarole.core.payloads import parse
from fumarole.pipeline.archive import sealed
from fumarole.pipeline.columns.time import window_start
from fumarole.pipeline.errors import PipelineError, TimeError
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.jobs.standing import StandingJob
from fumarole.pipeline.times import as_utc, duration, zone_of
from tests.pipeline.archives import BEGIN, Recorder, at, change
from tests.pipeline.jobs.checks import check_exact

pytestmark = pytest.mark.usefixtures("plans_as_they_are")
DECLARED: list[dict[str, Any]] = [
    {
        "topic": "v.*.weather",
        "format": "json",
        "fields": {"temperature": "double", "ok": "boolean", "station": "text"},
        "value": "temperature",
        "time": {"path": "$.ts", "unit": "s"},
    },
    {"topic": "v.>", "format": "float32", "fields": {"level": "double"}, "value": "level"},
]


def weather(seconds: float, own: float, temperature: Any, topic: str = "v.etna.weather", **more: Any) -> dict[str, Any]:
    """Recorded at one time, measured at another."""
    said = {"temperature": temperature, "ok": True, "station": "s1", "ts": at(own).timestamp()}
    return {"time": at(seconds), "topic": topic, "payload": json.dumps(said).encode(), **more}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    recorder = Recorder(tmp_path / "archive")
    recorder.seal(
        [
            weather(0, 0, 20.0, producer="p"),
            weather(7200, 10, 22.0, producer="p"),  # kept by the station, and sent two hours later
            weather(7201, 90_000_000, 99.0, producer="p"),  # a clock years ahead
            weather(7202, 7202, "warm", producer="p"),
            {"time": at(7203), "topic": "v.etna.level", "payload": b"\x00\x00\x80\x3f", "producer": "q"},
            {"time": at(7204), "topic": "other", "payload": b"5", "value": 5.0},
            {"time": at(7205), "topic": "_FORGOTTEN", "payload": b"", "producer": "p"},
        ]
    )
    recorder.seal(
        [*change(0, "p", {"Region": "italy", "Floor": 4}), *change(3600, "p", {"Region": "sicily"})], "changes"
    )
    return tmp_path / "archive"


def test_fields_value_and_time(spark: SparkSession, archive: Path) -> None:
    found = pipeline.archive(spark, archive, payloads=DECLARED).orderBy("recorded").collect()
    assert [row["value"] for row in found] == [20.0, 22.0, 99.0, None, 1.0, 5.0, None]
    assert [row["fits"] for row in found] == [True, True, True, False, True, None, None]
    assert [row["wrong_clock"] for row in found] == [False, False, True, *[False] * 4]
    assert [as_utc(row["time"]) for row in found] == [at(each) for each in (0, 10, 7201, 7202, 7203, 7204, 7205)]
    assert as_utc(found[2]["event_time"]) == at(90_000_000)
    assert found[3]["fields"].asDict() == {"temperature": None, "ok": True, "station": "s1", "level": None}
    assert found[4]["fields"]["level"] == 1.0
    assert bytes(found[3]["payload"]).startswith(b"{")  # the raw payload is always kept


def test_a_range_is_of_the_sensors_times(spark: SparkSession, archive: Path) -> None:
    """The one that was sent two hours later lies in the folder of another hour."""
    early = pipeline.archive(spark, archive, topic="v.>", until=at(60), payloads=DECLARED)
    assert sorted(row["value"] for row in early.collect()) == [20.0, 22.0]
    by_recorder = pipeline.archive(spark, archive, topic="v.>", until=at(60))
    assert [row["value"] for row in by_recorder.collect()] == [None]
    late = pipeline.archive(spark, archive, since=at(7203), payloads=DECLARED)
    assert sorted(row["topic"] for row in late.collect()) == ["_FORGOTTEN", "other", "v.etna.level"]


def test_windows_gaps_and_metadata_go_by_it(spark: SparkSession, archive: Path) -> None:
    messages = pipeline.archive(spark, archive, topic="v.*.weather", payloads=DECLARED)
    windows = pipeline.rollup(messages, "1 minute", by=("topic",)).orderBy("start").collect()
    assert [(as_utc(row["start"]), row["count"], row["mean"]) for row in windows] == [
        (at(0), 2, 21.0),
        (at(7200), 2, 99.0),
    ]
    described = pipeline.enrich(messages, pipeline.changes(spark, archive)).where("value = 22").first()
    assert described is not None
    assert described["metadata"]["Region"]["text"] == "italy"  # two hours later it was another
    silences = pipeline.gaps(messages, least="1 hour").collect()
    assert [as_utc(row["since"]) for row in silences] == [at(10)]


def test_what_the_recorder_has_written_is_gone_by(spark: SparkSession, tmp_path: Path) -> None:
    """An archive whose recorder knew the sensors' times, read without a declaration."""
    own = {"topic": "a", "payload": b"1", "value": 1.0}
    recorder = Recorder(tmp_path / "archive")
    recorder.seal([{"time": at(7200), "event_time": at(10), **own}, {"time": at(7201), **own}])
    (file,) = sealed(tmp_path / "archive", "default")
    assert (file.first_event, file.last_time) == (int(at(10).timestamp()) * 10**6, int(at(7201).timestamp()) * 10**6)
    recorder.seal([{"time": at(20_000), "event_time": BEGIN - timedelta(days=400), **own}])
    assert [file.last_event for file in sealed(tmp_path / "archive", "default")][1] == 0  # nothing of it is believed
    early = pipeline.archive(spark, tmp_path / "archive", until=at(60)).collect()
    assert [(as_utc(row["time"]), as_utc(row["recorded"])) for row in early] == [(at(10), at(7200))]
    out = tmp_path / "out"
    job = StandingJob(spark, tmp_path / "archive", out)
    assert [each.rows for each in job.catch_up()] == [3]
    assert check_exact(spark, tmp_path / "archive", out) == 3


def test_the_standing_job(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = StandingJob(spark, archive, out, payloads=DECLARED)
    assert [(each.rows, each.unfit) for each in job.catch_up()] == [(7, 1)]
    readings = pipeline.output(spark, out, "readings").orderBy("recorded").collect()
    assert [row["fields"]["temperature"] for row in readings] == [20.0, 22.0, 99.0, *[None] * 4]
    hour = pipeline.output(spark, out, "rollup", "1 hour").where("topic = 'v.etna.weather'").orderBy("start").collect()
    assert [(as_utc(row["start"]), row["count"]) for row in hour] == [(at(0), 2), (at(7200), 2)]
    with pytest.raises(PipelineError, match="output of a job with payloads"):
        StandingJob(spark, archive, out)


def test_groups(spark: SparkSession, archive: Path) -> None:
    """P8: metadata as of the time, words of the topic; a missing key is a group of its own."""
    messages = pipeline.archive(spark, archive, payloads=DECLARED)
    found = pipeline.rollup(
        messages,
        "1 day",
        by=("Region", "Floor", "topic[2]"),
        quantiles=(0.5,),
        changes=pipeline.changes(spark, archive),
    )
    assert found.columns[:4] == ["start", "Region", "Floor", "topic[2]"]
    assert {tuple(row[1:5]) for row in found.collect()} == {
        ("italy", "4", "etna", 2),
        ("sicily", "4", "etna", 2),
        (None, None, "etna", 1),
        (None, None, None, 1),
        ("sicily", "4", None, 1),
    }
    with pytest.raises(PipelineError, match="two columns of that name"):
        pipeline.rollup(messages, by=("value",))
    with pytest.raises(PipelineError, match="there twice"):
        pipeline.rollup(messages, by=("topic", "topic"))


def test_parts_of_an_archive(spark: SparkSession, archive: Path) -> None:
    declared = parse(DECLARED)
    part = Part(str(archive), payloads=declared, value_field="temperature", value="> 20.5")
    part.check()
    assert sorted(row["value"] for row in part.messages(spark).collect()) == [22.0, 99.0]
    assert {row["topic"] for row in Part(str(archive)).asked(spark).collect()} == {
        "v.etna.weather",
        "v.etna.level",
        "other",
    }
    assert Part(str(archive), topic="_FORGOTTEN").asked(spark).count() == 1
    with pytest.raises(PipelineError, match=r"number 'station'; there are temperature, ok, level"):
        Part(str(archive), payloads=declared, value_field="station").check()
    with pytest.raises(PipelineError, match="none is declared"):
        Part(str(archive), value_field="x").check()


def test_silences_of_topics(spark: SparkSession, tmp_path: Path) -> None:
    """For teams without producers."""
    Recorder(tmp_path).seal([{"time": at(each), "topic": "a", "payload": b"1"} for each in (*range(5), 60, 61)])
    found = pipeline.gaps(pipeline.archive(spark, tmp_path), by="topic").collect()
    assert [(row["topic"], as_utc(row["since"]), row["seconds"]) for row in found] == [("a", at(4), 56.0)]
    with pytest.raises(PipelineError, match="a producer or a topic, not of 'Region'"):
        pipeline.gaps(pipeline.archive(spark, tmp_path), by="Region")


def test_views(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    pipeline.sql(spark, archive, payloads=DECLARED)
    hot = spark.sql(
        "SELECT fields.temperature AS t, metadata['Floor'] AS f FROM readings WHERE metadata['Region'] = 'italy'"
    )
    assert sorted(map(tuple, hot.collect())) == [(20.0, "4"), (22.0, "4")]
    assert spark.sql("SELECT count(*) AS n FROM metadata WHERE key = 'Region'").first() == (2,)
    assert spark.sql("SELECT sum(count) AS n, any_value(every) AS e FROM rollups").first() == (7, "1m")
    for _ in StandingJob(spark, archive, tmp_path / "out", payloads=DECLARED).catch_up():
        pass
    pipeline.sql(spark, archive, tmp_path / "out", DECLARED)
    sums = spark.sql("SELECT every, sum(count) AS n FROM rollups GROUP BY every").collect()
    assert sorted(map(tuple, sums)) == [("1h", 7), ("1m", 7)]


def local_start(time: datetime, every: timedelta, zone: str) -> datetime:
    """The definition: by the wall's clock, and its calendar."""
    here = time.astimezone(ZoneInfo(zone))
    wall = here.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    anchor = timedelta(days=4) if not every % timedelta(days=7) else timedelta(0)
    begin = datetime(1970, 1, 1, tzinfo=UTC) + (wall - anchor) // every * every + anchor
    if every <= timedelta(hours=1):
        return begin - (here.utcoffset() or timedelta(0))
    return begin.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@pytest.mark.parametrize("every", ["15 minutes", "1 hour", "6 hours", "1 day", "2 days", "1 week", "14 days"])
@pytest.mark.parametrize("zone", ["Europe/Rome", "Asia/Kolkata", "UTC"])
def test_windows_of_a_zone(spark: SparkSession, every: str, zone: str) -> None:
    """P8: days and weeks by that calendar, also where clocks are changed; weeks begin on Mondays."""
    moments = [datetime(2026, 3, 28, 12, 20, tzinfo=UTC) + timedelta(minutes=43 * step) for step in range(60)]
    moments += [datetime(2026, 10, 24, 21, 50, tzinfo=UTC) + timedelta(minutes=17 * step) for step in range(60)]
    frame = spark.createDataFrame([(each,) for each in moments], "time timestamp")
    found = frame.select("time", window_start(sf.col("time"), duration(every), zone).alias("start")).collect()
    assert {as_utc(row["time"]): as_utc(row["start"]) for row in found} == {
        each: local_start(each, duration(every), zone) for each in moments
    }


def test_weeks_begin_on_mondays(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([{"time": at(0), "topic": "a", "payload": b"1"}])
    for every in ("1 week", "7 days"):
        row = pipeline.rollup(pipeline.archive(spark, tmp_path), every).first()
        assert row is not None
        assert as_utc(row["start"]) == datetime(2026, 2, 23, tzinfo=UTC)
    with pytest.raises(TimeError, match="is no time zone; write it as Europe/Rome"):
        zone_of("Rome")
