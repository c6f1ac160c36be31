"""The recorder against a real broker: what was published is in the archive, whatever happens to the recorder (P1)."""

from __future__ import annotations

import asyncio
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fumarole
from fumarole import pipeline
from fumarole.pipeline.archive import sealed
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.capturing import INTERVAL
from fumarole.pipeline.replay import known_at
from tests.integration.running import RunningBroker
from tests.pipeline.recordings import Recording, rows, said_by

ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
Record = Callable[..., Recording]


async def test_everything_is_recorded_as_it_was(broker: RunningBroker, record: Record, tmp_path: Path) -> None:
    async with fumarole.connect(broker.url) as client:
        known = client.producer({"Room": "410", "Floor": 4, "Warm": True})
        await known.publish(1.5)
        await client.flush()
        before = datetime.now(UTC)
        recording = record(broker.url, tmp_path, "--topic", ">")
        every_character = "-_.AZaz09" + "".join(map(chr, range(ord("a"), ord("z") + 1)))
        await client.publish(every_character, b"21.5")
        await client.publish("", b"without a topic")
        await client.publish("large", b"x" * (1 << 20))
        await client.publish("empty", b"", headers=[("Unit", "K"), ("Unit", "C"), ("Ü", "ü")])
        # What was known before must not be asked for after the change.
        recording.wait_until(lambda: recording.confirmed and len(said_by(tmp_path, known.id)) == 4)
        known.update(Room="411", Floor=None)
        await known.publish(-2)
        await client.flush()
        recording.wait_until(lambda: recording.messages == 5)
    assert recording.stop() == 0
    found = rows(tmp_path)
    assert [(row["topic"], row["payload"][:20], row["value"]) for row in found] == [
        (every_character, b"21.5", 21.5),
        ("", b"without a topic", None),
        ("large", b"x" * 20, None),
        ("empty", b"", None),
        (known.topic, b"-2", -2.0),
    ]
    assert len(found[2]["payload"]) == 1 << 20
    assert [row["headers"] for row in found] == [None, None, None, [("Unit", ["K", "C"]), ("Ü", ["ü"])], None]
    assert [row["producer"] for row in found] == [None] * 4 + [known.id]
    assert [(each["key"], each["kind"], each["text"]) for each in found[4]["changes"]] == [
        ("Room", "text", "411"),
        ("Floor", "gone", None),
    ]
    assert all(before <= row["time"] <= datetime.now(UTC) for row in found)
    said = [(row["key"], row["kind"]) for row in rows(tmp_path, "changes") if row["producer"] == known.id]
    known_before = [("", "anew"), ("Room", "text"), ("Floor", "number"), ("Warm", "truth")]
    assert said == [*known_before, ("Room", "text"), ("Floor", "gone")]
    assert verify(tmp_path, "default") == []
    assert recording.said[-1].startswith("5 messages in ")


async def test_recorders_of_a_group_share(broker: RunningBroker, record: Record, tmp_path: Path) -> None:
    recordings = [record(broker.url, tmp_path, "--topic", "shared.>", name=name) for name in ("a", "b")]
    async with fumarole.connect(broker.url) as client:
        await client.publish_many((f"shared.{number}", str(number)) for number in range(20_000))
        await client.flush()
        recordings[0].wait_until(lambda: sum(each.messages for each in recordings) == 20_000)
    assert [each.stop() for each in recordings] == [0, 0]
    found = rows(tmp_path)
    assert Counter(row["payload"] for row in found) == Counter(str(number).encode() for number in range(20_000))
    assert min(Counter(row["recorder"] for row in found).values()) > 5_000
    assert verify(tmp_path, "default") == []


async def test_only_what_a_query_selects(broker: RunningBroker, record: Record, tmp_path: Path) -> None:
    async with fumarole.connect(broker.url) as client:
        recording = record(broker.url, tmp_path, "--where", "Kind = 'seismic' AND Room LIKE '5%'", "--topic", "w.*")
        right = client.producer({"Kind": "seismic", "Room": "510"}, topic="w.a")
        wrong = client.producer({"Kind": "seismic", "Room": "610"}, topic="w.b")
        for number in range(5):
            await right.publish(number)
            await wrong.publish(number)
        await client.flush()
        recording.wait_until(lambda: recording.messages == 5)
    assert recording.stop(signal.SIGINT) == 0
    found = rows(tmp_path)
    assert [(row["topic"], row["producer"], row["value"], row["payload"]) for row in found] == [
        ("w.a", right.id, float(number), str(number).encode()) for number in range(5)
    ]
    assert [each["key"] for each in found[0]["changes"]] == ["Kind", "Room"]


