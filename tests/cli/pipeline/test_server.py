"""Commands and a warm session as people use them (P9)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.archives import FOR_COMMANDS, Recorder, message


@pytest.mark.timeout(400)
def test_a_session_answers_one_command_after_the_other(tmp_path: Path) -> None:
    Recorder(tmp_path / "archive").seal([message(second, producer="p", value=1.0) for second in range(90)])
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    del environment["FUMAROLE_COLD"]

    def fumarole(*arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "fumarole", "pipeline", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert ran.returncode == code, ran.stderr
        assert "no warm session" not in ran.stderr, ran.stderr
        return ran

    question = ["rollup", "--archive", "archive", "--json", *FOR_COMMANDS]
    assert "no duration" in fumarole(*question, "--every", "1 fortnight", code=2).stderr
    assert fumarole("server", "status").stderr == "no session is running\n"
    try:
        first = fumarole(*question).stdout
        assert [json.loads(line)["count"] for line in first.splitlines()] == [60, 30]
        assert fumarole(*question).stdout == first
        assert "SYNTAX_ERROR" in fumarole("sql", "--archive", "archive", *FOR_COMMANDS, "is no SQL", code=1).stderr
        status = json.loads(fumarole("server", "status", "--json").stdout)
        while status["running"]:  # the last command has its answer, and its process is about to end
            status = json.loads(fumarole("server", "status", "--json").stdout)
        assert status["commands"] == 3
        assert fumarole("server", "start", *FOR_COMMANDS).stderr == "it is running already\n"
    finally:
        fumarole("server", "stop")
    assert not Path(f"/proc/{status['java']}").exists()
    assert fumarole("server", "status").stderr == "no session is running\n"
