"""The output of the pipeline's commands: one table, written as Parquet, printed, or as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, SparkSession

from fumarole.cli.pipeline.options import Shown, SparkOptions
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import MISUSED, YELLOW, count_text, fail, paint, printable, say
from fumarole.pipeline.jobs.batch import Part, write
from fumarole.pipeline.times import as_utc
from fumarole.pipeline.transforms.grouping import quoted


@dataclass(frozen=True, slots=True)
class Table:
    """The form of a command's table: its layout, its order, its time zone."""

    name: str
    part: Part
    made: Callable[[SparkSession], DataFrame]
    by: str | None
    """The column of times by which its files are partitioned."""
    order: list[str]
    hidden: list[str] = field(default_factory=list)
    largest: str = "count"
    """The column for `--top` when `--sort` is not given."""
    columns: tuple[str, ...] = ()
    """Those that it has, where they are known before Spark starts: so a wrong --sort is told at once."""
    zone: str | None = None
    """The time zone in which times are shown; None: UTC. JSON always has UTC."""


def run_batch(spark_options: SparkOptions, table: Table, shown: Shown) -> None:
    """One table, written or shown."""
    from fumarole.cli.pipeline.spark import check_out, spark_session

    if table.columns:
        _order(table, shown, table.columns)
    if shown.out is not None:
        check_out(spark_options, shown.out)
    with spark_session(spark_options, table.name, table.part) as spark:
        frame = table.made(spark)
        order = [_ordered(name) for name in _order(table, shown, frame.columns)]
        if shown.top is not None:
            frame = (frame.orderBy(*order) if order else frame).limit(shown.top)
        if shown.out is not None:
            with waiting("Spark is at work"):
                rows = write(frame, shown.out, table.by)
            say_unfit(table.part)
            say(f"{count_text(rows, 'row')} written to {shown.out}")
            return
        columns = [column for column in frame.columns if column not in table.hidden]
        with waiting("Spark is at work"):
            ordered = frame.orderBy(*order) if order else frame
            rows_shown = ordered.select(*map(quoted, columns)).limit(shown.limit + 1).collect()
        say_unfit(table.part)
        show_rows([row.asDict(recursive=True) for row in rows_shown], columns, shown, table.zone)


def say_unfit(part: Part) -> None:
    """Prints how many payloads did not fit their declaration. They stay in the archive, and no job stops (P6)."""
    unfit = part.unfit()
    if unfit:
        say(paint(f"{count_text(unfit, 'message')} did not fit its declaration", YELLOW, sys.stderr))


def _order(table: Table, shown: Shown, columns: Sequence[str]) -> list[str]:
    """The columns to order by, with a - where the largest is first. A column that is not there ends the command."""
    chosen = shown.sort or (f"-{table.largest}" if shown.top is not None else None)
    if chosen is None:
        return table.order
    name = chosen.removeprefix("-")
    if name not in columns:
        said = f"--sort: there is no column {name!r}" if shown.sort else "--top: --sort names the column"
        fail(f"{said}; there are {', '.join(columns)}", MISUSED)
    largest_first = chosen.startswith("-") or shown.top is not None
    return [f"-{name}" if largest_first else name, *(each for each in table.order if each.lstrip("-") != name)]


def _ordered(name: str) -> Column:
    """The order by a column. Null is last in both directions."""
    return quoted(name[1:]).desc_nulls_last() if name.startswith("-") else quoted(name).asc_nulls_last()


def show_rows(rows: list[dict[str, Any]], columns: list[str], shown: Shown, zone: str | None = None) -> None:
    """Prints a table, or JSON, on stdout."""
    if shown.as_json:
        for row in rows[: shown.limit]:
            sys.stdout.write(json.dumps({name: plain(value) for name, value in row.items()}) + "\n")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    table = Grid(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows[: shown.limit]:
        table.add_row(*[escape(shown_text(row[name], zone)) for name in columns])
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    if len(rows) > shown.limit:
        say(f"more than {count_text(shown.limit, 'row')}: --limit shows more, --out writes all")


def plain(value: Any) -> Any:
    """A value of a row, for JSON."""
    if isinstance(value, datetime):
        return as_utc(value).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, dict):
        return {key: _metadata(each) if isinstance(each, dict) else each for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None  # NaN or an infinity, for instance a mean whose sum overflows; JSON has no form for it
    return value


def _metadata(value: dict[str, Any]) -> Any:
    kind = value.get("kind")
    exact = value.get("text") if kind == "number" else None
    return value.get(str(kind)) if exact is None else int(exact)


def shown_text(value: Any, zone: str | None = None) -> str:
    """A value of a row, for people."""
    match value:
        case None:
            return "–"
        case datetime():
            fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
            local = as_utc(value) if zone is None else as_utc(value).astimezone(ZoneInfo(zone))
            return f"{local:%Y-%m-%d %H:%M:%S}{fraction}"
        case float():
            return f"{value:,.1f}" if 1e4 <= abs(value) < 1e15 else f"{value:,.4g}"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{printable(key)} = {each!r}" for key, each in plain(value).items())
        case _:
            return printable(str(value))
