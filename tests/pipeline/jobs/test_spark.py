"""What is said before Spark starts (P9)."""

import socket
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.batch import Part, what_if
from fumarole.pipeline.jobs.spark import check_master, session
from fumarole.pipeline.reading import read_files
from fumarole.pipeline.tables import MESSAGES
from tests.pipeline.archives import Recorder, change, message


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[2, 3]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:443"],
)
def test_masters(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "lokal", "local[x]", "spark://", "spark://host", "spark:7077", "http://h:1"])
def test_no_masters(master: str) -> None:
    with pytest.raises(PipelineError, match=r"is no master of Spark; write it as local\[\*\]"):
        session("test", master)


def test_a_master_that_is_not_there() -> None:
    """Spark itself takes 70 s, and says that its context was stopped."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        begin = time.monotonic()
        with pytest.raises(PipelineError, match=rf"no Spark master at spark://127.0.0.1:{port}: .*refused"):
            session("test", f"spark://127.0.0.1:{port}")
        assert time.monotonic() - begin < 10
        taken.listen()
        check_master(f"spark://127.0.0.1:9,127.0.0.1:{port}")


def test_s3_without_a_connector(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"no connector for S3 here, .*spark-hadoop-cloud_2.13:4"):
        read_files(spark, ["s3://bucket/archive/a.parquet"], MESSAGES)


def test_a_key_that_no_producer_has_ever_had(spark: SparkSession, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.seal([message(1, producer="p", value=1.0, said={"Own": "x"})])
    recorder.seal(change(0, "p", {"Region": "usa"}), "changes")
    asked = "Region = 'usa' or Own = 'x' or Regoin = 'usa' or `a b` = 1"
    found = what_if(spark, Part(str(tmp_path), where=asked))
    assert (found.messages, found.unknown_keys) == (1, ("Regoin", "a b"))
    assert what_if(spark, Part(str(tmp_path), where="Region = 'usa'")).unknown_keys == ()
    assert what_if(spark, Part(str(tmp_path))).unknown_keys == ()
