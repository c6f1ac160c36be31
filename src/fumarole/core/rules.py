"""Rules for live data, as a file declares them: what raises an alarm, what ends it, and what is published (P13).

    [[rules]]
    name = "so2-high"
    where = "Kind = 'so2' and $value > 80"      # metadata and message (F6)
    for = "10 s"                                # held that long, by the sensor's time
    clear = "$value < 60"                       # without it: `where` is not true
    publish = "alarms.so2.{Region}.{Station}"   # words from metadata

    [[rules]]
    name = "silent"
    where = "Critical = true"
    silence = "5 x habit"                       # or "30 s"
    publish = "alarms.silent.{Region}"

    [[rules]]
    name = "per-minute"
    by = ["Region", "Kind"]
    rollup = "1 minute"
    publish = "rollups.{Region}.{Kind}"

This module is what may be declared. `core.alarms` is what it means.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fumarole.core.errors import PatternError
from fumarole.core.payloads import DeclarationError, Wrong, pattern_of, span
from fumarole.core.query.errors import QueryError
from fumarole.core.query.parse import parse as parse_query
from fumarole.core.query.tree import Query, fields, keys, show
from fumarole.core.values import ONLINE

LATENESS: Final = 60_000_000
"""Microseconds after which readings of a sensor whose clock went back count again: see `core.alarms`."""
LEAST_SILENCE: Final = 1_000_000
"""No silence is shorter, however short a producer's habit is."""
HABIT_PAUSES: Final = 31
"""The last pauses of a producer, whose median is its habit."""
LEAST_PAUSES: Final = 3
"""The least number of pauses for a habit."""
WINDOW: Final = 30
"""Readings with which `zscore` compares a value, by default."""
LEAST_WINDOW: Final = 5
MOST_WINDOW: Final = 200
LIMIT: Final = 1_000
"""Alarms that a rule raises in a second, by default."""
MOST_RULES: Final = 100

