"""Replay: the rows of a range in order of time, and back into an exchange (P3)."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fumarole
from fumarole.core import headers
from fumarole.core.errors import PatternError
from fumarole.core.limits import Limits
from fumarole.core.query.tree import Value
from fumarole.exchange.presence import said_by_producer
from fumarole.pipeline import replay as replaying
from fumarole.pipeline.archive import sealed, write_rows
from fumarole.pipeline.archive.places import open_root
from fumarole.pipeline.archive.schema import TIME
from fumarole.pipeline.errors import ArchiveError
from fumarole.pipeline.jobs import compacting
from fumarole.pipeline.replay import Range, known_at, messages, replay
from fumarole.pipeline.rows import CHANGE_ROWS, changes_of, held, snapshot_table, typed
from fumarole.protocols import nats
from tests.desk import events_of
from tests.integration.running import RunningBroker
from tests.pipeline.archives import NOISE, alter

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


def test_a_pattern_with_many_stars_is_quick(tmp_path: Path) -> None:
    """Topics are strangers' (T7)."""
    write_rows(tmp_path, "default", [{"time": NOON, "topic": "s." + "a" * 2_000, "payload": b""}])
    began = time.monotonic()
    assert replayed(tmp_path, Range(topic="s.*a*a*a*b")) == []
    assert time.monotonic() - began < 2  # a search that goes back and forth takes minutes


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
        pytest.param(alter, "cannot be read .* takes what is damaged out", id="a bit has changed"),
        pytest.param(replaced_by_a_folder, "cannot be read .* takes what is damaged out", id="the system refuses"),
        pytest.param(Path.unlink, "is gone: .* take what is missing out", id="missing"),
    ],
)
@pytest.mark.parametrize("kind", ["messages", "changes"])
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, kind: Literal["messages", "changes"], damage: Callable[[Path], None], text: str
) -> None:
    said = {f"Key{number}": number for number in range(99)} | {"Noise": NOISE.decode()}
    changes = [{"time": NOON, "producer": ONE, **each} for each in typed(said)]
    written = [{"time": NOON, "topic": "a", "payload": NOISE}] * 99 if kind == "messages" else changes
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
        sys.executable, "-m", "fumarole.cli.main", "pipeline", "replay", *arguments, stderr=asyncio.subprocess.PIPE
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
        assert (known.id, said_by_producer(known.metadata)) == (ONE, {"Room": "410"})


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
            known = {each.id: said_by_producer(each.metadata) for each in await client.producers()}
    finally:
        broker.release()
    assert known == {ONE: {"Room": "411", "Serial": 2**53 + 1}, two: {"Kind": "gas"}}


