"""The definition of what rules mean (P13): slow, small, and meant to be read. The live job is held equal to it.

Events come in the order in which they were heard. Each has two times: `at`, when it was heard, and of a reading also
`time`, the sensor's own where that is given and believed (P7). Metadata is what was said up to that place in the order,
a reading's own news included (M5).

Conditions go by the sensor's time. The condition of a rule is: `where` is true, and what else the rule asks for.

    idle      a reading for which the condition is true: pending, and `since` is its time
    pending   a reading for which it is not true: idle; one that is at least `for` after `since`: raised, at once where
              there is no `for`
    raised    a reading for which `clear` is true (without `clear`: the condition is not true): cleared, then idle

A reading that is older than the newest of its producer is late, and changes no condition. When readings of a producer
have been nothing but late for LATENESS its clock went back: then the next reading counts, and nothing is pending.

Silences go by when readings are heard, late or not. One begins with the last reading heard; it is raised when more than
the length has passed and `where` is true, and cleared by the next reading, or when `where` is not true any more. The
time in which nothing was listened to does not count: the length is counted from when listening went on. A habit is the
median of the last HABIT_PAUSES pauses between readings that were not heard at the same moment, without those in which
nothing was listened to; with fewer than LEAST_PAUSES of them there is none, and no silence.

A producer that is forgotten ends all of its alarms.

An alarm has an identity, by which a repeat is told. An alarm may begin no later than one before it of the same rule and
producer: their readings came together, metadata ended a silence, or a clock went back. Such alarms are counted, and the
number is a part of the identity.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from types import SimpleNamespace
from typing import Final

from fumarole.core.payloads import pattern_of
from fumarole.core.publication import Publication
from fumarole.core.query.holds import holds
from fumarole.core.query.message import Message
from fumarole.core.query.tree import Value
from fumarole.core.rules import HABIT_PAUSES, LATENESS, LEAST_PAUSES, LEAST_SILENCE, Rule, Rules
from fumarole.core.topic import fits, split

RAISED: Final = "raised"
CLEARED: Final = "cleared"


@dataclass(frozen=True, slots=True)
class Reading:
    """A message of a producer. Times are microseconds since 1970."""

    producer: str
    at: int
    time: int
    topic: str = ""
    payload: bytes = b""
    value: float | None = None
    news: Mapping[str, Value | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """News of a producer without a reading. Anew: this is all, and what was said before holds no longer."""

    producer: str
    at: int
    news: Mapping[str, Value | None]
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The broker has forgotten a producer."""

    producer: str
    at: int


@dataclass(frozen=True, slots=True)
class Tick:
    """All that was heard up to this moment has come."""

    at: int


@dataclass(frozen=True, slots=True)
class Gap:
    """From `since` on nothing was listened to, and again from `at` on."""

    since: int
    at: int


@dataclass(frozen=True, slots=True)
class Complete:
    """Of all producers that the broker knows something was heard since then: it has forgotten all others."""

    since: int
    at: int


Event = Reading | Said | Forgotten | Tick | Gap | Complete


@dataclass(frozen=True, slots=True)
class Alarm:
    """That something begins or ends. `since` is alike in both."""

    rule: str
    producer: str
    state: str
    since: int
    until: int | None
    value: float | None
    metadata: Mapping[str, Value]
    again: int = 0
    """Not 0 where it began no later than one before it of the same rule and producer: no two have the same number."""

    @property
    def identity(self) -> str:
        """By which a repeat is told: the header `Fumarole-Alarm`."""
        again = f"\n{self.again}" if self.again else ""
        said = f"{self.rule}\n{self.producer}\n{self.since}\n{self.state}{again}"
        return hashlib.sha256(said.encode()).hexdigest()[:32]


@dataclass(slots=True)
class _Case:
    """How it stands between a rule and a producer."""

    since: int | None = None
    raised: bool = False
    last: tuple[int, float] | None = None
    """Time and value of the last reading, for its rate."""
    window: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Told:
    """What was raised by a rule for a producer."""

    latest: int | None = None
    """The latest `since`."""
    repeats: int = 0
    """How many began no later than one before."""
    again: int = 0
    """Of the last one."""


