"""A shard gives what the definition gives, in whatever batches the rows come (P13)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.alarms import Alarm, Complete, Event, Forgotten, Reading, Tick, alarms
from fumarole.core.rules import parse
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.rules.rows import Rows
from fumarole.pipeline.rules.shard import Shard
from fumarole.pipeline.rules.silences import Silences
from tests.pipeline.rules.histories import BEGIN, SECOND, by_case, histories, rows_of, rule_lists, rules_of


@given(rule_lists, histories(), st.lists(st.integers(1, 12), max_size=6))
def test_a_shard_is_the_definition(tables: list[dict[str, Any]], events: list[Event], lengths: list[int]) -> None:
    rules = rules_of(tables)
    assert by_case(in_batches(rules, events, lengths)) == by_case(alarms(rules, events))


@given(rule_lists, histories())
def test_no_two_alarms_have_the_same_identity(tables: list[dict[str, Any]], events: list[Event]) -> None:
    never_forgotten = [event for event in events if not isinstance(event, Forgotten | Complete)]
    every = [alarm.identity for alarm in alarms(rules_of(tables), never_forgotten)]
    assert len(set(every)) == len(every)


def in_batches(rules: Any, events: list[Event], lengths: list[int]) -> list[Alarm]:
    """In batches of these lengths, the last one of all that is left; each begins with the state as bytes."""
    found: list[Alarm] = []
    data, begin = None, 0
    for length in [*lengths, len(events)]:
        shard = Shard(rules, data=data)
        found += shard.take(rows_of(rules, events[begin : begin + length], begin))
        data, begin = shard.as_bytes(), begin + length
    return found


def readings(rule: dict[str, Any], count: int, again: int = 1, value: float = 9.0) -> tuple[Any, list[Reading]]:
    """So many producers in one second; a reading each, `again` and again."""
    rules = rules_of([rule])
    return rules, [
        Reading(f"p{number:06}", BEGIN + number, BEGIN + turn, "a.b", b"9", value)
        for turn in range(again)
        for number in range(count)
    ]


def test_a_rule_that_matches_everything() -> None:
    """P13: what is over its limit is not published, is counted, and is not said to be open; nor is that it ends."""
    rules, events = readings({"where": "$value > 5", "limit": 10}, 5_000)
    shard = Shard(rules, shards=2)
    assert len(shard.take(rows_of(rules, events))) == 5, "its part of the limit"
    assert (shard.counts().muted, shard.counts().open) == (4_995, [5])
    shard = Shard(rules, 2, shard.as_bytes())
    ends = [Reading(each.producer, BEGIN + 10 * SECOND, BEGIN + 10 * SECOND, "a.b", b"1", 1.0) for each in events[:100]]
    assert [each.state for each in shard.take(rows_of(rules, ends, 5_000))] == ["cleared"] * 5
    later = [Reading(each.producer, BEGIN + 20 * SECOND, BEGIN + 20 * SECOND, "a.b", b"9", 9.0) for each in events[:3]]
    assert len(shard.take(rows_of(rules, later, 6_000))) == 3, "in another second it is not over"


def test_a_hundred_thousand_producers() -> None:
    """They are held, in a state of a bounded size for each, and are gone when the broker has forgotten them (P13)."""
    rules, events = readings({"silence": "5 x habit"}, 100_000)
    shard = Shard(rules)
    assert shard.take(rows_of(rules, events)) == []
    size = len(shard.as_bytes())
    assert shard.counts().producers == 100_000
    assert size < 100_000 * 600, size
    shard = Shard(rules, data=shard.as_bytes())
    shard.take(rows_of(rules, [Complete(BEGIN + 60 * SECOND, BEGIN + 61 * SECOND)], len(events)))
    assert shard.counts().producers == 0
    assert len(shard.as_bytes()) < 10_000


def test_rows_of_no_producer_are_of_none() -> None:
    """A shard that is told nothing but the time has pandas' idea of a column in which all is null."""
    rules = rules_of([{"silence": "5 s"}])
    rows = rows_of(rules, [Tick(BEGIN)])
    columns = {name: pa.array([0]) for name in ("kind", "at", "time", "place", "value")}
    table = pa.table({**columns, "producer": pa.nulls(1), "news": pa.nulls(1), "kind": pa.array(rows.kind)})
    shard = Shard(rules)
    shard.take(Rows.of(table, shard.words))
    assert shard.counts().producers == 0


