"""A shard gives what the definition gives, in whatever batches the rows come (P13)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.alarms import Alarm, Complete, Event, Forgotten, alarms
from fumarole.pipeline.rules.shard import Shard
from tests.pipeline.rules.histories import by_case, histories, rows_of, rule_lists, rules_of


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
