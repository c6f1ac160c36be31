"""What a row has under a key of a query, as columns: one for each kind that the value may be of (M10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, types
from pyspark.sql import functions as sf

WHOLE: Final = types.DecimalType(20, 0)
"""Holds every whole number that metadata can have (64 bits, with or without sign)."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a row has under a key: each column is null where the value is of another kind."""

    present: Column
    text: Column
    number: Column
    whole: Column
    """Whole numbers exactly, where they are known so; then `number` may be off."""
    truth: Column


def value_of(
    present: Column,
    *,
    text: Column | None = None,
    number: Column | None = None,
    whole: Column | None = None,
    truth: Column | None = None,
) -> Value:
    def or_null(column: Column | None, kind: types.DataType) -> Column:
        return sf.lit(None).cast(kind) if column is None else column

    return Value(
        present,
        or_null(text, types.StringType()),
        or_null(number, types.DoubleType()),
        or_null(whole, WHOLE),
        or_null(truth, types.BooleanType()),
    )


def from_column(column: Column, kind: types.DataType) -> Value:
    present = column.isNotNull()
    match kind:
        case types.StringType():
            return value_of(present, text=column.cast(types.StringType()))  # by its letters, whatever its collation
        case types.BooleanType():
            return value_of(present, truth=column)
        case types.IntegralType():
            return value_of(present, whole=column.cast(WHOLE))
        case types.DecimalType() if kind.scale == 0 and kind.precision <= WHOLE.precision:
            return value_of(present, whole=column.cast(WHOLE))
        case types.NumericType():
            return value_of(present, number=column.cast(types.DoubleType()))
        case _:
            return value_of(present)


def bound(column: Column, use: Callable[[Column], Column]) -> Column:
    """What `use` makes of the column, which is worked out once for a row, however often it stands there."""
    return sf.get(sf.transform(sf.array(column), use), sf.lit(0))
