"""The examples of docs/pipeline.md, run from an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.archives import FOR_ONE_RUN

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONSOLE = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.timeout(400)
def test_from_an_empty_folder(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "fumarole"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fumarole.app.cli "$@"\n')
    program.chmod(0o755)
    # Spark as it is, but quick to begin: everything is done once.
    (tmp_path / "conf").mkdir()
    settings = [f"{key} {value}" for key, value in FOR_ONE_RUN.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(settings))
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
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
    for example in CONSOLE:
        (command,) = re.findall(r"^\$ (.*)$", example, re.MULTILINE)
        assert run("bash", "-c", command) == re.sub(r"^\$ .*\n", "", example, flags=re.MULTILINE)
    assert run(sys.executable, "-c", using) == "300\nvolcanoes.japan.aso\n[Row(name='a.b', Room='410')]\n"
