"""Is the output exactly what was archived? By content, not only by count."""

from collections import Counter
from pathlib import Path
from typing import Any

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
    return sum(archived.values())
