"""The standing job as users run it, killed with -9 at any moment and started again, while a recorder goes on (P5)."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fumarole.pipeline.jobs.log import Log
from fumarole.pipeline.jobs.standing import StandingJob
from tests.pipeline.archives import FOR_COMMANDS, Recorder, change, message
from tests.pipeline.jobs.checks import check_exact

START = 120.0
"""Seconds that a driver may take from its start to its first batch on a busy machine."""


def driver(archive: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fumarole.cli.main", "pipeline", "run", "--master", "local[2]", *FOR_COMMANDS]
    settings = ["--archive", str(archive), "--out", str(out), "--interval", "0.1", "--batch-rows", "300"]
    return subprocess.Popen([*command, *settings], stderr=subprocess.PIPE, text=True)


def kill_again_and_again(archive: Path, out: Path, times: int, seed: int) -> None:
    """Files are sealed all the while. Each driver lives until it has done something, and a random moment more."""
    chance = random.Random(seed)
    recorder = Recorder(archive)

    def seal() -> None:
        number = chance.randrange(1000)
        rows = [
            message(chance.uniform(0, 4000), f"t.{chance.randrange(5)}", f"p{chance.randrange(3)}", chance.random())
            for _ in range(30)
        ]
        recorder.seal(rows)
        if chance.random() < 0.3:
            recorder.seal(change(chance.uniform(0, 4000), f"p{chance.randrange(3)}", {"Number": number}), "changes")

    for _ in range(4):
        seal()
    for _ in range(times):
        running = driver(archive, out)
        try:
            done, deadline = Log(out).state().number, time.monotonic() + START
            while Log(out).state().number == done:
                assert running.poll() is None, running.stderr and running.stderr.read()
                assert time.monotonic() < deadline, "nothing done"
                time.sleep(0.02)
            end = time.monotonic() + chance.uniform(0, 2.5)
            while time.monotonic() < end:
                seal()
                time.sleep(chance.uniform(0.1, 0.8))
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert running.stderr is not None
        running.stderr.close()
        seal()


def check(spark: SparkSession, archive: Path, out: Path) -> int:
    """The last job catches up; then everything is there once. How many messages."""
    for _ in StandingJob(spark, archive, out).catch_up():
        pass
    return check_exact(spark, archive, out)


@pytest.mark.timeout(400)
def test_killed_once(spark: SparkSession, tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "archive", tmp_path / "out", 1, 1)
    assert check(spark, tmp_path / "archive", tmp_path / "out") > 100


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_killed_twenty_times(spark: SparkSession, tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "archive", tmp_path / "out", 20, 2)
    assert check(spark, tmp_path / "archive", tmp_path / "out") > 1000
