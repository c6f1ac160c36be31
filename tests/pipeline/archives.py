"""Archives for tests, made by the archive's own writer."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from fumarole.core.query.tree import Value
from fumarole.pipeline.archive import Root, write_rows
from fumarole.pipeline.archive.seals import Seal
from fumarole.pipeline.rows import typed

FOR_LITTLE_DATA = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-Xss16m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-Xss16m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of Spark with which tests take half the time: what is compiled is used only a few times."""
AS_THEY_ARE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Plans that are run once are faster as they are than made into code first. (Transforms are tested as code, too.)"""
FOR_ONE_RUN = {**FOR_LITTLE_DATA, **AS_THEY_ARE}
FOR_COMMANDS = [text for key, value in FOR_ONE_RUN.items() for text in ("--conf", f"{key}={value}")]
BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Metadata = Mapping[str, Value | None]


@contextmanager
def as_they_are(spark: SparkSession) -> Iterator[None]:
    """Spark makes no code of plans."""
    with as_they_were(spark, *AS_THEY_ARE):
        for key, value in AS_THEY_ARE.items():
            spark.conf.set(key, value)
        yield


@contextmanager
def as_they_were(spark: SparkSession, *keys: str) -> Iterator[None]:
    """These settings of the session are the same afterwards: all tests have one session."""
    before = {key: spark.conf.get(key, None) for key in keys}
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def message(
    seconds: float,
    topic: str = "a",
    producer: str | None = None,
    value: float | None = None,
    said: Metadata | None = None,
) -> dict[str, Any]:
    return {
        "time": at(seconds),
        "topic": topic,
        "producer": producer,
        "value": value,
        "payload": b"" if value is None else str(value).encode(),
        "changes": list(typed(said)) if said else None,
    }


def change(seconds: float, producer: str, said: Metadata) -> list[dict[str, Any]]:
    return [{"time": at(seconds), "producer": producer, **each} for each in typed(said)]


def damage(file: Path) -> None:
    """Somewhere inside: its length and its end are as they were."""
    data = bytearray(file.read_bytes())
    data[4:200] = bytes(196)
    file.write_bytes(data)


NOISE = bytes(range(97, 123))
"""A payload that compression leaves as it is."""


def alter(file: Path) -> None:
    """One bit of the noise in it: all of it can be read as before, and is something else."""
    data = bytearray(file.read_bytes())
    data[data.index(NOISE) + 5] ^= 1
    file.write_bytes(data)


class Recorder:
    """Seals files one after the other, as a recorder does."""

    def __init__(self, root: Path | Root, name: str = "r", epoch: int = 1, namespace: str = "default") -> None:
        self.root, self.name, self.epoch, self.namespace = root, name, epoch, namespace
        self._next = {"messages": 0, "changes": 0}

    def seal(self, rows: Iterable[dict[str, Any]], kind: Any = "messages", most_rows: int = 1_000_000) -> list[Seal]:
        listed = list(rows)
        first = self._next[kind]
        self._next[kind] += len(listed)
        return write_rows(
            self.root,
            self.namespace,
            listed,
            kind=kind,
            recorder=self.name,
            epoch=self.epoch,
            first=first,
            most_rows=most_rows,
        )