async def test_what_a_recorder_learned_is_told_at_its_time(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At its start, and when it was started again: no message says it. A key that was deleted meanwhile goes too."""

    def reading(second: int, **more: Any) -> dict[str, Any]:
        at, payload = NOON + timedelta(seconds=second), str(second).encode()
        return {"time": at, "topic": "t", "producer": ONE, "payload": payload, **more}

    noon = int(NOON.timestamp() * 1e6)
    first: dict[str, Value] = {"Room": "410", "Old": True}
    again: dict[str, Value] = {"Room": "411", "Old": 1}
    brought = {"changes": list(typed({"Extra": "x"}))}
    write_rows(tmp_path, "default", [reading(1), reading(2, **brought)], epoch=1)
    write_rows(tmp_path, "default", snapshot_table([(ONE, first)], noon), kind="changes", epoch=1)
    write_rows(tmp_path, "default", [reading(11), reading(12)], epoch=2)
    write_rows(tmp_path, "default", snapshot_table([(ONE, again)], noon + 10_000_000), kind="changes", epoch=2)
    broker = RunningBroker(tmp_path_factory.mktemp("broker"))

    async def heard(namespace: str, query: str, since: float | None = None) -> list[float | str]:
        wanted = Range(None if since is None else NOON + timedelta(seconds=since))
        url = broker.url.replace("//", f"//{namespace}@")
        async with fumarole.connect(url) as client, client.where(query) as readings:
            await replay(client, tmp_path, "default", wanted, 0, lambda *_: None)
            (known,) = await client.producers()
            assert said_by_producer(known.metadata) == again
            assert known.metadata["Old"] is not True
            await readings.drain()
            return [each.value async for each in readings if isinstance(each, fumarole.Reading)]

    try:
        assert await heard("a", "Room = '410' AND Old = true") == [1, 2]
        assert await heard("b", "Room = '411' AND Old = 1") == [11, 12]
        assert await heard("c", "HAS Extra") == [2]
        assert await heard("d", "Room = '410'", since=1.5) == [2]
        assert await heard("e", "Room = '411'", since=1.5) == [11, 12]
        assert await heard("f", "Room = '411'", since=11.5) == [12]
    finally:
        broker.release()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param("", "温度センサー" * 160, id="letters that JSON writes as six"),
        pytest.param("[limits]\npayload = 65536\n", "x" * 800, id="a broker that takes less"),
    ],
)
async def test_what_is_told_fits_into_requests(tmp_path: Path, settings: str, text: str) -> None:
    producers = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(100)]
    known = {"A": text, "B": text}
    changes = [{"time": NOON, "producer": each, **change} for each in producers for change in typed(known)]
    write_rows(tmp_path / "archive", "default", changes, kind="changes")
    write_rows(tmp_path / "archive", "default", [{"time": NOON, "topic": "a", "payload": b""}])
    broker = RunningBroker(tmp_path, settings)
    try:
        code, said = await run("--archive", str(tmp_path / "archive"), "--servers", broker.url)
        assert (code, said) == (0, "1 message published\n")
        async with fumarole.connect(broker.url) as client:
            assert {each.id: said_by_producer(each.metadata) for each in await client.producers()} == dict.fromkeys(
                producers, known
            )
    finally:
        broker.release()


async def test_what_is_told_while_there_is_no_connection_is_told_on_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "ANSWER_SECONDS", 0.2)
    rows = [{"time": NOON + timedelta(seconds=at), "topic": "a", "payload": b"x"} for at in (0, 1)]
    write_rows(tmp_path, "default", rows)
    noon = int(NOON.timestamp() * 1e6)
    write_rows(tmp_path, "default", snapshot_table([(ONE, {"Room": "410"})], noon + 500_000), kind="changes")
    broker = RunningBroker(tmp_path)
    gone = asyncio.Event()

    def progress(_time: int, count: int) -> None:
        if count == 1:
            broker.kill()
            gone.set()

    async with fumarole.connect(broker.url) as client:
        going = asyncio.create_task(replay(client, tmp_path, "default", Range(), 2.0, progress))
        await gone.wait()
        await asyncio.sleep(1.5)
        assert not going.done()
        again = await asyncio.to_thread(RunningBroker, tmp_path, port=broker.port)
        try:
            assert await going == (2, 0)
            assert [(each.id, said_by_producer(each.metadata)) for each in await client.producers()] == [
                (ONE, {"Room": "410"})
            ]
        finally:
            again.release()


_events = st.lists(
    st.tuples(
        st.sampled_from("pq"),
        st.sampled_from(["reading", "snapshot"]),
        st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", 1, True, None]), max_size=2),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=12,
)


class Exchange:
    """Merges what it is told, as a broker does (M3), and keeps what held at each message."""

    max_payload = 1 << 20
    losses = 0
    connected = True

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}
        self.heard: list[dict[str, dict[str, Any]]] = []

    def merge(self, producer: str, metadata: dict[str, Any]) -> None:
        merged = self.known.get(producer, {}) | metadata
        self.known[producer] = {key: value for key, value in merged.items() if value is not None}

    async def ask_broker(self, _service: str, payload: bytes, **_options: float) -> None:
        for each in json.loads(payload)["producers"]:
            self.merge(each["id"], each["metadata"])

    async def publish_frames(self, sent: Iterable[tuple[int, bytes]]) -> None:
        for event in events_of(nats.ServerProtocol(Limits()), b"".join(frames for _, frames in sent)):
            assert isinstance(event, nats.Publish)
            said = dict(headers.parse(event.headers or b""))
            self.merge(said["Producer"], json.loads(said.get("Metadata", "{}")))
            self.heard.append({producer: dict(metadata) for producer, metadata in self.known.items() if metadata})


@settings(max_examples=40, deadline=None)
@given(_events, st.integers(0, 12))
def test_at_each_message_holds_what_held_then(
    given_events: list[tuple[str, str, dict[str, Any], int]], since: int
) -> None:
    """Of any recorder, however often each was started, and wherever the replay begins."""
    with tempfile.TemporaryDirectory() as name:
        times = []
        noon = int(NOON.timestamp() * 1e6)
        for epoch in (1, 2):
            rows: list[dict[str, Any]] = []
            tables = [snapshot_table([], noon)]
            for second, (producer, kind, said, by) in enumerate(given_events):
                moment = noon + second * 1_000_000
                if by == epoch and kind == "snapshot":
                    known = {key: value for key, value in said.items() if value is not None}
                    tables.append(snapshot_table([(producer, known)], moment))
                elif by == epoch:
                    at = NOON + timedelta(seconds=second)
                    brings = list(typed(said)) or None
                    rows.append({"time": at, "topic": "t", "producer": producer, "payload": b"", "changes": brings})
                    tables.append(pa.Table.from_pylist(list(changes_of(producer, moment, said)), CHANGE_ROWS))
                    times.append(at)
            write_rows(name, "default", rows, epoch=epoch)
            write_rows(name, "default", pa.concat_tables(tables), kind="changes", epoch=epoch)
        assume(times)
        exchange = Exchange()
        wanted = Range(since=NOON + timedelta(seconds=since))
        asyncio.run(replay(cast("fumarole.Client", exchange), name, "default", wanted, 0, lambda *_: None))
        expected = [known_at(name, "default", at) for at in sorted(times) if at >= NOON + timedelta(seconds=since)]
    assert exchange.heard == expected
    assert truths(exchange.heard) == truths(expected)


def truths(states: list[dict[str, dict[str, Any]]]) -> list[dict[tuple[str, str], bool]]:
    """Which values are truths: to Python `True` is 1, to a query it is not (M10)."""
    return [
        {(producer, key): isinstance(value, bool) for producer, known in state.items() for key, value in known.items()}
        for state in states
    ]


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
