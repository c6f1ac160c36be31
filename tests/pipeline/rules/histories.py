"""Histories of a few producers, as events for the definition and as rows for a shard."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from fumarole.core.alarms import Alarm, Complete, Event, Forgotten, Gap, Reading, Said, Tick
from fumarole.core.payloads import pattern_of
from fumarole.core.publication import Publication
from fumarole.core.query.holds import holds
from fumarole.core.query.message import Message
from fumarole.core.rules import Rules, parse
from fumarole.core.topic import fits, split
from fumarole.pipeline.rows import typed
from fumarole.pipeline.rules import rows as kinds
from fumarole.pipeline.rules.rows import Rows
from fumarole.pipeline.rules.truths import TESTS_IN_A_WORD, Truths

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
PRODUCERS = ("anna", "bert", "cleo")
CONDITIONS: list[dict[str, Any]] = [
    {"where": "$value > 5"},
    {"where": "Kind = 'gas' AND $value > 5"},
    {"where": "Kind = 'gas' OR $value > 7", "topic": "a.*"},
    {"where": "NOT (Kind = 'gas' AND $value <= 5)"},
    {"where": "$topic = 'a.b' AND Level >= 2"},
    {"rate": 1},
    {"rate": "> 0.5", "where": "Kind = 'gas'"},
    {"rate": "< -0.5", "topic": "a.b"},
    {"zscore": 1.5, "window": 5},
    {"zscore": 2, "window": 8, "where": "Level = 1"},
]
ENDS: list[dict[str, Any]] = [{}, {"clear": "$value < 3"}, {"clear": "Kind = 'heat' OR $value < 2"}]
HOLDS: list[dict[str, Any]] = [{}, {"for": "2 s"}, {"for": "7 s"}]
SILENCES: list[dict[str, Any]] = [
    {"silence": "4 s"},
    {"silence": "10 s", "where": "Kind = 'gas'"},
    {"silence": "3 x habit"},
    {"silence": "2 x habit", "where": "Level IS NOT NULL"},
]

conditions = st.builds(
    lambda condition, end, hold: {**condition, **end, **hold},
    *(st.sampled_from(CONDITIONS), st.sampled_from(ENDS), st.sampled_from(HOLDS)),
)
rule_lists = st.lists(st.one_of(conditions, st.sampled_from(SILENCES)), min_size=1, max_size=4)


def rules_of(tables: Sequence[dict[str, Any]]) -> Rules:
    named = [{"name": f"rule-{number}", "publish": "alarms.x", **table} for number, table in enumerate(tables)]
    return parse(named)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """What is heard of them: mostly readings, in steps of a second or many, late ones and clocks that go back."""
    at, ahead = BEGIN, 0
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 40))):
        begun = at
        at += draw(st.sampled_from([0, 1, 1, 2, 3, 12, 70])) * SECOND
        producer = draw(st.sampled_from(PRODUCERS))
        news = draw(_NEWS)
        match draw(st.integers(0, 19)):
            case 0:
                events.append(Said(producer, at, news, draw(st.booleans())))
            case 1:
                events.append(Forgotten(producer, at))
            case 2 | 3:
                events.append(Tick(at))
            case 4:
                events.append(Gap(begun, at))
            case 5:
                since = at - draw(st.integers(0, 9)) * SECOND
                events.append(Complete(since, at))
            case _:
                ahead = draw(st.sampled_from([ahead, ahead, ahead, ahead, -5, 30, -500])) if draw(_RARELY) else ahead
                late = draw(st.sampled_from([0, 0, 0, 0, 3, 61])) * SECOND
                value = draw(_VALUES)
                payload = b"?" if value is None else str(value).encode()
                topic = draw(st.sampled_from(["a.b", "a.b", "a.b", "c"]))
                events.append(
                    Reading(
                        producer, at, at + ahead * SECOND - late, topic, payload, value, news if draw(_RARELY) else {}
                    )
                )
    return [*events, Tick(at + draw(st.sampled_from([0, 6, 100])) * SECOND)]


_RARELY = st.sampled_from([False, False, False, True])
_VALUES = st.one_of(st.integers(0, 9).map(float), st.sampled_from([None, 40.0, -3.0]))
_NEWS = st.dictionaries(
    st.sampled_from(["Kind", "Level"]), st.sampled_from(["gas", "heat", 1, 2, None]), min_size=1, max_size=2
)


def rows_of(rules: Rules, events: Iterable[Event], first: int = 0) -> Rows:
    """As Spark gives them to a shard."""
    truths = Truths(rules.declared)
    made = []
    for place, event in enumerate(events, first):
        row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"place": place, "at": event.at, "time": event.at}
        row |= {f"test{word}": 0 for word in range(truths.message_words)}
        match event:
            case Reading(producer, _, time, topic, payload, value, news):
                row |= {"kind": kinds.READING, "producer": producer, "time": time, "value": value}
                row |= {"news": _json(news) if news else None, "topic": topic, "payload": payload}
                row |= _packed(truths, event)
            case Said(producer, _, news, anew):
                row |= {"kind": kinds.SAID, "producer": producer, "news": _json(news, anew)}
            case Forgotten(producer):
                row |= {"kind": kinds.FORGOTTEN, "producer": producer}
            case Tick():
                row |= {"kind": kinds.TICK}
            case Gap(since):
                row |= {"kind": kinds.GAP, "time": since}
            case Complete(since):
                row |= {"kind": kinds.COMPLETE, "time": since}
        made.append(row)
    words = [pa.field(f"test{word}", pa.int64()) for word in range(truths.message_words)]
    return Rows.of(pa.Table.from_pylist(made, pa.schema([*_FIELDS, *words])), truths.message_words)


_FIELDS = [
    *[pa.field(name, pa.int64()) for name in ("kind", "at", "time", "place")],
    *[pa.field(name, pa.string()) for name in ("producer", "news", "topic")],
    pa.field("value", pa.float64()),
    pa.field("payload", pa.binary()),
]
_COLUMNS = [field.name for field in _FIELDS]


def _json(news: Any, anew: bool = False) -> str:
    first = [{"key": "", "kind": "anew"}] if anew else []
    return json.dumps([*first, *typed(news)])


def _packed(truths: Truths, reading: Reading) -> dict[str, int]:
    said = SimpleNamespace(producer=reading.producer, value=reading.value)
    message = Message(Publication(reading.topic, reading.payload, reading=said), {})
    answers = [fits(pattern_of(pattern), split(reading.topic)) for pattern in truths.topics]
    answers += [holds(test, message) for test in truths.of_message]  # type: ignore[misc]
    words = dict.fromkeys([f"test{word}" for word in range(truths.message_words)], 0)
    for number, answer in enumerate(answers):
        code = {None: 0, False: 1, True: 2}[answer]
        words[f"test{number // TESTS_IN_A_WORD}"] |= code << (2 * (number % TESTS_IN_A_WORD))
    return words


def by_case(alarms: Iterable[Alarm]) -> dict[tuple[str, str], list[Alarm]]:
    """The alarms of each rule and producer, in order."""
    found: dict[tuple[str, str], list[Alarm]] = {}
    for alarm in alarms:
        found.setdefault((alarm.rule, alarm.producer), []).append(alarm)
    return found
