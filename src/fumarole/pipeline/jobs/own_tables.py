"""Users' own tables in the loop of the standing job (P12).

    from pyspark.sql import DataFrame
    from fumarole import pipeline

    @pipeline.table("calibrated", key=["recorder", "epoch", "sequence"])
    def calibrated(readings: DataFrame) -> DataFrame:
        gain, offset = "metadata.gain.number", "metadata.offset.number"
        return readings.selectExpr("*", f"value * {gain} + {offset} AS celsius")

The function gets the readings of a batch, with the metadata that held. Its rows are merged into a Delta table by the
key: a row replaces the one that has the same. Readings whose metadata was sealed late come again, as they are then. A
table that is new gets all readings that there are.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from fumarole.pipeline.errors import PipelineError

Make = Callable[[DataFrame], DataFrame]
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_OURS: Final = re.compile(r"readings|islands|gaps|rollup[-_].*")
TIMES: Final = ("time", "start")
"""A table that has one of these columns is laid out by its date."""


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table of a user: its name, the columns that tell its rows apart, and the function that makes them."""

    name: str
    key: tuple[str, ...]
    make: Make

    def __call__(self, readings: DataFrame) -> DataFrame:
        return self.make(readings)


def table(name: str, *, key: Sequence[str]) -> Callable[[Make], OwnTable]:
    """Makes a function from readings to rows a table of the standing job. Raises PipelineError."""
    if not _NAME.fullmatch(name) or _OURS.fullmatch(name):
        raise PipelineError(f"no table of one's own can be called {name!r}: small letters, digits and _, and not ours")
    if isinstance(key, str) or not key:
        raise PipelineError(f"the key of the table {name} is a list of columns, such as ['producer', 'time']")
    return lambda make: OwnTable(name, tuple(key), make)


def own_tables(file: Path) -> list[OwnTable]:
    """Those that a module has, in the order in which it makes them. Raises PipelineError."""
    spec = importlib.util.spec_from_file_location("fumarole_own_tables", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise PipelineError(f"{file} is no module of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PipelineError(f"{file}: {type(error).__name__}: {error}") from error
    found = [each for each in vars(module).values() if isinstance(each, OwnTable)]
    names = [each.name for each in found]
    if not found:
        raise PipelineError(f"{file} has no table; write @pipeline.table(NAME, key=[…]) before a function")
    if len(set(names)) < len(names):
        raise PipelineError(f"{file}: two tables have one name")
    return found
