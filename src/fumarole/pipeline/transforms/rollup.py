"""Values summed up by windows of time.

A window's figures are kept in a form that adds up: count, smallest, largest, mean, sum of squared distances from it,
and a sketch of the values (KLL: quantiles within about 1.3 % of rank). `parts` makes that of messages, `merged` makes
one of several, `finished` reads the figures off it. So a window that is fed by many batches costs no more than its
messages, and one that gets late messages is simply added to.

NaN and infinities are counted as `nonfinite` and are in no other figure (P7): one of them would make a mean NaN for
ever, and a sketch of nothing but NaN cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.time import is_weeks, window_start
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.times import duration, microseconds
from fumarole.pipeline.transforms.grouping import keyed, quoted

BY: Final = ("topic", "producer")
QUANTILES: Final = (0.05, 0.5, 0.95)
FIGURES: Final = ("count", "numbers", "nonfinite", "min", "max", "mean", "spread", "sketch")
"""Of a part. By name, so that no frame has to be asked for its columns: Declarative Pipelines forbid that."""
_INSIDE: Final = {"spread", "sketch"}
"""Of these figures others are made; they are not shown."""


def rollup(
    messages: DataFrame,
    every: str | timedelta = "1 minute",
    by: Sequence[str] = BY,
    quantiles: Sequence[float] = QUANTILES,
    zone: str | None = None,
    changes: DataFrame | None = None,
) -> DataFrame:
    """For each window, topic and producer: count, numbers, nonfinite, min, max, mean, stddev, and p05, p50, p95.

    `by` may name metadata keys, for which `changes` are needed, and words of the topic: see `transforms.grouping`.
    `count` is of messages, `numbers` of those whose value is a finite number; the rest is of those. `nonfinite` is of
    NaN and infinities. With `zone` windows go by its calendar; whole weeks begin on Mondays. A watermark on `time` is
    kept, where there is no zone.
    """
    columns(by, quantiles)
    return finished(parts(keyed(messages, by, changes), every, by, zone), quantiles, by)


def parts(
    messages: DataFrame, every: str | timedelta = "1 minute", by: Sequence[str] = BY, zone: str | None = None
) -> DataFrame:
    """The messages' share in each window, to be merged with others'."""
    length, columns = duration(every), [quoted(name) for name in by]
    if zone is not None or is_weeks(length):
        begin = window_start(sf.col("time"), length, zone)
        # As Spark's own windows are: one column, which is grouped by.
        window = sf.struct(begin.alias("start"))
    else:
        # The only windows through which Spark sees a watermark. They are counted from 1970 as well.
        window = sf.window("time", f"{microseconds(length)} microseconds")
    value, numbers = finite(sf.col("value")), sf.count(finite(sf.col("value")))
    return (
        messages.groupBy(window.alias("window"), *columns)
        .agg(
            sf.count(sf.lit(1)).alias("count"),
            numbers.alias("numbers"),
            (sf.count("value") - numbers).alias("nonfinite"),
            sf.min(value).alias("min"),
            sf.max(value).alias("max"),
            sf.avg(value).alias("mean"),
            (sf.var_pop(value) * numbers).alias("spread"),
            sf.kll_sketch_agg_double(value).alias("sketch"),
        )
        .select(sf.col("window.start").alias("start"), *columns, *FIGURES)
    )


def merged(shares: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """One row for each window, from all its parts."""
    with_numbers = sf.col("numbers") > 0
    combined = (
        _set_apart(shares, by)
        .groupBy("start", *map(quoted, by))
        .agg(
            sf.sum("count").alias("count"),
            sf.sum("numbers").alias("numbers"),
            sf.sum("nonfinite").alias("nonfinite"),
            sf.min("min").alias("min"),
            sf.max("max").alias("max"),
            (sf.sum(sf.col("mean") * sf.col("numbers")) / sf.nullif(sf.sum("numbers"), sf.lit(0))).alias("mean"),
            sf.collect_list(sf.when(with_numbers, sf.struct("numbers", "mean", "spread"))).alias("shares"),
            sf.kll_merge_agg_double(sf.when(with_numbers, sf.col("sketch"))).alias("sketch"),
        )
    )
    # Around the common mean: each share's own spread, and how far its mean lies from it. In SQL: Python's lambdas are
    # given new names each time, and each batch would be compiled anew.
    around = sf.expr("aggregate(shares, 0D, (total, it) -> total + it.spread + it.numbers * power(it.mean - mean, 2))")
    return combined.withColumn("spread", around).select("start", *map(quoted, by), *FIGURES)


def finished(windows: DataFrame, quantiles: Sequence[float] = QUANTILES, by: Sequence[str] = BY) -> DataFrame:
    """The figures of windows that are whole."""
    some = sf.col("numbers") > 0
    return windows.select(
        "start",
        *map(quoted, by),
        *[name for name in FIGURES if name not in _INSIDE],
        # Of a sample: one less, because the mean was taken from the same values.
        sf.when(sf.col("numbers") > 1, sf.sqrt(sf.col("spread") / (sf.col("numbers") - 1))).alias("stddev"),
        *[
            sf.when(some, sf.kll_sketch_get_quantile_double("sketch", sf.lit(float(each)))).alias(quantile_name(each))
            for each in quantiles
        ],
    )


def columns(by: Sequence[str] = BY, quantiles: Sequence[float] = QUANTILES) -> list[str]:
    """The names of the columns that `rollup` gives. Raises PipelineError where two have one name."""
    figures = [*(name for name in FIGURES if name not in _INSIDE), "stddev", *map(quantile_name, quantiles)]
    taken = {name.lower() for name in by} & set(figures)
    if taken:
        raise PipelineError(f"to group by {taken.pop()!r} would give two columns of that name; name another key")
    return ["start", *by, *figures]


def finite(value: Column) -> Column:
    """The value; null where it is NaN or infinite. One subtraction: infinity less itself is NaN too."""
    return sf.when((value - value) == sf.lit(0.0), value)


def _set_apart(shares: DataFrame, by: Sequence[str]) -> DataFrame:
    """Parts that an older job wrote have no `nonfinite`. Where all values were NaN, their sketch cannot be read."""
    only_nan = sf.isnan("min")
    numbers = sf.when(only_nan, sf.lit(0)).otherwise(sf.col("numbers"))
    nonfinite = sf.when(only_nan, sf.col("numbers")).otherwise(sf.coalesce("nonfinite", sf.lit(0)))
    figures = [sf.when(~only_nan, sf.col(name)).alias(name) for name in ("min", "max", "mean", "spread", "sketch")]
    return shares.select(
        "start", *map(quoted, by), "count", numbers.alias("numbers"), nonfinite.alias("nonfinite"), *figures
    )


def quantile_name(quantile: float) -> str:
    """`p05`, `p50`, `p999`, `p100`."""
    digits = f"{quantile:.6f}"
    return "p100" if digits.startswith("1") else "p" + digits[2:].rstrip("0").ljust(2, "0")
