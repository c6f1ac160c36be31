"""The recorder beside its limits: how much it takes from a running broker without a drop, in how much memory and disk.

Readings of a thousand sensors are published at a steady rate, all by one connection, with a broker, the recorder and
this process on the same machine. The search for the highest rate without loss begins at the one of the results file and
halves the interval (`bench.search`). A rate counts from the first message until the last one is sealed, so it is below
the rate that was offered, and what waits in buffers at the end of so short a time does not count for it. The peer for
the size is pyarrow, given all the same rows at once.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import msgpack

from bench.effort import Effort
from bench.figures import ROOT, Figure, against, read, within
from bench.search import limit
from bench.servers import COMMANDS, COMPILED, PATIENCE, CannotMeasureError, Server, fumarole, settle
from tests.ports import free_port

CLAIM = "Recorder"
PLAIN_RATE, READINGS_RATE, METADATA_RATE = 1_000_000, 500_000, 150_000
"""What is wanted: of messages without producers, of readings, of readings that each bring metadata."""
SECONDS = 5
MOST_MEMORY = 400 << 20
MOST_SIZE = 1.10
TOPICS = 1_000_000
TOPICS_RATE = 150_000
SIZE_MESSAGES = 2_000_000
SIZE_RATE = 400_000
SENSORS = 1_000
PRODUCERS = [f"{number * 2654435761 % 2**32:08x}-0000-4000-8000-{number:012d}" for number in range(SENSORS)]
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
        said = ""
        while " records " not in said:  # on a busy machine it says before that it has nothing yet
            if not (said := process.stderr.readline()):
                raise CannotMeasureError("the recorder did not start")
        time.sleep(1.0)  # what it knows of producers it asks for after it said so
        yield Recording(process, archive)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def chunks(seed: int = 7) -> list[bytes]:
    """Messages without producers: each sensor has a value that drifts. A few hundred thousand, over and over."""
    return _frames(
        lambda sensor, text, _: f"PUB volcanoes.region{sensor % 10}.sensor{sensor} {len(text)}\r\n{text}\r\n".encode(),
        seed,
    )


def readings_at_nats() -> list[bytes]:
    """The same as readings: each message names its producer."""

    def frame(sensor: int, text: str, _: random.Random) -> bytes:
        head = f"NATS/1.0\r\nProducer: {PRODUCERS[sensor]}\r\n\r\n"
        sizes = f"{len(head)} {len(head) + len(text)}"
        return f"HPUB volcanoes.region{sensor % 10}.sensor{sensor} {sizes}\r\n{head}{text}\r\n".encode()

    return _frames(frame)


def readings_at_msgpack() -> list[bytes]:
    """The same at the MsgPack door."""
    return _frames(lambda sensor, text, _: msgpack.packb([PRODUCERS[sensor], {}, float(text)]))


def readings_with_metadata() -> list[bytes]:
    """The same, each with metadata: a battery's level, and a signal's strength."""

    def frame(sensor: int, text: str, chance: random.Random) -> bytes:
        said = {"Battery": chance.randrange(100), "Signal": -chance.randrange(30, 100)}
        return bytes(msgpack.packb([PRODUCERS[sensor], said, float(text)]))

    return _frames(frame)


def _frames(frame: Callable[[int, str, random.Random], bytes], seed: int = 7) -> list[bytes]:
    chance = random.Random(seed)
    values = [20 + 5 * chance.random() for _ in range(SENSORS)]
    made = []
    for _ in range(200):
        frames = []
        for _ in range(CHUNK):
            sensor = chance.randrange(SENSORS)
            values[sensor] += chance.gauss(0, 0.1)
            frames.append(frame(sensor, f"{values[sensor]:.2f}", chance))
        made.append(b"".join(frames))
    return made


def new_topics(messages: int) -> Iterator[bytes]:
    """Every message on a topic of its own."""
    for begin in range(0, messages, CHUNK):
        yield "".join(
            f"PUB volcanoes.{each:x}.sensor{each} 4\r\n21.5\r\n" for each in range(begin, begin + CHUNK)
        ).encode()


def publish(connection: socket.socket, ready: Iterable[bytes], rate: float) -> None:
    """Chunks of messages, at so many messages a second."""
    offer(connection, ready, rate)
    settle(connection)


def offer(connection: socket.socket, ready: Iterable[bytes], rate: float) -> None:
    began = time.monotonic()
    for number, chunk in enumerate(ready):
        due = began + number * CHUNK / rate
        if (wait := due - time.monotonic()) > 0:
            time.sleep(wait)
        connection.sendall(chunk)


class Load(NamedTuple):
    """What is recorded, and at which door it is published."""

    name: str
    chunks: Callable[[], list[bytes]]
    wanted: int
    msgpack: bool = False


LOADS = (
    Load("messages without producers", chunks, PLAIN_RATE),
    Load("readings at the NATS door", readings_at_nats, READINGS_RATE),
    Load("readings at the MsgPack door", readings_at_msgpack, READINGS_RATE, True),
    Load("readings at the MsgPack door, each with metadata", readings_with_metadata, METADATA_RATE, True),
)


def measure(effort: Effort) -> Iterator[Figure]:
    memory = 0
    for load in LOADS:
        rounds = [search(effort, load, number) for number in range(1, effort.rounds + 1)]
        memory = max(memory, *(each.memory for each in rounds))
        yield figure(load, rounds)
    yield within(MOST_MEMORY, CLAIM, "memory", memory, "MiB")
    yield within(MOST_MEMORY, CLAIM, "memory, a million topics", _memory_of_topics(effort), "MiB")
    size, whole = _size(effort)
    yield against("pyarrow, in one go", CLAIM, "size of the archive", size, whole, "MiB", at_most=MOST_SIZE)


class Round(NamedTuple):
    """The result of one attempt: messages a second from the first until the last is sealed, and the most memory."""

    rate: float
    memory: int


def figure(load: Load, rounds: list[Round]) -> Figure:
    """The wanted rate is for each round, not for the best."""
    rates = [each.rate for each in rounds]
    return against(
        "wanted",
        CLAIM,
        _name(load),
        min(rates),
        load.wanted,
        "/s",
        at_least=1.0,
        note="Rates are the lowest of the rounds; each round searched for its highest without loss.",
        rounds=[rate / load.wanted for rate in rates],
    )


def search(effort: Effort, load: Load, number: int) -> Round:
    """The highest rate without loss, in one round."""
    reached = limit(_known(load), partial(_attempt, effort, load, load.chunks(), number))
    if reached is None:
        raise CannotMeasureError(f"the recorder lost {load.name} at every rate; is the machine busy?")
    return reached


def _name(load: Load) -> str:
    return f"{load.name}: the highest rate without loss"


def _known(load: Load) -> float:
    """The rate of the results file; where it has none, the wanted one."""
    path = ROOT / "bench" / "results.json"
    found = read(path).figures if path.exists() else []
    return next((each.ours for each in found if each.claim == CLAIM and each.name == _name(load)), load.wanted)


def _attempt(effort: Effort, load: Load, ready: list[bytes], number: int, rate: float) -> Round | None:
    """None: something was lost, and then no figure counts."""
    effort.tell(f"{load.name}, round {number}: {rate:,.0f}/s")
    messages = int(rate * (SECONDS / 5 if effort.quick else SECONDS)) // CHUNK * CHUNK
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(dir="build")))
        door = free_port()
        server = running.enter_context(fumarole(COMPILED, "--msgpack", f"127.0.0.1:{door}"))
        recorder = running.enter_context(recording(server, folder))
        if load.msgpack:
            connection = running.enter_context(socket.create_connection(("127.0.0.1", door), timeout=PATIENCE))
        else:
            connection = running.enter_context(server.connect())
        began = time.time()  # as files have it
        offer(connection, islice(cycle(ready), messages // CHUNK), rate)
        if load.msgpack:
            _sent(connection)
        else:
            settle(connection)
        if _recorded(recorder.finish()) != messages:
            return None
        took = max(file.stat().st_mtime for file in recorder.archive.rglob("*.parquet")) - began
        return Round(messages / took, recorder.most_memory)


def _sent(connection: socket.socket) -> None:
    """The server has read all: it closes a connection whose other end has said that nothing more comes."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass


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


def _size(effort: Effort) -> tuple[int, int]:
    """Bytes of an archive of messages without producers, and of the same rows written in one go."""
    effort.tell("size of the archive")
    messages = effort.share(SIZE_MESSAGES)
    with (
        tempfile.TemporaryDirectory(dir="build") as folder,
        fumarole() as server,
        server.connect() as connection,
        recording(server, Path(folder)) as recorder,
    ):
        publish(connection, islice(cycle(chunks()), messages // CHUNK), SIZE_RATE)
        seals = recorder.finish()
        if _recorded(seals) != messages:
            raise CannotMeasureError("the recorder lost messages; is the machine busy with something else?")
        size = sum(int(str(seal["bytes"])) for seal in seals if seal["kind"] == "messages")
        return size, in_one_go(recorder.archive, Path(folder))


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
