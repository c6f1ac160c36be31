"""Patterns and queries as columns beside Python functions, called for each row, that do the same."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from pyspark.sql import functions as sf

from bench.effort import Effort
from bench.figures import Figure, against
from bench.pipeline import best_of, run, spark_in
from fumarole import pipeline
from fumarole.core.query.compile import compiled
from fumarole.core.query.parse import parse
from fumarole.core.topic import matches, parse_pattern, split

CLAIM = "Columns"
ROWS = 16_000_000
"""So many that it is the column that takes the time, and not the beginning of a job."""
COMPARED = 100_000
PATTERN = "volcanoes.*.sensor1*"
QUERY = "Region IN ('region1', 'region2') AND Level >= 2.5 AND NOT Region LIKE '%2'"


def measure(effort: Effort) -> Iterator[Figure]:
    rows = effort.share(ROWS)
    words, selects = parse_pattern(PATTERN), compiled(parse(QUERY))
    matches_udf = sf.udf(lambda topic: matches(words, split(topic)), "boolean")
    selects_udf = sf.udf(lambda region, level: selects({"Region": region, "Level": level}), "boolean")
    with tempfile.TemporaryDirectory(dir="build") as folder, spark_in(folder) as spark:
        number = sf.col("id")
        frame = spark.range(rows, numPartitions=8).select(
            sf.concat(sf.lit("volcanoes.region"), number % 10, sf.lit(".sensor"), number % 1000).alias("topic"),
            sf.concat(sf.lit("region"), number % 10).alias("Region"),
            (number % 7).cast("double").alias("Level"),
        )
        frame = frame.persist()
        frame.count()
        for name, column, function in (
            ("topic_matches", pipeline.topic_matches("topic", PATTERN), matches_udf("topic")),
            ("where", pipeline.where(QUERY, frame), selects_udf("Region", "Level")),
        ):
            found = [frame.limit(COMPARED).agg(sf.count_if(each)).first() for each in (column, function)]
            assert found[0] == found[1], found
            own, udf = best_of(
                effort,
                f"{name} as a column",
                lambda column=column: run(frame.agg(sf.count_if(column))),  # type: ignore[misc]
                lambda function=function: run(frame.agg(sf.count_if(function))),  # type: ignore[misc]
            )
            yield against("Python UDF", CLAIM, f"{name}, rows a second", rows / own, rows / udf, "/s", at_least=10.0)
