"""A declaration of payloads as Spark columns: what `core.decoding` says, with no Python per row but for MsgPack and
Sparkplug, which go through it in Arrow batches (P6).

In three steps. `prepared` is the text that JSON is read from; `read` takes the payload apart once, as far as its format
goes, into columns of their own; `decoded` finds fields, value and time in those. Spark keeps the steps apart because
each asks for the one before more than once: so JSON is parsed once, whatever is asked of it. The text is a step of its
own because Spark compiles no arguments of `from_json`: it would interpret them, which took as long as the parsing.

JSON is read by `from_json`, into a schema made of the paths. The payload is put into an object with a last key behind
it:

    {"p":<payload>,"z":0}

Without it Spark would read the first value and not look at what follows. `z` is there if and only if the payload was
read to its end. What is of another kind than the schema says makes Spark fill the column `bad`, and leave all else as
it is: just what the definition says. Text, and what lies behind a place in a list, is read as a variant, which knows of
what kind it is; `from_json` would make a text of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, types
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type

from fumarole.core import decoding
from fumarole.core.payloads import FLOATS, Path, Payload, TimeField, Type, time_regex
from fumarole.pipeline.columns.regex import java_literal

KINDS: Final[dict[Type, types.DataType]] = {
    "double": types.DoubleType(),
    "long": types.LongType(),
    "boolean": types.BooleanType(),
    "text": types.StringType(),
}
_JSON_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "bad",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_VARIANT: Final = "variant"
_NUMBER_KINDS: Final = r"\A(?:BIGINT|DOUBLE|FLOAT|DECIMAL\(.*\))\z"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a payload says, in columns."""

    fields: dict[str, Column]
    value: Column | None
    """None: the declaration names none."""
    time: Column | None
    """Microseconds."""
    fits: Column


@dataclass(frozen=True, slots=True)
class _Found:
    """Something at a path: null where it is missing; `unfit` where it is of another kind."""

    value: Column
    unfit: Column


