"""The examples of docs/how-to/pipeline.md, run from an empty folder."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import duckdb
import duckdb_extensions
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.archives import FOR_LITTLE_DATA, FOR_ONE_RUN, Recorder, at, message
from tests.pipeline.commands import run_command

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "pipeline.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(WEATHER,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
CONSOLE_LINES = (Path(__file__).parents[2] / "src" / "fumarole" / "console" / "archive.js").read_text()
CONSOLE = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("commands_in_session")
def test_from_an_empty_folder(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "fumarole"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fumarole.cli.main "$@"\n')
    program.chmod(0o755)
    # Spark as it is, but quick to begin: everything is done once.
    (tmp_path / "conf").mkdir()
    settings = [f"{key} {value}" for key, value in FOR_ONE_RUN.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(settings))
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "TZ": "America/New_York",  # what is shown is UTC all the same
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    making, using = PYTHON
    run(sys.executable, "-c", making)
    monkeypatch.chdir(tmp_path)
    for example in CONSOLE:
        command, shown = example.removeprefix("$ ").split("\n", 1)
        # The first as a reader types it; those that need no shell in the session that runs already.
        as_typed = example is CONSOLE[0] or "|" in command
        said = run("bash", "-c", command) if as_typed else run_command(*shlex.split(command)[1:])[0]
        assert said == shown
    assert printed(using, spark) == "300\nvolcanoes.japan.aso\n[Row(name='a.b', Room='410')]\n"


@pytest.mark.usefixtures("commands_in_session")
def test_json_payloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The readings of two days, sent all at once, to a mean by region and local day, a page, and a table for DuckDB."""
    monkeypatch.chdir(tmp_path)
    Path("weather.toml").write_text(WEATHER)
    stations = [("etna", "italy", 21.5), ("aso", "japan", 15.5)]
    Recorder(tmp_path / "weather").seal(
        [
            message(hour / 100, f"volcanoes.{name}.weather", name, said={"Region": region})
            | {"payload": json.dumps({"temperature": value, "ts": at(-3600 * hour).isoformat()}).encode()}
            for hour in range(48)
            for name, region, value in stations
        ]
    )
    rollup, report, run = re.findall("^fumarole (pipeline [a-z]+ --archive weather .*)$", PAGE, re.MULTILINE)
    found = [json.loads(line) for line in run_command(*shlex.split(rollup), "--json")[0].splitlines()]
    assert [(row["start"][:13], row["Region"], row["count"], row["mean"]) for row in found] == [
        (start, region, count, value)
        for start, count in (("2026-02-26T23", 10), ("2026-02-27T23", 24), ("2026-02-28T23", 14))
        for _, region, value in stations
    ]
    run_command(*shlex.split(report))
    assert "<svg" in Path("weather.html").read_text()
    run_command(*shlex.split(run))
    (query,) = re.findall(r"(SELECT start, topic, mean FROM delta_scan\('weather.*?)\\\"", PAGE)
    with duckdb.connect() as connection:
        duckdb_extensions.import_extension("delta", con=connection)
        connection.execute("LOAD delta")
        assert {(topic, mean) for _, topic, mean in connection.sql(query).fetchall()} == {
            ("volcanoes.etna.weather", 21.5),
            ("volcanoes.aso.weather", 15.5),
        }


@pytest.mark.usefixtures("commands_in_session")
def test_the_lines_of_the_console(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the view Archive of the console offers for a query, run as it stands over an archive."""
    monkeypatch.chdir(tmp_path)
    Recorder(tmp_path / "archive").seal(
        [
            message(second, f"readings.{region}", region, 20.5 + second, said={"Region": region})
            for second in range(3)
            for region in ("italy", "japan")
        ]
    )
    where = "Region = 'italy'"
    (prompt,) = re.findall(r"return `(fumarole pipeline .*?)`", CONSOLE_LINES, re.DOTALL)
    rollup, gaps = (shlex.split(line.replace("${word}", shlex.quote(where))) for line in prompt.splitlines())
    (found,) = [json.loads(line) for line in run_command(*rollup[1:], "--json")[0].splitlines()]
    assert (found["topic"], found["count"], found["mean"]) == ("readings.italy", 3, 21.5)
    run_command(*gaps[1:])
    (lines,) = re.findall(r"return `(from fumarole import .*?)`", CONSOLE_LINES, re.DOTALL)
    shown = printed(lines.replace("${JSON.stringify(where)}", json.dumps(where)), spark)
    assert "readings.italy" in shown
    assert "readings.japan" not in shown


def printed(code: str, spark: SparkSession) -> str:
    """What it prints. The session that it asks for is the one that is there; afterwards that is as it was."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(code, "docs/how-to/pipeline.md", "exec"), {})
    finally:
        for key, value in FOR_LITTLE_DATA.items():
            if key.startswith("spark.sql."):
                spark.conf.set(key, value)
    return said.getvalue()
