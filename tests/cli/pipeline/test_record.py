"""What `record` shows, on a terminal and in a log; and what is said where the pipeline's packages are missing."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fumarole.cli import record
from fumarole.cli.record import PlainLines, line
from fumarole.demo import pipeline as demo_pipeline
from fumarole.pipeline.archive import write_rows
from fumarole.pipeline.recorder.writer import RecorderProgress
from tests.cli.commands import SECONDS, CommandLine, run_here


def recorder(**progress: Any) -> Any:
    """A recorder in a certain state."""
    made = RecorderProgress(**progress)
    return SimpleNamespace(progress=made, dropped=3, backlog=made.captured - made.confirmed - made.lost)


def test_the_line() -> None:
    quiet = recorder(captured=1_500, confirmed=1_000, lost=100, files=2, size=3 << 20)
    assert line(quiet, 123_456.7) == "123,457 messages/s, 400 waiting, 1,000 on disk in 2 files (3.0 MiB), 103 dropped"
    assert line(recorder(fault="No space left on device"), 0).endswith(
        "; NOTHING CAN BE WRITTEN: No space left on device"
    )


def test_mistakes_of_a_recorder(command_line: CommandLine, tmp_path: Path) -> None:
    record = ("record", "--archive", str(tmp_path / "archive"))
    wrong = command_line.run(*record, "--where", "Room lke 4")
    assert (wrong.code, wrong.err.splitlines()[:2]) == (2, ["Room lke 4", "     ^"])
    alone = command_line.run(*record, "--servers", "nats://127.0.0.1:1")
    assert alone.code == 1
    assert alone.err.splitlines() == [
        "no broker at nats://127.0.0.1:1 (connection refused); start one with `fumarole serve`"
    ]
    command_line.run("pub", "a", "1")
    (tmp_path / "file").touch()
    there = command_line.run("record", "--archive", str(tmp_path / "file"))
    assert (there.code, there.err) == (1, f"{tmp_path / 'file'} cannot be written: Not a directory\n")


MISTAKES = [
    pytest.param(("--archive", "nowhere"), 1, "there is no archive at", id="no archive"),
    pytest.param(("--archive", "empty"), 1, "no recorder has sealed a file there yet", id="empty"),
    pytest.param(("--archive", "archive", "--namespace", "lab"), 1, "it has default", id="namespace"),
    pytest.param(("--archive", "archive", "--topic", "a.>.b"), 2, "`>` must be the last word", id="pattern"),
    pytest.param(("--archive", "archive", "--where", "Room lke 4"), 2, "     ^", id="query"),
    pytest.param(("--archive", "archive", "--since", "yesterday"), 2, "is no time", id="time"),
    pytest.param(
        ("--archive", "archive", "--since", "2026-03-02", "--until", "2026-03-01"), 2, "nothing between", id="range"
    ),
]


@pytest.mark.parametrize(("arguments", "code", "said"), MISTAKES)
@pytest.mark.parametrize("command", ["rollup", "whatif", "report"])
def test_mistakes_are_told_before_spark_is_started(
    command: str,
    arguments: tuple[str, ...],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fumarole.cli.pipeline.spark.session", lambda *_: pytest.fail("Spark was started"))
    (tmp_path / "empty").mkdir()
    write_rows("archive", "default", [{"time": datetime(2026, 3, 1, tzinfo=UTC), "topic": "a", "payload": b"1"}])
    ended = run_here("pipeline", command, *arguments)
    assert (ended.code, ended.out) == (code, b"")
    assert said in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(("run", "--archive", "nowhere", "--out", "out"), 1, "there is no archive at", id="archive"),
        pytest.param(("run", "--archive", "a", "--out", "out", "--window", "soon"), 2, "is no duration", id="window"),
        pytest.param(("report", "--archive", "a", "--page", "b/c.html"), 2, "b is no folder", id="folder"),
    ],
)
def test_places_are_looked_at_before_spark_is_started(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fumarole.cli.pipeline.spark.session", lambda *_: pytest.fail("Spark was started"))
    write_rows("a", "default", [{"time": datetime(2026, 3, 1, tzinfo=UTC), "topic": "a", "payload": b"1"}])
    ended = run_here("pipeline", *arguments)
    assert (ended.code, ended.out) == (code, b"")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert said in ended.err


def test_whoever_waits_for_the_demonstration_sees_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_pipeline, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(demo_pipeline, "CATCHING_UP", 0.1)
    write_rows(tmp_path / "a", "default", [{"time": datetime(2026, 3, 1, tzinfo=UTC), "topic": "a", "payload": b"1"}])
    job: Any = SimpleNamespace(poll=lambda: None)
    assert demo_pipeline._wait_for(job, tmp_path / "a", tmp_path / "tables", 2, tmp_path) == 1
    said = capsys.readouterr().err.split("\n")[0]
    assert said.split() == ["2", "published", "1", "archived", "0", "in", "the", "tables", "(0", "batches)"]


def test_a_replay_of_nothing(tmp_path: Path) -> None:
    ended = run_here(
        "pipeline", "replay", "--archive", str(tmp_path), "--since", "2026-03-02T00:00", "--until", "2026-03-01T00:00"
    )
    assert ended.code == 2
    assert ended.err == "since 2026-03-02T00:00 is not before until 2026-03-01T00:00: there is nothing between them\n"


def test_a_log_has_a_line_now_and_then_and_when_the_disk_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = PlainLines()
    screen.show(recorder(), 1)
    assert capsys.readouterr().err == ""
    screen.show(recorder(fault="full"), 2)
    screen.show(recorder(fault="full"), 3)
    screen.show(recorder(), 4)
    assert [said.split()[0] for said in capsys.readouterr().err.splitlines()] == ["2", "4"]
    monkeypatch.setattr(record, "PLAIN_INTERVAL", 0.0)
    screen = PlainLines()
    screen.show(recorder(), 5)
    assert capsys.readouterr().err.startswith("5 messages/s")


def test_a_terminal_has_a_live_line(command_line: CommandLine, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    command = [sys.executable, "-m", "fumarole.cli.main", "record", "--archive", str(tmp_path), "--roll-seconds", "0.1"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=command_line.environment(TERM="xterm")
    )
    os.close(theirs)
    seen = ""
    deadline = time.monotonic() + SECONDS
    try:
        while "1 on disk in 1 file" not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(ours, 4_096).decode()
            if seen.count(" records ") == 1 and "waiting" in seen:
                command_line.run_here("pub", "a", "21.5")
                seen += " records "
        process.send_signal(signal.SIGINT)
        while True:
            try:
                seen += os.read(ours, 4_096).decode()
            except OSError:  # it has closed its end
                break
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert re.search(r"1 message in 1 file, 0\.0 MiB", seen)


def missing(package: str) -> str:
    return f"the data pipeline needs {package}, which is not installed: pip install 'fumarole[pipeline]'"


@pytest.mark.parametrize(
    ("package", "command"),
    [
        pytest.param("pyarrow", "record --archive x", id="record"),
        pytest.param("pyarrow", "pipeline replay --archive x", id="replay"),
        pytest.param("pyarrow", "pipeline verify --archive x", id="verify"),
        pytest.param("numpy", "pipeline rollup --archive x", id="rollup without numpy"),
        pytest.param("pyspark", "pipeline run --archive x --out y", id="run"),
        *[
            pytest.param("pyspark", f"pipeline {job} --archive x", id=job)
            for job in ("rollup", "enrich", "gaps", "traffic", "balance", "whatif", "compact", "report")
        ],
        pytest.param("matplotlib", "pipeline report --archive x", id="report without a plotter"),
        pytest.param("matplotlib", "pipeline demo", id="demo"),
    ],
)
def test_a_command_without_a_package(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, package: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "fumarole.pipeline")
    ended = command_line.run_here(*command.split())
    assert (ended.code, ended.err) == (2, missing(package) + "\n")


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Bare(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in {"matplotlib", "numpy", "pandas", "pyarrow", "pyspark"} - set(sys.argv[2:]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Bare())
try:
    exec(sys.argv[1])
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("code", "there", "package"),
    [
        pytest.param("from fumarole import pipeline", (), "numpy", id="nothing"),
        pytest.param("from fumarole.pipeline.archive import write_rows", (), "numpy", id="nothing, a module"),
        pytest.param("from fumarole import pipeline", ("numpy",), "pyarrow", id="no pyarrow"),
        pytest.param("from fumarole import pipeline; pipeline.rollup", ("numpy", "pyarrow"), "pyspark", id="no Spark"),
        pytest.param("from fumarole import pipeline; pipeline.archive(None, 'x')", ("numpy", "pyarrow"), "pyspark", id="no Spark, called"),
    ],
)  # fmt: skip
def test_an_import_without_a_package(code: str, there: tuple[str, ...], package: str) -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT, code, *there], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, missing(package) + "\n", "")