class Reading:
    """One declaration; `name` is what its columns begin with."""

    def __init__(self, declared: Payload, name: str) -> None:
        self._declared = declared
        self._name = name
        asked = [(each.path, each.type) for each in declared.fields]
        if declared.time is not None and declared.format == "json":
            asked.append((declared.time.path, "text" if declared.time.unit is None else "double"))
        self._layers = _layers(asked) if declared.format == "json" else []

    def prepared(self, payload: Column) -> dict[str, Column]:
        """What `read` needs of the payload, in columns to be added."""
        if self._declared.format != "json":
            return {f"{self._name}payload": payload}
        # Bytes are put together, and not texts: to Spark a text is the same bytes.
        whole = sf.concat(sf.lit(b'{"p":'), payload, sf.lit(b',"z":0}')).cast("string")
        return {f"{self._name}payload": sf.when(sf.is_valid_utf8(payload.cast("string")), whole)}

    def read(self) -> dict[str, Column]:
        """The payload taken apart, in columns to be added."""
        payload = sf.col(f"{self._name}payload")
        match self._declared.format:
            case "json":
                layers = {
                    f"{self._name}{number}": sf.from_json(payload, _schema(layer), _JSON_OPTIONS)
                    for number, layer in enumerate(self._layers)
                }
                # With a second use of the payload Spark keeps it a step of its own.
                return {**layers, f"{self._name}text": payload.isNotNull()}
            case "csv":
                return {f"{self._name}0": _cells(_text(payload), self._declared.delimiter)}
            case "text":
                return {f"{self._name}0": _text(payload)}
            case "float32" | "float64":
                size = sf.octet_length(payload)
                whole = (size > 0) & (size % FLOATS[self._declared.format] == 0)
                return {f"{self._name}0": sf.when(whole, sf.hex(payload))}
            case _:
                return {f"{self._name}0": _in_python(self._declared)(payload)}

    def decoded(self) -> Decoded:
        """What `core.decoding.decode` gives, of the columns that `read` has made."""
        declared = self._declared
        first = sf.col(f"{self._name}0")
        if declared.format in {"msgpack", "sparkplug"}:
            fields = {each.name: first["fields"][each.name] for each in declared.fields}
            value = None if declared.value is None else first["value"]
            return Decoded(fields, value, None if declared.time is None else first["time"], first["fits"])
        readable, bad = self._readable()
        found = [self._field(each.path, each.type) for each in declared.fields]
        time = None if declared.time is None else self._time(declared.time)
        fields = {each.name: sf.when(readable, one.value) for each, one in zip(declared.fields, found, strict=True)}
        every = [*found, *([] if time is None else [time])]
        some = reduce(or_, [one.value.isNotNull() for one in every])
        fits = reduce(and_, [~one.unfit for one in every]) & ~bad & some
        return Decoded(
            fields,
            None if declared.value is None else fields[declared.value].cast("double"),
            None if time is None else sf.when(readable, time.value),
            sf.coalesce(readable & fits, sf.lit(False)),
        )

    def _readable(self) -> tuple[Column, Column]:
        """Can it be read at all, and was something in it of another kind?"""
        first = sf.col(f"{self._name}0")
        if self._declared.format != "json":
            return first.isNotNull(), sf.lit(False)
        layers = [sf.col(f"{self._name}{number}") for number in range(len(self._layers))]
        readable = sf.col(f"{self._name}text") & first["z"].isNotNull()
        return readable, reduce(or_, [layer["bad"].isNotNull() for layer in layers])

    def _field(self, path: Path, kind: Type) -> _Found:
        first = sf.col(f"{self._name}0")
        match self._declared.format:
            case "json":
                return self._json(path, kind)
            case "csv":
                return _from_text(_cell(first, path), kind)
            case "text":
                return _from_text(first, kind)
            case _:
                assert isinstance(path[0], int)
                return _sure(_float(first, path[0], FLOATS[self._declared.format], self._declared.big))

    def _json(self, path: Path, kind: Type) -> _Found:
        for number, layer in enumerate(self._layers):
            node, column, rest = layer, sf.col(f"{self._name}{number}")["p"], list(path)
            while rest and isinstance(node, dict) and rest[0] in node:
                column, node = column[rest[0]], node[rest.pop(0)]
            if node == _VARIANT:
                if rest or kind == "text":
                    return _in_variant(column, rest, kind)
            elif node == kind and not rest:
                return _sure(column)
        raise AssertionError("each path is in a layer")

    def _time(self, declared: TimeField) -> _Found:
        from_text = self._declared.format in {"csv", "text"}
        if declared.unit is not None:
            number = self._field(declared.path, "double")
            unit = decoding.PER_SECOND[declared.unit]
            exact = number.value * (1e6 / unit) if unit <= 1e3 else number.value / (unit / 1e6)
            right = (exact >= decoding.EARLIEST) & (exact <= decoding.LATEST)  # for Spark NaN is above all
            value = sf.when(right, sf.floor(exact + 0.5))
            return _Found(value, number.unfit | (number.value.isNotNull() & value.isNull()))
        text = self._field(declared.path, "text")
        bare = _bare(text.value)
        value = _written(bare, declared.format)
        given = (bare != "") if from_text else bare.isNotNull()
        return _Found(value, text.unfit | sf.coalesce(given & value.isNull(), sf.lit(False)))


def _sure(value: Column) -> _Found:
    return _Found(value, sf.lit(False))


def _text(payload: Column) -> Column:
    text = payload.cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


# JSON.


def _layers(asked: Sequence[tuple[Path, Type]]) -> list[Any]:
    """Schemas, each a tree of names with types at its ends. Where two paths want different things of one place, or
    names differ by their case alone, there is another tree: Spark's schemas have no place for both."""
    layers: list[Any] = []
    for path, kind in asked:
        names: list[str] = []
        leaf: str = _VARIANT if kind == "text" else kind
        for step in path:
            if isinstance(step, int):
                leaf = _VARIANT
                break
            names.append(step)
        for number, layer in enumerate(layers):
            if (grown := _grown(layer, names, leaf)) is not None:
                layers[number] = grown
                break
        else:
            layers.append(_grown(None, names, leaf))
    return layers


