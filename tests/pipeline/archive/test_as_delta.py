"""The archive as a Delta table, read by polars."""

from datetime import timedelta
from pathlib import Path

import polars as pl

from fumarole.pipeline.archive import open_root
from fumarole.pipeline.archive.as_delta import publish
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.jobs.compacting import compact, sweep
from tests.pipeline.archives import BEGIN, Recorder, change, message


def test_the_table_has_what_is_sealed_also_after_compaction(tmp_path: Path) -> None:
    root, recorder = open_root(tmp_path), Recorder(tmp_path)
    recorder.seal([message(second, "a", "p", 1.5, {"Room": "410"}) for second in range(3)])
    assert publish(root) == (1, 0)
    assert publish(root) == (0, 0)
    recorder.seal([message(3600 + second, "b", None, 2.0) for second in range(2)])
    recorder.seal([message(5, "a", "p", 3.0)])
    recorder.seal(change(0, "p", {"Room": "411"}), "changes")
    assert publish(root) == (2, 0)
    assert len(list(compact(root))) == 1
    assert publish(root) == (1, 2)
    assert sweep(root, grace=timedelta(0)) == 2
    read = pl.read_delta(str(tmp_path / "default"))
    assert sorted(read["value"].to_list()) == [1.5, 1.5, 1.5, 2.0, 2.0, 3.0]
    assert sorted(read.filter(pl.col("hour") == 13)["topic"].to_list()) == ["b", "b"]
    assert verify(root, "default") == []
    assert len(list(compact(root, now=BEGIN + timedelta(days=3), days_after=timedelta(days=1)))) == 1
    assert publish(root) == (1, 2)
    day = pl.read_delta(str(tmp_path / "default"))
    assert sorted(day["value"].to_list()) == sorted(read["value"].to_list())
    assert day["hour"].unique().to_list() == [None]
