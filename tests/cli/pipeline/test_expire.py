from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.pipeline.archives import BEGIN, Recorder, message
from tests.pipeline.commands import run_command


def test_it_says_what_it_would_delete_and_deletes_when_it_is_told_to(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.seal([message(0, "a", "p", 1.0)])
    recorder.seal([message((datetime.now(UTC) - BEGIN) / timedelta(seconds=1) - 60, "a", "p", 1.0)])
    command = ["pipeline", "expire", "--archive", str(tmp_path), "--keep", "raw 1 day"]
    assert "1 file, 1 message, " in run_command(*command)[1]
    assert "--yes deletes" in run_command(*command)[1]
    assert "bytes: deleted" in run_command(*command, "--yes")[1]
    assert "0 files, 0 messages" in run_command(*command)[1]
    assert "everything is there" in run_command("pipeline", "verify", "--archive", str(tmp_path))[1]


def test_a_producer(tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(second, "a", "pq"[second % 2], 1.0) for second in range(5)])
    run_command("pipeline", "compact", "--archive", str(tmp_path), "--publish", "delta")
    command = ["pipeline", "expire", "--archive", str(tmp_path), "--producer", "p"]
    would = "archive: 3 messages and 0 changes of metadata in 1 file: would be deleted; --yes deletes\n"
    assert run_command(*command)[1] == would
    said = run_command(*command, "--yes")[1]
    assert "in 1 file: deleted\npublished as a Delta table" in said
    assert "1 file, 2 messages; everything is there" in run_command("pipeline", "verify", "--archive", str(tmp_path))[1]


def test_mistakes(tmp_path: Path) -> None:
    Recorder(tmp_path).seal([message(0, "a", "p", 1.0)])
    command = ["pipeline", "expire", "--archive", str(tmp_path)]
    assert "such as 'raw 30 days, 1m 1 year'" in run_command(*command, "--keep", "raw", code=2)[1]
    assert "--out says where" in run_command(*command, "--keep", "1m 1 year", code=1)[1]
    nowhere = ["--out", str(tmp_path / "out")]
    assert "no output of a job" in run_command(*command, "--keep", "raw 1 day", *nowhere, code=1)[1]
    assert "kept for ever" in run_command(*command, "--keep", "raw forever")[1]
    assert "--keep RULES, or --producer UUID" in run_command(*command, code=2)[1]
