"""Commands whose stdin, stdout or stderr is closed, full or broken: a sentence or a quiet end, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import CommandLine

OURS = [sys.executable, "-m", "fumarole.cli.main"]


def shell(redirected: str, *command: str) -> tuple[int, str, str]:
    """Through a shell, which alone can close a stream."""
    line = ["sh", "-c", f'"$@" {redirected}', "sh", *OURS, *command]
    ended = subprocess.run(line, capture_output=True, timeout=20, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("command", ["token", "query explain a=1", "--help", "stats", "stats --json", "stats --watch"])
def test_a_full_disk(command_line: CommandLine, command: str) -> None:
    servers = ("--servers", command_line.url) if command.startswith("stats") else ()
    assert shell("> /dev/full", *command.split(), *servers) == (1, "", "stdout: No space left on device\n")


def test_a_full_disk_while_messages_come(command_line: CommandLine) -> None:
    with Path("/dev/full").open("wb") as full:
        sub = subprocess.Popen([*OURS, "sub", "--servers", command_line.url], stdout=full, stderr=subprocess.PIPE)
        command_line.wait_for_consumers(1)
        command_line.run("pub", "a", "1")
        assert (sub.wait(10), sub.communicate()[1]) == (1, b"stdout: No space left on device\n")


@pytest.mark.parametrize("redirected", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(command_line: CommandLine, redirected: str) -> None:
    assert shell(redirected, "pub", "a", "1", "--servers", command_line.url) == (0, "", "")
    assert shell(redirected, "stats", "--servers", command_line.url)[::2] == (0, "")


def test_nothing_to_read_is_nothing_to_publish(command_line: CommandLine) -> None:
    assert shell("<&-", "pub", "a", "--servers", command_line.url) == (0, "", "")


def test_stdin_that_cannot_be_read(command_line: CommandLine, tmp_path: Path) -> None:
    written_only = f"0> {tmp_path / 'file'}"
    assert shell(written_only, "pub", "a", "--servers", command_line.url) == (1, "", "stdin: Bad file descriptor\n")


def test_looks_into_a_pipe(command_line: CommandLine) -> None:
    """Each is there when it was taken, and the end of the pipe is the end of the command."""
    watch = [*OURS, "stats", "--watch", "--interval", "0.1", "--servers", command_line.url]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = 0
        while shown < 3:
            shown += process.stdout.readline().startswith("namespace ")
        process.stdout.close()
        process.wait(10)
        assert process.stderr.read() == ""


def test_a_demonstration_of_which_enough_was_seen() -> None:
    line = f"{' '.join(OURS)} demo --port 0 | head -n 1"
    ended = subprocess.run(line, shell=True, capture_output=True, timeout=30, text=True, check=False)
    assert ended.stdout.startswith("broker: nats://")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_numbers_that_are_none(number: str) -> None:
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    for command in (
        "sub --timeout",
        "stats --interval",
        "pub a b --rate",
        "bench --duration",
        "pipeline gaps --factor",
    ):
        ended = subprocess.run([*OURS, *command.split(), number], capture_output=True, text=True, env=env, check=False)
        assert (ended.returncode, f"expected a number, not {number}" in ended.stderr) == (2, True), command
