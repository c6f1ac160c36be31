"""As-of enrichment, held to a definition in a few lines of plain Python."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from fumarole import pipeline
from fumarole.core.query.tree import Value
from fumarole.pipeline.rows import typed
from fumarole.pipeline.tables import CHANGES, MESSAGES
from fumarole.pipeline.transforms import enrich as transform
from tests.pipeline.archives import at

Said = Mapping[str, Value | None]
Change = tuple[int, str, Said | None, str, int]
"""Time, producer, what was said (None: that the producer begins anew), recorder, epoch."""
Reading = tuple[int, str | None, Said]


def definition(reading: Reading, changes: list[tuple[int, Change]]) -> dict[str, Value]:
    time, producer, own = reading
    said = sorted(
        (each[0], each[4], each[3], number, each[2])
        for number, each in changes
        if each[1] == producer and each[0] <= time
    )
    held: dict[str, Value | None] = {}
    for *_, news in said:
        if news is None:
            held.clear()
        else:
            held.update(news)
    held.update(own)
    return {key: value for key, value in held.items() if value is not None}


_ANEW: Mapping[str, Any] = {"key": "", "kind": "anew", "text": None, "number": None, "truth": None}


def frames(spark: SparkSession, readings: list[Reading], changes: list[Change]) -> tuple[DataFrame, DataFrame]:
    names = ("key", "kind", "text", "number", "truth")
    messages = [
        (
            at(time),
            "t",
            producer,
            1.0,
            bytearray(b"1"),
            None,
            [tuple(each[n] for n in names) for each in typed(own)] or None,
            None,
            "r",
            1,
            number,
        )
        for number, (time, producer, own) in enumerate(readings)
    ]
    rows = [
        (at(time), producer, *[each[n] for n in names], recorder, epoch, number * 10 + place)
        for number, (time, producer, said, recorder, epoch) in enumerate(changes)
        for place, each in enumerate([_ANEW] if said is None else typed(said))
    ]
    return spark.createDataFrame(messages, MESSAGES), spark.createDataFrame(rows, CHANGES)


def plain(entry: Mapping[str, Any]) -> Value:
    value: Value = entry[entry["kind"]]
    return int(entry["text"]) if entry["kind"] == "number" and entry["text"] is not None else value


def enriched(frame: DataFrame) -> dict[int, dict[str, Value]]:
    rows = frame.collect()
    found = {row["sequence"]: {key: plain(entry) for key, entry in row["metadata"].items()} for row in rows}
    assert len(found) == len(rows), "each reading once"
    return found


_values = st.sampled_from(["x", "y", 1, 2.5, 2**53 + 1, True, None, None])
_said = st.dictionaries(st.sampled_from(["a", "b", "c", ""]), _values, max_size=3)
_own = st.dictionaries(st.sampled_from(["a", "b", "c", "", "not among the changes"]), _values, max_size=3)
_producers = st.sampled_from(["p", "q"])
_times = st.integers(0, 8)
_changes = st.lists(
    st.tuples(_times, _producers, st.one_of(_said, _said, st.none()), st.sampled_from(["r", "s"]), st.integers(1, 2)),
    max_size=12,
)
_readings = st.lists(
    st.tuples(_times, st.sampled_from(["p", "q", "unheard of", None]), st.one_of(st.just({}), _own)), max_size=12
)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few changes there are, they are taken for many: not sent to all workers, but dealt out."""
    monkeypatch.setattr(transform, "_SENT_TO_ALL", 0)


def check_against_the_definition(spark: SparkSession) -> None:
    """Random histories, late and out of order, with deletions and new beginnings. Each has producers of its own; Spark does all at once."""
    readings: list[Reading] = []
    changes: list[Change] = []

    @settings(max_examples=150)
    @given(_readings, _changes)
    def draw(some: list[Reading], others: list[Change]) -> None:
        mark = f"{len(readings)} {len(changes)} "
        readings.extend((time, producer and mark + producer, own if producer else {}) for time, producer, own in some)
        changes.extend((time, mark + producer, *rest) for time, producer, *rest in others)  # type: ignore[misc]

    draw()
    assert len(readings) > 300
    by_producer: dict[str | None, list[tuple[int, Change]]] = {}
    for number, each in enumerate(changes):
        by_producer.setdefault(each[1], []).append((number, each))
    found = enriched(pipeline.enrich(*frames(spark, readings, changes)))
    expected = {number: definition(each, by_producer.get(each[1], [])) for number, each in enumerate(readings)}
    assert found == expected


def test_few_changes(spark: SparkSession) -> None:
    check_against_the_definition(spark)


@pytest.mark.usefixtures("many")
def test_many_changes(spark: SparkSession) -> None:
    check_against_the_definition(spark)


