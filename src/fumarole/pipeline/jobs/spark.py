"""A Spark session as the jobs want it, and a sentence where there can be none."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fumarole.core.packages import need
from fumarole.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.parquet.compression.codec": "zstd",
    # To the microsecond, and with statistics, which Spark's usual form of 96 bits has not.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A window of a day's files is many small ones; a task for each would be all waiting.
    "spark.sql.files.openCostInBytes": "262144",
    # Archived rows take about five bytes each. What Spark usually gives to one task has 25 million of them, too many to
    # group, or to sort, in memory.
    "spark.sql.files.maxPartitionBytes": "8m",
    # PySpark would tell Java in which line each column is named, for which it calls it twice as often: a quarter of the
    # time that a small batch takes.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Java's regular expressions recurse: a repeated group takes some frames for each time round, and values of metadata
    # may have 8 KiB.
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.executor.extraJavaOptions": "-Xss16m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""What every job starts with. `--conf` has the last word; what is not here, `spark-defaults.conf` may say."""
OF_A_SESSION: Final = {key: SETTINGS[key] for key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")}
"""What is a session's own, also where the server is another's."""
LOOPBACK: Final = {"spark.driver.bindAddress", "spark.driver.host"}
"""Not for a driver whose executors are on other machines."""


MASTER_SECONDS: Final = 5.0
_SPARK_MASTER: Final = re.compile(r"spark://([^\s,/]+:[0-9]{1,5}(?:,[^\s,/]+:[0-9]{1,5})*)")
_OTHER_MASTER: Final = re.compile(
    r"local|local\[(?:\*|[0-9]+)(?:,\s*[0-9]+)?\]|local-cluster\[[0-9, ]+\]|yarn|k8s://\S+"
)
_JARS: Final = {"spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"}
"""Settings that bring jars."""
A_GROUP: Final = 4096
"""Bytes that a window of a topic and producer takes, with a sketch of its values. A few take more: those of so many
values that there cannot be many of them."""


def _gigabytes() -> int:
    """A third of the machine's memory, for the one process that does it all."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, total // 3 >> 30)


def groups_in_memory(heap: int) -> int:
    """How many groups each task of a rollup may have in memory before it begins to sort: all of them in an eighth of
    the heap's bytes. Spark's own number is 128, with which it sorts always.
    """
    return heap // 8 // (os.cpu_count() or 1) // A_GROUP


LOCAL: Final = {
    "spark.driver.memory": f"{_gigabytes()}g",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(groups_in_memory(_gigabytes() << 30)),
    "spark.sql.shuffle.partitions": str(max(8, 4 * (os.cpu_count() or 1))),
}
"""On one machine."""


def session(
    name: str,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """A session. With `log_file`, what Spark has to say goes into that file.

    Raises PipelineError where Java is missing or there is no such master, MissingPackageError where PySpark is missing.
    """
    check_master(master)
    check_java()
    need("pipeline", "pyspark")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    own = settings or {}
    chosen = {**SETTINGS, **(LOCAL if master.startswith("local") else {}), **own}
    here = master.startswith("local") or "127.0.0.1" in master
    for key, value in chosen.items():
        if here or key not in LOOPBACK or key in own:
            builder = builder.config(key, value)
    with _logging_to(log_file):
        started = builder.getOrCreate()
        started.sparkContext.setLogLevel("ERROR")
    return started


def remote_session(url: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session of a Spark Connect server. Its token is in the environment: SPARK_CONNECT_AUTHENTICATE_TOKEN.

    Raises PipelineError where the address is none, or PySpark lacks what Connect needs.
    """
    if not url.startswith("sc://"):
        raise PipelineError(f"{url!r} is no address of a Spark Connect server; write it as sc://HOST:15002")
    need("pipeline", "pyspark", "grpc")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url)
    for key, value in {**OF_A_SESSION, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def _logging_to(file: Path | None) -> Iterator[None]:
    """A process that is started meanwhile, which is Java, says what it has to say into this file."""
    if file is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def check_java() -> None:
    """Raises PipelineError where there is no Java for Spark to run on."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        raise PipelineError(
            "Spark needs Java 17 or newer, and there is none here; on Debian: apt-get install openjdk-17-jre-headless"
        )


def check_master(master: str) -> None:
    """Raises PipelineError where Spark cannot run there. Spark itself takes a minute to find out."""
    hosts = _SPARK_MASTER.fullmatch(master)
    if hosts is None:
        if not _OTHER_MASTER.fullmatch(master):
            raise PipelineError(
                f"{master!r} is no master of Spark; write it as local[*], local[4], spark://HOST:7077, yarn or k8s://URL"
            )
        return
    reasons = [reason for each in hosts[1].split(",") if (reason := _unreachable(each)) is not None]
    if len(reasons) == len(hosts[1].split(",")):
        raise PipelineError(f"there is no Spark master at {master}: {reasons[0]}")


def check_can_write(out: str, settings: Mapping[str, str]) -> None:
    """Raises PipelineError for a table in S3 where no jar that may be Spark's connector for it is to be found."""
    if out.startswith(("s3://", "s3a://")) and not (_JARS & settings.keys()) and not _has_connector():
        raise PipelineError(
            f"Spark has no connector for S3 here, and {out.partition('?')[0]} is to be written by Spark; "
            "give it one with --conf spark.jars.packages=org.apache.spark:spark-hadoop-cloud_2.13:VERSION"
        )


def _has_connector() -> bool:
    """Is the connector among Spark's jars, or do the settings of this machine name jars?"""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    said = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    lines = said.read_text(errors="replace").splitlines() if said.is_file() else []
    named = {line.split()[0].partition("=")[0] for line in lines if line.strip()}
    return bool(_JARS & named) or any((home / "jars").glob("hadoop-aws-*.jar"))


def _unreachable(address: str) -> str | None:
    """Why nothing listens there; None: something does."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), MASTER_SECONDS):
            return None
    except OSError as error:
        return error.strerror or str(error)
