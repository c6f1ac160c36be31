"""The pipeline's demonstration, the whole story: broker, stations, two recorders, the standing job, and the report.

Everything but the stations is a process of its own, started by the command that a user would type. At the end all that
was published is counted in the archive and in the tables: the numbers must be the same.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fumarole.cli.terminal import GREEN, count_text, paint, say
from fumarole.client import connect
from fumarole.demo.broker import DemoError, demo_broker
from fumarole.demo.stations import instruments, turns
from fumarole.pipeline.archive.places import SEALED
from fumarole.pipeline.archive.seals import sealed
from fumarole.pipeline.jobs.log import Log

TICK = 0.005
LATENESS = 0.25
TELL_SECONDS = 10.0
RECORDERS = 2
SHOWN_ALARMS = 6
RULES = """\
# An instrument says how far it has drifted. It is calibrated when that is too much.
[[rules]]
name = "drift"
where = "Deviation >= 2"
clear = "Deviation < 1"
publish = "alarms.drift.{Region}.{Kind}"

[[rules]]
name = "silent"
where = "Status = 'failing'"
silence = "2 s"
publish = "alarms.silent.{Region}"

[[rules]]
name = "mean"
rollup = "10 s"
by = ["Region", "Kind"]
publish = "rollups.{Region}.{Kind}"
"""
PATIENCE = 120.0
"""Seconds for a process to do what it has to do."""
CATCHING_UP = 600.0
"""Seconds for the jobs, which begin with Spark's start: a batch takes as long as the machine is busy."""


def demonstrate(folder: Path, seconds: float, rate: float, port: int) -> None:
    """Runs it all. Raises DemoError."""
    archive, tables, page = folder / "archive", folder / "tables", folder / "report.html"
    if folder.exists() and any(folder.iterdir()):
        raise DemoError(f"{folder} is not empty; remove it, or name another --folder")
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    with demo_broker(port) as broker:
        url = broker.url
        say(f"a broker at {url}; its console is at {broker.web}")
        with (
            _recorders(url, archive, folder),
            _standing_job(archive, tables, folder) as job,
            _watching(url, rules, folder),
        ):
            say(f"{RECORDERS} recorders, sharing what comes, into {archive}")
            say(f"the standing job, from there into {tables}")
            say(f"the live job, by the rules in {rules}; its alarms go to `fumarole sub 'alarms.>'`")
            published = asyncio.run(_stations(url, seconds, rate, lambda count: say(_so_far(count, archive, tables))))
            say("the stations end; the recorders seal what they have, and the job catches up")
            archived = _wait_for(job, archive, tables, published, folder)
    say(f"{count_text(published, 'reading')} published, {archived:,} archived")
    done = Log(tables).state()
    say(f"{done.messages:,} in the tables, in {done.number:,} batches")
    # Headers stand below their message, indented.
    heard = [line for line in (folder / "alarms.log").read_text().splitlines() if not line.startswith(" ")]
    say(f"\n{count_text(len(heard), 'message')} on alarms.>; the last ones:")
    for line in heard[-SHOWN_ALARMS:]:
        say(f"  {line}")
    say("\nthe same rules on what was recorded, and the report:")
    places = ("--archive", str(archive), "--rules", str(rules), "--page", str(page))
    _command("pipeline", "whatif", *places, "--limit", str(SHOWN_ALARMS))
    query = "Kind = 'gas' and Status = 'repaired'"
    say(f'\nwhatif --where "{query}":')
    _command("pipeline", "whatif", "--archive", str(archive), "--where", query)
    if not published == archived == done.messages:
        raise DemoError(
            f"{published:,} published, {archived:,} archived, {done.messages:,} in the tables: not the same"
        )
    say(
        paint(
            f"\nAll {published:,} readings are there, each once. Look at {page.resolve().as_uri()}", GREEN, sys.stderr
        )
    )


def _so_far(published: int, archive: Path, tables: Path) -> str:
    done = Log(tables).state()
    return (
        f"  {published:>9,} published  {_archived(archive):>9,} archived  {done.messages:>9,} in the tables "
        f"({'1 batch' if done.number == 1 else f'{done.number:,} batches'})"
    )


def _archived(archive: Path) -> int:
    return sum(file.rows for file in sealed(archive, "default") if file.kind == "messages")


