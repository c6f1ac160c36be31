"""Replay: the rows of a range in order of time, and back into an exchange (P3)."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fumarole
from fumarole.core.errors import PatternError
from fumarole.pipeline import replay as replaying
from fumarole.pipeline.archive import write_rows
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.replay import Range, messages
from fumarole.pipeline.rows import typed
from tests.integration.running import RunningBroker

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


def replayed(folder: Path, wanted: Range | None = None) -> list[dict[str, Any]]:
    return [row for part in messages(folder, "default", wanted or Range()) for row in part.to_pylist()]


seconds = st.integers(0, 3 * 3_600)
files = st.lists(st.lists(seconds, min_size=1, max_size=30).map(sorted), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(files, st.integers(1, 7), st.none() | seconds, st.none() | seconds, st.sampled_from([">", "t.1", "t.*", "x"]))
def test_rows_come_in_order_of_time(
    given_files: list[list[int]], part: int, since: int | None, until: int | None, topic: str
) -> None:
    original, replaying.PART_ROWS = replaying.PART_ROWS, part
    try:
        with tempfile.TemporaryDirectory() as name:
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
    finally:
        replaying.PART_ROWS = original


def test_a_clock_that_went_back_loses_nothing(tmp_path: Path) -> None:
    times = [50, 60, 10, 20, 70]
    write_rows(
        tmp_path,
        "default",
        [{"time": NOON + timedelta(seconds=at), "topic": "a", "payload": str(at).encode()} for at in times],
    )
    assert sorted(int(row["payload"]) for row in replayed(tmp_path)) == sorted(times)


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
