"""The commands that work on an archive, in the Spark session of the tests: what they print, write and refuse."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from fumarole.cli.main import app
from fumarole.cli.pipeline import run as standing
from fumarole.cli.pipeline import spark as sessions
from fumarole.cli.pipeline.table import shown_text
from fumarole.pipeline.jobs.standing import BatchReport
from tests.pipeline.archives import Recorder, at, change, damage, message
from tests.pipeline.commands import run_command


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("commands")
    one, two = Recorder(root, "one"), Recorder(root, "two")
    one.seal(change(0, "p", {"Region": "usa", "Serial": 2**53 + 1}), "changes")
    one.seal([message(second, "a.b", "p", second / 4) for second in (0, 1, 2, 3)])
    one.seal([message(4.7, "a.b", "p", 1.0)])
    two.seal([message(1.5, "a.c", None)])
    return root


class Commands:
    """They all get the archive."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive

    def run(self, job: str, *options: str, code: int = 0) -> tuple[str, str]:
        """What it said on stdout and stderr."""
        return run_command("pipeline", job, "--archive", str(self._archive), *options, code=code)

    def rows(self, job: str, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(job, *options, "--json")[0].splitlines()]


@pytest.fixture
def commands(commands_in_session: None, archive: Path) -> Commands:
    return Commands(archive)


def test_tables(commands: Commands) -> None:
    described = commands.rows("enrich", "--limit", "2", "--topic", "a.b")
    assert [(row["time"], row["metadata"]) for row in described] == [
        (f"2026-03-01T12:00:0{second}Z", {"Region": "usa", "Serial": 2**53 + 1}) for second in (0, 1)
    ]
    assert [(row["subtree"], row["messages"]) for row in commands.rows("traffic", "--depth", "1")] == [
        ("", 6),
        ("a", 6),
    ]
    assert [(row["recorder"], row["messages"]) for row in commands.rows("balance")] == [("one", 5), ("two", 1)]
    silent = commands.rows("gaps", "--factor", "1", "--least", "1500ms", "--until", "2026-03-01T12:00:05")
    assert [(row["since"], row["until"]) for row in silent] == [("2026-03-01T12:00:03Z", "2026-03-01T12:00:04.700000Z")]


def test_a_view_as_of_a_time(commands: Commands) -> None:
    """F7: as `fumarole view` shows it."""
    asked = ("view", "select Region, Serial, count(*) where Region = 'usa'")
    said, _ = commands.run(*asked, "--json")
    assert json.loads(said) == {"New": [["usa", 2**53 + 1, 1]], "Del": []}
    assert commands.run(*asked)[0].split() == ["Region", "Serial", "count", "usa", str(2**53 + 1), "1"]
    said, _ = commands.run(*asked, "--at", "2026-03-01T11:59:59", "--json")
    assert json.loads(said) == {"New": [], "Del": []}
    assert "no message here to test" in commands.run("view", "select Region where $value > 3", code=2)[1]
    assert "is no time" in commands.run(*asked, "--at", "noon", code=2)[1]


def test_a_table_for_people(commands: Commands) -> None:
    out, err = commands.run("traffic", "--limit", "3")
    assert out.splitlines()[0].split() == ["subtree", "depth", "topics", "messages", "bytes"]
    assert len(out.splitlines()) == 4
    assert err == "more than 3 rows: --limit shows more, --out writes all\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (9999.5, "1e+04"), (12345.67, "12,345.7"), (-1e308, "-1e+308"), (float("inf"), "inf"), (7, "7")],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert shown_text(value) == text


