"""Which files are the archive, and how rows get into it (P1)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from fumarole.pipeline.archive import MESSAGES, FileWriter, namespaces, open_root, sealed, write_rows
from fumarole.pipeline.archive.places import SEALED, Root, span
from fumarole.pipeline.archive.seals import Seal, put_manifest, put_seal
from fumarole.pipeline.archive.verifying import recover, set_aside, verify
from fumarole.pipeline.errors import ArchiveError, RowError
from fumarole.pipeline.reading import spark_path

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def row(time: datetime, topic: str = "a.b", payload: bytes = b"1", **more: Any) -> dict[str, Any]:
    return {"time": time, "topic": topic, "payload": payload, **more}


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    changes = [{"key": "Room", "kind": "text", "text": "410", "number": None, "truth": None}]
    given = row(NOON, value=1.0, producer="p", headers=[("A", ["b", "c"])], changes=changes, event_time=NOON)
    (seal,) = write_rows(tmp_path, "default", [given], recorder="r", epoch=7)
    assert seal.path == "date=2026-11-15/hour=12/r-7-000000000000.parquet"
    (file,) = sealed(tmp_path, "default")
    assert (file.rows, file.first, file.last, file.recorder, file.epoch) == (1, 0, 0, "r", 7)
    assert file.bytes == Path(file.uri).stat().st_size
    table = pq.read_table(file.uri, partitioning=None)
    assert table.to_pylist() == [{**given, "recorder": "r", "epoch": 7, "sequence": 0}]
    assert table.schema.equals(MESSAGES)
    assert pq.read_schema(file.uri).metadata[b"fumarole.version"] == b"3"


def test_rows_of_pandas(tmp_path: Path) -> None:
    import pandas as pd  # type: ignore[import-untyped]

    frame = pd.DataFrame([row(NOON, value=1.5), row(NOON + timedelta(hours=1), value=float("nan"))])
    assert [seal.rows for seal in write_rows(tmp_path, "default", frame)] == [1, 1]
    times = [pq.read_table(file.uri, partitioning=None)["time"][0].as_py() for file in sealed(tmp_path, "default")]
    assert times == [NOON, NOON + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param([{"topik": "a"}], "no column 'topik'; it has time, topic, producer", id="unknown"),
        pytest.param([row(NOON), {"time": NOON, "unit": "K"}], "no column 'unit'", id="unknown in a later row"),
        pytest.param(pa.table({"time": [NOON], "unit": ["K"]}), "no column 'unit'", id="of a table"),
        pytest.param(pa.table({"topic": ["a"]}), "have a column `time`", id="no time"),
        pytest.param(pa.table({"time": [NOON], "topic": ["a"], "value": ["x"]}), "`value`: not as", id="another type"),
        pytest.param([{"time": NOON, "payload": b""}], "not as an archive has it", id="no topic"),
    ],
)
def test_rows_that_cannot_be(tmp_path: Path, rows: Any, text: str) -> None:
    """What an archive has no place for was dropped unheard."""
    with pytest.raises(RowError, match=text):
        write_rows(tmp_path, "default", rows)
    assert not list(tmp_path.iterdir())


def test_each_hour_has_its_folder(tmp_path: Path) -> None:
    hours = [1, 0, 2, 0]
    seals = write_rows(
        tmp_path, "default", [row(NOON + timedelta(hours=hour), payload=str(hour).encode()) for hour in hours]
    )
    assert [(seal.path[:23], seal.first, seal.last) for seal in seals] == [
        ("date=2026-11-15/hour=12", 0, 1),
        ("date=2026-11-15/hour=13", 2, 2),
        ("date=2026-11-15/hour=14", 3, 3),
    ]


def test_since_and_until_leave_files_out(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [row(NOON + timedelta(hours=hour)) for hour in range(4)])
    change = {"time": NOON, "producer": "p", "key": "k", "kind": "gone"}
    write_rows(tmp_path, "default", [change], kind="changes")

    def hours(since: datetime | None, until: datetime | None) -> list[str]:
        found = sealed(tmp_path, "default", since, until)
        return [file.path[21:23] if file.kind == "messages" else "changes" for file in found]

    assert hours(None, None) == ["changes", "12", "13", "14", "15"]
    assert hours(NOON + timedelta(minutes=90), None) == ["changes", "14", "15"]  # that of 13 has one row, at 13:00
    assert hours(None, NOON + timedelta(hours=1)) == ["changes", "12"]
    assert hours(NOON + timedelta(hours=2), NOON + timedelta(hours=2, minutes=1)) == ["changes", "14"]
    assert hours(None, NOON - timedelta(hours=13)) == []


def test_a_file_without_a_seal_does_not_count(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [row(NOON)])
    folder = tmp_path / "default" / "date=2026-11-15" / "hour=12"
    pq.write_table(pa.table({"x": [1]}), folder / "foreign.parquet")
    assert [file.name for file in sealed(tmp_path, "default")] == ["rows-1-000000000000"]


def test_what_was_replaced_counts_no_more(tmp_path: Path) -> None:
    first = write_rows(tmp_path, "default", [row(NOON)], epoch=1)
    second = write_rows(tmp_path, "default", [row(NOON)], epoch=2)
    whole = Seal(
        path="date=2026-11-15/hour=12/compact-1.parquet", kind="messages", rows=2, first=0, last=0, bytes=1,
        recorder="", epoch=0, replaces=tuple(seal.name for seal in first + second),
    )  # fmt: skip
    put_seal(open_root(tmp_path), "default", whole)
    again = Seal(
        path="date=2026-11-15/hour=12/compact-2.parquet", kind="messages", rows=2, first=0, last=0, bytes=1,
        recorder="", epoch=0, replaces=(whole.name,),
    )  # fmt: skip
    put_seal(open_root(tmp_path), "default", again)
    assert [file.name for file in sealed(tmp_path, "default")] == ["compact-2"]


def test_messages_and_changes_do_not_share_names(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [row(NOON)])
    write_rows(tmp_path, "default", [{"time": NOON, "producer": "p", "key": "k", "kind": "gone"}], kind="changes")
    assert [(file.kind, file.name) for file in sealed(tmp_path, "default")] == [
        ("changes", "rows-1-000000000000.changes"),
        ("messages", "rows-1-000000000000"),
    ]


def test_names_never_repeat(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [row(NOON)])
    with pytest.raises(ArchiveError, match="is there already"):
        write_rows(tmp_path, "default", [row(NOON)])


def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"there is no archive at .*/nowhere"):
        sealed(tmp_path / "nowhere", "default")
    with pytest.raises(ArchiveError, match="no recorder has sealed a file there yet"):
        sealed(tmp_path, "default")
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveError, match="/file is a file; an archive is a folder"):
        sealed(tmp_path / "file", "default")
    write_rows(tmp_path, "other", [row(NOON)])
    assert namespaces(tmp_path) == ["other"]
    with pytest.raises(ArchiveError, match="it has other"):
        sealed(tmp_path, "default")
    with pytest.raises(ArchiveError, match="cannot be opened"):
        sealed("nosuchscheme://x/y", "default")


def test_a_newer_version_is_refused_and_what_is_no_seal_passed_over(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [row(NOON)])
    folder = tmp_path / "default" / "_sealed"
    (folder / "broken.json").write_text('{"version":1,"path":')
    (folder / "foreign.json").write_text("[]")
    (folder / "README").write_text("hello")
    assert len(sealed(tmp_path, "default")) == 1
    (folder / "newer.json").write_text('{"version":4,"colour":"red"}')
    with pytest.raises(ArchiveError, match=r"is of version 4 of the archive.*use a newer one"):
        sealed(tmp_path, "default")


def test_any_file_system(tmp_path: Path) -> None:
    uri = tmp_path.as_uri() + "/deeper"
    write_rows(uri, "default", [row(NOON)])
    assert (
        sealed(uri, "default")[0].uri
        == f"{tmp_path}/deeper/default/date=2026-11-15/hour=12/rows-1-000000000000.parquet"
    )


def test_no_secret_is_shown_of_an_address_that_cannot_be_opened() -> None:
    with pytest.raises(ArchiveError, match=r"s3://my bucket/a cannot be opened: .*'s3://my bucket/a'") as raised:
        open_root("s3://KEY:SECRET@my bucket/a?region=eu-west-1")
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("uri", "folder", "name", "spark"),
    [
        ("s3://KEY:SECRET@bucket/a/b?region=eu-west-1", "bucket/a/b", "s3://bucket/a/b", "s3a://bucket/a/b"),
        ("s3a://bucket/a?region=eu-west-1", "bucket/a", "s3://bucket/a", "s3a://bucket/a"),
        (
            "abfs://box:SECRET@name.dfs.core.windows.net/a",
            "box/a",
            "abfs://box@name.dfs.core.windows.net/a",
            "abfs://box@name.dfs.core.windows.net/a",
        ),
    ],
)
def test_object_stores_by_name(uri: str, folder: str, name: str, spark: str) -> None:
    """What is added to a name is a path, also where options followed; and no secret is shown or kept."""
    root = open_root(uri)
    assert (root.folder, root.name) == (folder, name)
    assert spark_path(root.uri("default", "x.parquet")) == f"{spark}/default/x.parquet"


def test_a_part_that_a_store_kept_is_written_again() -> None:
    root = Root(fs._MockFileSystem(), "bucket", "mock://bucket")
    writer = FileWriter("default", "messages", "r", 1)
    writer.add(pa.Table.from_pylist([{**row(NOON), "recorder": "r", "epoch": 1, "sequence": 0}], MESSAGES))
    whole = writer.finish()
    root.put("default", whole.seal.path, whole.data[:100])
    whole.put(root)
    assert verify(root, "default") == []


@pytest.mark.parametrize("kind", ["messages", "changes"])
def test_times_before_1970(tmp_path: Path, kind: Any) -> None:
    """Rows are in the folder of their time on both sides of it, so a bound of time leaves out none that it should not."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    width = timedelta(hours=1) if kind == "messages" else timedelta(days=1)
    times = [epoch + width * step + tick for step in (-2, -1, 0, 1) for tick in (timedelta(0), timedelta.resolution)]
    changes = [{"time": time, "producer": "p", "key": "k", "kind": "gone"} for time in times]
    write_rows(tmp_path, "default", changes if kind == "changes" else [row(time) for time in times], kind=kind)
    files = sealed(tmp_path, "default")
    assert [file.rows for file in files] == [2, 2, 2, 2]
    for file in files:
        begin, end = span(file.path) or (None, None)
        assert begin is not None
        assert end is not None
        assert all(begin <= time < end for time in pq.read_table(file.uri, partitioning=None)["time"].to_pylist())


