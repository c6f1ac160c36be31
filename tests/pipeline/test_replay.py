"""Replay: the rows of a range in order of time, and back into an exchange (P3)."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fumarole
from fumarole.core.errors import PatternError
from fumarole.pipeline.archive import sealed, write_rows
from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.jobs import compacting
from fumarole.pipeline.replay import Range, known_at, messages
from fumarole.pipeline.rows import held, typed
from tests.integration.running import RunningBroker

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


def replayed(folder: Path, wanted: Range | None = None) -> list[dict[str, Any]]:
    return [row for part in messages(folder, "default", wanted or Range()) for row in part.to_pylist()]


def compact_all(folder: Path) -> None:
    for _ in compacting.compact(open_root(folder), now=NOON + timedelta(days=1)):
        pass


seconds = st.integers(0, 3 * 3_600)
files = st.lists(st.lists(seconds, min_size=1, max_size=30).map(sorted), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(
    files,
    st.none() | st.integers(1, 40),
    st.none() | seconds,
    st.none() | seconds,
    st.sampled_from([">", "t.1", "t.*", "x"]),
)
def test_rows_come_in_order_of_time(
    given_files: list[list[int]], compacted_by: int | None, since: int | None, until: int | None, topic: str
) -> None:
    """Also where they were compacted, into groups of at least so many rows."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        rows: list[tuple[datetime, int, int, str]] = []
        for epoch, times in enumerate(given_files, 1):
            made = [(NOON + timedelta(seconds=at), f"t.{at % 3}") for at in times]
            write_rows(
                name,
                "default",
                [{"time": at, "topic": name_of, "payload": b""} for at, name_of in made],
                epoch=epoch,
            )
            rows += [(at, epoch, sequence, name_of) for sequence, (at, name_of) in enumerate(made)]
        if compacted_by is not None:
            patch.setattr(compacting, "ROW_GROUP", compacted_by)
            compact_all(Path(name))
        wanted = Range(
            None if since is None else NOON + timedelta(seconds=since),
            None if until is None else NOON + timedelta(seconds=until),
            topic,
        )
        expected = [
            row
            for row in sorted(rows)
            if (wanted.since is None or row[0] >= wanted.since)
            and (wanted.until is None or row[0] < wanted.until)
            and (topic in (">", "t.*") or row[3] == topic)
        ]
        found = replayed(Path(name), wanted)
        assert [(row["time"], row["epoch"], row["sequence"], row["topic"]) for row in found] == expected


