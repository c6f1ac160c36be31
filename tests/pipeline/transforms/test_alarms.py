"""Alarms over an archive and over a stream are those of the definition, alarm for alarm (P13)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fumarole import pipeline
from fumarole.core.alarms import Alarm, Complete, Event, Forgotten, Gap, Reading, Said, Tick, alarms
from fumarole.core.publication import FORGOTTEN
from fumarole.core.rules import Rules
from fumarole.pipeline.archive import write_rows
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.batch import Part
from fumarole.pipeline.jobs.whatif_rules import rehearse
from fumarole.pipeline.live.clock import EVENT_ROWS
from fumarole.pipeline.rows import typed
from fumarole.pipeline.rules import packing as packing_module
from fumarole.pipeline.rules.packing import Packing
from fumarole.pipeline.sharding import STORE, partitions, shard_keys, spark_hash, text_hashes
from fumarole.pipeline.transforms.alarms import as_alarms, of_shards
from tests.pipeline.archives import as_they_were
from tests.pipeline.rules.histories import BEGIN, SECOND, by_case, rules_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PRODUCERS = [f"6f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e{number:02}" for number in range(6)]
RULES = rules_of(
    [
        {"where": "Kind = 'gas' AND $value > 5", "for": "3 s", "clear": "$value < 3"},
        {"where": "$.hot OR NOT Level = 1", "topic": "a.*"},
        {"silence": "3 x habit"},
        {"silence": "20 s", "where": "Kind = 'gas'"},
        {"rate": 2},
        {"zscore": 2, "window": 6, "where": "$topic != 'a.b' OR Level >= 1"},
    ]
)
TESTED_AT_THE_SOURCE = Rules(tuple(rule for rule in RULES.declared if Packing.of(Rules((rule,)), (0,)) is not None))
"""But for the one that asks for a field of JSON."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def history(seed: int, count: int, recorded: bool = False) -> list[Event]:
    """What is heard of some producers; as an archive has it, where it is `recorded`."""
    chance = random.Random(seed)
    at, events = BEGIN, list[Event]()
    kinds = [0] * 24 + [1, 2] + ([] if recorded else [3, 4, 5])
    for _ in range(count):
        before, at = at, at + chance.choice([100_000, 1_000_000, 1_000_000, 2_000_000]) + chance.randrange(1_000)
        producer = chance.choice(PRODUCERS)
        news = {chance.choice(["Kind", "Level"]): chance.choice(["gas", "heat", 1, 2, None])}
        kind = chance.choice(kinds)
        if kind == 0:
            late = chance.choice([0, 0, 0, 0, 4, -30, 100])
            value = chance.choice([None, *range(10)])
            payload = str(value).encode() if value is not None else b'{"hot": true}'
            said = news if chance.random() < 0.3 else {}
            topic = chance.choice(["a.b", "a.c", "d"])
            number = None if value is None else float(value)
            events.append(Reading(producer, at, at - late * SECOND, topic, payload, number, said))
        elif kind == 1:
            events.append(Said(producer, at, news, chance.random() < 0.5))
        elif kind == 2:
            events.append(Forgotten(producer, at))
        elif kind == 3:
            at += 60 * SECOND
            events.append(Gap(before, at))
        elif kind == 4:
            events.append(Complete(at - 30 * SECOND, at))
        else:
            events.append(Tick(at))
    return [*events, Tick(at + 30 * SECOND)]


def found_in(rows: Iterable[Row]) -> dict[tuple[str, str], list[Alarm]]:
    """Rows of a frame as alarms."""
    found = []
    for row in rows:
        said = json.loads(row["payload"])
        since, until = (_microseconds(said.get(name)) for name in ("since", "until"))
        assert since is not None
        assert said["rule"] == row["rule"]
        assert json.loads(row["metadata"]) == said["metadata"]
        value, metadata, again = said["value"], said["metadata"], said.get("again", 0)
        alarm = Alarm(row["rule"], row["producer"], row["state"], since, until, value, metadata, again)
        assert row["headers"] == {"Fumarole-Alarm": [alarm.identity]}
        found.append(alarm)
    return by_case(found)