def test_a_file_system_that_is_not_local() -> None:
    """Everything that is done to an archive works there too."""
    root = Root(fs._MockFileSystem(), "bucket/archive", "mock://bucket/archive")
    write_rows(root, "default", [row(NOON), row(NOON + timedelta(hours=1))])
    files = sealed(root, "default")
    assert [file.uri for file in files] == [f"mock://bucket/archive/default/{file.path}" for file in files]
    assert namespaces(root) == ["default"]
    assert verify(root, "default") == []
    root.remove("default", SEALED, f"{files[0].name}.json")
    assert recover(root, "default", "rows").sealed[0].name == files[0].name
    root.remove("default", files[0].path)
    (problem, _) = verify(root, "default")
    assert set_aside(root, "default", [problem]) == [f"_sealed/{files[0].name}.json"]
    assert len(sealed(root, "default")) == 1


def test_one_day_of_a_year_is_found_with_a_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest has all seals of its time; only newer ones are read, and one that is gone counts no more (P11)."""
    root = open_root(tmp_path)
    for hour in range(60):
        write_rows(root, "default", [row(NOON + timedelta(hours=hour))], epoch=hour)
    before = [(file.name, file.uri) for file in sealed(root, "default")]
    put_manifest(root, "default", 1)
    put_manifest(root, "default", 2)
    write_rows(root, "default", [row(NOON + timedelta(hours=60))], epoch=60)
    reads, read = [], Root.read

    def counted(self: Root, *parts: str) -> bytes:
        reads.append(parts)
        return read(self, *parts)

    monkeypatch.setattr(Root, "read", counted)
    day = sealed(root, "default", NOON + timedelta(hours=12), NOON + timedelta(hours=36))
    assert [file.name for file in day] == [f"rows-{hour}-000000000000" for hour in range(12, 36)]
    assert len(reads) == 2
    assert [(file.name, file.uri) for file in sealed(root, "default")][:60] == before
    root.remove("default", SEALED, "rows-20-000000000000.json")
    assert "rows-20-000000000000" not in [file.name for file in sealed(root, "default")]
    (manifest,) = (tmp_path / "default" / "_manifest").iterdir()
    manifest.write_bytes(manifest.read_bytes()[:-9])
    assert len(sealed(root, "default")) == 60
