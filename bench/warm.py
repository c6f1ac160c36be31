"""The two ways to a warm session: the resident process, which runs the command itself, beside a Spark Connect server,
which the command asks with `--remote`.

The wall time of `fumarole pipeline rollup`, over and over on the same archive. Both have the same Spark settings, and
the first answers of each are not counted: Java has to compile what they run.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyspark

from bench.answers import seconds
from bench.effort import Effort
from bench.figures import Figure, against
from bench.pipeline import make_readings
from bench.servers import COMMANDS, PATIENCE, CannotMeasureError
from fumarole.pipeline.jobs.spark import LOCAL, SETTINGS
from tests.ports import free_port

CLAIM = "Two ways to a warm session"
READINGS = 100_000
NOT_COUNTED = 3


def measure(effort: Effort) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir="build") as folder:
        archive = Path(folder, "archive")
        readings = effort.share(READINGS)
        make_readings(archive, readings)
        command = [str(COMMANDS / "fumarole"), "pipeline", "rollup", "--archive", str(archive), "--json"]
        effort.tell("the resident process")
        own = of_resident(command, effort.rounds)
        effort.tell("a Spark Connect server")
        with connect_server(Path(folder)) as url:
            other = times([*command, "--remote", url], dict(os.environ), effort.rounds)
    yield against(
        "a Spark Connect server",
        CLAIM,
        f"rollup of {readings:,} readings, median",
        median(own),
        median(other),
        "s",
        at_most=1.0,
        rounds=[one / two for one, two in zip(sorted(own), sorted(other), strict=True)],
    )


def of_resident(command: list[str], rounds: int) -> list[float]:
    """Seconds of each command in a warm session of its own folder."""
    with tempfile.TemporaryDirectory() as runtime:
        environment = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        try:
            return times(command, environment, rounds)
        finally:
            stop = [command[0], "pipeline", "server", "stop"]
            subprocess.run(stop, env=environment, check=False, capture_output=True)


def times(command: list[str], environment: dict[str, str], rounds: int) -> list[float]:
    """Seconds of each command, without the first ones."""
    return [seconds(command, environment) for _ in range(NOT_COUNTED + rounds)][NOT_COUNTED:]


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server on this machine."""
    port = free_port()
    settings = {
        **SETTINGS,
        **LOCAL,
        "spark.local.dir": str(folder),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    options = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    command = [spark_class, "org.apache.spark.deploy.SparkSubmit", "--master", "local[*]", *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    log = folder / "connect.log"
    with log.open("wb") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _listens(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise CannotMeasureError(f"the Spark Connect server did not start: {log.read_text()[-500:]}")
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return not tried.connect_ex(("127.0.0.1", port))