@dataclass(slots=True)
class _Producer:
    metadata: dict[str, Value] = field(default_factory=dict)
    newest: int | None = None
    newest_at: int = 0
    mentioned: int = 0
    heard: int | None = None
    value: float | None = None
    pauses: list[int] = field(default_factory=list)
    cases: dict[str, _Case] = field(default_factory=dict)
    told: dict[str, _Told] = field(default_factory=dict)
    """By rule."""


def alarms(rules: Rules, events: Iterable[Event]) -> Iterator[Alarm]:
    """What is raised and cleared, in order. The definition, but for `limit` and `python`."""
    known: dict[str, _Producer] = {}
    listening = 0
    for event in events:
        match event:
            case Tick(at):
                for name, producer in known.items():
                    yield from _silences(rules, name, producer, listening, at)
            case Gap(since, at):
                for name, producer in known.items():
                    yield from _silences(rules, name, producer, listening, since)
                listening = max(listening, at)
            case Complete(since, at):
                for name in [name for name, producer in known.items() if producer.mentioned < since]:
                    yield from _told(rules, Forgotten(name, at), known.pop(name), listening)
            case _:
                producer = known.setdefault(event.producer, _Producer())
                producer.mentioned = event.at
                yield from _silences(rules, event.producer, producer, listening, event.at)
                yield from _told(rules, event, producer, listening)
                if isinstance(event, Forgotten):
                    del known[event.producer]


def _told(rules: Rules, event: Reading | Said | Forgotten, producer: _Producer, listening: int) -> Iterator[Alarm]:
    match event:
        case Forgotten(name, at):
            for rule in rules.alarms:
                if (case := producer.cases.get(rule.name)) is not None and case.raised:
                    yield _cleared(rule, name, producer, case, at, producer.value)
        case Said(name, at, news, anew):
            producer.metadata = _merged({} if anew else producer.metadata, news)
            for rule in _silent(rules, producer):
                if rule.where is not None and holds(rule.where, producer.metadata) is not True:
                    yield _cleared(rule, name, producer, producer.cases[rule.name], at, producer.value)
            yield from _silences(rules, name, producer, listening, at)
        case Reading():
            producer.metadata = _merged(producer.metadata, event.news)
            for rule in _silent(rules, producer):
                yield _cleared(rule, event.producer, producer, producer.cases[rule.name], event.at, event.value)
            _hear(event, producer, listening)
            if _is_on_time(event, producer):
                for rule in rules.alarms:
                    if rule.silence is None and _is_asked(rule, event):
                        yield from _judged(rule, event, producer)


def _merged(metadata: Mapping[str, Value], news: Mapping[str, Value | None]) -> dict[str, Value]:
    return {key: value for key, value in {**metadata, **news}.items() if value is not None}


def _is_asked(rule: Rule, reading: Reading) -> bool:
    return rule.topic is None or fits(pattern_of(rule.topic), split(reading.topic))


# Conditions.


def _is_on_time(reading: Reading, producer: _Producer) -> bool:
    if producer.newest is not None and reading.time < producer.newest:
        if reading.at - producer.newest_at <= LATENESS:
            return False
        for case in producer.cases.values():  # its clock went back
            case.since = case.since if case.raised else None
            case.last = None
    producer.newest, producer.newest_at = reading.time, reading.at
    return True


def _judged(rule: Rule, reading: Reading, producer: _Producer) -> Iterator[Alarm]:
    case = producer.cases.setdefault(rule.name, _Case())
    message = Message(_publication(reading), producer.metadata)
    true = _condition(rule, reading, message, case)
    ends = holds(rule.clear, message) is True if rule.clear is not None else not true
    if case.raised:
        if ends:
            yield _cleared(rule, reading.producer, producer, case, reading.time, reading.value)
    elif not true:
        case.since = None
    else:
        case.since = reading.time if case.since is None else case.since
        if reading.time - case.since >= rule.hold:
            case.raised = True
            yield _raised(rule, reading.producer, producer, case.since, reading.value)