def test_a_table_in_files(commands: Commands, spark: SparkSession, tmp_path: Path) -> None:
    out = str(tmp_path / "rollup")
    assert commands.run("rollup", "--every", "2s", "--out", out)[1] == f"4 rows written to {out}\n"
    written = spark.read.parquet(out)
    assert {str(row["date"]) for row in written.collect()} == {"2026-03-01"}
    assert sum(row["count"] for row in written.collect()) == 6
    assert "is there already" in commands.run("rollup", "--out", out, code=1)[1]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        pytest.param(["--topic", "a.>.b"], 2, "`>` must be the last word, at position 2", id="pattern"),
        pytest.param(["--where", "Region = "], 2, "expected a value", id="query"),
        pytest.param(["--since", "yesterday"], 2, "'yesterday' is no time", id="time"),
        pytest.param(["--every", "1 fortnight"], 2, "'1 fortnight' is no duration", id="window"),
        pytest.param(["--zone", "Rome"], 2, "'Rome' is no time zone; write it as Europe/Rome", id="zone"),
        pytest.param(["--by", "value"], 1, "two columns of that name", id="group"),
        pytest.param(["--quantiles", "50"], 2, "numbers between 0 and 1", id="quantile"),
        pytest.param(["--value", "> x"], 2, "expected", id="value"),
        pytest.param(["--field", "t"], 1, "none is declared; --payloads names a file", id="field"),
        pytest.param(["--payloads", "/nowhere"], 2, "expected a file that can be read", id="payloads"),
        pytest.param(["--namespace", "../default"], 1, "has no namespace '../default'", id="namespace"),
        pytest.param(["--archive", "/nowhere"], 1, "there is no archive at /nowhere", id="archive"),
    ],
)
def test_mistakes_are_a_sentence_at_once(
    archive: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, text: str
) -> None:
    """Before Spark is begun, which takes some seconds."""
    monkeypatch.setattr(sessions, "session", lambda *_: pytest.fail("it need not have begun"))
    out, err = Commands(archive).run("rollup", *options, code=code)
    assert out == ""
    assert text in err
    assert len(err.splitlines()) <= 3


def test_a_page_that_cannot_be_written(archive: Path) -> None:
    _, err = Commands(archive).run("report", "--page", "/nowhere/page.html", code=2)
    assert err == "/nowhere/page.html cannot be written: /nowhere is no folder\n"


def test_what_is_told_of_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    progress = BatchReport(
        number=7,
        rows=5_000,
        seconds=2.5,
        lag=300.0,
        watermark=at(0),
        late=3,
        again=20,
        aside=("r-1-0: it has\x1b 5 bytes",),
        left=2,
    )
    standing.tell(progress)
    standing.warn("r-1-1: the file system\x1b does not give it")
    assert capsys.readouterr().err.splitlines() == [
        "batch 7  5,000 rows  2,000 rows/s  2.5 s  lag 5 min  watermark 2026-03-01 12:00:00  "
        "3 late  20 described anew  2 files to go",
        "set aside, not read: r-1-0: it has\\x1b 5 bytes",
        "not read yet: r-1-1: the file system\\x1b does not give it",
    ]


def test_of_a_batch_without_messages_no_time_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    standing.tell(
        BatchReport(number=1, rows=0, seconds=2.5, lag=None, watermark=None, late=0, again=0, aside=(), left=0)
    )
    assert capsys.readouterr().err == "batch 1  0 rows  0 rows/s  2.5 s\n"


