"""The archive as DataFrames: what a subscription would have received (P2)."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline
from fumarole.core.errors import PatternError
from fumarole.core.query.errors import QueryError
from fumarole.core.topic import parse_pattern
from fumarole.pipeline.errors import ArchiveError, PipelineError
from fumarole.pipeline.jobs.failures import FAILURES
from fumarole.protocols.columns import number
from tests.pipeline.archives import NOISE, Recorder, alter, at, change, message

pytestmark = pytest.mark.usefixtures("plans_as_they_are")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archive")
    one, two = Recorder(root, "one"), Recorder(root, "two")
    one.seal(change(0, "p", {"Region": "usa"}) + change(0, "q", {"Region": "japan"}), "changes")
    one.seal([message(second, "a.b", "p", second) for second in range(5)] + [message(9, "a.c", "q", 9.0)])
    two.seal(
        [message(3700, "a.b", "p", 1.0), message(3701, "x", None), message(3702, "a.b", "q", 2.0, {"Region": "usa"})]
    )
    two.seal(change(3699, "p", {"Region": None}), "changes")
    return root


def times(frame: DataFrame) -> list[float]:
    return sorted(row["time"].timestamp() - at(0).timestamp() for row in frame.collect())


def test_all(spark: SparkSession, archive: Path) -> None:
    found = pipeline.archive(spark, archive)
    assert times(found) == [0, 1, 2, 3, 4, 9, 3700, 3701, 3702]
    assert found.columns == [
        "time",
        "topic",
        "producer",
        "value",
        "payload",
        "headers",
        "changes",
        "event_time",
        "recorder",
        "epoch",
        "sequence",
        "recorded",
        "wrong_clock",
    ]


def test_pattern_and_time(spark: SparkSession, archive: Path) -> None:
    assert times(pipeline.archive(spark, archive, topic="a.*", since=at(2), until=at(3701))) == [2, 3, 4, 9, 3700]
    assert times(pipeline.archive(spark, archive, topic="a.c")) == [9]
    zoned = pipeline.archive(spark, archive, since="2026-03-01T12:00:03", until="2026-03-01T13:00:09+01:00")
    assert times(zoned) == [3, 4]


def test_patterns_of_either_grammar(spark: SparkSession, tmp_path: Path) -> None:
    """An archive does not know by which grammar it was published; what neither understands is refused as live."""
    Recorder(tmp_path).seal([message(1, "größe.x"), message(2, "a"), message(3, "")])
    assert times(pipeline.archive(spark, tmp_path, topic="größe.*")) == [1]
    assert times(pipeline.archive(spark, tmp_path, topic="")) == [3]
    for pattern in ("a b", "a.>.b"):
        with pytest.raises(PatternError) as live:
            parse_pattern(pattern)
        with pytest.raises(PatternError) as here:
            pipeline.archive(spark, tmp_path, topic=pattern)
        assert str(here.value) == str(live.value)


def test_query_over_what_held_then(spark: SparkSession, archive: Path) -> None:
    assert times(pipeline.archive(spark, archive, where="Region = 'usa'")) == [0, 1, 2, 3, 4, 3702]
    assert times(pipeline.archive(spark, archive, topic="a.b", where="Region = 'usa'", since=at(100))) == [3702]
    # A message without a producer has no metadata to ask: also this query does not get it.
    assert times(pipeline.archive(spark, archive, where="Region IS NULL")) == [3700]


def test_query_over_messages(spark: SparkSession, archive: Path) -> None:
    """F6: what would have been delivered."""
    assert times(pipeline.archive(spark, archive, where="Region = 'usa' AND $value >= 2")) == [2, 3, 4, 3702]
    assert times(pipeline.archive(spark, archive, where="$value BETWEEN 2 AND 9 OR Region IS NULL")) == [
        2,
        3,
        4,
        9,
        3700,
        3702,
    ]
    # A message without a producer is in no set.
    assert times(pipeline.archive(spark, archive, where="$topic LIKE '%'", since=at(3600))) == [3700, 3702]
    assert times(pipeline.archive(spark, archive, where="$size = 1 AND $topic = 'a.b'")) == [0, 1, 2, 3, 4]


def test_query_over_fields_of_payloads(spark: SparkSession, tmp_path: Path) -> None:
    payloads = [b'{"air": {"hpa": 950}}', b'{"air": {"hpa": "950"}}', b"950", b'{"air": {"hpa": 899.5}}']
    Recorder(tmp_path).seal(
        [{**message(at, "a", "p", number(each)), "payload": each} for at, each in enumerate(payloads)]
    )
    assert times(pipeline.archive(spark, tmp_path, where="$.air.hpa BETWEEN 900 AND 1000")) == [0]
    assert times(pipeline.archive(spark, tmp_path, where="NOT $.air.hpa > 900 OR $value = 950 AND Room IS NULL")) == [
        2,
        3,
    ]


def test_a_bit_that_has_changed_is_no_other_value(spark: SparkSession, tmp_path: Path) -> None:
    """Spark is told to check what it reads, by each of its two readers, whatever the session says."""
    (seal,) = Recorder(tmp_path).seal([message(0) | {"payload": NOISE}])
    alter(tmp_path / "default" / seal.path)
    reader = "spark.sql.parquet.enableVectorizedReader"
    try:
        for vectorized in ("true", "false"):
            spark.conf.set(reader, vectorized)
            with pytest.raises(FAILURES, match=seal.name):
                pipeline.archive(spark, tmp_path).select("payload").collect()
    finally:
        spark.conf.unset(reader)


def test_only_the_hours_asked_for_are_read(spark: SparkSession, archive: Path) -> None:
    later = pipeline.archive(spark, archive, since=at(3600))
    assert [name.rpartition("/")[2] for name in later.inputFiles()] == ["two-1-000000000000.parquet"]
    plan = pipeline.archive(spark, archive, topic="a.>")._jdf.queryExecution().executedPlan().toString()
    assert "StringStartsWith(topic,a.)" in plan
    assert (
        "Python"
        not in pipeline.archive(spark, archive, topic="*.b", where="Region LIKE 'u%'")._jdf.queryExecution().toString()
    )


def test_files_without_a_seal_are_no_part(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(1)])
    (tmp_path / "default/date=2026-03-01/hour=12/foreign.parquet").write_bytes(b"not Parquet")
    assert times(pipeline.archive(spark, tmp_path)) == [1]


def test_empty(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "default/_sealed").mkdir(parents=True)
    assert pipeline.archive(spark, tmp_path, topic="a", where="a = 1").collect() == []


def test_not_there(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no archive at"):
        pipeline.archive(spark, tmp_path / "nowhere")
    with pytest.raises(ArchiveError, match="has no namespace 'other'; it has default"):
        pipeline.archive(spark, archive, namespace="other")


def test_a_newer_version_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(1)])
    (seal,) = (tmp_path / "default/_sealed").iterdir()
    seal.write_text(json.dumps({**json.loads(seal.read_text()), "version": 99}))
    with pytest.raises(ArchiveError, match="version 99"):
        pipeline.archive(spark, tmp_path)


def test_refused_as_live(spark: SparkSession, archive: Path) -> None:
    with pytest.raises(PatternError, match="must be the last word"):
        pipeline.archive(spark, archive, topic="a.>.b")
    with pytest.raises(QueryError, match="expected a value"):
        pipeline.archive(spark, archive, where="a = ")
    with pytest.raises(PipelineError, match="is no time"):
        pipeline.archive(spark, archive, since="yesterday")
    with pytest.raises(PipelineError, match="nothing between them"):
        pipeline.archive(spark, archive, since="2026-03-01", until="2026-03-01")


def test_many_topics_and_large_payloads(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message(0, f"t.{number}") for number in range(20_000)]
    rows.append({**message(0, "large"), "payload": bytes(1 << 20)})
    Recorder(tmp_path).seal(rows)
    frame = pipeline.archive(spark, tmp_path)
    counted = {row["subtree"]: row["topics"] for row in pipeline.traffic(frame, depth=1).collect()}
    assert counted == {"": 20_001, "t": 20_000, "large": 1}
    assert [len(row["payload"]) for row in frame.where(pipeline.topic_matches("topic", "large")).collect()] == [1 << 20]