def _grown(node: Any, names: list[str], leaf: str) -> Any | None:
    """The tree with one more end; None: it has no place for it."""
    if not names:
        return leaf if node is None or node == leaf else None
    if node is not None and not isinstance(node, dict):
        return None
    below = node or {}
    first, *rest = names
    if any(name != first and name.lower() == first.lower() for name in below):
        return None
    grown = _grown(below.get(first), rest, leaf)
    return None if grown is None else {**below, first: grown}


def _schema(layer: Any) -> types.StructType:
    return types.StructType().add("p", _type(layer)).add("z", types.IntegerType()).add("bad", types.StringType())


def _type(node: Any) -> types.DataType:
    if isinstance(node, dict):
        return types.StructType([types.StructField(name, _type(below)) for name, below in node.items()])
    return types.VariantType() if node == _VARIANT else KINDS[node]


def _in_variant(variant: Column, path: Sequence[str | int], kind: Type) -> _Found:
    """What lies at a path within a variant, and of what kind it and all on the way are."""
    unfit = sf.lit(False)
    for length, step in enumerate(path):
        passed = _kind(_part(variant, path[:length]))
        wanted = "ARRAY<" if isinstance(step, int) else "OBJECT<"
        unfit = unfit | sf.coalesce(~passed.startswith(wanted) & (passed != "VOID"), sf.lit(False))
    found = _part(variant, path)
    value = sf.try_variant_get(found, "$", KINDS[kind].simpleString())
    said = _kind(found)
    right = {
        "text": said == "STRING",
        "double": said.rlike(_NUMBER_KINDS),
        "long": said == "BIGINT",
        "boolean": said == "BOOLEAN",
    }[kind]
    return _Found(sf.when(right, value), unfit | sf.coalesce(~right & (said != "VOID"), sf.lit(False)))


def _kind(variant: Column) -> Column:
    return sf.schema_of_variant(variant)


def _part(variant: Column, path: Sequence[str | int]) -> Column:
    if not path:
        return variant
    steps = [f"[{step}]" if isinstance(step, int) else f'["{step}"]' for step in path]
    return sf.try_variant_get(variant, "$" + "".join(steps), "variant")


# Texts.


def _cells(text: Column, delimiter: str) -> Column:
    """The cells of a record, as they are written; null: it is none."""
    cell, sign = decoding.cell_regex(delimiter), java_literal(delimiter)
    right = text.rlike(rf"\A(?:{cell})(?:{sign}(?:{cell}))*+\r?\n?\z")
    bare = sf.regexp_replace(text, r"[\r\n]+\z", "")
    found = sf.regexp_extract_all(sf.concat(sf.lit(delimiter), bare), sf.lit(f"{sign}({cell})"), 1)
    return sf.when(right, found)


def _cell(cells: Column, path: Path) -> Column:
    (place,) = path
    cell = sf.get(cells, sf.lit(place))
    inside = sf.replace(cell.substr(sf.lit(2), sf.length(cell) - 2), sf.lit('""'), sf.lit('"'))
    return sf.when(cell.startswith('"'), inside).otherwise(cell)


def _bare(text: Column) -> Column:
    return sf.btrim(text, sf.lit(decoding.BLANK))


def _from_text(text: Column, kind: Type) -> _Found:
    if kind == "text":
        return _sure(sf.nullif(text, sf.lit("")))
    bare = _bare(text)
    match kind:
        case "double":
            value = _number(bare)
        case "long":
            value = sf.when(_is(bare, decoding.INTEGER), bare.try_cast("bigint"))
        case _:
            low = sf.lower(bare)
            value = sf.when(low.isin("true", "1"), sf.lit(True)).when(low.isin("false", "0"), sf.lit(False))
    return _Found(value, sf.coalesce((bare != "") & value.isNull(), sf.lit(False)))


def _is(text: Column, regex: str, case: str = "") -> Column:
    return text.rlike(rf"{case}\A(?:{regex})\z")


def _number(bare: Column) -> Column:
    infinity = sf.when(bare.startswith("-"), sf.lit(float("-inf"))).otherwise(sf.lit(float("inf")))
    return (
        sf.when(_is(bare, decoding.DECIMAL), bare.try_cast("double"))
        .when(_is(bare, decoding.INFINITE, "(?i)"), infinity)
        .when(_is(bare, decoding.NO_NUMBER, "(?i)"), sf.lit(float("nan")))
    )


# Floats.


