"""Declarations of payloads, by topic pattern (P6).

    [[payloads]]
    topic = "volcanoes.*.weather"                     # the first declaration whose pattern matches a topic counts
    format = "json"                                   # json, csv, msgpack, float32, float64, text, sparkplug
    fields = {temperature = "double", pressure = {type = "double", path = "$.air.pressure"}}
    value = "temperature"                             # the field that is the reading's value
    time = {path = "$.ts", unit = "ms"}               # the sensor's own time (P7); "ts" alone is ISO 8601

This module is what may be declared; `core.decoding` is what a declaration makes of a payload. A field is found by a
path: `$.air.pressure` in JSON and MsgPack, `$[2]` (the third) in CSV and rows of floats, `$["Temp/Out"]` where a name
has signs of its own. Without a path it is the name in JSON, MsgPack and Sparkplug, and the place among the fields in
CSV and floats.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from fumarole.core.errors import FumaroleError, PatternError
from fumarole.core.topic import CHANNEL, STRICT, Pattern, fits, parse_pattern, split

Format = Literal["json", "csv", "msgpack", "float32", "float64", "text", "sparkplug"]
Type = Literal["double", "long", "boolean", "text"]
Unit = Literal["s", "ms", "us", "ns"]
Path = tuple[str | int, ...]
"""Steps from the payload to a value: names in tables, numbers in lists. None of them: the payload itself."""
Place = tuple[str | int, ...]
"""The place of a declaration: `(0, "fields", "temperature")`."""

NUMBERS: Final = frozenset({"double", "long", "boolean"})
"""Types that can be a reading's value."""
FLOATS: Final = {"float32": 4, "float64": 8}
"""Formats that are numbers one behind the other, and the bytes of each."""
BY_PLACE: Final = frozenset({"csv", *FLOATS})
TIME_HEADER: Final = "Time"
AHEAD: Final = 60_000_000
"""Microseconds that a sensor's clock may be ahead of the recorder's, by default."""
BEHIND: Final = 31 * 86_400_000_000
"""And behind: a station that was cut off sends what it had kept."""
_KEYS: Final = ("topic", "format", "fields", "value", "time", "order", "delimiter", "ahead", "behind")
_STEP: Final = re.compile(r"""\.([^.\[\]"'\s]+)|\[([0-9]{1,6})\]|\["([^"]+)"\]|\['([^']+)'\]""")
_SPAN: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([a-z]+)")
_SPAN_UNITS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
}


class Wrong(NamedTuple):
    """One thing to put right in a declaration."""

    place: Place
    found: str
    expected: str


class DeclarationError(FumaroleError):
    """Declarations that cannot be used, with everything that is wrong with them."""

    def __init__(self, wrong: Iterable[Wrong], table: str = "payloads") -> None:
        self.wrong = list(wrong)
        super().__init__("\n".join(f"{table}{_shown(each)}" for each in self.wrong))


def _shown(wrong: Wrong) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in wrong.place)
    return f"{steps}: found {wrong.found}, expected {wrong.expected}"


@dataclass(frozen=True, slots=True)
class Field:
    """A part of the payload that has a name and a type."""

    name: str
    type: Type
    path: Path


@dataclass(frozen=True, slots=True)
class TimeField:
    """The place of the sensor's time, and its form: a number of units, a format, or else ISO 8601."""

    path: Path
    unit: Unit | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """The declaration of the payloads on some topics."""

    topic: str
    format: Format
    fields: tuple[Field, ...]
    value: str | None = None
    """The field that is the value; None: the payload itself where that is a number, as without a declaration."""
    time: TimeField | None = None
    """None: the header `Time`, where a message has one."""
    big: bool = False
    """For float32 and float64: the highest byte comes first."""
    delimiter: str = ","
    ahead: int = AHEAD
    behind: int = BEHIND

    def believes(self, event_time: int, recorded: int) -> bool:
        """True when the sensor's time is near enough to the recorder's. Both in microseconds (P7)."""
        return recorded - self.behind <= event_time <= recorded + self.ahead


