"""The tree of a query: one immutable node per kind of test, what can be read off it, and its text again.

    Kind = 'temperature' AND NOT Room LIKE '4%'

    And((Compare("Kind", "=", text 'temperature'), Not(Like("Room", "4%"))))

A test is of a metadata key, which is text, or of a `Field`: something that the message has (F6).

    Kind = 'so2' AND $value > 80

    And((Compare("Kind", "=", text 'so2'), Compare(Field("value"), ">", number 80)))

Nodes are equal when they are the same test written the same way; `canonical` makes those equal that only mean the same.
A constant carries its kind, since to Python `1`, `1.0` and `True` are equal and here only the first two are.

Recursion here is as deep as the query, and `parse` bounds that depth.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple

Value = str | int | float | bool
"""A value of metadata (M3)."""
Metadata = Mapping[str, Value]


class Kind(StrEnum):
    """Values of different kinds are never equal, nor before or after each other (M10)."""

    TEXT = "text"
    NUMBER = "number"
    TRUTH = "truth"


def kind_of(value: Value) -> Kind:
    """To Python a truth value is a number; here it is not."""
    if isinstance(value, str):
        return Kind.TEXT
    return Kind.TRUTH if isinstance(value, bool) else Kind.NUMBER


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that stands in a query."""

    kind: Kind
    value: Value


def constant(value: Value) -> Constant:
    """The value with its kind."""
    return Constant(kind_of(value), value)


class Field(NamedTuple):
    """A field of the message in a query (F6): `$value`, `$topic`, `$producer`, `$size`, or `$.path.to.field`."""

    name: str
    """One of FIELDS; empty: a field of the JSON object that the payload is."""
    path: tuple[str, ...] = ()
    """The keys that lead to that field."""


FIELDS: Final = ("value", "topic", "producer", "size")
DEEPEST_PATH: Final = 64
"""Keys in a path, and arrays and objects inside each other in a payload of which fields are asked."""
Key = str | Field
"""The subject of a test: a metadata key, or a field of the message."""

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
OPERATORS: Final[tuple[Operator, ...]] = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class And:
    """Every term holds."""

    terms: tuple["Query", ...]

    def __post_init__(self) -> None:
        assert len(self.terms) > 1


@dataclass(frozen=True, slots=True)
class Or:
    """At least one term holds."""

    terms: tuple["Query", ...]

    def __post_init__(self) -> None:
        assert len(self.terms) > 1


@dataclass(frozen=True, slots=True)
class Not:
    """The term is false, which is more than not true."""

    term: "Query"


@dataclass(frozen=True, slots=True)
class Compare:
    """`key = 5` and its like."""

    key: Key
    operator: Operator
    constant: Constant


@dataclass(frozen=True, slots=True)
class In:
    """`key IN (1, 2)`: equal to one of them."""

    key: Key
    constants: tuple[Constant, ...]

    def __post_init__(self) -> None:
        assert self.constants


@dataclass(frozen=True, slots=True)
class Between:
    """`key BETWEEN 1 AND 5`: both ends included."""

    key: Key
    low: Constant
    high: Constant


@dataclass(frozen=True, slots=True)
class Like:
    """`key LIKE '4%'`: the whole text; `%` is any characters, also none, `_` exactly one."""

    key: Key
    pattern: str


@dataclass(frozen=True, slots=True)
class Matches:
    """`key MATCHES '^4[0-9]'`: an RE2 regular expression, found anywhere in the text."""

    key: Key
    regex: str


@dataclass(frozen=True, slots=True)
class Has:
    """`HAS key`: the key is there, whatever its value."""

    key: Key


@dataclass(frozen=True, slots=True)
class IsNull:
    """`key IS NULL`: the key is not there."""

    key: Key


Test = Compare | In | Between | Like | Matches | Has | IsNull
Query = And | Or | Not | Test


def tests(query: Query) -> Iterator[Test]:
    """The tests of a query, from left to right."""
    todo = [query]
    while todo:
        node = todo.pop()
        if isinstance(node, And | Or):
            todo.extend(reversed(node.terms))
        elif isinstance(node, Not):
            todo.append(node.term)
        else:
            yield node


def cost(query: Query) -> int:
    """About how much it takes to evaluate it, in simple tests."""
    return sum([COST_OF_MATCHES if isinstance(test, Matches) else 1 for test in tests(query)])


COST_OF_MATCHES: Final = 50
"""The text may be long."""


def keys(query: Query) -> frozenset[str]:
    """The metadata keys it depends on: a change of any other leaves its answer as it is."""
    return frozenset(test.key for test in tests(query) if isinstance(test.key, str))


