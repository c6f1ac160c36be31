"""Traffic: messages and bytes by subtree of topics, by recorder of a group, and in total."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from fumarole.pipeline.columns.time import window_start
from fumarole.pipeline.times import duration


def traffic(messages: DataFrame, depth: int | None = None) -> DataFrame:
    """For each subtree down to a depth of so many words, or all of them: subtree, depth, topics, messages, bytes.

    A subtree is a topic and all that begin with it and a dot; that of no words (depth 0) is everything.
    """
    topics = messages.groupBy("topic").agg(
        sf.count(sf.lit(1)).alias("messages"), sf.sum(sf.octet_length("payload")).alias("bytes")
    )
    words = sf.split("topic", r"\.", -1)
    deepest = sf.size("words") if depth is None else sf.least(sf.size("words"), sf.lit(depth))
    subtrees = topics.select(words.alias("words"), "messages", "bytes").select(
        "words", "messages", "bytes", sf.explode(sf.sequence(sf.lit(0), deepest)).alias("depth")
    )
    subtree = sf.array_join(sf.slice("words", sf.lit(1), sf.col("depth")), ".")
    return subtrees.groupBy(subtree.alias("subtree"), "depth").agg(
        sf.count(sf.lit(1)).alias("topics"), sf.sum("messages").alias("messages"), sf.sum("bytes").alias("bytes")
    )


def balance(messages: DataFrame, every: str | timedelta = "1 hour") -> DataFrame:
    """How evenly recorders of a group were served: start, recorder, messages, bytes, share, evenness.

    `share` is of the window's messages, `evenness` is it beside an equal share: 1 is fair, 2 is twice as much.
    """
    start = window_start(sf.col("time"), duration(every)).alias("start")
    served = messages.groupBy(start, "recorder").agg(
        sf.count(sf.lit(1)).alias("messages"), sf.sum(sf.octet_length("payload")).alias("bytes")
    )
    together = Window.partitionBy("start")
    share = sf.col("messages") / sf.sum("messages").over(together)
    return served.withColumn("share", share).withColumn(
        "evenness", sf.col("share") * sf.count(sf.lit(1)).over(together)
    )


def summary(messages: DataFrame) -> DataFrame:
    """One row: messages, bytes, topics, producers, the first and last time, and the busiest second."""
    seconds = messages.groupBy(window_start(sf.col("time"), timedelta(seconds=1)).alias("second")).agg(
        sf.count(sf.lit(1)).alias("in_second")
    )
    return messages.agg(
        sf.count(sf.lit(1)).alias("messages"),
        sf.coalesce(sf.sum(sf.octet_length("payload")), sf.lit(0)).alias("bytes"),
        sf.count_distinct("topic").alias("topics"),
        sf.count_distinct("producer").alias("producers"),
        sf.min("time").alias("first"),
        sf.max("time").alias("last"),
    ).crossJoin(seconds.agg(sf.coalesce(sf.max("in_second"), sf.lit(0)).alias("busiest_second")))
