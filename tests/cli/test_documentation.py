"""The examples of docs/reference/command-line.md with a `$` are run, and print what the page says they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import SECONDS, CommandLine

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
EXAMPLES = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.splitlines()[-2][2:40] for example in EXAMPLES])
def test_an_example(command_line: CommandLine, tmp_path: Path, example: str) -> None:
    program = tmp_path / "bin" / "fumarole"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fumarole.cli.main "$@"\n')
    program.chmod(0o755)
    environment = command_line.environment(PATH=f"{program.parent}:{os.environ['PATH']}")
    background: list[subprocess.Popen[str]] = []
    printed = ""
    for command in re.findall(r"^\$ (.*)$", example, re.MULTILINE):
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command.removesuffix(' &')}" if command.endswith(" &") else command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if command.endswith(" &"):
            background.append(process)
            command_line.wait_for_consumers(len(background))
        else:
            printed += process.communicate(timeout=SECONDS)[0]
    for process in background:
        printed += process.communicate(timeout=SECONDS)[0]
    assert printed == re.sub(r"^\$ .*\n", "", example, flags=re.MULTILINE)