def fields(query: Query) -> frozenset[Field]:
    """The fields of the message that it tests; empty: its answer is the same for all messages of a producer."""
    return frozenset(test.key for test in tests(query) if isinstance(test.key, Field))


# M9: letters, digits and a few signs, not starting with a digit or `-`. The slash is escaped for the grammar's sake.
PLAIN_KEY: Final = r"(?:[^\W\d]|[~\/%.])(?:\w|[~$\/%.-])*"
QUOTED_KEY: Final = r"`[^`]*(?:``[^`]*)*`(?!`)"
# F6: a name of the message begins with `$`. In a path, a key with other characters than these is in back-quotes.
PLAIN_STEP: Final = r"(?:\w|[~$\/%-])+"
FIELD: Final = rf"\$(?:\w|[~$\/%.-]|{QUOTED_KEY})*"
KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "MATCHES", "HAS", "IS", "NULL", "TRUE", "FALSE"}
)


def is_keyword(word: str) -> bool:
    """In any case; but `ı`, of which capitals make an `I`, is a letter like any other."""
    return word.isascii() and word.upper() in KEYWORDS


def show(query: Query) -> str:
    """The query as text. Parsed again it is the same tree."""
    match query:
        case And(terms):
            return " AND ".join([_enclosed(term) if isinstance(term, And | Or) else show(term) for term in terms])
        case Or(terms):
            return " OR ".join([_enclosed(term) if isinstance(term, Or) else show(term) for term in terms])
        case Not(term):
            return _show_denied(term)
        case Has(key):
            return f"HAS {show_key(key)}"
        case _:
            return f"{show_key(query.key)} {_condition(query)}"


def _show_denied(query: Query) -> str:
    match query:
        case And() | Or():
            return f"NOT {_enclosed(query)}"
        case Not() | Compare() | Has():
            return f"NOT {show(query)}"
        case IsNull(key):
            return f"{show_key(key)} IS NOT NULL"
        case _:
            return f"{show_key(query.key)} NOT {_condition(query)}"


def _enclosed(query: Query) -> str:
    return f"({show(query)})"


def _condition(test: Compare | In | Between | Like | Matches | IsNull) -> str:
    """The test of the key."""
    match test:
        case Compare(_, operator, constant):
            return f"{operator} {show_value(constant.value)}"
        case In(_, constants):
            return f"IN ({', '.join([show_value(constant.value) for constant in constants])})"
        case Between(_, low, high):
            return f"BETWEEN {show_value(low.value)} AND {show_value(high.value)}"
        case Like(_, pattern):
            return f"LIKE {show_value(pattern)}"
        case Matches(_, regex):
            return f"MATCHES {show_value(regex)}"
        case IsNull():
            return "IS NULL"


def show_key(key: Key) -> str:
    """A key as it is written in a query, in back-quotes where it needs them."""
    if isinstance(key, Field):
        return f"${key.name}" + "".join([f".{_quoted_unless(PLAIN_STEP, step)}" for step in key.path])
    return _quoted(key) if is_keyword(key) else _quoted_unless(PLAIN_KEY, key)


def _quoted_unless(plain: str, key: str) -> str:
    return key if re.fullmatch(plain, key) else _quoted(key)


def _quoted(key: str) -> str:
    return "`" + key.replace("`", "``") + "`"


def unquoted(text: str) -> str:
    """The text in quotes of any kind; quotes inside are doubled."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def show_value(value: Value) -> str:
    """A value as it is written in a query."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def explain(query: Query) -> str:
    """The tree for a person to look at, and the keys and fields it depends on."""
    lines = [*_branches(query), ""]
    if named := keys(query):
        lines.append("keys: " + ", ".join(map(show_key, sorted(named))))
    if asked := fields(query):
        lines.append("message: " + ", ".join(map(show_key, sorted(asked))))
    return "\n".join(lines)


def _branches(query: Query) -> list[str]:
    if isinstance(query, And | Or):
        title, terms = ("AND" if isinstance(query, And) else "OR"), query.terms
    elif isinstance(query, Not) and isinstance(query.term, And | Or | Not):
        title, terms = "NOT", (query.term,)
    else:
        return [show(query)]
    lines = [title]
    for number, term in enumerate(terms, 1):
        joint, margin = ("└─ ", "   ") if number == len(terms) else ("├─ ", "│  ")
        first, *others = _branches(term)
        lines.append(joint + first)
        lines.extend([margin + line for line in others])
    return lines