def _float(digits: Column, place: int, size: int, big: bool) -> Column:
    """The number at a place among the bytes, of which there are two digits each: by the bits of IEEE 754, because Spark
    has no function for it. Powers of two, and products with them, are exact."""
    begin = 2 * size * place
    order = range(size) if big else range(size - 1, -1, -1)
    pairs = [digits.substr(begin + 2 * byte + 1, 2) for byte in order]
    half = size // 2
    # In two parts: all 64 bits are no number of Spark's.
    high, low = (sf.conv(sf.concat(*part), 16, 10).cast("bigint") for part in (pairs[:half], pairs[half:]))
    bits = 4 * size
    exponent_bits, low_scale = (8, 16) if size == 4 else (11, 32)
    mantissa_bits = 8 * size - 1 - exponent_bits
    high_mantissa = mantissa_bits - low_scale
    sign = sf.when(sf.shiftright(high, bits - 1) == 1, sf.lit(-1.0)).otherwise(sf.lit(1.0))
    exponent = sf.shiftright(high, high_mantissa).bitwiseAND(sf.lit((1 << exponent_bits) - 1).cast("bigint"))
    rest = high.bitwiseAND(sf.lit((1 << high_mantissa) - 1).cast("bigint")) * (1 << low_scale) + low
    bias = (1 << (exponent_bits - 1)) - 1 + mantissa_bits
    usual = (rest + sf.lit(1 << mantissa_bits)).cast("double") * sf.power(sf.lit(2.0), exponent - bias)
    small = rest.cast("double") * sf.power(sf.lit(2.0), sf.lit(1.0 - bias))
    beyond = sf.when(rest == 0, sf.lit(float("inf"))).otherwise(sf.lit(float("nan")))
    number = sf.when(exponent == (1 << exponent_bits) - 1, beyond).when(exponent == 0, small).otherwise(usual)
    return sf.when(sf.length(digits) >= begin + 2 * size, sign * number)


# Times.


def _written(bare: Column, form: str | None) -> Column:
    """Microseconds of a time as text; null: it is none."""
    regex, parts = (decoding.ISO, decoding.ISO_PARTS) if form is None else time_regex(form)
    group = {part: sf.regexp_extract(bare, rf"\A(?:{regex})\z", number) for number, part in enumerate(parts, 1)}

    def part(name: str, default: str) -> Column:
        return sf.when(group[name] != "", group[name]).otherwise(sf.lit(default)) if name in group else sf.lit(default)

    fraction = sf.substring(sf.rpad(part("%f", "0"), 6, "0"), 1, 6)
    zone = part("%z", "Z")
    digits = sf.rpad(sf.replace(sf.substring(zone, 2, 6), sf.lit(":"), sf.lit("")), 4, "0")
    offset = sf.when(zone == "Z", sf.lit("Z")).otherwise(
        sf.concat(sf.substring(zone, 1, 1), sf.substring(digits, 1, 2), sf.lit(":"), sf.substring(digits, 3, 2))
    )
    date = sf.concat(part("%Y", ""), sf.lit("-"), part("%m", ""), sf.lit("-"), part("%d", ""))
    clock = sf.concat(part("%H", "00"), sf.lit(":"), part("%M", "00"), sf.lit(":"), part("%S", "00"))
    text = sf.concat(date, sf.lit("T"), clock, sf.lit("."), fraction, offset)
    right = _is(bare, regex) & (part("%Y", "") != "0000")
    return sf.unix_micros(sf.when(right, text).try_cast("timestamp"))


# In Python.


def _in_python(declared: Payload) -> Any:
    fields = types.StructType([types.StructField(each.name, KINDS[each.type]) for each in declared.fields])
    kind = types.StructType().add("fields", fields)
    for name, one in (("value", KINDS["double"]), ("time", KINDS["long"]), ("fits", KINDS["boolean"])):
        kind = kind.add(name, one)

    arrow = to_arrow_type(kind)

    def decode(payloads: pa.Array) -> pa.Array:
        rows = [None if each is None else decoding.decode(each, declared)._asdict() for each in payloads.to_pylist()]
        return pa.array(rows, arrow)

    return sf.arrow_udf(decode, kind)  # type: ignore[attr-defined]