def test_a_function_of_python() -> None:
    """It is asked about the readings for which the rest holds, and says which of them count."""
    rules = parse(
        [{"name": "odd", "publish": "a", "where": "$value > 2", "python": f"{__name__}:is_odd", "for": "1 s"}]
    )
    values = [(0, 3.0), (1, 5.0), (2, 4.0), (3, 1.0), (4, 7.0)]
    events: list[Event] = [
        Reading("p", BEGIN + at * SECOND, BEGIN + at * SECOND, "a.b", b"", value, {"Kind": "gas"} if at == 1 else {})
        for at, value in values
    ]
    asked.clear()
    found = in_batches(rules, events, [2, 2])
    assert [(each.state, (each.since - BEGIN) // SECOND, each.value) for each in found] == [
        ("raised", 0, 5.0),
        ("cleared", 0, 4.0),
    ]
    assert asked == [[(3.0, {}), (5.0, {"Kind": "gas"})], [(4.0, {"Kind": "gas"})], [(7.0, {"Kind": "gas"})]]


asked: list[list[tuple[float, dict[str, Any]]]] = []


def is_odd(readings: pa.Table) -> Any:
    assert readings.column_names == ["producer", "time", "value", "topic", "payload", "metadata"]
    metadata = [json.loads(text) for text in readings["metadata"].to_pylist()]
    asked.append(list(zip(readings["value"].to_pylist(), metadata, strict=True)))
    return pc.equal(pc.bit_wise_and(readings["value"].cast(pa.int64()), 1), 1)


@pytest.mark.parametrize(
    ("said", "reason"),
    [("nowhere:at_all", "No module named 'nowhere'"), (f"{__name__}:nothing", "has no attribute 'nothing'")],
)
def test_a_function_that_is_not_there(said: str, reason: str) -> None:
    rules, events = readings({"python": said}, 1)
    with pytest.raises(PipelineError, match=reason):
        Shard(rules).take(rows_of(rules, events))


def test_a_function_with_too_few_answers() -> None:
    rules, events = readings({"python": "builtins:bool"}, 3)
    with pytest.raises(PipelineError, match="3 readings were given"):
        Shard(rules).take(rows_of(rules, events))


def test_of_producers_for_which_nothing_changes_none_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are silent for long by habit, and where each reading says again what the one before has said."""
    looked_at: list[int] = []
    one_by_one = Silences._one_by_one

    def counted(self: Silences, state: Any, wave: Any, answers: Any, begin: int, end: int) -> Any:
        looked_at.append(begin)
        return one_by_one(self, state, wave, answers, begin, end)

    rules = rules_of([{"silence": "3 x habit"}, {"silence": "7 s", "where": "Kind = 'gas'"}])
    events: list[Event] = [
        Reading(f"p{number}", BEGIN + at * SECOND, BEGIN + at * SECOND, "a.b", b"9", 9.0, {"Kind": "heat"})
        for at in range(0, 200, 10)
        for number in range(20)
    ]
    events.insert(len(events) // 2, Tick(BEGIN + 100 * SECOND))
    shard = Shard(rules)
    assert shard.take(rows_of(rules, events[:100])) == []
    monkeypatch.setattr(Silences, "_one_by_one", counted)
    shard = Shard(rules, data=shard.as_bytes())
    assert shard.take(rows_of(rules, events[100:], 100)) == []
    assert looked_at == []
    late = Reading("p3", BEGIN + 230 * SECOND, BEGIN + 230 * SECOND, "a.b", b"9", 9.0)
    assert [each.state for each in shard.take(rows_of(rules, [late], 500))] == ["raised", "cleared"]
    assert len(looked_at) == 1


def test_habits_of_an_older_state() -> None:
    """It has pauses, and not their median."""
    rules = rules_of([{"silence": "3 x habit"}])
    events: list[Event] = [Reading("p", BEGIN + at * SECOND, BEGIN, "a", b"9", 9.0) for at in (0, 2, 5, 7, 9)]
    shard = Shard(rules)
    shard.take(rows_of(rules, events))
    del shard.state.columns["habit"]
    older = Shard(rules, data=shard.as_bytes())
    assert older.take(rows_of(rules, [Tick(BEGIN + 15 * SECOND)], 5)) == []
    assert len(older.take(rows_of(rules, [Tick(BEGIN + 16 * SECOND)], 6))) == 1
