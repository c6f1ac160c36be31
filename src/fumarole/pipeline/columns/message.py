"""What a query asks of the message (F6), found in the columns of a frame: topic, producer, value, payload.

`core/query/message.py` says what each name means. Spark's own functions do the work, and where they mean something else
that is seen to here:

- Spark's numbers may be followed by `d` or `f`, and may be infinite. So a payload is matched with JSON's grammar first.
- `try_parse_json` reads up to the end of the first value and leaves the rest alone. So it is given an array of the
  payload and a mark, which must be there as the second element when it is done.
- It takes bytes that are not UTF-8 for other characters, and has other limits. So these payloads are kept from it.
- It knows whole numbers and decimals up to 38 digits exactly, and takes `5.0` for 5: so does the definition.

A test has the value in it several times, and Spark would parse the payload as often. So what is dear is `bound`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, types
from pyspark.sql import functions as sf

from fumarole.core.query.message import EXACT_DIGITS, LONGEST_JSON, LONGEST_NUMBER
from fumarole.core.query.tree import DEEPEST_PATH, Field
from fumarole.core.values import HIGHEST_INTEGER, LOWEST_INTEGER
from fumarole.pipeline.columns.values import WHOLE, Value, bound, from_column, value_of

TOPIC: Final = "topic"
PRODUCER: Final = "producer"
VALUE: Final = "value"
PAYLOAD: Final = "payload"

_SPACE: Final = r"[ \t\n\r]*"
_NUMBER: Final = rf"\A{_SPACE}(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?){_SPACE}\z"
_WHOLE: Final = rf"\A{_SPACE}(-?[0-9]+)(?:\.0+)?{_SPACE}\z"
_SAFE: Final = 2.0**53
_INFINITY: Final = float("inf")


Test = Callable[[Value], Column]


class MissingColumnError(Exception):
    """The frame has none of the columns in which this could be found."""


def with_field(field: Field, columns: Mapping[str, types.DataType], test: Test) -> Column:
    """What the test says of what the message in a row has under this name. Raises MissingColumnError."""
    match field.name:
        case "topic":
            return test(_text(TOPIC, columns))
        case "producer":
            return test(_text(PRODUCER, columns))
        case "size":
            size = sf.octet_length(_payload(columns))
            return test(value_of(size.isNotNull(), whole=size.cast(WHOLE)))
        case "value":
            return _with_number(columns, test)
        case _:
            return _with_json_field(_payload(columns), field.path, test)


def _text(name: str, columns: Mapping[str, types.DataType]) -> Value:
    if not isinstance(columns.get(name), types.StringType):
        raise MissingColumnError(f"`{name}` of text")
    return from_column(sf.col(name), columns[name])


def _payload(columns: Mapping[str, types.DataType]) -> Column:
    if not isinstance(columns.get(PAYLOAD), types.BinaryType | types.StringType):
        raise MissingColumnError(f"`{PAYLOAD}` of bytes")
    return sf.col(PAYLOAD).cast(types.BinaryType())


# $value.


def _with_number(columns: Mapping[str, types.DataType], test: Test) -> Column:
    """The column of values, if there is one. It has doubles: beyond those that are exact, the payload is looked at."""
    has_payload = isinstance(columns.get(PAYLOAD), types.BinaryType | types.StringType)
    if not isinstance(columns.get(VALUE), types.NumericType):
        if not has_payload:
            raise MissingColumnError(f"`{VALUE}` of numbers or `{PAYLOAD}`")
        return _with_number_in(_payload(columns).cast(types.StringType()), test)
    value = from_column(sf.col(VALUE), columns[VALUE])
    if not has_payload or not isinstance(columns[VALUE], types.DoubleType):
        return test(value)
    whole = _exact(value.number, _payload(columns).cast(types.StringType()))
    # The values may have been made into others.
    is_its_own = whole.cast(types.DoubleType()) == value.number
    return test(value_of(value.present, number=value.number, whole=sf.when(is_its_own, whole)))


def _with_number_in(text: Column, test: Test) -> Column:
    """The number that a text is by JSON's grammar."""
    number = sf.regexp_extract(text, _NUMBER, 1).try_cast(types.DoubleType())
    return bound(
        sf.when(sf.abs(number) < _INFINITY, number),
        lambda number: test(value_of(number.isNotNull(), number=number, whole=_exact(number, text))),
    )


