"""Messages with the metadata that held when each came: the same as by one dictionary for each producer (M3, M5)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.publication import FORGOTTEN
from fumarole.pipeline.live.describing import Describing
from fumarole.pipeline.rows import MESSAGE_ROWS, held, typed

_NEWS = st.dictionaries(
    st.sampled_from("ABC"), st.sampled_from(["x", 1, True, 2**53 + 1, None]), min_size=1, max_size=2
)
_ROWS = st.lists(
    st.tuples(st.sampled_from(["p", "q", "r", None]), st.one_of(st.none(), st.none(), _NEWS, st.just("forgotten"))),
    max_size=12,
)


def table(rows: list[tuple[str | None, Any]]) -> pa.Table:
    made = [
        {
            "time": number,
            "topic": FORGOTTEN if news == "forgotten" else "a",
            "producer": producer,
            "payload": b"",
            "changes": list(typed(news)) if isinstance(news, dict) else None,
        }
        for number, (producer, news) in enumerate(rows)
    ]
    return pa.Table.from_pylist(made, MESSAGE_ROWS)


@given(_ROWS, st.integers(0, 12))
def test_each_message_has_what_held(rows: list[tuple[str | None, Any]], cut: int) -> None:
    known: dict[str, dict[str, Any]] = {"p": {"A": "old", "C": 7}}
    describing = Describing()
    describing.learn([("p", {**known["p"], "_online": True})])
    found = [
        dict(row["metadata"])
        for part in (rows[:cut], rows[cut:])
        for row in describing.described(table(part)).to_pylist()
    ]
    expected: list[dict[str, Any]] = []
    for producer, news in rows:
        if producer is None:
            expected.append({})
            continue
        if news == "forgotten":
            known.pop(producer, None)
        elif news is not None:
            own = {**known.get(producer, {}), **news}
            known[producer] = {key: value for key, value in own.items() if value is not None}
        expected.append(known.get(producer, {}))
    assert [held({"key": key, **value} for key, value in each.items()) for each in found] == expected


def test_who_is_not_known() -> None:
    describing = Describing()
    describing.learn([("p", {"A": 1})])
    assert describing.knows_all(table([("p", None), (None, None), ("q", {"A": 1}), ("q", None)]))
    assert not describing.knows_all(table([("q", None), ("q", {"A": 1})]))
    describing.described(table([("q", None)]))
    assert describing.knows_all(table([("q", None)]))
    describing.learn([])
    assert not describing.knows_all(table([("p", None)]))