def test_two_recorders_hour_is_in_order_after_compaction(tmp_path: Path) -> None:
    """Compaction puts one recorder's hour after the other's, into row groups that have some of both."""
    step, noon = 20_000, int(NOON.timestamp() * 1e6)
    for name, begin in (("a", noon), ("b", noon + step // 2)):
        times = pa.array(np.arange(begin, noon + 3_500_000_000, step)).cast(TIME)
        for first in range(0, len(times), 60_000):
            rows = pa.table({"time": times.slice(first, 60_000)})
            rows = rows.append_column("topic", pa.array(["t"] * rows.num_rows))
            rows = rows.append_column("payload", pa.array([b""] * rows.num_rows))
            write_rows(tmp_path, "default", rows, recorder=name, first=first)
    compact_all(tmp_path)
    assert [file.rows for file in sealed(tmp_path, "default")] == [350_000]
    found = pa.concat_tables(messages(tmp_path, "default", Range()))
    assert np.asarray(found["time"].cast(pa.int64())).tolist() == list(range(noon, noon + 3_500_000_000, step // 2))
    assert found["recorder"].to_pylist() == ["a", "b"] * 175_000


def test_clocks_that_went_back(tmp_path: Path) -> None:
    times = [50, 60, 10, 20, 70]
    write_rows(
        tmp_path,
        "default",
        [{"time": NOON + timedelta(seconds=at), "topic": "a", "payload": str(at).encode()} for at in times],
    )
    assert [int(row["payload"]) for row in replayed(tmp_path)] == sorted(times)


@pytest.mark.parametrize(("topic", "found"), [("größe.*", 1), ("", 1), (".a", 1), ("a.>", 0), (">", 3)])
def test_patterns_of_either_grammar(tmp_path: Path, topic: str, found: int) -> None:
    rows = [{"time": NOON, "topic": each, "payload": b""} for each in ("größe.x", "", ".a")]
    write_rows(tmp_path, "default", rows)
    assert len(replayed(tmp_path, Range(topic=topic))) == found


def test_a_file_that_was_compacted_away_meanwhile(tmp_path: Path) -> None:
    for epoch in (1, 2):
        write_rows(
            tmp_path, "default", [{"time": NOON + timedelta(hours=epoch), "topic": "a", "payload": b""}], epoch=epoch
        )
    rows = messages(tmp_path, "default", Range())
    assert next(rows).num_rows == 1
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(ArchiveError, match="is gone: it was compacted"):
        next(rows)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def page_broken(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4:200] = bytes(196)
    file.write_bytes(data)


def replaced_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        pytest.param(cut_short, "cannot be read .* takes what is damaged out", id="cut short"),
        pytest.param(page_broken, "cannot be read .* takes what is damaged out", id="a page is broken"),
        pytest.param(replaced_by_a_folder, "cannot be read .* takes what is damaged out", id="the system refuses"),
        pytest.param(Path.unlink, "is gone: .* take what is missing out", id="missing"),
    ],
)
@pytest.mark.parametrize("kind", ["messages", "changes"])
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, kind: Literal["messages", "changes"], damage: Callable[[Path], None], text: str
) -> None:
    changes = [
        {"time": NOON, "producer": ONE, **each} for each in typed({f"Key{number}": number for number in range(99)})
    ]
    written = [{"time": NOON, "topic": "a", "payload": b"b"}] * 99 if kind == "messages" else changes
    (seal,) = write_rows(tmp_path, "default", written, kind=kind)
    path = tmp_path / "default" / seal.path
    damage(path)
    with pytest.raises(ArchiveError, match=f"{path} {text}"):
        replayed(tmp_path) if kind == "messages" else known_at(tmp_path, "default", NOON)


def test_seals_that_cannot_be_read(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [{"time": NOON, "topic": "a", "payload": b""}])
    shutil.rmtree(tmp_path / "default" / "_sealed")
    (tmp_path / "default" / "_sealed").touch()
    with pytest.raises(ArchiveError, match=f"the seals of the archive at {tmp_path} cannot be read: .*_sealed"):
        replayed(tmp_path)


def test_a_pattern_that_is_none(tmp_path: Path) -> None:
    write_rows(tmp_path, "default", [{"time": NOON, "topic": "a", "payload": b""}])
    with pytest.raises(PatternError, match="must be the last word"):
        replayed(tmp_path, Range(topic="a.>.b"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    broker = RunningBroker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.release()


async def run(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fumarole.app.cli", "pipeline", "replay", *arguments, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, errors.decode()


async def test_messages_are_published_again_as_far_apart(broker: RunningBroker, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"time": NOON + timedelta(milliseconds=at * 200), "topic": f"again.{at}", "payload": str(at).encode()}
        for at in range(11)
    ]
    rows[3] |= {"producer": ONE, "headers": [("Unit", ["K"])], "changes": list(typed({"Room": "410", "Old": None}))}
    rows[4]["topic"] = ""
    write_rows(tmp_path, "default", rows)
    async with fumarole.connect(broker.url) as client, client.subscribe(">") as heard:
        arrived: list[tuple[float, fumarole.Message]] = []

        async def listen() -> None:
            while len(arrived) < 10:
                message = await anext(heard)
                arrived.append((time.monotonic(), message))

        listening = asyncio.create_task(listen())
        code, said = await run(
            "--archive", str(tmp_path), "--servers", broker.url, "--speed", "2", "--since", "2026-11-15T12:00:00.2"
        )
        assert (code, said) == (0, "10 messages published\n")
        await listening
        assert [message.topic for _, message in arrived] == [row["topic"] for row in rows[1:]]
        assert [message.payload for _, message in arrived] == [row["payload"] for row in rows[1:]]
        # 1.8 s of messages at twice the speed: never sooner, whatever the machine does.
        assert arrived[-1][0] - arrived[0][0] > 0.8
        assert arrived[2][1].header_pairs == [
            ("Producer", ONE),
            ("Metadata", '{"Room": "410", "Old": null}'),
            ("Unit", "K"),
        ]
        (known,) = await client.producers()
        assert (known.id, known.metadata) == (ONE, {"Room": "410"})


async def test_what_was_known_at_the_beginning_is_known_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also of producers that say nothing in the range; and who was forgotten in it is forgotten again."""
    two, three, four = (f"0000000{number}-0000-4000-8000-000000000000" for number in (2, 3, 4))

    def said(second: float, producer: str, metadata: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"time": NOON + timedelta(seconds=second), "producer": producer, **each} for each in typed(metadata)]

    changes = [
        *said(1, ONE, {"Room": "410", "Floor": 4, "Serial": 2**53 + 1}),
        *said(2, two, {"Kind": "gas"}),
        *said(3, three, {"Kind": "gas", "Old": True}),
        *said(4, three, {"Kind": None, "Old": None}),
        *said(5, ONE, {"Room": "411", "Floor": None}),
        *said(5, four, {"Kind": "tilt"}),
        *said(9, ONE, {"Room": "too late"}),
    ]
    write_rows(tmp_path, "default", changes[::2], kind="changes")
    write_rows(tmp_path, "default", changes[1::2], kind="changes", recorder="other")
    rows: list[dict[str, Any]] = [
        {"time": NOON + timedelta(seconds=at), "topic": "t", "producer": ONE, "payload": str(at).encode()}
        for at in (3, 6, 7)
    ]
    gone = {"topic": "_FORGOTTEN", "producer": four, "payload": four.encode(), "changes": list(typed({"Kind": None}))}
    write_rows(tmp_path, "default", [*rows, {"time": NOON + timedelta(seconds=8), **gone}])
    broker = RunningBroker(tmp_path_factory.mktemp("broker"))
    try:
        async with fumarole.connect(broker.url) as client, client.where("Room = '411'") as readings:
            code, text = await run(
                "--archive", str(tmp_path), "--servers", broker.url, "--speed", "0", "--since", "2026-11-15T12:00:05"
            )
            assert (code, text) == (0, "3 messages published\n")
            heard = [await anext(readings) for _ in range(3)]
            assert heard[0] == fumarole.Change((ONE,), ())
            assert [each.value for each in heard[1:] if isinstance(each, fumarole.Reading)] == [6, 7]
            known = {each.id: each.metadata for each in await client.producers()}
    finally:
        broker.release()
    assert known == {ONE: {"Room": "411", "Serial": 2**53 + 1}, two: {"Kind": "gas"}}


_said = st.dictionaries(st.sampled_from(["a", "b", ""]), st.sampled_from(["x", 2**53 + 1, None]), max_size=2)
_news = st.tuples(st.integers(0, 6), st.sampled_from(["p", "q"]), st.one_of(_said, st.none()), st.integers(1, 2))


@settings(max_examples=40, deadline=None)
@given(st.lists(_news, max_size=12), st.integers(0, 6))
def test_what_was_known_is_what_changes_come_to(
    given_news: list[tuple[int, str, dict[str, Any] | None, int]], moment: int
) -> None:
    """Of each producer, in order of time; None: it begins anew."""
    rows: list[tuple[int, int, int, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as name:
        write_rows(name, "default", [{"time": NOON, "topic": "a", "payload": b""}])
        for epoch in (1, 2):
            changes = [
                (second, {"producer": producer, **each})
                for second, producer, said, by in given_news
                for each in ([{"key": "", "kind": "anew"}] if said is None else typed(said))
                if by == epoch
            ]
            rows += [(second, epoch, number, each) for number, (second, each) in enumerate(changes)]
            timed = [{"time": NOON + timedelta(seconds=second), **each} for second, each in changes]
            write_rows(name, "default", timed, kind="changes", epoch=epoch)
        found = known_at(name, "default", NOON + timedelta(seconds=moment))
    in_order = [each for second, _, _, each in sorted(rows, key=lambda row: row[:3]) if second <= moment]
    expected = {producer: held(each for each in in_order if each["producer"] == producer) for producer in "pq"}
    assert found == {producer: metadata for producer, metadata in expected.items() if metadata}


async def test_a_header_that_cannot_be_sent_is_left_out(broker: RunningBroker, tmp_path: Path) -> None:
    """Its message goes, and so does all that comes after it. A broker passes on what any client made."""
    odd = {"headers": [("My Header", ["x"]), ("Unit", ["K", "a\nb"])]}
    rows = [{"time": NOON, "topic": "odd", "payload": b"1", **odd}, {"time": NOON, "topic": "odd", "payload": b"2"}]
    write_rows(tmp_path, "default", rows)
    async with fumarole.connect(broker.url) as client, client.subscribe("odd", limit=2) as heard:
        code, said = await run("--archive", str(tmp_path), "--servers", broker.url)
        assert (code, said.splitlines()) == (
            0,
            ["2 headers left out: a name with a space, or a line break, cannot be sent", "2 messages published"],
        )
        assert [(each.payload, each.header_pairs) async for each in heard] == [(b"1", [("Unit", "K")]), (b"2", [])]


async def test_a_connection_that_was_lost_meanwhile_is_said(tmp_path: Path) -> None:
    """Nothing is sent again (D1), so what the connection had taken may be missing."""
    write_rows(
        tmp_path,
        "default",
        [{"time": NOON + timedelta(seconds=at), "topic": "a", "payload": b"x"} for at in (0, 3)],
    )
    broker = RunningBroker(tmp_path)
    async with fumarole.connect(broker.url) as client, client.subscribe("a") as heard:
        replaying = asyncio.create_task(run("--archive", str(tmp_path), "--servers", broker.url))
        await anext(heard)
    broker.kill()
    again = RunningBroker(tmp_path, port=broker.port)
    try:
        code, said = await replaying
    finally:
        again.release()
    assert code == 0
    assert said.splitlines()[-2:] == [
        "the connection was lost 1 time: what was sent just before may not have been heard",
        "2 messages published",
    ]


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        pytest.param(["--since", "yesterday"], 2, "'yesterday' is no time", id="time"),
        pytest.param(["--namespace", "other"], 1, "has no namespace 'other'; it has default", id="namespace"),
        pytest.param(["--archive", "/nowhere"], 1, "there is no archive at /nowhere", id="archive"),
    ],
)
async def test_mistakes_are_a_sentence(
    broker: RunningBroker, tmp_path: Path, flags: list[str], code: int, text: str
) -> None:
    write_rows(tmp_path, "default", [{"time": NOON, "topic": "a", "payload": b""}])
    found, said = await run("--archive", str(tmp_path), "--servers", broker.url, *flags)
    assert found == code
    assert text in said
    assert "Traceback" not in said
