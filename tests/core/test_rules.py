"""Rules as a file declares them: what may stand in one, and what is said of what may not."""

from __future__ import annotations

from typing import Any

import pytest

from fumarole.core.payloads import DeclarationError
from fumarole.core.query.parse import parse as parse_query
from fumarole.core.rules import Rate, Rule, Silence, parse, topic_of

RIGHT = {"name": "hot", "publish": "alarms.hot.{Region}", "where": "$value > 80"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, Rule("hot", "alarms.hot.{Region}", where=parse_query("$value > 80"))),
        ({"for": "10 s"}, Rule("hot", "alarms.hot.{Region}", where=parse_query("$value > 80"), hold=10_000_000)),
        (
            {"clear": "$value < 60", "topic": "a.*"},
            Rule(
                "hot",
                "alarms.hot.{Region}",
                topic="a.*",
                where=parse_query("$value > 80"),
                clear=parse_query("$value < 60"),
            ),
        ),
        (
            {"rate": "< -0.5", "zscore": 3, "window": 20},
            Rule(
                "hot",
                "alarms.hot.{Region}",
                where=parse_query("$value > 80"),
                rate=Rate(-0.5, "<"),
                zscore=3.0,
                window=20,
            ),
        ),
    ],
    ids=["a threshold", "held", "cleared by another test", "a rate and a score"],
)
def test_a_rule(more: dict[str, Any], expected: Rule) -> None:
    assert parse([{**RIGHT, **more}]).declared == (expected,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 s", Silence(length=30_000_000)),
        ("5 x habit", Silence(factor=5.0)),
        ("5x habit", Silence(factor=5.0)),
        ("2.5 × habit", Silence(factor=2.5)),
        ("3 * habit", Silence(factor=3.0)),
    ],
)
def test_silences(text: str, expected: Silence) -> None:
    rule = parse([{"name": "silent", "publish": "alarms", "silence": text}]).declared[0]
    assert rule.silence == expected


def test_a_rollup() -> None:
    table = {"name": "m", "publish": "rollups.{Region}.{rule}", "rollup": "1 minute", "by": ["Region", "topic[2]"]}
    rules = parse([table])
    assert rules.rollups == (Rule("m", "rollups.{Region}.{rule}", rollup=60_000_000, by=("Region", "topic[2]")),)
    assert rules.alarms == ()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "rules[0]: found no name, expected a name of letters, digits, - and _"),
        ({**RIGHT, "name": "a b"}, "rules[0].name: found 'a b'"),
        ({**RIGHT, "where": "$value >"}, "rules[0].where: found the end, expected a value"),
        ({**RIGHT, "where": 5}, "rules[0].where: found a number, expected a query"),
        ({**RIGHT, "where": "not _online and Critical"}, "rules[0].where: found _online, expected other metadata"),
        ({**RIGHT, "for": "soon"}, "rules[0].for: found 'soon', expected a length of time"),
        ({**RIGHT, "publish": "alarms.*"}, "rules[0].publish: found 'alarms.*', expected a topic"),
        ({**RIGHT, "publish": "alarms..x"}, "rules[0].publish: found 'alarms..x'"),
        ({**RIGHT, "publish": "_FORGOTTEN"}, "rules[0].publish: found '_FORGOTTEN', expected a topic that does not"),
        ({**RIGHT, "topic": "a b"}, "rules[0].topic: found 'a b', expected a topic pattern"),
        ({**RIGHT, "rate": "fast"}, "rules[0].rate: found 'fast'"),
        ({**RIGHT, "zscore": -1}, "rules[0].zscore: found -1, expected a number above 0"),
        ({**RIGHT, "zscore": 3, "window": 1}, "rules[0].window: found 1, expected a whole number from 5 to 200"),
        ({**RIGHT, "window": 10}, "rules[0].window: found a rule without `zscore`"),
        ({**RIGHT, "python": "no function"}, "rules[0].python: found 'no function'"),
        ({**RIGHT, "by": ["Region"]}, "rules[0].by: found a rule without `rollup`"),
        ({**RIGHT, "limit": 0}, "rules[0].limit: found 0"),
        ({**RIGHT, "wher": "x"}, "rules[0].wher: found an unknown key"),
        ({**RIGHT, "silence": "1 s"}, "tests of metadata alone: in a silence there is no message"),
        ({"name": "s", "publish": "a", "silence": "0.5 x habit"}, "rules[0].silence: found '0.5 x habit'"),
        ({"name": "s", "publish": "a", "silence": "1 s", "clear": "a"}, "rules[0].clear: found a rule with `silence`"),
        ({"name": "s", "publish": "a", "silence": "1 s", "topic": "a"}, "rules[0].topic: found a rule with `silence`"),
        ({"name": "n", "publish": "a"}, "rules[0]: found a rule without a condition"),
        ({"name": "r", "publish": "a", "rollup": "1 m", "for": "1 s"}, "rules[0].for: found a rule with `rollup`"),
        ({"name": "r", "publish": "a.{x}", "rollup": "1 m", "by": ["y"]}, "rules[0].publish: found {x}"),
        ("hot", "rules[0]: found a text, expected a table"),
    ],
)
def test_what_is_wrong(table: Any, said: str) -> None:
    with pytest.raises(DeclarationError) as error:
        parse([table])
    assert said in str(error.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(DeclarationError) as error:
        parse([{**RIGHT, "for": "x", "rate": "y"}, RIGHT, RIGHT])
    assert [each.place for each in error.value.wrong] == [(0, "for"), (0, "rate"), (2, "name")]


def test_no_list() -> None:
    with pytest.raises(DeclarationError, match="a list of tables"):
        parse({"name": "hot"})


@pytest.mark.parametrize(
    ("metadata", "topic"),
    [
        ({"Region": "italy", "Station": "etna"}, "alarms.italy.etna"),
        ({"Region": "italy", "Station": "etna/south"}, "alarms.italy.etna%2Fsouth"),
        ({"Region": "a.b", "Station": "é >"}, "alarms.a%2Eb.%C3%A9%20%3E"),
        ({"Region": "", "Station": 4.0}, "alarms._.4"),
        ({"Station": True}, "alarms._.true"),
        ({"Region": 2.5, "Station": -1}, "alarms.2%2E5.-1"),
    ],
)
def test_topics(metadata: dict[str, Any], topic: str) -> None:
    assert topic_of("alarms.{Region}.{Station}", metadata) == topic


def test_what_a_rule_means_is_not_where_it_publishes() -> None:
    first, elsewhere, other = (
        parse([{**RIGHT, **more}]).declared[0] for more in ({}, {"publish": "x", "limit": 5}, {"for": "1 s"})
    )
    assert first.digest == elsewhere.digest != other.digest
