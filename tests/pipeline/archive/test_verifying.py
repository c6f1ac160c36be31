"""Whatever is wrong with an archive is found, set aside without loss, and the rest goes on."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fumarole.pipeline.archive import open_root, sealed, write_rows
from fumarole.pipeline.archive.places import SEALED, Root
from fumarole.pipeline.archive.seals import Seal, put_seal
from fumarole.pipeline.archive.verifying import Problem, read_whole, recover, set_aside, verify
from tests.pipeline.archives import NOISE, alter, damage

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ROWS = [{"time": NOON, "topic": "a", "payload": str(number).encode()} for number in range(10)]
FOLDER = "date=2026-11-15/hour=12"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two files of one incarnation, one of another."""
    write_rows(tmp_path, "default", ROWS, recorder="r", epoch=1)
    write_rows(tmp_path, "default", ROWS, recorder="r", epoch=1, first=10)
    write_rows(tmp_path, "default", ROWS, recorder="s-t", epoch=2)
    return tmp_path


def found(archive: Path) -> list[tuple[str, str]]:
    return [(problem.fault, problem.path.rpartition("/")[2]) for problem in verify(archive, "default")]


def file(archive: Path, name: str) -> Path:
    return archive / "default" / FOLDER / name


def test_nothing_is_wrong(archive: Path) -> None:
    assert found(archive) == []
    assert set_aside(archive, "default", []) == []


def test_truncated(archive: Path) -> None:
    path = file(archive, "r-1-000000000000.parquet")
    path.write_bytes(path.read_bytes()[:-10])
    assert found(archive) == [("damaged", path.name), ("hole", "r-1")]
    problems = verify(archive, "default")
    assert "0 to 9 are missing (10)" in str(problems[1])
    assert sorted(set_aside(archive, "default", problems)) == ["_sealed/r-1-000000000000.json", f"{FOLDER}/{path.name}"]
    assert [each.name for each in sealed(archive, "default")] == ["r-1-000000000010", "s-t-2-000000000000"]
    assert found(archive) == [("hole", "r-1")]
    assert (archive / "default" / "_aside" / FOLDER / path.name).exists()


def test_same_length_and_other_bytes(archive: Path) -> None:
    path = file(archive, "r-1-000000000010.parquet")
    path.write_bytes(b"x" * path.stat().st_size)
    assert found(archive)[0] == ("damaged", path.name)


def test_damage_inside(archive: Path) -> None:
    """Its length and its footer are as they were. Also where it is a file of many, whose sequences are read."""
    damage(file(archive, "r-1-000000000010.parquet"))
    problems = verify(archive, "default")
    assert [(problem.fault, problem.text.partition(" (")[0]) for problem in problems] == [
        ("damaged", "it has other bytes than were sealed")
    ]
    set_aside(archive, "default", problems)
    join(archive, [pq.read_table(each.uri, partitioning=None) for each in sealed(archive, "default")])
    assert found(archive) == []
    damage(file(archive, "joined-1.parquet"))
    assert found(archive) == [("damaged", "joined-1.parquet")]