async def test_one_of_a_group_with_a_query_stops_and_nothing_is_missing(
    broker: RunningBroker, record: Record, tmp_path: Path
) -> None:
    """P1: the one that stops takes what it was sent, and the other gets the rest."""
    flags = "--where", "Kind = 'shared'"
    stops, stays = (record(broker.url, tmp_path, *flags, name=name) for name in ("a", "b"))
    async with fumarole.connect(broker.url) as client:
        producer = client.producer({"Kind": "shared"})
        published = 0

        async def publish(count: int) -> None:
            nonlocal published
            for _ in range(count):
                published += 1
                await producer.publish(published)
            await asyncio.sleep(0.01)

        while not stops.message_files:
            await publish(100)
        stops.process.send_signal(signal.SIGTERM)
        while stops.process.poll() is None:
            await publish(100)
        assert stops.end() == 0
        await client.flush()
    assert stays.stop() == 0
    found = rows(tmp_path)
    assert Counter(row["value"] for row in found) == Counter(map(float, range(1, published + 1)))
    assert set(Counter(row["recorder"] for row in found)) == {"a", "b"}
    assert verify(tmp_path, "default") == []


@pytest.mark.parametrize("flags", [("--topic", "readings.>"), ("--where", "HAS Region")], ids=["by topic", "by query"])
async def test_the_forgotten_are_forgotten_between_what_they_said_before_and_after(
    broker: RunningBroker, record: Record, tmp_path: Path, flags: tuple[str, str]
) -> None:
    recording = record(broker.url, tmp_path, *flags)
    async with fumarole.connect(broker.url) as client:
        going = [client.producer({"Region": "old"}) for _ in range(20)]
        returning = [client.producer({"Region": "old"}) for _ in range(20)]
        for producer in going:
            await producer.publish(1)
            producer.update(Room="410")
            await producer.publish(2)
            assert await producer.forget()
        for producer in returning:
            await producer.publish(1)
            assert await producer.forget()
            await producer.publish(2)
        await client.flush()
        recording.wait_until(lambda: recording.messages == 80)
    assert recording.stop() == 0
    known = known_at(tmp_path, "default", datetime.now(UTC))
    assert {producer.id: known.get(producer.id) for producer in (*going, *returning)} == {
        **dict.fromkeys((producer.id for producer in going), None),
        **{producer.id: {"Region": "old"} for producer in returning},
    }


def publish_numbers(url: str, done: threading.Event) -> None:
    """Consecutive numbers, some thousand a second, until it is told to end."""

    async def publish() -> None:
        async with fumarole.connect(url) as client:
            number = 0
            while not done.is_set():
                await client.publish_many((f"n.{each % 10}", str(each)) for each in range(number, number + 200))
                number += 200
                await asyncio.sleep(0.01)

    asyncio.run(publish())


def test_killed_at_any_moment_what_was_confirmed_is_there(
    broker: RunningBroker, record: Record, tmp_path: Path
) -> None:
    """P1: by content. Each incarnation has consecutive numbers, so a row that is lost, doubled or altered shows."""
    chance = random.Random(4)
    done = threading.Event()
    publisher = threading.Thread(target=publish_numbers, args=(broker.url, done))
    publisher.start()
    confirmed: list[dict[str, Any]] = []
    try:
        for _ in range(3):
            recording = record(broker.url, tmp_path, "--topic", "n.*", seconds=0.1)
            wanted = chance.randrange(1, 6)
            recording.wait_until(lambda recording=recording, wanted=wanted: recording.message_files >= wanted)
            done.wait(chance.random() * 0.15)
            recording.kill()
            confirmed += recording.confirmed
    finally:
        done.set()
        publisher.join()
    last = record(broker.url, tmp_path, "--topic", "n.*")
    assert last.stop() == 0
    on_disk = {file.name: file for file in sealed(tmp_path, "default")}
    for seal in confirmed:
        file = on_disk[Path(seal["path"]).stem]
        assert (file.rows, file.first, file.last, file.bytes) == (
            seal["rows"],
            seal["first"],
            seal["last"],
            seal["bytes"],
        )
        assert pq.read_metadata(file.uri).num_rows == seal["rows"]
    found = rows(tmp_path)
    identities = {(row["recorder"], row["epoch"], row["sequence"]) for row in found}
    assert len(identities) == len(found) >= sum(seal["rows"] for seal in confirmed if seal["kind"] == "messages")
    assert len({epoch for _, epoch, _ in identities}) == 3
    bases: dict[int, set[int]] = {}
    for row in found:
        bases.setdefault(row["epoch"], set()).add(int(row["payload"]) - row["sequence"])
    assert all(len(base) == 1 for base in bases.values())
    assert verify(tmp_path, "default") == []