@dataclass(frozen=True, slots=True)
class Payloads:
    """All declarations, in order."""

    declared: tuple[Payload, ...] = ()
    patterns: tuple[Pattern, ...] = field(default=(), compare=False, repr=False)

    def of(self, topic: str) -> Payload | None:
        """The first declaration whose pattern matches."""
        words = split(topic)
        for pattern, payload in zip(self.patterns, self.declared, strict=True):
            if fits(pattern, words):
                return payload
        return None

    @property
    def types(self) -> dict[str, Type]:
        """All fields by name, in the order in which they are first declared."""
        return {each.name: each.type for payload in self.declared for each in payload.fields}

    @property
    def digest(self) -> str:
        """A digest of the meaning: equal declarations have the same digest, in any notation."""
        if not self.declared:
            return ""
        meaning = [_meaning(payload) for payload in self.declared]
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:32]


def _meaning(payload: Payload) -> dict[str, Any]:
    fields = [[each.name, each.type, list(each.path)] for each in payload.fields]
    time = payload.time and [list(payload.time.path), payload.time.unit, payload.time.format]
    names = ("topic", "format", "value", "big", "delimiter", "ahead", "behind")
    return {**{name: getattr(payload, name) for name in names}, "fields": fields, "time": time}


def parse(tables: object) -> Payloads:
    """Declarations as TOML gives them, a list of tables. Raises DeclarationError with all that is wrong."""
    wrong: list[Wrong] = []
    if not isinstance(tables, list):
        raise DeclarationError([Wrong((), _kind(tables), "a list of tables: [[payloads]]")])
    found = [_Reader(number, wrong).payload(table) for number, table in enumerate(tables)]
    declared = [payload for payload in found if payload is not None]
    if not wrong:
        wrong += _conflicts(declared)
    if wrong:
        raise DeclarationError(wrong)
    return Payloads(tuple(declared), tuple(pattern_of(payload.topic) for payload in declared))


def pattern_of(text: str) -> Pattern:
    """A pattern of either grammar, the usual one first. Raises PatternError."""
    try:
        return parse_pattern(text, STRICT)
    except PatternError as error:
        try:
            return parse_pattern(text, CHANNEL)
        except PatternError:
            raise error from None


def _conflicts(declared: list[Payload]) -> Iterator[Wrong]:
    """Checks that a field has one type in all declarations: it is one column, and Spark ignores case in its name."""
    types: dict[str, tuple[Field, int]] = {}
    for number, payload in enumerate(declared):
        for each in payload.fields:
            known, where = types.setdefault(each.name.lower(), (each, number))
            if known.type != each.type:
                yield Wrong((number, "fields", each.name), each.type, f"{known.type}, as in payloads[{where}]")
            elif known.name != each.name:
                yield Wrong((number, "fields", each.name), each.name, f"{known.name}, as in payloads[{where}]")


