"""A query as a Spark column: true, false, or null for unknown, which is just how Spark reckons (M10).

What differs is done here: text is not a number whatever it looks like, numbers are compared exactly whether whole or
not, NaN is above nothing, a key has one case, and no cast can fail.

Metadata is found in one of two ways, by the schema:

- a column `metadata`, as `enrich` makes it: a map from keys to (kind, text, number, truth);
- or else each key is a column of its own, of whatever type; null is a key that is not there.

What a query asks of the message (F6) is found in the columns that messages have in the archive and live: see `message`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sf

from fumarole.core.query import tree
from fumarole.core.query.errors import QueryError, clipped
from fumarole.core.query.parse import parse
from fumarole.pipeline.columns.message import MissingColumnError, with_field
from fumarole.pipeline.columns.regex import java_in_order, java_literal, java_regex
from fumarole.pipeline.columns.regex_tree import CannotTranslateError
from fumarole.pipeline.columns.values import WHOLE, Value, from_column, value_of

METADATA: Final = "metadata"
VALUE: Final = types.StructType(
    [
        types.StructField("kind", types.StringType()),
        types.StructField("text", types.StringType()),
        types.StructField("number", types.DoubleType()),
        types.StructField("truth", types.BooleanType()),
    ]
)
"""A value under a key of `metadata`. A whole number that no double is has its digits in `text`."""


def where(query: str | tree.Query, schema: types.StructType | DataFrame) -> Column:
    """Does the query hold for the metadata, and the message, in a row? Raises QueryError."""
    parsed = parse(query) if isinstance(query, str) else query
    return _Compiler(schema.schema if isinstance(schema, DataFrame) else schema).column(parsed)


class _Compiler:
    def __init__(self, schema: types.StructType) -> None:
        self._types = {field.name: field.dataType for field in schema.fields}
        self._mapped = isinstance(self._types.get(METADATA), types.MapType)

    def column(self, query: tree.Query) -> Column:
        match query:
            case tree.And(terms):
                return reduce(and_, map(self.column, sorted(terms, key=_cost)))
            case tree.Or(terms):
                return reduce(or_, map(self.column, sorted(terms, key=_cost)))
            case tree.Not(term):
                return ~self.column(term)
            case _:
                return self._test(query)

    def _test(self, test: tree.Test) -> Column:
        key = test.key
        if isinstance(key, tree.Field):
            return self._test_of_message(test, key)
        if self._mapped:
            value = _from_map(sf.try_element_at(sf.col(METADATA), sf.lit(key)))
        elif key in self._types:
            value = from_column(sf.col("`" + key.replace("`", "``") + "`"), self._types[key])
        else:  # Spark would take a column of another case for it
            value = value_of(sf.lit(False))
        return _tested(test, value)

    def _test_of_message(self, test: tree.Test, field: tree.Field) -> Column:
        try:
            return with_field(field, self._types, lambda value: _tested(test, value))
        except MissingColumnError as missing:
            text, name = tree.show(test), tree.show_key(field)
            expected = f"a frame of messages: this one has no column {missing} to find it in"
            raise QueryError(text, text.index(name), f"`{clipped(name)}`", expected) from None


def _tested(test: tree.Test, value: Value) -> Column:
    match test:
        case tree.Has():
            return value.present
        case tree.IsNull():
            return ~value.present
        case tree.Compare(_, operator, constant):
            return _comparison(value, operator, constant)
        case tree.In(_, constants):
            return _one_of(value, constants)
        case tree.Between(_, low, high):
            return _comparison(value, ">=", low) & _comparison(value, "<=", high)
        case tree.Like(_, pattern):
            return _like(value.text, pattern)
        case tree.Matches(_, regex):
            return value.text.rlike(_java(test, regex))


def _cost(query: tree.Query) -> int:
    """About what a test takes: numbers, then text, then patterns, then payloads. The order of terms does not change the
    answer, and Spark looks no further when it has it."""
    match query:
        case tree.And(terms) | tree.Or(terms):
            return max(map(_cost, terms))
        case tree.Not(term):
            return _cost(term)
        case _ if isinstance(query.key, tree.Field) and query.key.path:
            return 4
        case tree.Compare(_, _, constant) | tree.Between(_, constant, _):
            return int(constant.kind is tree.Kind.TEXT)
        case tree.In(_, constants):
            return int(any(constant.kind is tree.Kind.TEXT for constant in constants))
        case tree.Like():
            return 2
        case tree.Matches():
            return 3
        case _:
            return 0


def _from_map(entry: Column) -> Value:
    kind = entry["kind"]
    return Value(
        present=sf.coalesce(kind != "gone", sf.lit(False)),
        text=sf.when(kind == tree.Kind.TEXT.value, entry["text"]),
        number=sf.when(kind == tree.Kind.NUMBER.value, entry["number"]),
        whole=sf.when(kind == tree.Kind.NUMBER.value, entry["text"].try_cast(WHOLE)),
        truth=sf.when(kind == tree.Kind.TRUTH.value, entry["truth"]),
    )


def _comparison(value: Value, operator: tree.Operator, constant: tree.Constant) -> Column:
    match constant.kind:
        case tree.Kind.TEXT:
            return _APPLY[operator](value.text, sf.lit(constant.value))
        case tree.Kind.TRUTH:
            return _APPLY[operator](value.truth, sf.lit(constant.value))
        case tree.Kind.NUMBER:
            number = constant.value
            assert not isinstance(number, str)
            return sf.when(value.whole.isNotNull(), _whole_comparison(value.whole, operator, number)).otherwise(
                _double_comparison(value.number, operator, number)
            )


def _one_of(value: Value, constants: tuple[tree.Constant, ...]) -> Column:
    """One test for all constants of a kind, however many they are."""
    kinds: defaultdict[tree.Kind, list[Any]] = defaultdict(list)
    for constant in constants:
        kinds[constant.kind].append(constant.value)
    return reduce(or_, [_among(value, kind, same) for kind, same in kinds.items()])


def _among(value: Value, kind: tree.Kind, constants: list[Any]) -> Column:
    match kind:
        case tree.Kind.TEXT:
            return value.text.isin(constants)
        case tree.Kind.TRUTH:
            return value.truth.isin(constants)
        case tree.Kind.NUMBER:
            wholes = [Decimal(number) for number in constants if number == int(number) and abs(number) <= _BEYOND]
            doubles = [float(number) for number in constants if number == float(number)]
            return sf.when(value.whole.isNotNull(), value.whole.isin(wholes)).otherwise(
                value.number.isin(doubles) if doubles else _always(value.number, False)
            )


def _like(text: Column, pattern: str) -> Column:
    """Where a test on its letters says it all, that is the column, so that Parquet's own statistics can be used;
    otherwise a regular expression, behind the letters that it begins with."""
    parts = pattern.split("%")
    if "_" not in pattern:
        match parts:
            case [whole]:
                return text == whole
            case [first, ""]:
                return text.startswith(first)
            case ["", last]:
                return text.endswith(last)
            case ["", part, ""]:
                return text.contains(part)
    forms = ["".join(["." if sign == "_" else java_literal(sign) for sign in part]) for part in parts]
    liked = text.rlike(rf"(?s)\A{java_in_order(forms, '.')}\z")
    begin = parts[0].partition("_")[0]
    return text.startswith(begin) & liked if begin else liked


_APPLY: Final[dict[tree.Operator, Callable[[Column, Column], Column]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _always(column: Column, truth: bool) -> Column:
    """Whatever the value, but unknown where there is none."""
    return sf.when(column.isNotNull(), sf.lit(truth))


def _double_comparison(column: Column, operator: tree.Operator, number: float) -> Column:
    nearest = float(number)
    if nearest == number:  # Python compares whole numbers with others exactly
        column_is = _APPLY[operator](column, sf.lit(nearest))
        return column_is & ~sf.isnan(column) if operator in {">", ">="} else column_is
    # No double is this number: it lies between two.
    below = nearest if nearest < number else math.nextafter(nearest, -math.inf)
    match operator:
        case "=" | "!=":
            return _always(column, operator == "!=")
        case "<" | "<=":
            return column <= sf.lit(below)
        case ">" | ">=":
            return (column >= sf.lit(math.nextafter(below, math.inf))) & ~sf.isnan(column)


def _whole_comparison(column: Column, operator: tree.Operator, number: float) -> Column:
    down, up = (max(-_BEYOND, min(_BEYOND, rounded(number))) for rounded in (math.floor, math.ceil))
    if operator in {"=", "!="} and down != up:
        return _always(column, operator == "!=")
    border = up if operator in {"<", ">="} else down
    return _APPLY[operator](column, sf.lit(Decimal(border)).cast(WHOLE))


_BEYOND: Final = 10**20 - 1
"""The largest WHOLE, greater than any number in metadata: larger ones say no more than it does."""


def _java(test: tree.Matches, regex: str) -> str:
    try:
        return java_regex(regex)
    except CannotTranslateError as wrong:
        text = tree.show(test)
        raise QueryError(
            text, text.index("MATCHES"), f"`{clipped(regex)}`", f"a regular expression that Spark can follow ({wrong})"
        ) from None