_KEYS: Final = (
    *("name", "topic", "where", "for", "clear", "silence", "rate", "zscore", "window", "python", "by", "rollup"),
    *("publish", "limit"),
)
_NAME: Final = re.compile(r"[-_A-Za-z0-9]{1,63}")
_SILENCE: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(?:x|×|\*)\s*habit")
_RATE: Final = re.compile(r"(>|<)\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_PLACE: Final = re.compile(r"\{([^{}]+)\}")
_OWN_TOPICS: Final = ("_", "$")
RULE_NAMES: Final = frozenset({"rule", "producer", "topic"})
"""Names in `publish` that are not metadata keys."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The length of a silence: so many microseconds, or so many times the producer's habit."""

    length: int | None = None
    factor: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """A change per second beyond a bound: above it, below it, or (with no direction) of more than it either way."""

    bound: float
    direction: str = ""

    def holds(self, change: float) -> bool:
        if self.direction == ">":
            return change > self.bound
        return change < self.bound if self.direction == "<" else abs(change) > self.bound


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Times are microseconds."""

    name: str
    publish: str
    topic: str | None = None
    """Only messages that this pattern matches are looked at."""
    where: Query | None = None
    hold: int = 0
    clear: Query | None = None
    silence: Silence | None = None
    rate: Rate | None = None
    zscore: float | None = None
    window: int = WINDOW
    python: str | None = None
    rollup: int | None = None
    by: tuple[str, ...] = ()
    limit: int = LIMIT

    digest: str = field(init=False, compare=False, repr=False)
    """A digest of the rule's meaning, without name and topic. When it changes, the state of the rule is void."""

    def __post_init__(self) -> None:
        meaning: dict[str, Any] = {
            name: getattr(self, name) for name in ("topic", "hold", "zscore", "python", "rollup")
        }
        meaning |= {"where": self.where and show(self.where), "clear": self.clear and show(self.clear)}
        meaning |= {"silence": self.silence and [self.silence.length, self.silence.factor]}
        meaning |= {"rate": self.rate and [self.rate.bound, self.rate.direction]}
        meaning |= {"window": self.window if self.zscore is not None else None, "by": list(self.by)}
        digest = hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]
        object.__setattr__(self, "digest", digest)


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules, in order."""

    declared: tuple[Rule, ...] = ()

    @property
    def alarms(self) -> tuple[Rule, ...]:
        """The rules that raise and clear alarms."""
        return tuple(rule for rule in self.declared if rule.rollup is None)

    @property
    def rollups(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.declared if rule.rollup is not None)


def parse(tables: object) -> Rules:
    """Rules as TOML gives them, a list of tables. Raises DeclarationError with all that is wrong."""
    wrong: list[Wrong] = []
    if not isinstance(tables, list):
        raise DeclarationError([Wrong((), _kind(tables), "a list of tables: [[rules]]")], "rules")
    found = [_Reader(number, wrong).rule(table) for number, table in enumerate(tables)]
    names: dict[str, int] = {}
    for number, rule in enumerate(found):
        if rule is not None and names.setdefault(rule.name, number) != number:
            wrong.append(Wrong((number, "name"), repr(rule.name), f"another name: rules[{names[rule.name]}] has it"))
    if len(tables) > MOST_RULES:
        wrong.append(Wrong((MOST_RULES,), f"{len(tables)} rules", f"at most {MOST_RULES}"))
    if wrong:
        raise DeclarationError(wrong, "rules")
    return Rules(tuple(rule for rule in found if rule is not None))


class _Reader:
    """Reads one table. Mistakes go into the list, and there is no rule then."""

    def __init__(self, number: int, wrong: list[Wrong]) -> None:
        self._number = number
        self._wrong = wrong
        self._before = len(wrong)

    def add(self, key: str | tuple[str | int, ...], found: str, expected: str) -> None:
        place = (key,) if isinstance(key, str) else key
        self._wrong.append(Wrong((self._number, *place), found, expected))

    def rule(self, table: object) -> Rule | None:
        if not isinstance(table, Mapping):
            self.add((), _kind(table), "a table")
            return None
        for key in table:
            if key not in _KEYS:
                self.add(key, "an unknown key", f"one of {', '.join(_KEYS)}")
        made = Rule(
            name=self._text(table, "name", _NAME, "a name of letters, digits, - and _") or "",
            publish=self._publish(table),
            topic=self._topic(table),
            where=self._query(table, "where"),
            hold=self._span(table, "for") or 0,
            clear=self._query(table, "clear"),
            silence=self._silence(table.get("silence")),
            rate=self._rate(table.get("rate")),
            zscore=self._number_above(table, "zscore"),
            window=self._count(table, "window", LEAST_WINDOW, MOST_WINDOW, WINDOW),
            python=self._python(table),
            rollup=self._span(table, "rollup"),
            by=self._by(table),
            limit=self._count(table, "limit", 1, 1_000_000, LIMIT),
        )
        if len(self._wrong) == self._before:
            self._fits(table, made)
        return made if len(self._wrong) == self._before else None

    def _fits(self, table: Mapping[str, Any], rule: Rule) -> None:
        """Checks for keys that exclude each other, and for missing keys."""
        if rule.rollup is not None:
            self._excluded(table, "rollup", ("for", "clear", "silence", "rate", "zscore", "python", "limit"))
            self._rollup_fits(rule)
            return
        if rule.by:
            self.add("by", "a rule without `rollup`", "`by` only with `rollup`: an alarm is of one producer")
        if rule.zscore is None and "window" in table:
            self.add("window", "a rule without `zscore`", "`window` only with `zscore`")
        if rule.silence is not None:
            self._excluded(table, "silence", ("topic", "for", "clear", "rate", "zscore", "python"))
            if rule.where is not None and fields(rule.where):
                self.add("where", f"{show(rule.where)!r}", "tests of metadata alone: in a silence there is no message")
        elif not (rule.where or rule.rate or rule.zscore or rule.python):
            self.add((), "a rule without a condition", "one of where, silence, rate, zscore, python, rollup")

    def _excluded(self, table: Mapping[str, Any], kind: str, others: Iterable[str]) -> None:
        for key in others:
            if key in table:
                self.add(key, f"a rule with `{kind}`", f"no `{key}` beside it")

    def _rollup_fits(self, rule: Rule) -> None:
        for place in _PLACE.findall(rule.publish):
            if place not in rule.by and place != "rule":
                self.add(
                    "publish", f"{{{place}}}", f"{{rule}} or a name of `by`: {', '.join(rule.by) or 'there is none'}"
                )

    def _text(self, table: Mapping[str, Any], key: str, form: re.Pattern[str], expected: str) -> str | None:
        found = table.get(key)
        if isinstance(found, str) and form.fullmatch(found):
            return found
        self.add(key if key in table else (), _found(found, key), expected)
        return None

    def _publish(self, table: Mapping[str, Any]) -> str:
        found = table.get("publish")
        plain = _PLACE.sub("x", found) if isinstance(found, str) else ""
        if not re.fullmatch(r"[-_A-Za-z0-9.]+", plain) or "" in plain.split("."):
            self.add("publish" if "publish" in table else (), _found(found, "publish"), _PUBLISH)
        elif plain.startswith(_OWN_TOPICS):
            self.add("publish", repr(found), "a topic that does not begin with _: these are the server's own")
        return str(found)

    def _topic(self, table: Mapping[str, Any]) -> str | None:
        found = table.get("topic")
        if found is None:
            return None
        try:
            pattern_of(found if isinstance(found, str) else " ")
        except PatternError as error:
            self.add("topic", _found(found, "topic"), f"a topic pattern ({error})")
        return str(found)

    def _query(self, table: Mapping[str, Any], key: str) -> Query | None:
        found = table.get(key)
        if found is None:
            return None
        if not isinstance(found, str):
            self.add(key, _kind(found), "a query")
            return None
        try:
            query = parse_query(found)
        except QueryError as error:
            self.add(key, error.found, f"{error.expected}, at position {error.position}")
            return None
        if ONLINE in keys(query):
            self.add(key, ONLINE, f"other metadata: an archive has no {ONLINE}; `silence` finds producers that stop")
        return query

    def _span(self, table: Mapping[str, Any], key: str) -> int | None:
        found = table.get(key)
        if found is None:
            return None
        length = span(found)
        if length is None or length <= 0:
            self.add(key, _found(found, key), "a length of time, such as 10 s or 1 minute")
        return length

    def _silence(self, said: object) -> Silence | None:
        if said is None:
            return None
        times = _SILENCE.fullmatch(said.strip()) if isinstance(said, str) else None
        if times is not None and float(times[1]) >= 1:
            return Silence(factor=float(times[1]))
        length = span(said)
        if times is not None or length is None or length <= 0:
            self.add("silence", _found(said, "silence"), 'a length of time such as "30 s", or "5 x habit" (1 or more)')
            return None
        return Silence(length=length)

    def _rate(self, said: object) -> Rate | None:
        if said is None:
            return None
        if isinstance(said, int | float) and not isinstance(said, bool) and 0 <= said < math.inf:
            return Rate(float(said))
        test = _RATE.fullmatch(said.strip()) if isinstance(said, str) else None
        if test is None:
            self.add("rate", _found(said, "rate"), 'a change per second: 0.5 (either way), "> 0.5" or "< -0.5"')
            return None
        return Rate(float(test[2]), test[1])

    def _number_above(self, table: Mapping[str, Any], key: str) -> float | None:
        found = table.get(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
            self.add(key, _found(found, key), "a number above 0")
            return None
        return float(found)

    def _count(self, table: Mapping[str, Any], key: str, least: int, most: int, default: int) -> int:
        found = table.get(key, default)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            self.add(key, _found(found, key), f"a whole number from {least} to {most:,}")
            return default
        return found

    def _python(self, table: Mapping[str, Any]) -> str | None:
        if "python" not in table:
            return None
        return self._text(table, "python", _FUNCTION, 'a function, such as "mine.rules:is_odd"')

    def _by(self, table: Mapping[str, Any]) -> tuple[str, ...]:
        found = table.get("by", [])
        if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
            self.add("by", _found(found, "by"), "a list of metadata keys, topic, producer or topic[2]")
            return ()
        if len({each.lower() for each in found}) < len(found):
            self.add("by", ", ".join(found), "each name once")
        return tuple(found)


_PUBLISH: Final = "a topic with metadata keys in braces, such as alarms.{Region}"


def topic_of(template: str, given: Mapping[str, object]) -> str:
    """The topic that a rule publishes on: `alarms.{Region}` with a value of metadata in each place.

    What a topic cannot have is written as `%XX`, also a dot, so that each place is one word (T1); of a key that is not
    there, and of an empty text, the word is `_`.
    """
    return _PLACE.sub(lambda place: _word(given.get(place[1])), template)


def _word(value: object) -> str:
    if value is None or value == "":
        return "_"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)
    return "".join(
        sign if re.fullmatch("[-_A-Za-z0-9]", sign) else "".join(f"%{byte:02X}" for byte in sign.encode())
        for sign in text
    )


def _found(value: object, key: str) -> str:
    if value is None:
        return f"no {key}"
    return repr(value) if isinstance(value, str | int | float) and len(str(value)) <= 60 else _kind(value)


def _kind(value: object) -> str:
    for kind, name in ((Mapping, "a table"), (list, "a list"), (str, "a text"), (bool, "true or false")):
        if isinstance(value, kind):
            return name
    return "a number" if isinstance(value, int | float) else "something else"
