"""Rules over an archive by `whatif --rules`: every alarm in the table, and in the report (P13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.archives import Recorder, change, message
from tests.pipeline.commands import run_command

RULES = """
[[rules]]
name = "hot"
where = "Kind = 'heat' and $value > 5"
publish = "alarms.hot.{Kind}"
limit = %d
"""


def rehearsed(folder: Path, *options: str, limit: int = 1000) -> tuple[list[dict[str, Any]], str]:
    """The alarms, and what is said beside them."""
    rules = folder / "rules.toml"
    rules.write_text(RULES % limit)
    command = ("pipeline", "whatif", "--archive", str(folder / "archive"), "--rules", str(rules), "--json", *options)
    out, err = run_command(*command)
    return [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def recorder(commands_in_session: None, tmp_path: Path) -> Recorder:
    made = Recorder(tmp_path / "archive")
    for name in "pq":
        made.seal(change(0, name, {"Kind": "heat"}), "changes")
    return made


def test_table_and_report(recorder: Recorder, tmp_path: Path) -> None:
    recorder.seal([message(second, "a", "p", value) for second, value in ((1, 6.0), (2, 9.0), (4, 1.0), (6, 8.0))])
    page = tmp_path / "report.html"
    rows, err = rehearsed(tmp_path, "--page", str(page))
    assert [(row["since"][-3:], row["until"], row["seconds"], row["value"]) for row in rows] == [
        ("01Z", "2026-03-01T12:00:04Z", 3.0, 6.0),
        ("06Z", None, 0.0, 8.0),
    ]
    assert "these rules would have raised 2 alarms: hot 2\n" in err
    assert "over the limit" not in err
    text = page.read_text()
    assert "Alarms" in text
    assert "hot: a (p)" in text, "a line of the picture"


def test_alarms_that_begin_at_the_same_time(recorder: Recorder, tmp_path: Path) -> None:
    """Each is an alarm of its own, as live."""
    recorder.seal([message(second, "a", "p", value) for second, value in ((1, 6.0), (1, 1.0), (1, 7.0), (3, 1.0))])
    rows, _ = rehearsed(tmp_path)
    assert sorted((row["seconds"], row["value"]) for row in rows) == [(0.0, 6.0), (2.0, 7.0)]


def test_alarms_over_the_limit_are_counted(recorder: Recorder, tmp_path: Path) -> None:
    values = [value for _ in range(6) for value in (9.0, 1.0)]
    recorder.seal([message(1 + number / 100, "a", "p", value) for number, value in enumerate(values)])
    rows, err = rehearsed(tmp_path, limit=2)
    assert "5 alarms more over the limit of their rule, not listed" in err, "two shards: one alarm a second each"
    assert len(rows) == 1