def _microseconds(text: str | None) -> int | None:
    return None if text is None else (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def _time(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def test_history_is_the_definition(spark: SparkSession, tmp_path: Path) -> None:
    events = history(1, 400, recorded=True)
    messages, changes = list[dict[str, Any]](), list[dict[str, Any]]()
    for event in events:
        match event:
            case Reading(producer, at, time, topic, payload, value, news):
                row = {"time": _time(at), "event_time": _time(time), "topic": topic, "producer": producer}
                own = list(typed(news)) or None
                messages.append({**row, "payload": payload, "value": value, "changes": own})
                changes += [{"time": _time(at), "producer": producer, **each} for each in typed(news)]
            case Said(producer, at, news, anew):
                first = [{"key": "", "kind": "anew", "text": None, "number": None, "truth": None}] if anew else []
                said = [*first, *typed(news)]
                changes += [{"time": _time(at), "producer": producer, **each} for each in said]
            case Forgotten(producer, at):
                messages.append({"time": _time(at), "topic": FORGOTTEN, "producer": producer, "payload": b""})
    write_rows(tmp_path / "archive", "default", messages)
    write_rows(tmp_path / "archive", "default", changes, kind="changes")
    end = _time(events[-1].at)
    made = pipeline.alarms(
        pipeline.archive(spark, tmp_path / "archive"), RULES, pipeline.changes(spark, tmp_path / "archive"), end
    )
    expected = by_case(alarms(RULES, events))
    assert len(expected) > 10
    assert found_in(made.collect()) == expected
    # `until` goes by the sensors' time, and some are ahead.
    later = events[-1].at + 60 * SECOND
    part = Part(str(tmp_path / "archive"), until=_time(later))
    episodes = rehearse(spark, part, RULES).episodes.collect()
    raised = {(alarm.rule, alarm.producer, alarm.since) for alarm in alarms(RULES, [*events, Tick(later)])}
    assert {(row["rule"], row["producer"], _of(row["since"])) for row in episodes} == raised


def _of(time: datetime) -> int:
    return (time.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(("rules", "is_packed"), [(RULES, False), (TESTED_AT_THE_SOURCE, True)])
def test_a_stream_is_the_definition(spark: SparkSession, tmp_path: Path, rules: Rules, is_packed: bool) -> None:
    """Rows as the live source gives them, in files that come one after the other, with a restart between them."""
    events = history(2, 300)
    found: list[Row] = []
    with as_they_were(spark, STORE):
        for number, begin in enumerate(range(0, len(events), 110)):
            write_file(tmp_path / "in" / f"{number}.parquet", events[begin : begin + 110], begin)
            found += streamed(spark, rules, tmp_path, is_packed)
    expected = by_case(alarms(rules, events))
    assert len(expected) > 10
    assert found_in(found) == expected


def write_file(path: Path, events: Sequence[Event], first: int) -> None:
    made = []
    for place, event in enumerate(events, first):
        row: dict[str, Any] = dict.fromkeys(EVENT_ROWS.names)
        row |= {"topic": "", "payload": b"", "time": event.at, "recorded": event.at}
        match event:
            case Reading(producer, _, time, topic, payload, value, news):
                row |= {"producer": producer, "time": time, "topic": topic, "payload": payload, "value": value}
                row["changes"] = list(typed(news)) or None
            case Said(producer, _, news, anew):
                first_change = [{"key": "", "kind": "anew"}] if anew else []
                row |= {"event": "known", "producer": producer, "changes": [*first_change, *typed(news)]}
            case Forgotten(producer):
                row |= {"topic": FORGOTTEN, "producer": producer}
            case Tick():
                row["event"] = "tick"
            case Gap(since) | Complete(since):
                row |= {"event": "gap" if isinstance(event, Gap) else "complete", "event_time": since}
        made.append({**row, "offset": place})
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(made, pa.schema([*EVENT_ROWS, pa.field("offset", pa.int64())])), path)


def streamed(spark: SparkSession, rules: Rules, folder: Path, is_packed: bool) -> list[Row]:
    """What has come since the last time."""
    from fumarole.pipeline.live.source import WITH_CLOCK

    rows: list[Row] = []

    def take(batch: DataFrame, _number: int) -> None:
        rows.extend(batch.collect())

    messages = spark.readStream.schema(WITH_CLOCK).parquet(str(folder / "in"))
    found = packed_alarms(messages, rules) if is_packed else pipeline.alarms(messages, rules)
    writing = found.writeStream.foreachBatch(take)
    writing = writing.option("checkpointLocation", str(folder / "checkpoint"))
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    return rows


def packed_alarms(messages: DataFrame, rules: Rules) -> DataFrame:
    """As the live job has them."""
    keys = shard_keys(partitions(messages.sparkSession))
    packing = Packing.of(rules, keys)
    assert packing is not None

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield packing.packed(pa.Table.from_batches([batch]))

    return as_alarms(of_shards(messages.mapInArrow(pack, packing_module.SCHEMA), rules, keys))


def test_hashes_of_texts_are_those_of_spark(spark: SparkSession) -> None:
    """A producer stays in its shard, wherever it is worked out."""
    chance = random.Random(3)
    texts = ["".join(chance.choices("ab\u00e9\u20ac", k=length)) for length in range(120)]
    hashed = spark.createDataFrame([(text,) for text in texts], "text string").selectExpr("xxhash64(text) h").collect()
    assert text_hashes(pa.array(texts)).tolist() == [row["h"] for row in hashed]


def test_each_shard_is_in_a_part_of_its_own(spark: SparkSession) -> None:
    numbers = [*range(40), 2**31 - 1]
    hashed = spark.createDataFrame([(number,) for number in numbers], "n int").selectExpr("hash(n) h").collect()
    assert [spark_hash(number) for number in numbers] == [row["h"] for row in hashed]
    for count in (1, 2, 7, 64):
        assert [spark_hash(key) % count for key in shard_keys(count)] == list(range(count))


def test_rules_without_alarms(spark: SparkSession) -> None:
    rules = [{"name": "m", "publish": "rollups", "rollup": "1 minute"}]
    with pytest.raises(PipelineError, match="raise no alarms"):
        pipeline.alarms(spark.createDataFrame([], "topic string"), rules)