def visible(archive: Path) -> list[Path]:
    return list(archive.rglob("*.parquet"))


async def test_a_disk_that_takes_nothing_for_a_while(broker: RunningBroker, record: Record, tmp_path: Path) -> None:
    """The system itself refuses to let files grow; then it lets them again."""
    recording = record(broker.url, tmp_path, "--topic", "full.*")
    async with fumarole.connect(broker.url) as client:
        await client.publish("full.a", b"before")
        await client.flush()
        recording.wait_until(lambda: recording.messages == 1)
        _, hard = resource.prlimit(recording.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(recording.process.pid, resource.RLIMIT_FSIZE, (64, hard))
        await client.publish_many(("full.b", str(number)) for number in range(10_000))
        await client.flush()
        recording.wait_for("NOTHING CAN BE WRITTEN: File too large")
        assert all(pq.read_metadata(path).num_rows > 0 for path in visible(tmp_path))
        assert len(sealed(tmp_path, "default")) == len(recording.confirmed)
        resource.prlimit(recording.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        recording.wait_until(lambda: recording.messages == 10_001)
    assert recording.stop() == 0
    assert [row["payload"] for row in rows(tmp_path)[1:]] == [str(number).encode() for number in range(10_000)]
    assert verify(tmp_path, "default") == []


@pytest.mark.parametrize(
    ("takes_nothing", "code", "last"),
    [
        pytest.param("full", 1, "stdout: No space left on device; what was captured is in ", id="full"),
        pytest.param("closed", 0, "5 messages in ", id="closed"),
    ],
)
async def test_an_output_that_takes_nothing_costs_no_message(
    broker: RunningBroker, record: Record, tmp_path: Path, takes_nothing: str, code: int, last: str
) -> None:
    """It is the seals that cannot be told. The archive is well, and has what was captured."""
    reading_end, writing_end = os.pipe()
    os.close(reading_end)
    if takes_nothing == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), writing_end)
    url = f"nats://unsaid@127.0.0.1:{broker.port}"  # a namespace with no producers: the first file is of these messages
    with os.fdopen(writing_end, "w") as output:
        recording = record(url, tmp_path, seconds=0.5, stdout=output)
    async with fumarole.connect(url) as client:
        for number in range(5):
            await client.publish("a", str(number))
        await client.flush()
    assert await asyncio.to_thread(recording.end) == code
    assert recording.said[-1].startswith(last)
    assert [row["payload"] for row in rows(tmp_path, namespace="unsaid")] == [b"0", b"1", b"2", b"3", b"4"]
    assert verify(tmp_path, "unsaid") == []


async def test_a_broker_that_comes_back(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, record: Record
) -> None:
    folder = tmp_path_factory.mktemp("broker")
    first = RunningBroker(folder)
    recording = record(first.url, tmp_path, "--topic", "a")
    async with fumarole.connect(first.url) as client:
        await client.publish("a", b"1")
        unheard = client.producer({"Room": "410"}, topic="elsewhere")
        await unheard.publish(1)
        await client.flush()
    first.stop()
    again = RunningBroker(folder, port=first.port)
    async with fumarole.connect(again.url) as client:
        recording.wait_for("connected again")
        await client.publish("a", b"2")
        await client.flush()
        recording.wait_until(lambda: recording.messages == 2)
    # Who comes back asks what is known now: much may have been said meanwhile.
    recording.wait_until(lambda: any(seal["kind"] == "changes" for seal in recording.confirmed))
    assert recording.stop() == 0
    again.stop()
    assert [(row["payload"], row["sequence"]) for row in rows(tmp_path)] == [(b"1", 0), (b"2", 1)]
    assert [(row["producer"], row["kind"], row["text"]) for row in rows(tmp_path, "changes")] == [
        (unheard.id, "anew", None),
        (unheard.id, "text", "410"),
    ]


