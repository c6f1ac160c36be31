"""Spark's own master and two workers, from the installed package: the same tables as on one machine (P2), also when
executors are killed (P5)."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from fumarole import pipeline
from fumarole.pipeline.jobs.log import Log
from tests.pipeline.archives import FOR_COMMANDS, Recorder, change, message
from tests.pipeline.jobs.checks import check_exact
from tests.ports import free_port

START = 120.0


def begin(folder: Path, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{name}.log"
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / name),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with log.open("wb") as output:
        return subprocess.Popen([program, *arguments], stdout=output, stderr=output, env=environment), log


def wait_for(log: Path, text: str) -> re.Match[str]:
    deadline = time.monotonic() + START
    while not (found := re.search(text, log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
    return found


@dataclass
class Cluster:
    url: str
    workers: list[subprocess.Popen[bytes]]

    def executors(self) -> list[int]:
        """Process ids: whatever the workers have started."""
        children = [Path(f"/proc/{each.pid}/task").glob("*/children") for each in self.workers]
        return [int(pid) for paths in children for path in paths for pid in path.read_text().split()]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    started: list[subprocess.Popen[bytes]] = []
    loopback = ("--host", "127.0.0.1")
    try:
        process, log = begin(
            folder,
            "master",
            "org.apache.spark.deploy.master.Master",
            *loopback,
            "--port",
            str(free_port()),
            "--webui-port",
            "0",
        )
        started.append(process)
        url = wait_for(log, r"Starting Spark master at (spark://\S+)")[1]
        logs = []
        for number in (1, 2):
            process, log = begin(
                folder,
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                *loopback,
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                url,
            )
            started.append(process)
            logs.append(log)
        for log in logs:
            wait_for(log, "Successfully registered with master")
        yield Cluster(url, started[1:])
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(20)


def run_and_kill(here: Cluster, archive: Path, out: Path, times: int, *options: str) -> None:
    """Runs the job until it has caught up. So many executors are killed, by process id, each while a batch is written."""
    chance = random.Random(3)
    log = out.with_suffix(".log")
    command = [sys.executable, "-m", "fumarole.cli.main", "pipeline", "run", "--once", "--master", here.url]
    conf = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1", *FOR_COMMANDS)
    with log.open("wb") as said:
        job = subprocess.Popen(
            [*command, "--archive", str(archive), "--out", str(out), *conf, *options], stdout=said, stderr=said
        )
    begun: set[Path] = set()
    killed = 0
    try:
        while job.poll() is None:
            batches = set(out.glob("readings/batch-*"))
            if killed < times and batches - begun and (executors := here.executors()):
                begun = batches
                time.sleep(chance.uniform(0, 0.5))
                os.kill(chance.choice(executors), signal.SIGKILL)
                killed += 1
            time.sleep(0.02)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 0, log.read_text()
    assert killed == times


def check_run(spark: SparkSession, folder: Path, killed: int, *options: str) -> None:
    archive, out = folder / "archive", folder / "out"
    recorder = Recorder(archive)
    recorder.seal(change(0, "p", {"Room": "410"}), "changes")
    recorder.seal([message(second, f"t.{second % 3}", "p", second / 7) for second in range(300)], most_rows=25)
    with cluster(folder) as here:
        run_and_kill(here, archive, out, killed, *options)
    assert Log(out).state().messages == check_exact(spark, archive, out) == 300
    described = pipeline.output(spark, out, "readings").collect()
    assert all(row["metadata"]["Room"]["text"] == "410" for row in described)
    logs = [log for log in folder.glob("worker-*/app-*/*/stderr") if log.stat().st_size]
    assert len({log.parts[-4] for log in logs}) == 2, "both workers took part"
    assert len(logs) >= 2 + killed, "others came in place of those that were killed"


@pytest.mark.timeout(400)
def test_on_a_cluster_as_on_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    """Also when an executor is killed."""
    check_run(spark, tmp_path, 1)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_executors_killed_in_every_batch(spark: SparkSession, tmp_path: Path) -> None:
    check_run(spark, tmp_path, 12, "--batch-rows", "25", "--conf", "spark.deploy.maxExecutorRetries=-1")
