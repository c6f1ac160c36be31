"""The recorder beside its limits: how much it takes from a running broker without a drop, in how much memory and disk.

Readings of a thousand sensors are published at a steady rate, all by one connection, with a broker, the recorder and
this process on the same machine. The rate counts from the first message until the last one is sealed. The peer for the
size is pyarrow, given all the same rows at once.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from bench.effort import Effort
from bench.figures import Figure, against, within
from bench.servers import COMMANDS, CannotMeasureError, Server, fumarole, settle

CLAIM = "Recorder"
WANTED_RATE = 300_000
OFFERED_RATE = 330_000
SECONDS = 30
MOST_ROUNDS = 3
MOST_MEMORY = 400 << 20
MOST_SIZE = 1.10
TOPICS = 1_000_000
TOPICS_RATE = 150_000
SENSORS = 1_000
CHUNK = 2_000
"""Messages in one write."""


class Recording:
    """A recorder that runs."""

    def __init__(self, process: subprocess.Popen[str], archive: Path) -> None:
        self.process = process
        self.archive = archive
        self.most_memory = 0

    def look(self) -> None:
        """Notes how much memory it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        self.most_memory = int(status.split("VmHWM:")[1].split()[0]) * 1024

    def finish(self) -> list[dict[str, object]]:
        """Tells it to end; the seals of all its files."""
        self.look()
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=120)
        if self.process.returncode:
            raise CannotMeasureError(f"the recorder ended with {self.process.returncode}: {errors[-300:]}")
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def recording(server: Server, folder: Path) -> Iterator[Recording]:
    """A recorder of everything."""
    archive = folder / "archive"
    address = f"nats://127.0.0.1:{server.port}"
    command = [str(COMMANDS / "fumarole"), "record", "--archive", str(archive), "--servers", address, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        if " records " not in said:
            raise CannotMeasureError(f"the recorder did not start: {said}")
        time.sleep(1.0)  # what it knows of producers it asks for after it said so
        yield Recording(process, archive)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def chunks(seed: int = 7) -> list[bytes]:
    """Readings: each sensor has a value that drifts. A few hundred thousand different messages, over and over."""
    chance = random.Random(seed)
    values = [20 + 5 * chance.random() for _ in range(SENSORS)]
    made = []
    for _ in range(200):
        frames = []
        for _ in range(CHUNK):
            sensor = chance.randrange(SENSORS)
            values[sensor] += chance.gauss(0, 0.1)
            text = f"{values[sensor]:.2f}"
            frames.append(f"PUB volcanoes.region{sensor % 10}.sensor{sensor} {len(text)}\r\n{text}\r\n")
        made.append("".join(frames).encode())
    return made


def new_topics(messages: int) -> Iterator[bytes]:
    """Every message on a topic of its own."""
    for begin in range(0, messages, CHUNK):
        yield "".join(
            f"PUB volcanoes.{each:x}.sensor{each} 4\r\n21.5\r\n" for each in range(begin, begin + CHUNK)
        ).encode()


def publish(connection: socket.socket, ready: Iterable[bytes], rate: float) -> None:
    """Chunks of messages, at so many messages a second."""
    began = time.monotonic()
    for number, chunk in enumerate(ready):
        due = began + number * CHUNK / rate
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        connection.sendall(chunk)
    settle(connection)


def measure(effort: Effort) -> Iterator[Figure]:
    messages = effort.share(OFFERED_RATE * SECONDS) // CHUNK * CHUNK
    rounds = []
    ready = chunks()
    for round_number in range(1, min(effort.rounds, MOST_ROUNDS) + 1):
        effort.tell(f"{messages:,} messages, round {round_number}")
        found = _round(ready, messages)
        if found is not None:
            rounds.append(found)
    if not rounds:
        raise CannotMeasureError("the recorder lost messages in every round; is the machine busy with something else?")
    best = max(rounds)
    yield against(
        "wanted",
        CLAIM,
        f"messages recorded of {OFFERED_RATE:,} offered, none dropped",
        best.rate,
        WANTED_RATE,
        "/s",
        at_least=1.0,
    )
    yield within(MOST_MEMORY, CLAIM, "memory", best.memory, "MiB")
    yield within(MOST_MEMORY, CLAIM, "memory, a million topics", _memory_of_topics(effort), "MiB")
    yield against(
        "pyarrow, in one go", CLAIM, "size of the archive", best.size, best.in_one_go, "MiB", at_most=MOST_SIZE
    )


class Round(NamedTuple):
    """What came of one round."""

    rate: float
    memory: int
    size: int
    in_one_go: int


def _round(ready: list[bytes], messages: int) -> Round | None:
    """None: something was lost, and then no figure counts."""
    with tempfile.TemporaryDirectory(dir="build") as folder, fumarole() as server:
        with server.connect() as connection, recording(server, Path(folder)) as recorder:
            began = time.monotonic()
            publish(connection, islice(cycle(ready), messages // CHUNK), OFFERED_RATE)
            seals = recorder.finish()
            took = time.monotonic() - began
        if _recorded(seals) != messages:
            return None
        size = sum(int(str(seal["bytes"])) for seal in seals)
        return Round(messages / took, recorder.most_memory, size, in_one_go(recorder.archive, Path(folder)))


def _memory_of_topics(effort: Effort) -> int:
    topics = effort.share(TOPICS)
    effort.tell(f"{topics:,} topics")
    with (
        tempfile.TemporaryDirectory(dir="build") as folder,
        fumarole() as server,
        server.connect() as connection,
        recording(server, Path(folder)) as recorder,
    ):
        publish(connection, new_topics(topics), TOPICS_RATE)
        if _recorded(recorder.finish()) != topics:
            raise CannotMeasureError("the recorder lost messages; is the machine busy with something else?")
        return recorder.most_memory


def _recorded(seals: list[dict[str, object]]) -> int:
    return sum(int(str(seal["rows"])) for seal in seals if seal["kind"] == "messages")


def in_one_go(archive: Path, folder: Path) -> int:
    """Bytes of the same rows, in one file, written by pyarrow as it does by itself, with zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fumarole.pipeline.archive import sealed

    files = [file.uri for file in sealed(archive, "default") if file.kind == "messages"]
    rows = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
    pq.write_table(rows, folder / "one.parquet", compression="zstd")
    return (folder / "one.parquet").stat().st_size