class _Reader:
    """Reads one table. Mistakes go into the list, and there is no declaration then."""

    def __init__(self, number: int, wrong: list[Wrong]) -> None:
        self._number = number
        self._wrong = wrong
        self._before = len(wrong)

    def add(self, place: Place, found: str, expected: str) -> None:
        self._wrong.append(Wrong((self._number, *place), found, expected))

    def payload(self, table: object) -> Payload | None:
        if not isinstance(table, Mapping):
            self.add((), _kind(table), "a table")
            return None
        for key in table:
            if key not in _KEYS:
                self.add((key,), "an unknown key", f"one of {', '.join(_KEYS)}")
        format_ = self._one_of(table, "format", get_args(Format))
        self._topic(table)
        if format_ is None:
            return None
        fields = self._fields(table.get("fields"), format_)
        value = self._value(table, fields, format_)
        order = self._one_of(table, "order", ("little", "big"), "little")
        made = Payload(
            topic=str(table.get("topic")),
            format=format_,
            fields=fields,
            value=value,
            time=self._time(table.get("time"), fields, format_),
            big=order == "big",
            delimiter=self._delimiter(table),
            ahead=self._span(table, "ahead", AHEAD),
            behind=self._span(table, "behind", BEHIND),
        )
        return made if len(self._wrong) == self._before else None

    def _one_of(self, table: Mapping[str, Any], key: str, known: tuple[str, ...], default: str | None = None) -> Any:
        found = table.get(key, default)
        if found in known:
            return found
        self.add((key,) if key in table else (), _found(found, key), f"one of {', '.join(known)}")
        return None

    def _topic(self, table: Mapping[str, Any]) -> None:
        topic = table.get("topic")
        if not isinstance(topic, str):
            self.add(("topic",) if "topic" in table else (), _found(topic, "topic"), "a topic pattern")
            return
        try:
            pattern_of(topic)
        except PatternError as error:
            self.add(("topic",), repr(topic), f"a topic pattern ({error})")

    def _fields(self, table: object, format_: Format) -> tuple[Field, ...]:
        if table is None and format_ in FLOATS:
            return (Field("value", "double", (0,)),)
        if table is None and format_ == "text":
            return (Field("text", "text", ()),)
        if not isinstance(table, Mapping) or not table:
            self.add(("fields",), _found(table, "fields"), "a table of fields with their types")
            return ()
        made = [self._field(place, name, said, format_) for place, (name, said) in enumerate(table.items())]
        return tuple(each for each in made if each is not None)

    def _field(self, place: int, name: str, said: object, format_: Format) -> Field | None:
        at = ("fields", name)
        given: Mapping[str, Any] = said if isinstance(said, Mapping) else {"type": said}
        for key in given:
            if key not in {"type", "path"}:
                self.add((*at, key), "an unknown key", "type or path")
        known = ("double",) if format_ in FLOATS else get_args(Type)
        if given.get("type") not in known:
            self.add(at, _found(given.get("type"), "type"), f"one of {', '.join(known)}")
            return None
        path: Path | None = (place,) if format_ in BY_PLACE else () if format_ == "text" else (name,)
        if "path" in given:
            path = self._path((*at, "path"), given["path"], format_)
        return None if path is None else Field(name, given["type"], path)

    def _path(self, at: Place, text: object, format_: Format) -> Path | None:
        steps = path_of(text) if isinstance(text, str) else None
        if format_ in BY_PLACE:
            right = steps is not None and len(steps) == 1 and isinstance(steps[0], int)
            expected = "a place, counted from 0, such as $[2]"
        elif format_ == "text":
            right, expected = steps == (), "no path: a text is the whole payload"
        elif format_ == "sparkplug":
            right = steps is not None and len(steps) == 1 and isinstance(steps[0], str)
            expected = 'the name of a metric, such as $["Inputs/Temperature"]'
        else:
            right, expected = steps is not None, "a path such as $.air.pressure or $.samples[0]"
        if not right:
            self.add(at, _found(text, "path"), expected)
            return None
        return steps

    def _value(self, table: Mapping[str, Any], fields: tuple[Field, ...], format_: Format) -> str | None:
        if "value" not in table:
            return "value" if format_ in FLOATS and "fields" not in table else None
        numbers = [each.name for each in fields if each.type in NUMBERS]
        name = table["value"]
        if name not in numbers:
            expected = f"a field that is a number: {', '.join(numbers)}" if numbers else "a field that is a number"
            self.add(("value",), _found(name, "value"), expected)
            return None
        return str(name)

    def _time(self, said: object, fields: tuple[Field, ...], format_: Format) -> TimeField | None:
        if said is None:
            return None
        given: Mapping[str, Any] = said if isinstance(said, Mapping) else {"path": said}
        for key in given:
            if key not in {"path", "unit", "format"}:
                self.add(("time", key), "an unknown key", "path, and unit or format")
        unit, form = given.get("unit"), given.get("format")
        if unit is not None and unit not in get_args(Unit):
            self.add(("time", "unit"), _found(unit, "unit"), f"one of {', '.join(get_args(Unit))}")
        if unit is not None and form is not None:
            self.add(("time",), "a unit and a format", "one of them, or neither: then it is ISO 8601")
        if form is not None and not _is_time_format(form):
            self.add(
                ("time", "format"), _found(form, "format"), f"signs and {', '.join(TIME_PARTS)}, with a whole date"
            )
        path = self._time_path(given.get("path"), fields, format_)
        if format_ in FLOATS and unit is None:
            self.add(("time",), "a time that is a number, without a unit", f"one of {', '.join(get_args(Unit))}")
        return None if path is None else TimeField(path, unit, form)

    def _time_path(self, text: object, fields: tuple[Field, ...], format_: Format) -> Path | None:
        """The path of a field of this name, or one that is given, or else the name itself."""
        at = ("time", "path")
        for each in fields:
            if each.name == text:
                return each.path
        if isinstance(text, str) and not text.startswith("$") and format_ not in BY_PLACE and text:
            return (text,) if format_ != "text" else self._path(at, text, format_)
        return self._path(at, text, format_)

    def _delimiter(self, table: Mapping[str, Any]) -> str:
        found = table.get("delimiter", ",")
        if isinstance(found, str) and len(found) == 1 and found not in '"\r\n' and found.isascii():
            return found
        self.add(("delimiter",), _found(found, "delimiter"), "one character, such as ; or a tab")
        return ","

    def _span(self, table: Mapping[str, Any], key: str, default: int) -> int:
        found = table.get(key)
        if found is None:
            return default
        read = span(found)
        if read is None:
            self.add((key,), _found(found, key), "a length of time, such as 30s, 5 minutes or 7 days")
            return default
        return read