def test_metadata_does_not_steer_a_terminal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and values are what producers chose; neither control characters nor markup."""
    recorder = Recorder(tmp_path)
    recorder.seal([message(1, "a", "p", 1.0, {"\x1b[2J": "\x1b[2J", "[bold]": 1})])
    monkeypatch.setattr(sessions, "spark_session", lambda *_: nullcontext(spark))
    ended = CliRunner().invoke(app, ["pipeline", "enrich", "--archive", str(tmp_path)])
    assert ended.exit_code == 0
    assert r"\x1b[2J = '\x1b[2J', [bold] = 1.0" in ended.stdout
    assert "\x1b" not in ended.stdout


def test_damage_is_told_in_a_line_each(tmp_path: Path) -> None:
    """Compaction does what it can and names what it cannot read; verification finds it, and takes it away."""
    recorder = Recorder(tmp_path)
    seals = [seal for second in (0, 1, 2, 3600, 3601) for seal in recorder.seal([message(second)])]
    damage(tmp_path / "default" / seals[2].path)
    commands = Commands(tmp_path)
    *_, done, damaged = commands.run("compact", code=1)[1].splitlines()
    assert done == "2 files became 1; 0 that were replaced before have been deleted"
    assert f"{seals[2].path} cannot be joined (it has other bytes than were sealed)" in damaged
    found, _ = commands.run("verify", "--set-aside", code=1)
    assert found.splitlines()[0].startswith(f"damaged\t{seals[2].path}: it has other bytes than were sealed")
    assert commands.run("compact")[1].splitlines()[-1].startswith("3 files became 1; ")


def test_an_archive_that_the_file_system_does_not_give(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default/_sealed").touch()
    _, err = Commands(tmp_path).run("verify", code=1)
    assert "Not a directory" in err
    assert len(err.splitlines()) == 1


def test_compact(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for second in range(3):
        recorder.seal([message(second)])
    ended = CliRunner().invoke(app, ["pipeline", "compact", "--archive", str(tmp_path), "--grace", "1ms"])
    assert ended.exit_code == 0
    assert ended.stderr.splitlines()[-1].startswith("3 files became 1; ")
    ended = CliRunner().invoke(app, ["pipeline", "verify", "--archive", str(tmp_path)])
    assert ended.exit_code == 0, ended.stdout
    ended = CliRunner().invoke(app, ["pipeline", "compact", "--archive", str(tmp_path), "--settled", "x"])
    assert (ended.exit_code, ended.stderr[:19]) == (2, "'x' is no duration;")


def test_questions_as_people_ask_them(commands: Commands) -> None:
    """P8: by metadata as of the time, a missing key being a group of its own; the keys of JSON are the names."""
    found = commands.rows("rollup", "--by", "Region,topic[2]", "--every", "1 day", "--quantiles", "0.5,0.99")
    assert [tuple(row[name] for name in ("start", "Region", "topic[2]", "count", "p50")) for row in found] == [
        ("2026-03-01T00:00:00Z", "usa", "b", 5, 0.5),
        ("2026-03-01T00:00:00Z", None, "c", 1, None),
    ]
    assert "p99" in found[0]
    rome = commands.rows("rollup", "--by", "topic", "--every", "1 week", "--zone", "Europe/Rome", "--value", "> 0.3")
    assert [(row["start"], row["topic"], row["count"]) for row in rome] == [("2026-02-22T23:00:00Z", "a.b", 3)]
    shown = commands.run("rollup", "--every", "1 day", "--zone", "Europe/Rome", "--by", "topic")[0]
    assert shown.splitlines()[1].split()[:3] == ["2026-03-01", "00:00:00", "a.b"]
    most = commands.rows("rollup", "--by", "topic", "--top", "1", "--every", "1 day")
    assert [row["topic"] for row in most] == ["a.b"]
    least = commands.rows("rollup", "--by", "topic", "--sort", "count", "--every", "1 day")
    assert [row["topic"] for row in least] == ["a.c", "a.b"]
    assert (
        "there is no column 'heat'; there are start, topic, count"
        in commands.run("rollup", "--by", "topic", "--sort", "heat", code=2)[1]
    )
    shares = commands.rows("balance", "--top", "1")
    assert [(row["recorder"], row["messages"]) for row in shares] == [("one", 5)]
    silent = commands.rows("gaps", "--by", "topic", "--factor", "1", "--least", "1500ms")
    assert [row["topic"] for row in silent] == ["a.b"]


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("rollup", ("--by", "Region,topic[2]", "--quantiles", "0.5,0.999")),
        ("gaps", ()),
        ("traffic", ()),
        ("balance", ()),
    ],
)
def test_columns_are_known_before_spark_starts(
    commands: Commands, archive: Path, command: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = list(
        commands.rows(command, *options, *(("--least", "1ms", "--factor", "1") if command == "gaps" else ()))[0]
    )
    monkeypatch.setattr(sessions, "spark_session", lambda *_: pytest.fail("Spark was started"))
    said = commands.run(command, *options, "--sort", "heat", code=2)[1]
    assert said == f"--sort: there is no column 'heat'; there are {', '.join(columns)}\n"


def test_a_key_that_is_called_as_a_figure(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "spark_session", lambda *_: pytest.fail("Spark was started"))
    commands = Commands(archive)
    assert "two columns of that name" in commands.run("rollup", "--by", "p50", code=1)[1]
    assert "two columns of that name" in commands.run("rollup", "--by", "P99", "--quantiles", "0.99", code=1)[1]


def test_a_question_in_sql(commands: Commands) -> None:
    asked = "SELECT metadata['Region'] AS region, avg(value) AS mean FROM readings GROUP BY 1 ORDER BY mean"
    assert commands.rows("sql", asked) == [{"region": None, "mean": None}, {"region": "usa", "mean": 0.5}]
    assert commands.rows("sql", "SELECT count(*) AS n FROM metadata") == [{"n": 2}]
    topics = "SELECT topic, count(*) AS n FROM readings GROUP BY topic"
    assert commands.rows("sql", topics, "--top", "1", "--sort", "n") == [{"topic": "a.b", "n": 5}]
    assert "--top: --sort names the column; there are topic, n" in commands.run("sql", topics, "--top", "1", code=2)[1]
    assert "Spark: [" in commands.run("sql", "SELECT nothing FROM readings", code=1)[1]


def test_declared_payloads(commands_in_session: None, tmp_path: Path) -> None:
    """P6: the field, and how many messages did not fit, on stderr."""
    declared = tmp_path / "payloads.toml"
    declared.write_text(
        '[[payloads]]\ntopic = "w.*"\nformat = "json"\nfields = {t = "double", ok = "boolean"}\nvalue = "t"\n'
    )
    payloads = [b'{"t": 1.5, "ok": true}', b'{"t": 2.5}', b"warm"]
    Recorder(tmp_path / "a").seal([{"time": at(n), "topic": "w.x", "payload": each} for n, each in enumerate(payloads)])
    given = Commands(tmp_path / "a")
    options = ("--payloads", str(declared), "--by", "topic", "--json")
    out, err = given.run("rollup", *options)
    row = json.loads(out)
    assert (row["count"], row["numbers"], row["mean"]) == (3, 2, 2.0)
    assert err == "1 message did not fit its declaration\n"
    other = json.loads(given.run("rollup", *options, "--field", "ok")[0])
    assert (other["numbers"], other["mean"]) == (1, 1.0)
    assert "there are t, ok" in given.run("rollup", *options, "--field", "heat", code=1)[1]
    asked = "SELECT fields.t AS t FROM readings WHERE fits ORDER BY t"
    assert given.run("sql", asked, "--payloads", str(declared), "--json")[0] == '{"t": 1.5}\n{"t": 2.5}\n'


def test_declared_payloads_of_no_messages(commands_in_session: None, tmp_path: Path) -> None:
    """Spark has nothing to do then, and says nothing of what it counted."""
    declared = tmp_path / "payloads.toml"
    declared.write_text('[[payloads]]\ntopic = "w.*"\nformat = "text"\nfields = {t = "double"}\nvalue = "t"\n')
    Recorder(tmp_path / "a").seal(change(0, "p", {"Region": "usa"}), "changes")
    assert Commands(tmp_path / "a").run("rollup", "--payloads", str(declared), "--by", "Region", "--json") == ("", "")


def test_a_key_that_is_misspelt_is_said(commands: Commands) -> None:
    out, err = commands.run("whatif", "--where", "Regoin = 'usa'")
    assert (out, err) == (
        "This subscription would have received nothing.\n",
        "no producer in this archive has ever had the key Regoin\n",
    )