def _exact(number: Column, text: Column) -> Column:
    """A whole number of up to 64 bits, where the text has no exponent, and where a double would not be exact."""
    digits = sf.octet_length(sf.regexp_replace(text, "[^0-9]+", ""))
    found = sf.regexp_extract(text, _WHOLE, 1).try_cast(WHOLE)
    return sf.when((sf.abs(number) >= _SAFE) & (digits <= EXACT_DIGITS) & _has_64_bits(found), found)


def _has_64_bits(whole: Column) -> Column:
    lowest, highest = (sf.lit(str(bound)).cast(WHOLE) for bound in (LOWEST_INTEGER, HIGHEST_INTEGER))
    return whole.between(lowest, highest)


# Fields of JSON payloads.


def _with_json_field(payload: Column, path: tuple[str, ...], test: Test) -> Column:
    mark = sf.xxhash64(payload)
    text = payload.cast(types.StringType())
    marked = sf.concat(sf.lit("["), text, sf.lit(","), mark.cast(types.StringType()), sf.lit("]"))
    parsed = sf.try_parse_json(sf.when(_may_be_parsed(payload, text), marked))

    def entry(parsed: Column) -> Column:
        is_whole = sf.try_variant_get(parsed, "$[1]", "bigint") == mark
        return sf.when(is_whole, _at(sf.try_variant_get(parsed, "$[0]", "variant"), path))

    def tested(entry: Column) -> Column:
        return bound(_numbers(entry), lambda found: test(_from_variant(entry, found)))

    return bound(bound(parsed, entry), tested)


def _at(entry: Column, path: tuple[str, ...]) -> Column:
    """What is under these keys. A path of Spark's has no way to write a key with quotes of both kinds."""
    steps = ""
    for key in path:
        if "'" in key and '"' in key:
            entry = sf.try_variant_get(entry, f"${steps}", "map<string, variant>")
            entry, steps = sf.try_element_at(entry, sf.lit(key)), ""
        else:
            steps += f"['{key}']" if "'" not in key else f'["{key}"]'
    return sf.try_variant_get(entry, f"${steps}", "variant") if steps else entry


def _numbers(entry: Column) -> Column:
    """Its kind, as Spark calls it, and the number that it is, if it is one, in both forms."""

    def found(kind: Column) -> Column:
        whole = sf.when(
            kind.rlike(r"^(BIGINT|DECIMAL\(\d+,0\))$"), sf.try_variant_get(entry, "$", WHOLE.simpleString())
        )
        number = sf.when(kind.rlike("^(BIGINT|DECIMAL|DOUBLE)"), sf.try_variant_get(entry, "$", "double"))
        return sf.struct(kind.alias("kind"), whole.alias("whole"), number.alias("number"))

    return bound(sf.schema_of_variant(entry), found)


def _from_variant(entry: Column, found: Column) -> Value:
    kind, whole, number = found["kind"], found["whole"], found["number"]
    return Value(
        present=sf.coalesce(kind != "VOID", sf.lit(False)),
        text=sf.when(kind == "STRING", sf.try_variant_get(entry, "$", "string")),
        number=sf.when(sf.abs(number) < _INFINITY, number),
        whole=sf.when(_has_64_bits(whole), whole),
        truth=sf.when(kind == "BOOLEAN", sf.try_variant_get(entry, "$", "boolean")),
    )


def _may_be_parsed(payload: Column, text: Column) -> Column:
    """Is it within the limits, and UTF-8? Of a payload that is short and has few brackets hardly anything is looked at.

    Where it is no JSON this may say anything.
    """
    size = sf.octet_length(payload)
    brackets = size - sf.octet_length(sf.translate(text, "[{", ""))
    no_strings = sf.regexp_replace(sf.regexp_replace(text, r"(?s)\\.", ""), r'"[^"]*+(?:"|\z)', "")
    is_long = (size > LONGEST_NUMBER) & no_strings.rlike(f"[-+.0-9eE]{{{LONGEST_NUMBER + 1}}}")
    # Each turn takes the innermost pairs away.
    nested = sf.regexp_replace(no_strings, r"[^\[\]{}]+", "")
    turns = sf.sequence(sf.lit(1), sf.lit(DEEPEST_PATH))
    left = sf.aggregate(turns, nested, lambda rest, _: sf.regexp_replace(rest, r"\[\]|\{\}", ""))
    is_deep = (brackets > DEEPEST_PATH) & (sf.octet_length(left) > 0)
    return (size <= LONGEST_JSON) & sf.is_valid_utf8(text) & ~is_long & ~is_deep