@pytest.mark.usefixtures("many")
def test_producers_that_share_a_place(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which happens by chance, to one in very many: here, to all of them."""
    place = transform._place

    def shared(producer: Column, bucket: Column) -> Column:
        return place(sf.substring(producer, 1, 0), bucket)

    monkeypatch.setattr(transform, "_place", shared)
    check_against_the_definition(spark)


def test_more_keys_than_there_are_columns_for(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform, "_MOST_KEYS", 2)
    check_against_the_definition(spark)


def test_producers_that_say_more_than_others(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whom some have finer buckets, as if they said far more."""
    monkeypatch.setattr(transform, "_WORTH_A_LOOK", 0)
    monkeypatch.setattr(transform, "_FAR_MORE", 1)
    check_against_the_definition(spark)


def test_who_says_far_more_than_others_has_no_more_versions_in_a_bucket(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading meets all that are in its bucket: thousands, if one said as much in a bucket of the others."""
    monkeypatch.setattr(transform, "_WORTH_A_LOOK", 100)
    changes: list[Change] = [(time, "chatty", {"a": time}, "r", 1) for time in range(2_000)]
    changes += [(number, f"p{number}", {"a": 1}, "r", 1) for number in range(0, 2_000, 20)]
    said = frames(spark, [], changes)[1]
    facts = transform._Facts.of(said)
    assert facts is not None
    assert facts.chatty == {"chatty": 2_000}
    placed = transform._at_places(transform._versions(said, facts), transform._Cut.of_changes(facts))
    crowd = placed.groupBy("_producer", "_found_at").count().agg(sf.max("count"), sf.sum("count")).first()
    assert crowd is not None
    assert crowd[0] <= 2_000 // 100 + 5  # the first and the last have a hundredth of all: clocks may be far off
    assert crowd[1] <= 2 * len(changes)


def test_as_many_columns_as_one_producer_has_keys(spark: SparkSession) -> None:
    """Not as many as there are keys: one for each of them would take minutes."""
    changes: list[Change] = [(1, f"p{number}", {f"key{number}": number}, "r", 1) for number in range(100)]
    made = pipeline.enrich(*frames(spark, [(5, "p7", {"key8": "own"})], changes))
    assert len(re.findall(r"last\(", made._jdf.queryExecution().optimizedPlan().toString())) == 1
    assert enriched(made) == {0: {"key7": 7.0, "key8": "own"}}


def plan_of(spark: SparkSession) -> str:
    made = pipeline.enrich(*frames(spark, [(5, "p", {})], [(1, "p", {"a": 1}, "r", 1)]))
    return str(made._jdf.queryExecution().executedPlan().toString())


def test_few_are_sent_to_all_workers(spark: SparkSession) -> None:
    """In the order of time, as readings come: Spark must not take that for useless."""
    plan = plan_of(spark)
    assert re.search(r"BroadcastHashJoin \[_place#\d+L\], \[_found_at#\d+L\], LeftSingle, BuildRight", plan)
    assert re.search(r"Sort \[_from#\d+ ASC NULLS FIRST\], false", plan)


def test_one_long_value_may_stand_in_all_versions(spark: SparkSession) -> None:
    """On average values are short; yet what is to be sent has the long one once for each change of the other key."""
    said: list[Change] = [(0, "p", {"about": "x" * 8_000}, "r", 1)]
    said += [(time, "p", {"state": time}, "r", 1) for time in range(1, 100)]
    facts = transform._Facts.of(frames(spark, [], said)[1])
    assert facts is not None
    assert facts.size > 99 * 8_000


@pytest.mark.parametrize(
    ("setting", "size"), [("8g", 8 << 30), ("512m", 512 << 20), ("2048", 2 << 30), ("1TB", 1 << 40), ("64kb", 64 << 10)]
)
def test_memory_as_spark_says_it(setting: str, size: int) -> None:
    assert transform._bytes(setting) == size


def test_a_setting_that_is_not_understood_sends_nothing_to_all_workers() -> None:
    assert transform._bytes("much") == 0


def test_memory_is_what_java_has(spark: SparkSession) -> None:
    """A second session may ask for more, and says so from then on; yet it has the Java of the first."""
    has = transform._memory(spark)
    assert 0 < has < 64 << 30
    again = spark.newSession()
    # As `SparkSession.builder.config(…).getOrCreate()` does where there is a session; but only this one is told.
    again._jsparkSession.sessionState().conf().setConfString("spark.driver.memory", "64g")
    assert again.conf.get("spark.driver.memory") == "64g"
    assert transform._memory(again) == has


@pytest.mark.parametrize("way", ["few", "many"])
def test_the_same_again_is_not_compiled_again(way: str, spark: SparkSession, request: pytest.FixtureRequest) -> None:
    """A standing job does it for every batch: what Java knows by then of the code must not be lost each time."""
    if way == "many":
        request.getfixturevalue("many")
    assert spark._jvm is not None
    compilations = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    messages, changes = frames(spark, [(5, "p", {"b": "own"})], [(1, "p", {"a": 1}, "r", 1)])
    expected = {0: {"a": 1.0, "b": "own"}}
    assert enriched(pipeline.enrich(messages, changes)) == expected
    assert len(pipeline.rollup(messages).collect()) == 1
    before = compilations.getCount()
    assert enriched(pipeline.enrich(messages, changes)) == expected
    assert len(pipeline.rollup(messages).collect()) == 1
    assert compilations.getCount() == before


def test_who_is_chosen_by_metadata_is_asked_for_once(spark: SparkSession) -> None:
    """Not once for the choice and once for what is left: that would be the whole work twice."""
    changes: list[Change] = [(1, "p", {"a": 1, "b": 3}, "r", 1), (1, "q", {"a": 2}, "r", 1)]
    made = pipeline.enrich(*frames(spark, [(5, "p", {}), (5, "q", {})], changes))
    chosen = made.where(pipeline.where("a = 1 AND NOT b = 2", made))
    assert chosen._jdf.queryExecution().executedPlan().toString().count("LeftSingle") == 1
    assert enriched(chosen) == {0: {"a": 1.0, "b": 3.0}}


@pytest.mark.usefixtures("many")
def test_many_are_dealt_out(spark: SparkSession) -> None:
    """By one number, and readings are not sorted."""
    plan = plan_of(spark)
    assert re.search(r"ShuffledHashJoin \[_place#\d+L\], \[_found_at#\d+L\], LeftSingle, BuildRight", plan)
    assert not re.search(r"Sort \[_place", plan)


@pytest.mark.parametrize("keys", [None, ["a"]])
def test_all_of_the_last_step_is_compiled(spark: SparkSession, keys: list[str] | None) -> None:
    """Where Spark has no code for a function, each reading is copied once more, whole."""
    adaptive = "spark.sql.adaptive.enabled"
    before = str(spark.conf.get(adaptive))
    spark.conf.set(adaptive, "false")  # with it, Spark says only afterwards what it compiled
    try:
        made = pipeline.enrich(*frames(spark, [(5, "p", {})], [(1, "p", {"a": 1}, "r", 1)]), keys)
        steps = str(made._jdf.queryExecution().executedPlan().toString()).splitlines()
    finally:
        spark.conf.set(adaptive, before)
    last = steps[: 1 + next(place for place, step in enumerate(steps) if "HashJoin" in step)]
    assert all(re.match(r"[ +-]*\*\(\d+\)", step) for step in last), last


@pytest.mark.usefixtures("many")
def test_a_part_fits_into_memory(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: a worker cannot put its table on disk."""
    usual = spark.conf.get("spark.sql.shuffle.partitions")
    assert f"hashpartitioning(_place, {usual})" in re.sub(r"#\d+L?", "", plan_of(spark))
    monkeypatch.setattr(transform, "_A_PART", 2)
    parts = re.findall(r"hashpartitioning\((?:_place|_found_at)#\d+L, (\d+)\)", plan_of(spark))
    assert parts == ["176", "176"]


def test_of_some_keys(spark: SparkSession) -> None:
    messages, changes = frames(
        spark, [(5, "p", {"a": "own", "b": None}), (2, "p", {})], [(1, "p", {"a": 1, "b": 2, "c": 3}, "r", 1)]
    )
    assert enriched(pipeline.enrich(messages, changes, ["a", "b"])) == {0: {"a": "own"}, 1: {"a": 1.0, "b": 2.0}}
    assert enriched(pipeline.enrich(messages, changes, ["d"])) == {0: {}, 1: {}}


def test_who_begins_anew_does_so_with_each_key(spark: SparkSession) -> None:
    """Also with keys that are not among those that it said again; and where that is all that is known of any producer."""
    begun: Change = (3, "p", None, "r", 1)
    messages, changes = frames(
        spark, [(2, "p", {}), (4, "p", {})], [(1, "p", {"a": 1, "b": 2}, "r", 1), begun, (3, "p", {"b": 3}, "r", 1)]
    )
    assert enriched(pipeline.enrich(messages, changes)) == {0: {"a": 1.0, "b": 2.0}, 1: {"b": 3.0}}
    assert enriched(pipeline.enrich(messages, changes, ["a"])) == {0: {"a": 1.0}, 1: {}}
    messages, changes = frames(spark, [(4, "p", {})], [begun])
    assert enriched(pipeline.enrich(messages, changes)) == {0: {}}


def test_without_changes(spark: SparkSession) -> None:
    messages, changes = frames(spark, [(1, "p", {"a": 1}), (1, None, {})], [])
    assert enriched(pipeline.enrich(messages, changes)) == {0: {"a": 1.0}, 1: {}}
    assert "Python" not in pipeline.enrich(messages, changes, ["a"])._jdf.queryExecution().toString()
