"""What one shard remembers of its producers: a column for each thing, a row for each producer; and as bytes.

All that is remembered has a bound: the last readings are kept as a few numbers, pauses and windows as the last so many.
What belongs to a rule is kept under the digest of what the rule means. With another meaning it begins anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fumarole.core.rules import HABIT_PAUSES, LEAST_PAUSES, Rule
from fumarole.pipeline.rules.truths import Truths

Column = NDArray[Any]
NEVER: Final = -(2**62)
_ENDLESS: Final = 2**61
IDLE, PENDING, RAISED = 0, 1, 2
_KIND: Final = b"fumarole.state"
_ROLLUPS: Final = b"fumarole.rollups"


@dataclass(frozen=True, slots=True)
class _Kind:
    dtype: str
    initial: float
    width: int = 0

    def rows(self, count: int) -> Column:
        shape = (count, self.width) if self.width else (count,)
        return np.full(shape, self.initial, self.dtype)


def kinds(truths: Truths) -> dict[str, _Kind]:
    """The columns that these rules need."""
    found = {
        "newest": _Kind("i8", NEVER),
        "newest_at": _Kind("i8", NEVER),
        "mentioned": _Kind("i8", NEVER),
        "heard": _Kind("i8", NEVER),
        "value": _Kind("f8", np.nan),
        "form": _Kind("i8", 0, max(1, truths.metadata_words)),
    }
    for rule in truths.rules:
        if rule.rollup is not None:
            continue
        found |= {
            of("status", rule): _Kind("i1", IDLE),
            of("since", rule): _Kind("i8", NEVER),
            of("muted", rule): _Kind("?", False),
            of("latest", rule): _Kind("i8", NEVER),
            of("repeats", rule): _Kind("i4", 0),
            of("again", rule): _Kind("i4", 0),
        }
        if rule.rate is not None:
            found |= {of("last_time", rule): _Kind("i8", NEVER), of("last_value", rule): _Kind("f8", 0.0)}
        if rule.zscore is not None:
            found |= {of("window", rule): _Kind("f8", np.nan, rule.window), of("count", rule): _Kind("i8", 0)}
    if any(rule.silence is not None and rule.silence.factor is not None for rule in truths.rules):
        found |= {"pauses": _Kind("i8", 0, HABIT_PAUSES), "paused": _Kind("i8", 0), "habit": _Kind("f8", np.nan)}
    return found


def habits(pauses: Column, counts: Column) -> Column:
    """The median pause of each producer, of which so many are known in all; NaN where they are too few for a habit."""
    held = np.minimum(counts, HABIT_PAUSES)
    in_order = np.sort(np.where(np.arange(HABIT_PAUSES) < held[:, None], pauses, _ENDLESS), axis=1)
    rows = np.arange(len(held))
    middle = (in_order[rows, np.maximum(held - 1, 0) // 2] + in_order[rows, held // 2]) / 2
    return np.where(held < LEAST_PAUSES, np.nan, middle)


def of(name: str, rule: Rule) -> str:
    """The column of a rule."""
    return f"{name}:{rule.name}:{rule.digest}"


@dataclass(slots=True)
class Ended:
    """Alarms of rules that are no more, or mean something else now."""

    rule: str
    producer: str
    since: int
    again: int


@dataclass(slots=True)
class State:
    """The columns, and what is of no producer."""

    kinds: dict[str, _Kind]
    names: list[str] = field(default_factory=list)
    metadata: list[bytes] = field(default_factory=list)
    """JSON."""
    columns: dict[str, Column] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    listening: int = 0
    now: int = NEVER
    second: dict[str, list[int]] = field(default_factory=dict)
    """For each rule the last second in which it raised something, and how often."""
    ended: list[Ended] = field(default_factory=list)
    rollups: bytes = b"[]"
    tests: str = ""
    """Of which tests of metadata `form` has the answers."""

    def __post_init__(self) -> None:
        for name, kind in self.kinds.items():
            self.columns.setdefault(name, kind.rows(len(self.names)))
        self.index = {name: number for number, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def numbers(self, names: Sequence[str]) -> Column:
        """The rows of these producers, which are made where there are none."""
        new = [name for name in names if name not in self.index]
        if new:
            for name in new:
                self.index[name] = len(self.names)
                self.names.append(name)
                self.metadata.append(b"{}")
            for name, kind in self.kinds.items():
                self.columns[name] = np.concatenate([self.columns[name], kind.rows(len(new))])
        return np.array([self.index[name] for name in names], np.int64)

    def begin(self, rule: Rule, number: int, since: int) -> int:
        """An alarm begins. Gives its `again`."""
        latest, repeats, again = (self[of(name, rule)] for name in ("latest", "repeats", "again"))
        self[of("status", rule)][number] = RAISED
        self[of("since", rule)][number] = since
        if since > latest[number]:
            latest[number], again[number] = since, 0
        else:
            repeats[number] += 1
            again[number] = repeats[number]
        return int(again[number])

    def forget(self, numbers: Iterable[int]) -> None:
        """Numbers of all others change."""
        gone = set(numbers)
        if not gone:
            return
        keep = np.array([number for number in range(len(self.names)) if number not in gone], np.int64)
        self.names = [self.names[number] for number in keep]
        self.metadata = [self.metadata[number] for number in keep]
        self.columns = {name: column[keep] for name, column in self.columns.items()}
        self.index = {name: number for number, name in enumerate(self.names)}

    def as_bytes(self) -> bytes:
        """For `from_bytes`."""
        arrays = [pa.array(self.names, pa.string()), pa.array(self.metadata, pa.binary())]
        for column in self.columns.values():
            flat = pa.array(column.ravel())
            arrays.append(flat if column.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, column.shape[1]))
        others = json.dumps({"listening": self.listening, "now": self.now, "second": self.second, "tests": self.tests})
        table = pa.table(arrays, ["names", "metadata", *self.columns]).replace_schema_metadata(
            {_KIND: others, _ROLLUPS: self.rollups}
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        made: bytes = sink.getvalue().to_pybytes()
        return made

    @classmethod
    def from_bytes(cls, data: bytes, wanted: dict[str, _Kind]) -> State:
        """What it was; of rules that are no more only that their alarms have `ended`."""
        table = pa.ipc.open_stream(data).read_all()
        columns = {}
        for name in table.column_names[2:]:
            column = table[name].combine_chunks()
            if pa.types.is_fixed_size_list(column.type):
                width = column.type.list_size
                columns[name] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width).copy()
            else:
                columns[name] = column.to_numpy(zero_copy_only=False).copy()
        others = json.loads(table.schema.metadata[_KIND])
        names = table["names"].to_pylist()
        ended = [
            Ended(name.split(":")[1], names[number], *_begun(columns, name, int(number)))
            for name, column in columns.items()
            if name.startswith("status:") and name not in wanted
            for number in np.flatnonzero((column == RAISED) & ~columns[name.replace("status", "muted", 1)])
        ]
        kept = {name: column for name, column in columns.items() if name in wanted}
        if "form" in kept and kept["form"].shape[1] != wanted["form"].width:
            del kept["form"]
        if "habit" in wanted and "habit" not in kept and "pauses" in kept:  # an older version wrote it
            kept["habit"] = habits(kept["pauses"], kept["paused"])
        metadata = table["metadata"].to_pylist()
        return cls(
            *(wanted, names, metadata, kept, {}, others["listening"], others["now"], others["second"], ended),
            table.schema.metadata[_ROLLUPS],
            others["tests"],
        )


def _begun(columns: dict[str, Column], status: str, number: int) -> tuple[int, int]:
    """`since` and `again` of an alarm that is raised. A state of an older version does not count."""
    again = columns.get(status.replace("status", "again", 1))
    return int(columns[status.replace("status", "since", 1)][number]), 0 if again is None else int(again[number])
