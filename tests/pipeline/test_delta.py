"""Delta tables over files that lie there already; read by programs of others."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import duckdb_extensions
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fumarole.pipeline.archive import open_root
from fumarole.pipeline.delta import CHECKPOINT_EVERY, Published, statistics

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("time", "timestamp"), ("value", "double"), ("date", "date"), ("hour", "integer"))
        ],
    }
)


def put(folder: Path, name: str, values: list[float]) -> str:
    path = f"{name}/date=2026-03-01/hour=09/part.parquet"
    times = [NOON + timedelta(seconds=second, microseconds=123_456) for second in range(len(values))]
    (folder / "t" / path).parent.mkdir(parents=True)
    pq.write_table(pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "value": values}), folder / "t" / path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Published:
    return Published(open_root(tmp_path), "t", SCHEMA, ("date", "hour"))


def values(folder: Path) -> list[float]:
    """As polars reads the table."""
    return sorted(pl.read_delta(str(folder / "t"))["value"].to_list())


def test_a_batch_counts_once(tmp_path: Path, table: Published) -> None:
    first, second = put(tmp_path, "a", [1.0]), put(tmp_path, "b", [2.0])
    assert (table.version_of("j"), table.files()) == (None, set())
    assert table.commit("j", 1, [first])
    assert not table.commit("j", 1, [second])
    assert table.commit("other", 1, [second])
    assert (table.version_of("j"), table.files(), values(tmp_path)) == (1, {first, second}, [1.0, 2.0])
    assert table.commit("j", 5, ())
    assert table.version_of("j") == 5


def test_files_are_replaced_at_once_and_deleted_later(tmp_path: Path, table: Published) -> None:
    small = [put(tmp_path, name, [float(number)]) for number, name in enumerate("abc")]
    table.commit("j", 1, small)
    whole = put(tmp_path, "whole", [0.0, 1.0, 2.0])
    table.commit("j", 2, [whole], small, same_rows=True)
    assert values(tmp_path) == [0.0, 1.0, 2.0]
    assert (table.vacuum(), table.vacuum(timedelta(0))) == (0, 3)
    assert not (tmp_path / "t" / small[0]).exists()
    assert values(tmp_path) == [0.0, 1.0, 2.0]


def test_duckdb_reads_it_with_its_own_extension(tmp_path: Path, table: Published) -> None:
    table.commit("j", 1, [put(tmp_path, "a", [1.0, 2.0])])
    with duckdb.connect() as connection:
        duckdb_extensions.import_extension("delta", con=connection)
        connection.execute("LOAD delta")
        asked = f"SELECT hour, date::text, sum(value) FROM delta_scan('{tmp_path / 't'}') WHERE time > '2026-03-01' GROUP BY ALL"
        assert connection.execute(asked).fetchall() == [(9, "2026-03-01", 3.0)]


def test_checkpoints_are_made(tmp_path: Path, table: Published) -> None:
    for number in range(1, CHECKPOINT_EVERY + 2):
        table.commit("j", number, ())
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))


def test_times_of_a_file_are_never_narrower_than_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "t" / put(tmp_path, "a", [1.0, 2.0])
    assert statistics(pq.read_metadata(path)) == {
        "numRecords": 2,
        "minValues": {"time": "2026-03-01T12:00:00.123Z"},
        "maxValues": {"time": "2026-03-01T12:00:01.124Z"},
    }