def _condition(rule: Rule, reading: Reading, message: Message, case: _Case) -> bool:
    true = rule.where is None or holds(rule.where, message) is True
    value = reading.value
    if value is None or not math.isfinite(value):
        return true and rule.rate is None and rule.zscore is None
    if rule.rate is not None:
        change = None
        if case.last is not None and reading.time > case.last[0]:
            change = (value - case.last[1]) / ((reading.time - case.last[0]) / 1e6)
        case.last = (reading.time, value)
        true = true and change is not None and rule.rate.holds(change)
    if rule.zscore is not None:
        true = _is_far(rule.zscore, case.window, value) and true
        case.window = [*case.window, value][-rule.window :]
    return true


def _is_far(bound: float, window: list[float], value: float) -> bool:
    """Further from the mean of the window than so many of its standard deviations. Not said of fewer than 5 values,
    nor of values that are all the same.

    Multiplied out, and from the last value on: sums of small numbers are exact in any order.
    """
    if len(window) < 5:
        return False
    count, origin = len(window), window[-1]
    total = sum(each - origin for each in window)
    squares = sum((each - origin) ** 2 for each in window)
    spread = count * squares - total * total
    return spread > 0 and (count * (value - origin) - total) ** 2 > bound * bound * spread


def _publication(reading: Reading) -> Publication:
    said = SimpleNamespace(producer=reading.producer, value=reading.value)
    return Publication(reading.topic, reading.payload, reading=said)


# Silences.


def _silent(rules: Rules, producer: _Producer) -> list[Rule]:
    """Rules for which it is silent."""
    return [rule for rule in rules.alarms if rule.silence and rule.name in producer.cases]


def _hear(reading: Reading, producer: _Producer, listening: int) -> None:
    heard = producer.heard
    if heard is not None and heard >= listening and reading.at > heard:
        producer.pauses = [*producer.pauses, reading.at - heard][-HABIT_PAUSES:]
    producer.heard = reading.at if heard is None else max(heard, reading.at)
    producer.value = reading.value


def _silences(rules: Rules, name: str, producer: _Producer, listening: int, now: int) -> Iterator[Alarm]:
    """Those that have become too long by now."""
    if producer.heard is None:
        return
    for rule in rules.alarms:
        length = _length(rule, producer)
        if length is None or rule.name in producer.cases:
            continue
        if rule.where is not None and holds(rule.where, producer.metadata) is not True:
            continue
        if now - max(producer.heard, listening) > length:
            producer.cases[rule.name] = _Case(producer.heard, raised=True)
            yield _raised(rule, name, producer, producer.heard, producer.value)


def _length(rule: Rule, producer: _Producer) -> float | None:
    """How long is too long. None: there is no saying."""
    if rule.silence is None or rule.silence.length is not None:
        return None if rule.silence is None else rule.silence.length
    if len(producer.pauses) < LEAST_PAUSES:
        return None
    assert rule.silence.factor is not None
    return max(LEAST_SILENCE, rule.silence.factor * median(producer.pauses))


def _alarm(rule: Rule, name: str, producer: _Producer, since: int, until: int | None, value: float | None) -> Alarm:
    state = RAISED if until is None else CLEARED
    value = None if value is None or not math.isfinite(value) else value
    return Alarm(rule.name, name, state, since, until, value, dict(producer.metadata), producer.told[rule.name].again)


def _raised(rule: Rule, name: str, producer: _Producer, since: int, value: float | None) -> Alarm:
    told = producer.told.setdefault(rule.name, _Told())
    if told.latest is None or since > told.latest:
        told.latest, told.again = since, 0
    else:
        told.repeats += 1
        told.again = told.repeats
    return _alarm(rule, name, producer, since, None, value)


def _cleared(rule: Rule, name: str, producer: _Producer, case: _Case, until: int, value: float | None) -> Alarm:
    assert case.since is not None
    alarm = _alarm(rule, name, producer, case.since, until, value)
    case.since, case.raised = None, False
    if rule.silence is not None:
        del producer.cases[rule.name]
    return alarm
