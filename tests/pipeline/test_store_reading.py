"""An archive in an object store: recorded, verified, compacted, published and analysed (P1, P2, P10).

The store is moto's server, which answers as S3 does. Spark has no connector for S3 here, so pyarrow reads for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import boto3
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

import fumarole
from fumarole import pipeline
from fumarole.pipeline.archive import open_root, sealed
from fumarole.pipeline.archive.as_delta import publish
from fumarole.pipeline.archive.schema import MESSAGES
from fumarole.pipeline.archive.verifying import verify
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.compacting import compact, sweep
from fumarole.pipeline.jobs.expiring import expire
from fumarole.pipeline.jobs.spark import check_can_write
from fumarole.pipeline.store_reading import rows_of
from tests.integration.running import RunningBroker
from tests.pipeline.archives import BEGIN, Recorder, at, change, message
from tests.pipeline.commands import run_command
from tests.pipeline.recordings import Recording

KEY, SECRET = "AKIDEXAMPLE", "not/a+secret"


class Store(NamedTuple):
    """A store that answers as S3 does, with a bucket."""

    url: str

    def uri(self, folder: str) -> str:
        """With everything that is needed to reach it."""
        address = self.url.removeprefix("http://")
        return f"s3://{KEY}:not%2Fa%2Bsecret@bucket/{folder}?endpoint_override={address}&scheme=http&region=eu-west-1"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET
    )
    client.create_bucket(Bucket="bucket")
    yield Store(url)
    server.stop()


@pytest.fixture
def by_environment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials where they usually are."""
    for name, value in {
        "AWS_ENDPOINT_URL": store.url,
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, value)


async def test_a_recorder_writes_there(store: Store, by_environment: None, tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path)
    recording = Recording(broker.url, "s3://bucket/recorded")
    try:
        recording.wait_for(" records ")
        async with fumarole.connect(broker.url) as client:
            await client.publish_many([("a.b", b"21.5")] * 100)
            await client.flush()
            recording.wait_until(lambda: recording.messages == 100)
        assert recording.stop() == 0
    finally:
        if recording.process.poll() is None:
            recording.kill()
        broker.release()
    root = open_root(store.uri("recorded"))
    assert verify(root, "default") == []
    assert sum(file.rows for file in sealed(root, "default") if file.kind == "messages") == 100


@pytest.mark.parametrize("way", ["uri", "environment"])
def test_compacted_published_and_expired(store: Store, way: str, request: pytest.FixtureRequest) -> None:
    """With credentials in the URI, and in the environment. No secret is in a name."""
    if way == "environment":
        request.getfixturevalue("by_environment")
    place = store.uri("kept-uri") if way == "uri" else "s3://bucket/kept-environment"
    root = open_root(place)
    assert SECRET not in repr(root)
    recorder = Recorder(root)
    for hour in (0, 0, 1):
        recorder.seal([message(3600 * hour + second, "a", "p", float(second)) for second in range(3)])
    recorder.seal(change(0, "p", {"Room": "410"}), "changes")
    assert publish(root) == (3, 0)
    assert [each.files for each in compact(root)] == [2]
    assert publish(root) == (1, 2)
    assert sweep(root, grace=timedelta(0)) == 2
    assert verify(root, "default") == []
    read = pl.read_delta(root.uri("default"), storage_options=dict(root.options) or {"AWS_ALLOW_HTTP": "true"})
    assert sorted(read["value"].to_list()) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert expire(root, timedelta(days=1), now=BEGIN + timedelta(days=1, minutes=30))[:2] == (1, 6)
    assert verify(root, "default") == []


def test_analysed_without_a_connector(
    spark: SparkSession, store: Store, by_environment: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The same answer as from the same archive on a disk, metadata and all; and it is said to be slower."""
    root = open_root("s3://bucket/analysed")
    recorder = Recorder(root)
    recorder.seal(
        [message(second, "a", "p", float(second), {"Room": "411"} if second == 8 else None) for second in range(10)]
    )
    recorder.seal([message(3600, "b", None)])
    recorder.seal(change(0, "p", {"Room": "410"}), "changes")
    found = pipeline.rollup(
        pipeline.archive(spark, "s3://bucket/analysed"),
        "1 hour",
        by=("Room", "topic"),
        changes=pipeline.changes(spark, "s3://bucket/analysed"),
    )
    rows = [(row["Room"], row["topic"], row["count"], row["mean"]) for row in found.orderBy("start", "Room").collect()]
    assert rows == [("410", "a", 9, 37 / 9), ("411", "a", 1, 8.0), (None, "b", 1, None)]
    late = pipeline.archive(spark, "s3://bucket/analysed", since=at(5), until=at(3600), where="Room = '410'")
    assert sorted(row["value"] for row in late.collect()) == [5.0, 6.0, 7.0, 9.0]
    assert "pyarrow reads the files, which is slower" in caplog.text


def test_a_file_of_an_older_version(tmp_path: Path) -> None:
    """It lacks a column that was added since; its rows have null there."""
    rows = [{**message(0), "recorder": "r", "epoch": 1, "sequence": 0}]
    whole = pa.Table.from_pylist(rows, MESSAGES)
    pq.write_table(whole.drop_columns(["event_time"]), tmp_path / "old.parquet")
    (batch,) = rows_of(pq.ParquetFile(tmp_path / "old.parquet"), MESSAGES)
    assert pa.Table.from_batches([batch]).equals(whole)


def test_tables_there_are_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumarole.cli.pipeline.spark.session", lambda *_: pytest.fail("Spark was started"))
    Recorder(tmp_path).seal([message(0, "a", "p", 1.0)])
    there = ("--archive", str(tmp_path), "--out", "s3://bucket/tables")
    assert "Spark has no connector for S3" in run_command("pipeline", "run", *there, code=1)[1]
    assert "Spark has no connector for S3" in run_command("pipeline", "rollup", *there, code=1)[1]
    with pytest.raises(PipelineError, match="no connector"):
        check_can_write("s3a://bucket/tables", {"spark.executor.memory": "1g"})
    check_can_write("s3://bucket/tables", {"spark.jars.packages": "org.apache.spark:spark-hadoop-cloud_2.13:4.3.0"})
    check_can_write(str(tmp_path), {})
