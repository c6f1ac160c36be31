"""What rules mean, case by case. A history is a line: seconds, value; `~` a second of the sensor's own time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fumarole.core.alarms import Alarm, Complete, Event, Forgotten, Gap, Reading, Said, Tick, alarms
from fumarole.core.rules import parse

SECOND = 1_000_000
HOT = {"where": "$value > 80"}
SILENT = {"silence": "5 s"}


def history(line: str) -> list[Event]:
    """`1:85 2:70` readings; `3~1:85` of sensor's time 1; `4!` a tick; `2-6gap`, `7forgotten`, `8complete5`."""
    events: list[Event] = []
    for word in line.split():
        if word.endswith("!"):
            events.append(Tick(int(word[:-1]) * SECOND))
        elif word.endswith("gap"):
            since, at = word.removesuffix("gap").split("-")
            events.append(Gap(int(since) * SECOND, int(at) * SECOND))
        elif word.endswith("forgotten"):
            events.append(Forgotten("p", int(word.removesuffix("forgotten")) * SECOND))
        elif "complete" in word:
            at, since = word.split("complete")
            events.append(Complete(int(since) * SECOND, int(at) * SECOND))
        elif "=" in word:
            at, said = word.split(":")
            key, value = said.split("=")
            events.append(Said("p", int(at) * SECOND, {key: value or None}))
        else:
            times, value = word.split(":")
            at, _, time = times.partition("~")
            number = None if value == "?" else float(value)
            events.append(Reading("p", int(at) * SECOND, int(time or at) * SECOND, "a", value.encode(), number))
    return events


def told(alarm: Alarm) -> str:
    since = f"{alarm.since / SECOND:g}"
    return f"+{since}" if alarm.until is None else f"-{since}..{alarm.until / SECOND:g}"


@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        (HOT, "1:85", "+1"),
        (HOT, "1:85 2:90 3:70", "+1 -1..3"),
        (HOT, "1:85 2:70 3:85", "+1 -1..2 +3"),
        (HOT, "1:85 2:?", "+1 -1..2"),
        ({**HOT, "clear": "$value < 60"}, "1:85 2:70 3:59 4:85", "+1 -1..3 +4"),
        ({**HOT, "for": "2 s"}, "1:85 2:85 3:85 4:70", "+1 -1..4"),
        ({**HOT, "for": "2 s"}, "1:85 2:70 3:85 4:85 5:85", "+3"),
        ({**HOT, "for": "2 s"}, "1:85 9:85", "+1"),
        ({**HOT, "for": "2 s"}, "1:85 2:85", ""),
        (HOT, "5:85 6~3:10", "+5"),
        (HOT, "5:85 6~3:10 7:10", "+5 -5..7"),
        ({**HOT, "for": "2 s"}, "5:85 6~3:10 7:85", "+5"),
        ({**HOT, "for": "2 s"}, "100:85 161~3:85 162~5:85", "+3"),
        (HOT, "100:85 160~3:10", "+100"),
        (HOT, "100:85 161~3:10", "+100 -100..3"),
        ({**HOT, "topic": "b"}, "1:85", ""),
        ({"where": "Kind = 'so2' AND $value > 80"}, "1:85 2:Kind=so2 3:85 4:Kind= 5:85", "+3 -3..5"),
        (HOT, "1:85 2forgotten", "+1 -1..2"),
        (HOT, "1:85 3complete2", "+1 -1..3"),
        (HOT, "1:85 3complete1", "+1"),
        (SILENT, "1:0 6!", ""),
        (SILENT, "1:0 7!", "+1"),
        (SILENT, "1:0 7! 9:0", "+1 -1..9"),
        (SILENT, "1:0 9:0", "+1 -1..9"),
        (SILENT, "1:0 4-60gap 64!", ""),
        (SILENT, "1:0 4-60gap 66!", "+1"),
        (SILENT, "1:0 9-60gap 61:0", "+1 -1..61"),
        (SILENT, "1:0 20~1:0 30~9:0", "+1 -1..20 +20 -20..30"),
        (SILENT, "1:0 7! 8forgotten 99!", "+1 -1..8"),
        ({**SILENT, "where": "Kind = 'so2'"}, "1:0 9! 10:Kind=so2 11:Kind= 12!", "+1 -1..11"),
        ({"silence": "5 x habit"}, "1:0 3:0 5:0 7:0 17!", ""),
        ({"silence": "5 x habit"}, "1:0 3:0 5:0 7:0 18!", "+7"),
        ({"silence": "5 x habit"}, "1:0 3:0 5:0 99!", ""),
        ({"silence": "5 x habit"}, "1:0 3:0 5:0 6-50gap 51:0 53:0 63! 64!", "+53"),
        ({"rate": 2}, "1:0 2:2 3:5 4:1 5:1", "+3 -3..5"),
        ({"rate": "> 2"}, "1:0 2:3 3:0", "+2 -2..3"),
        ({"rate": "< -2"}, "1:9 2:3 3:0 4:0", "+2 -2..4"),
        ({"rate": 2}, "1:0 2:? 3:9", "+3"),
        ({"zscore": 3, "window": 5}, "1:1 2:2 3:1 4:2 5:1 6:9 7:1", "+6 -6..7"),
        ({"zscore": 3, "window": 5}, "1:1 2:2 3:1 4:2 5:9", ""),
        ({"zscore": 3, "window": 5}, "1:1 2:1 3:1 4:1 5:1 6:9", ""),
    ],
)
def test_cases(rule: dict[str, Any], line: str, expected: str) -> None:
    rules = parse([{"name": "r", "publish": "alarms", **rule}])
    assert " ".join(map(told, alarms(rules, history(line)))) == expected


def test_an_alarm_says_what_was_so_when_it_was_raised() -> None:
    rules = parse([{"name": "r", "publish": "alarms", **HOT}])
    found = list(alarms(rules, [Reading("p", 5, 4, "a", b"85", 85.0, {"Kind": "so2", "Old": None})]))
    assert found == [Alarm("r", "p", "raised", 4, None, 85.0, {"Kind": "so2"})]


def test_identities() -> None:
    every = [
        Alarm(rule, producer, state, since, None, 1.0, {}, again)
        for rule in "ab"
        for producer in "pq"
        for state in ("raised", "cleared")
        for since in (1, 2)
        for again in (0, 1)
    ]
    assert len({each.identity for each in every}) == 32
    assert replace(every[0], until=3, value=None, metadata={"Kind": "gas"}).identity == every[0].identity


@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        (HOT, "1:85 1:20 1:90 1:20 2:85 2:20", [0, 0, 1, 1, 0, 0]),
        (HOT, "1:85 1:20 1:90 1:20 2:85 2:20 2:85", [0, 0, 1, 1, 0, 0, 2]),
        ({**SILENT, "where": "Kind IS NULL"}, "1:0 9! 10:Kind=so2 11:Kind= 12!", [0, 0, 1]),
    ],
)
def test_alarms_that_begin_at_the_same_time_are_counted(rule: dict[str, Any], line: str, expected: list[int]) -> None:
    rules = parse([{"name": "r", "publish": "alarms", **rule}])
    assert [alarm.again for alarm in alarms(rules, history(line))] == expected