async def test_what_was_deleted_while_the_connection_was_lost_is_gone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, record: Record
) -> None:
    """On a topic that is not recorded, so that it is unheard for sure."""
    folder = tmp_path_factory.mktemp("broker")
    first = RunningBroker(folder)
    async with fumarole.connect(first.url) as client:
        producer = client.producer({"Room": "410", "Status": "broken"}, topic="a")
        await producer.publish(1)
        await client.flush()
        recording = record(first.url, tmp_path, "--topic", "a")
        recording.wait_until(lambda: recording.confirmed)
        await client.publish("b", b"2", headers={"Producer": producer.id, "Metadata": '{"Status": null}'})
        await client.flush()
    before = {producer.id: {"Room": "410", "Status": "broken"}}
    assert known_at(tmp_path, "default", datetime.now(UTC)) == before
    first.stop()
    await asyncio.sleep(5 * INTERVAL)
    still_away = datetime.now(UTC)
    again = RunningBroker(folder, port=first.port)
    recording.wait_until(lambda: known_at(tmp_path, "default", datetime.now(UTC)) == {producer.id: {"Room": "410"}})
    assert known_at(tmp_path, "default", still_away) == before
    assert recording.stop() == 0
    again.stop()


async def test_the_example_of_the_page(broker: RunningBroker, record: Record, tmp_path: Path) -> None:
    recording = record(broker.url, tmp_path / "archive", "--topic", "example")
    async with fumarole.connect(broker.url) as client:
        await client.publish("example", b"21.5")
        await client.flush()
    assert recording.stop() == 0
    page = await asyncio.to_thread((Path(__file__).parents[3] / "docs" / "reference" / "archive.md").read_text)
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    run = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    assert "21.5" in run.stdout
    command = [sys.executable, "-m", "fumarole.cli.main", "pipeline", "verify", "--archive", str(tmp_path / "archive")]
    verified = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout) == (0, "")
    assert verified.stderr.endswith("1 message; everything is there\n")
    (damaged,) = (tmp_path / "archive" / "default").rglob("hour=*/*.parquet")
    damaged.write_bytes(b"PAR1")
    verified = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert verified.returncode == 1
    assert verified.stdout.startswith("damaged\tdate=")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param(["--topic", "a.>.b"], "`>` must be the last word, at position 2", id="pattern"),
        pytest.param(["--where", "Kind = = 1"], "at position 7", id="query"),
        pytest.param(["--name", "a/b"], "a recorder's name is letters, digits", id="name"),
        pytest.param(["--archive", "nosuch://x"], "nosuch://x cannot be opened", id="file system"),
        pytest.param(["--archive", "/proc/nothing"], "/proc/nothing cannot be written: No such file", id="folder"),
        pytest.param(["--servers", "nats://127.0.0.1:1"], "no broker at nats://127.0.0.1:1", id="no broker"),
    ],
)
def test_mistakes_are_a_sentence(broker: RunningBroker, tmp_path: Path, flags: list[str], text: str) -> None:
    command = [sys.executable, "-m", "fumarole.cli.main", "record", "--archive", str(tmp_path), "--servers", broker.url]
    run = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode in (1, 2)
    assert text in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr.splitlines()) <= 4


async def test_declared_payloads(broker: RunningBroker, record: Record, tmp_path: Path) -> None:
    """P6, P7: typed columns beside the raw payload, marked with the declaration; what does not fit is said at the end."""
    declared = tmp_path / "payloads.toml"
    declared.write_text(
        '[[payloads]]\ntopic = "declared.*"\nformat = "json"\nfields = {t = "double"}\nvalue = "t"\ntime = "ts"\n'
    )
    archive = tmp_path / "archive"
    recording = record(broker.url, archive, "--topic", "declared.>", "--payloads", declared)
    async with fumarole.connect(broker.url) as client:
        await client.publish("declared.a", b'{"t": 21.5, "ts": "2026-01-01T00:00:00+01:00"}')
        await client.publish("declared.a", b"21.5")
        await client.publish("declared.a.b", b"7", headers=[("Time", "5")])
        await client.flush()
        recording.wait_until(lambda: recording.messages == 3)
    assert recording.stop() == 0
    found = rows(archive)
    assert [row["value"] for row in found] == [21.5, None, 7.0]
    midnight = datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert [row["event_time"] for row in found] == [midnight, None, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)]
    assert [row["payload"] for row in found][1:] == [b"21.5", b"7"]
    (file,) = [each for each in sealed(archive, "default") if each.kind == "messages"]
    assert file.payloads == pipeline.payloads(declared).digest
    assert pq.read_schema(file.uri).metadata[b"fumarole.payloads"] == file.payloads.encode()
    assert "1 message did not fit its declaration" in "\n".join(recording.said)
    assert verify(archive, "default") == []
