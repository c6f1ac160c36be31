"""The load generator: C, because it must not be the limit of what it measures. Compiled here on first use."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.servers import CannotMeasureError

SOURCES = Path(__file__).parent / "load"
PROGRAMS = Path(__file__).parents[1] / "build" / "bench"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra")


class ServerFaultError(Exception):
    """The server lost, doubled or altered a message, or cut a connection; the text is the generator's."""


class Load(NamedTuple):
    """What is published and who listens; bench/load/load.c says what each means."""

    messages: int
    size: int = 16
    topics: int = 100
    publishers: int = 1
    consumers: int = 1
    group: str = ""
    window: int = 20_000
    churn: str = ""
    churn_rate: int = 1_000
    patience: int = 10
    consumer_port: int = 0
    """Another node of a cluster, where the consumers are; 0: the same."""
    producer: str = ""
    """Messages are readings of this one."""
    changes: int = 0
    """Every so many of them change a key of its metadata; 0: none does."""
    ready_made: bool = False
    """For the relay that only copies: what is published is what the consumer gets."""

    def options(self) -> list[str]:
        given = {
            field: value for field, value in self._asdict().items() if value not in ("", 0) or field == "consumers"
        }
        flag = ["--ready-made"] if given.pop("ready_made", False) else []
        return flag + [text for field, value in given.items() for text in (f"--{field.replace('_', '-')}", str(value))]


class Run(msgspec.Struct, frozen=True):
    """What came of a load."""

    seconds: float
    published: int
    delivered: int
    changes: int

    @property
    def rate(self) -> float:
        """Messages published a second."""
        return self.published / self.seconds


class Latency(msgspec.Struct, frozen=True):
    """Microseconds over two hops."""

    p50: float
    p99: float
    p999: float


class Readings(NamedTuple):
    """Readings through the MsgPack door; bench/load/readings.c says what each means."""

    readings: int
    producers: int = 1
    connections: int = 1
    subscribers: int = 1
    rooms: int = 1
    rate: int = 0
    window: int = 20_000
    tested: int = 0
    """1: subscribers ask for values above a bound too, and all are."""


class Heard(msgspec.Struct, frozen=True):
    """What came of them; microseconds."""

    seconds: float
    published: int
    delivered: int
    p50: float
    p95: float
    p99: float


class MqttLoad(NamedTuple):
    """What is published over MQTT, and who listens; bench/load/mqtt.c says what each means."""

    messages: int
    size: int = 16
    topics: int = 100
    publishers: int = 1
    consumers: int = 1
    version: int = 4
    qos: int = 0
    group: str = ""
    window: int = 2_000
    rate: int = 0


class MqttCrowd(NamedTuple):
    """So many clients that connect and subscribe."""

    port: int
    clients: int


def run_mqtt(port: int, load: MqttLoad) -> Run:
    options = [text for field, value in load._asdict().items() if value != "" for text in (f"--{field}", str(value))]
    return msgspec.json.decode(_run("mqtt", port, *options), type=Run)


def run_mqtt_latency(port: int, rounds: int) -> Latency:
    return msgspec.json.decode(_run("mqtt_latency", port, "--rounds", str(rounds)), type=Latency)


@contextmanager
def mqtt_crowd(crowd: MqttCrowd) -> Iterator[float]:
    """The seconds that all of them took to be let in. They stay until the end."""
    command = [str(build("mqtt_crowd")), "--port", str(crowd.port), "--clients", str(crowd.clients)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        try:
            if not line:
                raise ServerFaultError(process.stderr.read().decode().strip())
            yield float(msgspec.json.decode(line)["seconds"])
        finally:
            process.stdin.close()


def run_readings(port: int, readings: Readings) -> Heard:
    options = [text for field, value in readings._asdict().items() for text in (f"--{field}", str(value))]
    return msgspec.json.decode(_run("readings", port, *options), type=Heard)


def run_load(port: int, load: Load) -> Run:
    return msgspec.json.decode(_run("load", port, *load.options()), type=Run)


def run_latency(port: int, rounds: int, answering_port: int = 0) -> Latency:
    options = ["--rounds", str(rounds)]
    if answering_port:
        options += ["--answering-port", str(answering_port)]
    return msgspec.json.decode(_run("latency", port, *options), type=Latency)


def build(name: str) -> Path:
    """The program, compiled if it is older than its sources."""
    program = PROGRAMS / name
    sources = [SOURCES / f"{name}.c", SOURCES / "connection.c"]
    newest = max(source.stat().st_mtime for source in [*sources, *SOURCES.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise CannotMeasureError("the load generator is in C and needs a compiler: install gcc")
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([compiler, *FLAGS, "-o", program, *sources], capture_output=True, text=True, check=False)
        if made.returncode:
            raise CannotMeasureError(f"the load generator does not compile: {made.stderr}")
    return program


def _run(name: str, port: int, *options: str) -> str:
    run = subprocess.run([build(name), "--port", str(port), *options], capture_output=True, text=True, check=False)
    if run.returncode == 2:
        raise ServerFaultError(run.stderr.strip())
    if run.returncode:
        raise CannotMeasureError(f"{name}: {run.stderr.strip() or run.returncode}")
    return run.stdout
