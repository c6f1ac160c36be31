"""Spark Connect (P9): the same calls, with no Java in the process that makes them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.running import RunningBroker
from tests.pipeline.archives import FOR_COMMANDS, Recorder, change, message
from tests.pipeline.pythons import python_without_fumarole, with_workers

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_pipelines"
ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
"""The server's Python is this one. Any other `python3` may have no pyarrow."""


ANSWERS = {
    "rollup": [[40, 0.5]],
    "gaps": [["p", 21.0]],
    "traffic": [[40]],
    "balance": [["r", 1.0]],
    "summary": [[40, 1]],
    "where": [["a", 40]],
    "enrich": [["usa"]],
    "no stream": [[True]],
}


def answers(archive: Path, environment: dict[str, str], *more: str) -> Any:
    """What the program says of an archive."""
    recorder = Recorder(archive)
    seconds = [*range(20), *range(40, 60)]
    recorder.seal([message(second, producer="p", value=float(second % 2)) for second in seconds])
    recorder.seal(change(0, "p", {"Region": "usa"}), "changes")
    command = [sys.executable, str(Path(__file__).with_name("connect.py")), str(archive), *more]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.timeout(300)
def test_every_transform_with_workers_that_lack_the_package(tmp_path: Path) -> None:
    """`register` brings it there."""
    assert answers(tmp_path / "archive", with_workers(python_without_fumarole(tmp_path))) == ANSWERS


@pytest.mark.timeout(300)
def test_the_live_source_and_the_sink(tmp_path: Path) -> None:
    """On a server that has the package: Spark does not hand what was sent along to the process of a live source."""
    broker = RunningBroker(tmp_path)
    try:
        assert answers(tmp_path / "archive", ENVIRONMENT, broker.url) == {**ANSWERS, "live": [[True]]}
    finally:
        broker.release()


@pytest.mark.timeout(600)
def test_a_project_of_declarative_pipelines(tmp_path: Path) -> None:
    """There the functions may ask Spark for nothing, not even for the columns of a frame."""
    recorder = Recorder(tmp_path / "archive")
    seconds = [*range(20), *range(40, 60)]
    recorder.seal([message(second, "volcanoes.a", producer="p", value=80.0 + second % 2) for second in seconds])
    recorder.seal(change(0, "p", {"Region": "usa"}), "changes")
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    specification = project / "spark-pipeline.yml"
    specification.write_text(specification.read_text().replace("/tmp/stations", str(tmp_path / "storage")))
    environment = {**ENVIRONMENT, "ARCHIVE": str(tmp_path / "archive")}
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run", *FOR_COMMANDS]
    ran = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=580, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

    def rows(table: str, *columns: str) -> list[list[Any]]:
        found = pq.read_table(project / "spark-warehouse" / table, columns=list(columns)).to_pylist()
        return [list(row.values()) for row in found]

    assert rows("american", "producer") == [["p"]] * 40
    assert rows("by_region", "Region", "count", "mean") == [["usa", 40, 80.5]]
    assert rows("silences", "producer", "seconds") == [["p", 21.0]]
    assert sorted(rows("subtrees", "subtree", "messages")) == [["", 40], ["volcanoes", 40]]
    assert rows("shares", "recorder", "share") == [["r", 1.0]]
    assert sorted(rows("alarms", "state", "topic")) == [
        *[["cleared", "alarms.hot.usa"]] * 19,
        *[["raised", "alarms.hot.usa"]] * 20,
    ]
