"""Is the output exactly what was archived? By content, not only by count."""

from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from fumarole import pipeline

COLUMNS = ("recorder", "epoch", "sequence", "time", "topic", "producer", "value", "payload")


def rows(frame: DataFrame) -> Counter[Any]:
    return Counter(
        tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
        for row in frame.select(*COLUMNS).collect()
    )


def check_exact(spark: SparkSession, archive: Path, out: Path) -> int:
    """Identities and contents in the output are those in the sealed files, each once; rollups add up to them."""
    archived = rows(pipeline.archive(spark, archive))
    found = rows(pipeline.output(spark, out, "readings"))
    assert not archived - found, f"missing: {archived - found}, others: {found - archived}"
    assert not found - archived, "doubled, foreign or altered"
    assert max(archived.values(), default=1) == 1
    counts = {
        (row["start"], row["topic"], row["producer"]): (row["count"], row["min"], row["max"])
        for row in pipeline.output(spark, out, "rollup").collect()
    }
    at_once = {
        (row["start"], row["topic"], row["producer"]): (row["count"], row["min"], row["max"])
        for row in pipeline.rollup(pipeline.archive(spark, archive)).collect()
    }
    assert counts == at_once
    if (out / "readings" / "_delta_log").exists():
        check_open_tables(out, archived, at_once)
    return sum(archived.values())


def check_open_tables(out: Path, archived: Counter[Any], windows: dict[Any, Any]) -> None:
    """The Delta tables have the same, for programs that know nothing of us."""
    readings = DeltaTable(out / "readings").to_pyarrow_table(columns=list(COLUMNS))
    columns = [readings[name].to_pylist() for name in COLUMNS]
    times = [time.astimezone().replace(tzinfo=None) for time in columns[3]]  # as Spark's are collected
    assert Counter(zip(*columns[:3], times, *columns[4:], strict=True)) == archived
    rollup = DeltaTable(out / "rollup_1m").to_pyarrow_table().to_pylist()
    assert len(rollup) == len(windows)
    assert {
        (row["start"].astimezone().replace(tzinfo=None), row["topic"], row["producer"]): (
            row["count"],
            row["min"],
            row["max"],
        )
        for row in rollup
    } == windows