def span(text: object) -> int | None:
    """A length of time in microseconds: `30s`, `5 minutes`. None: it is none."""
    read = _SPAN.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    return None if read is None or read[2] not in _SPAN_UNITS else int(float(read[1]) * _SPAN_UNITS[read[2]])


TIME_PARTS: Final = {"%Y": r"[0-9]{4}", "%m": r"[0-9]{2}", "%d": r"[0-9]{2}", "%H": r"[0-9]{2}", "%M": r"[0-9]{2}",
                     "%S": r"[0-9]{2}", "%f": r"[0-9]{1,9}", "%z": r"Z|[+-][0-9]{2}(?::?[0-9]{2})?"}  # fmt: skip
"""Of a format of times: year, month, day, hour, minute, second, fraction of it, and offset from UTC."""


def time_regex(form: str) -> tuple[str, list[str]]:
    """A format as a regular expression, for Python and Java alike, and the part that each group of it is."""
    regex, parts = "", []
    for piece in re.findall(r"%.|[^%]+", form, re.DOTALL):
        if piece in TIME_PARTS:
            regex += f"({TIME_PARTS[piece]})"
            parts.append(piece)
        else:
            regex += re.escape(piece.replace("%%", "%"))
    return regex, parts


def _is_time_format(form: object) -> bool:
    if not isinstance(form, str) or not form.isascii() or re.search(r"%$|%[^YmdHMSfz%]", form.replace("%%", "")):
        return False
    parts = time_regex(form)[1]
    return len(parts) == len(set(parts)) and {"%Y", "%m", "%d"} <= set(parts)


def path_of(text: str) -> Path | None:
    """The steps of `$.air.pressure`, `$[2]`, `$["odd name"].x`; `$` is the payload itself. None: it is no path."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return None
        steps.append(int(step[2]) if step[2] is not None else step[1] or step[3] or step[4])
        at = step.end()
    return tuple(steps)


def _found(value: object, key: str) -> str:
    if value is None:
        return f"no {key}"
    return repr(value) if isinstance(value, str) and len(value) <= 60 else _kind(value)


def _kind(value: object) -> str:
    for kind, name in ((Mapping, "a table"), (list, "a list"), (str, "a text"), (bool, "true or false")):
        if isinstance(value, kind):
            return name
    return "a number" if isinstance(value, int | float) else "something else"
