"""Messages of a frame as rows for shards: tests of messages as native columns, packed, and which shard each goes to.

A frame has the columns of messages. One of the live source with `clock` also has `offset`, which is the order, and
`event`, by which it tells what is no message: see `live.source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from fumarole.core.publication import FORGOTTEN as FORGOTTEN_TOPIC
from fumarole.core.rules import Rules
from fumarole.pipeline.columns.topic import topic_matches
from fumarole.pipeline.columns.where import where
from fumarole.pipeline.patterns import grammar_of
from fumarole.pipeline.rules.rollups import needs_topic
from fumarole.pipeline.rules.rows import COMPLETE, FORGOTTEN, GAP, READING, SAID, TICK
from fumarole.pipeline.rules.truths import TESTS_IN_A_WORD, Truths

SHARD: Final = "shard"
ALARM_HEADER: Final = "Fumarole-Alarm"
ROLLUP_HEADER: Final = "Fumarole-Rollup"
EVENTS: Final = {"known": SAID, "tick": TICK, "gap": GAP, "complete": COMPLETE}
"""What the live source tells in the column `event`."""


IDENTITY: Final = ("epoch", "recorder", "sequence")
"""What orders rows of an archive that came at the same time."""


def rows(messages: DataFrame, rules: Rules, shards: Sequence[int], kept: Sequence[str] = ()) -> DataFrame:
    """For each message of a producer the columns of `rules.rows`; news for all shards once for each.

    Columns that are `kept` go along.
    """
    truths = Truths(rules.declared)
    names = set(messages.columns)
    arrived = sf.unix_micros("recorded" if "recorded" in names else "time")
    event = sf.col("event") if "event" in names else sf.lit(None).cast("string")
    kind = sf.when(sf.col("topic") == FORGOTTEN_TOPIC, sf.lit(FORGOTTEN)).otherwise(sf.lit(READING))
    time = sf.unix_micros("time")
    for name, number in EVENTS.items():
        kind = sf.when(event == name, sf.lit(number)).otherwise(kind)
    if "event" in names:
        time = sf.when(event.isin("gap", "complete"), sf.unix_micros("event_time")).otherwise(time)
    own = sf.get(_keys(shards), sf.pmod(sf.xxhash64("producer"), sf.lit(len(shards))).cast("int"))
    for_all = sf.col("producer").isNull()
    more = list(more_columns(rules))
    chosen = messages.where(sf.col("producer").isNotNull() | event.isNotNull())
    return chosen.select(
        sf.explode(sf.when(for_all, _keys(shards)).otherwise(sf.array(own))).alias(SHARD),
        kind.cast("int").alias("kind"),
        "producer",
        arrived.alias("at"),
        time.alias("time"),
        (sf.col("offset") if "offset" in names else arrived).alias("place"),
        "value",
        sf.when(sf.size("changes") > 0, sf.to_json("changes")).alias("news"),
        *_packed(truths, messages),
        *more,
        *kept,
    )


def changes_rows(changes: DataFrame, rules: Rules, shards: Sequence[int]) -> DataFrame:
    """The same for changes of metadata that an archive has."""
    truths = Truths(rules.declared)
    own = sf.get(_keys(shards), sf.pmod(sf.xxhash64("producer"), sf.lit(len(shards))).cast("int"))
    time = sf.unix_micros("time")
    more = more_columns(rules)
    return changes.select(
        own.alias(SHARD),
        sf.lit(SAID).alias("kind"),
        "producer",
        time.alias("at"),
        time.alias("time"),
        time.alias("place"),
        sf.lit(None).cast("double").alias("value"),
        sf.to_json(sf.array(sf.struct("key", "kind", "text", "number", "truth"))).alias("news"),
        *[sf.lit(0).cast("long").alias(f"test{word}") for word in range(truths.message_words)],
        *[sf.lit(None).cast(kind).alias(name) for name, kind in more.items()],
        *IDENTITY,
    )


def more_columns(rules: Rules) -> dict[str, str]:
    """Columns that only some rules need, with their types."""
    if any(rule.python for rule in rules.alarms):
        return {"topic": "string", "payload": "binary"}
    return {"topic": "string"} if needs_topic(rules.rollups) else {}


def _keys(shards: Sequence[int]) -> Column:
    return sf.array(*[sf.lit(shard) for shard in shards])


def _packed(truths: Truths, messages: DataFrame) -> list[Column]:
    """The truths of all tests of the message, two bits each."""
    tests = [topic_matches("topic", pattern, grammar_of(pattern)) for pattern in truths.topics]
    tests += [where(test, messages) for test in truths.of_message]
    words = []
    for word in range(truths.message_words):
        part = tests[word * TESTS_IN_A_WORD : (word + 1) * TESTS_IN_A_WORD]
        codes = [
            sf.when(test, sf.lit(2 << (2 * number))).when(~test, sf.lit(1 << (2 * number))).otherwise(sf.lit(0))
            for number, test in enumerate(part)
        ]
        words.append(reduce(add, [code.cast("long") for code in codes]).alias(f"test{word}"))
    return words
