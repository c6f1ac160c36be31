"""Declared payloads in Arrow tables: what a recorder and the live source add to messages (P6, P7).

The value and the sensor's time are found by `core.decoding`, message by message, on declared topics only: topics are
few and messages many, so each topic is looked up once. A header `Time` counts on every topic, where a payload has no
time.
"""

from __future__ import annotations

import tomllib
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fumarole.core.decoding import decode, header_time
from fumarole.core.payloads import AHEAD, BEHIND, TIME_HEADER, DeclarationError, Payload, Payloads, parse
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.errors import PipelineError


class Declared(NamedTuple):
    """Messages with `value` and `event_time` as declared."""

    rows: pa.Table
    unfit: int
    """Messages whose payload is not as declared."""


def payloads(given: str | PathLike[str] | Payloads | list[dict[str, Any]] | None) -> Payloads:
    """Declarations: those of a file, `[[payloads]]` in TOML, or tables of the same form. Raises PipelineError."""
    if given is None:
        return Payloads()
    if isinstance(given, Payloads):
        return given
    try:
        if isinstance(given, list):
            return parse(given)
        return parse(tomllib.loads(Path(given).read_text()).get("payloads", []))
    except OSError as error:
        raise PipelineError(f"{given} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{given} is no TOML: {error}") from None
    except DeclarationError as error:
        raise PipelineError(str(error) if isinstance(given, list) else f"{given}: {error}") from None


def declare(rows: pa.Table, declarations: Payloads) -> Declared:
    """The messages, with what their payloads and headers say of value and time."""
    times = _header_times(rows)
    values: dict[int, float | None] = {}
    unfit = 0
    for declared, places in _by_declaration(rows, declarations):
        found = rows["payload"].take(pa.array(places))
        for place, payload in zip(places, found.to_pylist(), strict=True):
            said = decode(payload, declared)
            unfit += not said.fits
            if declared.value is not None:
                values[place] = said.value
            if said.time is not None:
                times[place] = said.time
    rows = _replaced(rows, "value", values, pa.float64())
    return Declared(_replaced(rows, "event_time", times, TIME), unfit)


def by_event_time(rows: pa.Table, declarations: Payloads) -> pa.Table:
    """Live messages as declared, by their own times: as `transforms.decode` makes recorded ones, without fields."""
    found = declare(rows, declarations).rows
    recorded, events = found["time"].combine_chunks(), found["event_time"].combine_chunks()
    time, wrong = recorded, pa.repeat(pa.scalar(False), len(recorded))
    if events.null_count < len(events):
        ahead, behind = np.full(len(events), AHEAD), np.full(len(events), BEHIND)
        for declared, places in _by_declaration(found, declarations):
            ahead[places], behind[places] = declared.ahead, declared.behind
        late = pc.subtract(recorded.cast(pa.int64()), events.cast(pa.int64()))
        wrong = pc.fill_null(pc.or_(pc.less(late, pa.array(-ahead)), pc.greater(late, pa.array(behind))), False)
        time = pc.if_else(wrong, recorded, pc.coalesce(events, recorded))
    return (
        found.set_column(found.schema.get_field_index("time"), found.schema.field("time"), time)
        .append_column(pa.field("recorded", TIME), recorded)
        .append_column(pa.field("wrong_clock", pa.bool_()), wrong)
    )


def _by_declaration(rows: pa.Table, declarations: Payloads) -> list[tuple[Payload, list[int]]]:
    """The places of messages on declared topics. Declarations that none of them is on are left out."""
    if not declarations.declared or not rows.num_rows:
        return []
    coded = rows["topic"].combine_chunks().dictionary_encode()
    numbers = {declared: number for number, declared in enumerate(declarations.declared)}
    of_topic = [declarations.of(topic) for topic in coded.dictionary.to_pylist()]
    chosen = np.array([-1 if each is None else numbers[each] for each in of_topic])[coded.indices.to_numpy()]
    found = ((each, np.flatnonzero(chosen == number).tolist()) for each, number in numbers.items())
    return [(each, places) for each, places in found if places]


def _header_times(rows: pa.Table) -> dict[int, int]:
    """By place; of the many messages without such a header nothing is looked at."""
    headers = rows["headers"].combine_chunks()
    if headers.null_count == len(headers) or not pc.any(pc.equal(headers.keys, TIME_HEADER)).as_py():
        return {}
    found = {}
    for place, pairs in enumerate(headers.to_pylist()):
        texts: list[str] = next((texts for name, texts in pairs or () if name == TIME_HEADER and texts), [])
        time = header_time(texts[0]) if texts else None
        if time is not None:
            found[place] = time
    return found


def _replaced(rows: pa.Table, name: str, found: dict[int, Any], kind: pa.DataType) -> pa.Table:
    if not found:
        return rows
    places = np.fromiter(found.keys(), np.int64, len(found))
    there = np.zeros(rows.num_rows, bool)
    there[places] = True
    order = np.argsort(places, kind="stable")
    given = list(found.values())
    made = pa.array([given[each] for each in order], pa.int64() if pa.types.is_timestamp(kind) else kind)
    column = pc.replace_with_mask(rows[name].combine_chunks(), pa.array(there), made.cast(kind))
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
