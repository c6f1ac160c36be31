"""Values summed up by windows of time.

A window's figures are kept in a form that adds up: count, smallest, largest, mean, sum of squared distances from it,
and a sketch of the values (KLL: quantiles within about 1.3 % of rank). `parts` makes that of messages, `merged` makes
one of several, `finished` reads the figures off it. So a window that is fed by many batches costs no more than its
messages, and one that gets late messages is simply added to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.time import window_start
from fumarole.pipeline.times import duration

BY: Final = ("topic", "producer")
QUANTILES: Final = (0.05, 0.5, 0.95)


def rollup(
    messages: DataFrame,
    every: str | timedelta = "1 minute",
    by: Sequence[str] = BY,
    quantiles: Sequence[float] = QUANTILES,
) -> DataFrame:
    """For each window, topic and producer: count, numbers, min, mean, max, stddev, and quantiles as p05, p50, p95.

    `count` is of messages, `numbers` of those whose payload was a number; the rest is of those.
    """
    return finished(parts(messages, every, by), quantiles)


def parts(messages: DataFrame, every: str | timedelta = "1 minute", by: Sequence[str] = BY) -> DataFrame:
    """The messages' share in each window, to be merged with others'."""
    numbers = sf.count("value")
    return messages.groupBy(window_start(sf.col("time"), duration(every)).alias("start"), *by).agg(
        sf.count(sf.lit(1)).alias("count"),
        numbers.alias("numbers"),
        sf.min("value").alias("min"),
        sf.max("value").alias("max"),
        sf.avg("value").alias("mean"),
        (sf.var_pop("value") * numbers).alias("spread"),
        sf.kll_sketch_agg_double("value").alias("sketch"),
    )


def merged(shares: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """One row for each window, from all its parts."""
    with_numbers = sf.col("numbers") > 0
    combined = shares.groupBy("start", *by).agg(
        sf.sum("count").alias("count"),
        sf.sum("numbers").alias("numbers"),
        sf.min("min").alias("min"),
        sf.max("max").alias("max"),
        (sf.sum(sf.col("mean") * sf.col("numbers")) / sf.nullif(sf.sum("numbers"), sf.lit(0))).alias("mean"),
        sf.collect_list(sf.when(with_numbers, sf.struct("numbers", "mean", "spread"))).alias("shares"),
        sf.kll_merge_agg_double(sf.when(with_numbers, sf.col("sketch"))).alias("sketch"),
    )
    # Around the common mean: each share's own spread, and how far its mean lies from it. In SQL: Python's lambdas are
    # given new names each time, and each batch would be compiled anew.
    around = sf.expr("aggregate(shares, 0D, (total, it) -> total + it.spread + it.numbers * power(it.mean - mean, 2))")
    return combined.withColumn("spread", around).drop("shares")


def finished(windows: DataFrame, quantiles: Sequence[float] = QUANTILES) -> DataFrame:
    """The figures of windows that are whole."""
    some = sf.col("numbers") > 0
    names = [column for column in windows.columns if column not in {"spread", "sketch"}]
    return windows.select(
        *names,
        # Of a sample: one less, because the mean was taken from the same values.
        sf.when(sf.col("numbers") > 1, sf.sqrt(sf.col("spread") / (sf.col("numbers") - 1))).alias("stddev"),
        *[
            sf.when(some, sf.kll_sketch_get_quantile_double("sketch", sf.lit(float(each)))).alias(quantile_name(each))
            for each in quantiles
        ],
    )


def quantile_name(quantile: float) -> str:
    """`p05`, `p50`, `p999`, `p100`."""
    digits = f"{quantile:.6f}"
    return "p100" if digits.startswith("1") else "p" + digits[2:].rstrip("0").ljust(2, "0")
