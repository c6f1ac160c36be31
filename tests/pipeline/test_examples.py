"""The programs of examples/ that use Spark, run in the session that is there."""

from __future__ import annotations

import ast
import asyncio
import json
import runpy
import shlex
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

import fumarole
from fumarole.pipeline.archive import write_rows
from tests.client.brokers import BrokerProcess
from tests.pipeline.commands import run_command

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., list[str]]


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs an example in this process, where `getOrCreate` finds the session; the lines that it prints."""

    def run_example(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capfd.readouterr().out.splitlines()

    return run_example


@pytest.mark.usefixtures("plans_as_they_are")
def test_spark_archive(run: Run, tmp_path: Path) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    sensors = {"italy": "6f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "japan": "0b0a7c1e-93f5-4f0e-8d3a-5c8f1f9b2a11"}
    said = [
        {"time": noon, "producer": sensor, "key": "Region", "kind": "text", "text": region}
        for region, sensor in sensors.items()
    ]
    readings = [
        {
            "time": noon + timedelta(minutes=minute),
            "topic": f"volcanoes.{region}",
            "producer": sensor,
            "value": float(minute),
            "payload": str(minute).encode(),
        }
        for minute in range(100)
        for region, sensor in sensors.items()
    ]
    archive = str(tmp_path / "archive")
    write_rows(archive, "default", readings)
    write_rows(archive, "default", said, kind="changes")
    assert run("spark_archive.py", archive) == ["volcanoes.italy 100 99.0"]


def test_spark_live(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerProcess(tmp_path)
    monkeypatch.setenv("FUMAROLE_SERVERS", broker.url)
    publishing = threading.Thread(target=asyncio.run, args=(publish_when_heard(broker.url),))
    publishing.start()
    lines = run("spark_live.py", "5", str(tmp_path))
    publishing.join(30)
    assert broker.stop() == 0
    counts: dict[str, int] = {}
    for line in lines:
        topic, count = line.split()
        counts[topic] = counts.get(topic, 0) + int(count)
    assert counts == {"volcanoes.italy.etna": 2, "volcanoes.usa.atka": 3}


@pytest.mark.usefixtures("plans_as_they_are")
def test_notebook(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells, one after the other, as a notebook runs them."""
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    sensor = "6f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
    keys = {"Region": "italy", "Kind": "temperature"}
    said = [{"time": noon, "producer": sensor, "key": key, "kind": "text", "text": text} for key, text in keys.items()]
    readings = [
        {
            "time": noon + timedelta(seconds=second),
            "topic": "volcanoes.italy.etna",
            "producer": sensor,
            "value": value,
            "payload": str(value).encode(),
        }
        for second, value in enumerate([20.0, 81.0, 82.0, 83.0, 84.0, 20.0])
    ]
    write_rows(str(tmp_path / "archive"), "default", readings)
    write_rows(str(tmp_path / "archive"), "default", said, kind="changes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads((EXAMPLES / "alarms.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    shown: list[Any] = []
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    for cell in cells:
        if cell["cell_type"] == "code":
            *lines, last = ast.parse("".join(cell["source"])).body
            is_shown = isinstance(last, ast.Expr)
            exec(compile(ast.Module([*lines, *([] if is_shown else [last])], []), "notebook", "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), "notebook", "eval"), names))
    spark.conf.set("spark.sql.shuffle.partitions", partitions)  # the notebook's session is the run's
    summary, minutes, _, alarms = shown
    assert summary["messages"].tolist() == [6]
    assert minutes[["Region", "count", "max"]].to_numpy().tolist() == [["italy", 6, 84.0]]
    assert (tmp_path / "regions.png").stat().st_size > 1000
    assert alarms["topic"].tolist() == ["alarms.hot.italy"] * 2
    assert alarms["state"].tolist() == ["raised", "cleared"]
    assert alarms["value"].tolist() == [83.0, 20.0]


def test_commands_of_the_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Airflow: the file is run with stand-ins for what it imports, and its commands are commands of ours."""
    commands: list[str] = []

    class Operator:
        def __init__(self, task_id: str, bash_command: str) -> None:
            commands.append(bash_command)

        def __rshift__(self, other: Any) -> Any:
            return other

        def __rrshift__(self, other: Any) -> Any:
            return self

    modules: dict[str, dict[str, Any]] = {"airflow": {"DAG": lambda *_, **__: nullcontext()}, "airflow.operators": {}}
    modules["airflow.operators.bash"] = {"BashOperator": Operator}
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    runpy.run_path(str(EXAMPLES / "airflow" / "nightly.py"))
    assert len(commands) == 4
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "fumarole"
        run_command(*arguments, "--help")  # an option that there is not ends it with 2


async def publish_when_heard(url: str) -> None:
    async with fumarole.connect(url) as client, asyncio.timeout(120):
        heard = False
        while not heard:
            await asyncio.sleep(0.1)
            heard = "volcanoes.>" in str(await client.consumers())
        await client.publish_many([("volcanoes.usa.atka", b"1")] * 3 + [("volcanoes.italy.etna", b"2")] * 2)
        await client.flush()