def test_a_single_bit(archive: Path) -> None:
    """What can be read may be something else than was written."""
    path = file(archive, "r-1-000000000010.parquet")
    data = path.read_bytes()
    for at in range(4, len(data) - 4, 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert found(archive) == [("damaged", path.name)]


def test_a_single_bit_of_a_file_that_was_found(archive: Path) -> None:
    """Its seal has no digest; its pages have checksums."""
    (seal,) = write_rows(archive, "default", [{"time": NOON, "topic": "a", "payload": NOISE}], recorder="u", epoch=3)
    (archive / "default" / SEALED / f"{seal.name}.json").unlink()
    assert [each.name for each in recover(open_root(archive), "default", "u").sealed] == [seal.name]
    path = archive / "default" / seal.path
    alter(path)
    assert pq.ParquetFile(path).read()["payload"].to_pylist() != [NOISE]
    assert found(archive) == [("damaged", path.name)]


def test_a_file_that_the_file_system_does_not_give_stays(archive: Path) -> None:
    """It is unknown whether it is whole, so it is not taken out of the archive (P1)."""
    path = file(archive, "s-t-2-000000000000.parquet")
    path.unlink()
    path.symlink_to(path)
    problems = verify(archive, "default")
    assert [(problem.fault, problem.path) for problem in problems] == [("unreadable", f"{FOLDER}/{path.name}")]
    assert "Too many levels of symbolic links" in problems[0].text
    assert set_aside(archive, "default", problems) == []


class Failing:
    """A store that opens every file, knows its size, and then fails."""

    def __init__(self, size: int) -> None:
        self._size = size

    def open_input_file(self, _: str) -> pa.PythonFile:
        class File(io.BytesIO):
            def read(self, _: int | None = -1) -> bytes:
                raise OSError("503 Slow Down")

        return pa.PythonFile(File(bytes(self._size)), mode="r")

    open_input_stream = open_input_file


def test_a_store_that_fails_in_the_middle_says_nothing_of_the_file(archive: Path) -> None:
    (seal,) = (each for each in sealed(archive, "default") if each.recorder == "s-t")
    assert not isinstance(read_whole(open_root(archive), "default", seal), Problem)
    system: Any = Failing(seal.bytes)
    problem = read_whole(Root(system, "archive", "store://archive"), "default", seal)
    assert isinstance(problem, Problem)
    assert (problem.fault, problem.text) == ("unreadable", "the file system does not give it: 503 Slow Down")


class Busy(Root):
    """An archive to which a recorder adds a file whenever the seals were looked through."""

    def files(self, *parts: str, recursive: bool = False) -> Iterator[tuple[str, int]]:
        yield from list(super().files(*parts, recursive=recursive))
        if parts == ("default", SEALED):
            root = Root(self.system, self.folder, self.name)
            write_rows(root, "default", ROWS, recorder="r", epoch=1, first=10 * len(sealed(root, "default")))


def test_beside_a_recorder_nothing_is_wrong(tmp_path: Path) -> None:
    """What it confirmed stays in the archive (P1)."""
    write_rows(tmp_path, "default", ROWS, recorder="r", epoch=1)
    root = open_root(tmp_path)
    assert verify(Busy(root.system, root.folder, root.name), "default") == []
    assert len(sealed(root, "default")) > 2


def test_a_file_may_be_sealed_in_a_moment(archive: Path) -> None:
    """A recorder seals a file after it has put it in its place; only one that is left so is none of the archive."""
    path = file(archive, "r-1-000000000010.parquet")
    seal = archive / "default" / SEALED / "r-1-000000000010.json"
    data = seal.read_bytes()
    seal.unlink()
    assert found(archive) == []
    os.utime(path, (0, 0))
    problems = verify(archive, "default")
    assert [(problem.fault, problem.path) for problem in problems] == [("unsealed", f"{FOLDER}/{path.name}")]
    seal.write_bytes(data)
    assert set_aside(archive, "default", problems) == []
    seal.write_bytes(b"none")
    assert sorted(set_aside(archive, "default", problems)) == [f"{SEALED}/{seal.name}", f"{FOLDER}/{path.name}"]


def test_missing_foreign_and_what_is_no_seal(archive: Path) -> None:
    file(archive, "s-t-2-000000000000.parquet").unlink()
    pq.write_table(pa.table({"x": [1]}), file(archive, "foreign.parquet"))
    (archive / "default" / "_sealed" / "odd.json").write_text("{}")
    assert sorted(found(archive)) == [
        ("missing", "s-t-2-000000000000.parquet"),
        ("no seal", "odd.json"),
        ("unsealed", "foreign.parquet"),
    ]
    moved = set_aside(archive, "default", verify(archive, "default"))
    assert sorted(path.rpartition("/")[2] for path in moved) == [
        "foreign.parquet",
        "odd.json",
        "s-t-2-000000000000.json",
    ]
    assert found(archive) == []


def test_nothing_that_is_set_aside_takes_the_place_of_another(archive: Path) -> None:
    """Files of the same name from two folders, and another one from the same place later."""
    root = open_root(archive)
    for number in (1, 2):
        for hour in ("01", "02"):
            folder = archive / "default" / f"date=2026-11-15/hour={hour}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "part-0.parquet").write_text(f"{hour} {number}")
        assert len(set_aside(root, "default", verify(root, "default"))) == 2
    kept = [path.read_text() for path in (archive / "default" / "_aside").rglob("part-*")]
    assert sorted(kept) == ["01 1", "01 2", "02 1", "02 2"]
    assert found(archive) == []


def test_a_copy_of_a_sealed_file_in_another_hour(archive: Path) -> None:
    """It has the name of a seal, and is none of the archive; the one that is stays in it."""
    path = file(archive, "s-t-2-000000000000.parquet")
    copy = archive / "default" / "date=2026-11-15/hour=13" / path.name
    copy.parent.mkdir()
    shutil.copy(path, copy)
    os.utime(copy, (0, 0))
    problems = verify(archive, "default")
    assert [(problem.fault, problem.path) for problem in problems] == [
        ("unsealed", f"date=2026-11-15/hour=13/{path.name}")
    ]
    assert set_aside(archive, "default", problems) == [f"date=2026-11-15/hour=13/{path.name}"]
    assert found(archive) == []
    assert len(sealed(archive, "default")) == 3


def test_sealed_but_not_ours(archive: Path) -> None:
    """A file of the right length and name, with a seal, and other columns or another version."""
    path = file(archive, "z-1-000000000000.parquet")
    pq.write_table(pa.table({"x": [1]}), path)
    seal = Seal(
        path=f"{FOLDER}/{path.name}",
        kind="messages",
        rows=1,
        first=0,
        last=0,
        bytes=path.stat().st_size,
        recorder="z",
        epoch=1,
    )
    put_seal(open_root(archive), "default", seal)
    assert [str(problem) for problem in verify(archive, "default")] == [
        f"{seal.path}: it says it is of version none of the archive"
    ]


def join(archive: Path, tables: list[pa.Table]) -> None:
    """One file in the stead of all."""
    joined = pa.concat_tables(tables)
    path = file(archive, "joined-1.parquet")
    pq.write_table(joined.replace_schema_metadata(pq.read_schema(sealed(archive, "default")[0].uri).metadata), path)
    replaced = tuple(each.name for each in sealed(archive, "default"))
    seal = Seal(
        path=f"{FOLDER}/{path.name}",
        kind="messages",
        rows=joined.num_rows,
        first=0,
        last=0,
        bytes=path.stat().st_size,
        recorder="",
        epoch=0,
        replaces=replaced,
    )
    put_seal(open_root(archive), "default", seal)


def test_joined_files_have_their_holes_found_too(archive: Path) -> None:
    tables = [pq.read_table(each.uri, partitioning=None) for each in sealed(archive, "default")]
    join(archive, [tables[0].slice(0, 5), tables[1], tables[2]])
    assert [str(problem) for problem in verify(archive, "default")] == ["r-1: messages 5 to 9 are missing (5)"]


def test_rows_of_a_joined_file_may_be_in_any_order(archive: Path) -> None:
    rows = pa.concat_tables([pq.read_table(each.uri, partitioning=None) for each in sealed(archive, "default")])
    join(archive, [rows.take([number * 7 % 30 for number in range(30)])])
    assert verify(archive, "default") == []
    (archive / "default" / SEALED / "joined-1.json").unlink()
    join(archive, [rows.take([*range(29, 4, -1), 10])])
    assert sorted(str(problem) for problem in verify(archive, "default")) == [
        "r-1: messages 0 to 4 are missing (5)",
        "r-1: messages 10 to 10 are there twice (1)",
    ]


def test_columns_of_another_type(archive: Path) -> None:
    """One bit of a footer makes milliseconds of microseconds, and other years of all times."""
    rows = pa.concat_tables([pq.read_table(each.uri, partitioning=None) for each in sealed(archive, "default")])
    other = rows["time"].cast(pa.timestamp("ms", "UTC"))
    join(archive, [rows.set_column(0, pa.field("time", other.type, nullable=False), other)])
    assert [str(problem) for problem in verify(archive, "default")] == [
        f"{FOLDER}/joined-1.parquet: it has another type in the column time"
    ]


def test_what_is_there_twice_is_found(archive: Path) -> None:
    write_rows(archive, "default", [{**ROWS[0], "time": NOON.replace(hour=13)}] * 4, recorder="r", epoch=1, first=8)
    problems = verify(archive, "default")
    assert [str(problem) for problem in problems] == [
        "r-1: messages 8 to 9 are there twice (2)",
        "r-1: messages 10 to 11 are there twice (2)",
    ]
    assert set_aside(archive, "default", problems) == []


def test_recovery_seals_what_is_whole_and_clears_what_is_not(archive: Path) -> None:
    """A recorder was killed between renaming a file and sealing it; and another time while it wrote."""
    root = open_root(archive)
    (archive / "default" / "_sealed" / "r-1-000000000010.json").unlink()
    writing = archive / "default" / "_writing"
    (writing / "r-1-000000000020.parquet").write_bytes(b"PAR1 half")
    (writing / "r-1-000000000010.json").write_text('{"ver')
    (writing / "r-x-1-000000000020.parquet").write_bytes(b"of another recorder, which runs")
    file(archive, "r-1-000000000020.parquet").write_bytes(b"PAR1 cut by a power failure")
    recovered = recover(root, "default", "r")
    assert [seal.name for seal in recovered.sealed] == ["r-1-000000000010"]
    assert json.loads((archive / "default" / "_sealed" / "r-1-000000000010.json").read_text())["rows"] == 10
    assert recovered.epoch == 1
    assert sorted(path.rpartition("/")[2] for path in recovered.removed) == [
        "r-1-000000000010.json",
        "r-1-000000000020.parquet",
        "r-1-000000000020.parquet",
    ]
    assert [path.name for path in writing.iterdir()] == ["r-x-1-000000000020.parquet"]
    assert found(archive) == []
    assert recover(root, "default", "r") == ([], [], 1)
    assert recover(root, "default", "nobody").epoch == 0


def test_a_recorder_whose_name_looks_like_a_seal_recovers_too(tmp_path: Path) -> None:
    writing = tmp_path / "default" / "_writing"
    writing.mkdir(parents=True)
    for name in ("my.json-r-5-000000000000.parquet", "my.json-r-5-000000000000.json"):
        (writing / name).write_bytes(b"half")
    (writing / "my.json-5-000000000000.parquet").write_bytes(b"of another recorder, which runs")
    assert len(recover(open_root(tmp_path), "default", "my.json-r").removed) == 2
    assert [path.name for path in writing.iterdir()] == ["my.json-5-000000000000.parquet"]