async def _stations(url: str, seconds: float, rate: float, tell: Callable[[int], None]) -> int:
    chance = random.Random()
    async with connect(url, name="stations", reconnect=False) as client:
        every = instruments(chance)
        producers = [client.producer(each.metadata(), each.topic) for each in every]
        what = f"{len(every)} instruments on {len(every) // 3} volcanoes"
        say(f"{what}, about {rate:,.0f} readings a second, for {seconds:g} s")
        order = turns(every, chance)
        often = [order.count(number) for number in range(len(every))]
        loop = asyncio.get_running_loop()
        begin, due, published, told = loop.time(), 0.0, 0, 0.0
        while (now := loop.time() - begin) < seconds:
            due = max(due, (now - LATENESS) * rate)  # an instrument that was held up does not make up for it
            for _ in range(int(now * rate - due)):
                number = order[int(due) % len(order)]
                value, news = every[number].read(now, len(order) / often[number] / rate)
                due += 1
                if news:
                    producers[number].update(news)
                if value is not None:
                    await producers[number].publish(value)
                    published += 1
            if now - told >= TELL_SECONDS:
                told = now
                tell(published)
            await asyncio.sleep(TICK)
        await client.flush()
    return published


@contextmanager
def _recorders(url: str, archive: Path, folder: Path) -> Iterator[None]:
    begun = [
        _begin(
            folder,
            f"recorder-{number}",
            "record",
            "--archive",
            str(archive),
            "--servers",
            url,
            "--name",
            f"recorder-{number}",
            "--roll-seconds",
            "3",
            "--topic",
            "volcanoes.>",
        )
        for number in range(1, RECORDERS + 1)
    ]
    try:
        for number, process in enumerate(begun, 1):
            _wait_until_said(process, folder / f"recorder-{number}.log", "records")
        yield
    finally:
        for process in begun:
            process.send_signal(signal.SIGTERM)
        for process in begun:
            process.wait(PATIENCE)


@contextmanager
def _standing_job(archive: Path, tables: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    # The job wants an archive to work on: there is one as soon as a recorder is.
    (archive / "default" / SEALED).mkdir(parents=True, exist_ok=True)
    places = ("--archive", str(archive), "--out", str(tables))
    process = _begin(
        folder, "job", "pipeline", "run", *places, "--interval", "2", "--window", "10 s", "--window", "1 minute"
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


@contextmanager
def _watching(url: str, rules: Path, folder: Path) -> Iterator[None]:
    """The live job, and a subscriber to its alarms."""
    subscriber = _begin(folder, "alarms", "sub", "alarms.>", "--servers", url)
    places = ("--rules", str(rules), "--servers", url, "--checkpoint", str(folder / "watch"))
    job = _begin(folder, "watch", "pipeline", "watch", *places)
    try:
        _wait_until_said(job, folder / "watch.log", "rows/s", CATCHING_UP)
        yield
    finally:
        for process in (job, subscriber):
            process.send_signal(signal.SIGTERM)
        for process in (job, subscriber):
            process.wait(PATIENCE)


def _begin(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "fumarole.cli.main", *arguments], stdout=log, stderr=log)


def _command(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "fumarole.cli.main", *arguments], check=False)
    if done.returncode:
        raise DemoError(f"`fumarole {' '.join(arguments)}` failed")


def _wait_until_said(process: subprocess.Popen[bytes], log: Path, word: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while word not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise DemoError(f"it did not start: {log.read_text(errors='replace').strip()}")
        time.sleep(0.05)


def _wait_for(job: subprocess.Popen[bytes], archive: Path, tables: Path, published: int, folder: Path) -> int:
    """Until the recorders have sealed everything, and the standing job has caught up; or nothing comes any more."""
    deadline = time.monotonic() + CATCHING_UP
    told = time.monotonic()
    archived = 0
    while time.monotonic() < deadline:
        if time.monotonic() - told >= TELL_SECONDS:
            told = time.monotonic()
            say(_so_far(published, archive, tables))
        archived = _archived(archive)
        if published == archived == Log(tables).state().messages:
            break
        if job.poll() is not None:
            said = (folder / "job.log").read_text(errors="replace").strip()
            raise DemoError(f"the standing job ended: {said}")
        time.sleep(0.5)
    return archived
