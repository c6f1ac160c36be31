"""docs/how-to/mqtt.md: its commands print what stands below them, its settings are settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.running import RunningBroker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "mqtt.md").read_text()
PYTHON = ROOT / "build" / "mqtt" / "bin" / "python"
STEPS = re.findall(r"```(sh|python)\n(.*?)```(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)
PORT = "1883"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    # With a long grace, so that a device which has left is online until its producer was listed.
    settings = '[doors]\nmqtt = ["127.0.0.1:0"]\n[namespaces.default]\npresence_grace = "1m"\n'
    started = RunningBroker(tmp_path_factory.mktemp("broker"), settings)
    yield started
    started.release()


def test_the_examples(broker: RunningBroker) -> None:
    """One after another, on the port of this broker. What waits for ever is not run."""
    (door,) = (line for line in broker.log if "MQTT door open on " in line)
    port = door.partition("MQTT door open on ")[2].split()[0].rsplit(":", 1)[1]
    environment = {**os.environ, "FUMAROLE_SERVERS": broker.url, "COLUMNS": "200"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for kind, text, wanted in STEPS:
        if kind == "python":
            command = [str(PYTHON), "-c", text.replace(PORT, port)]
        elif wanted:
            lines = [line for line in text.splitlines() if not line.endswith("&")]
            shell = re.sub(r"mosquitto_(pub|sub)", rf"\g<0> -p {port}", "\n".join(lines))
            command = ["bash", "-c", shell]
        else:
            continue
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert run.returncode == 0, f"{text}\n{run.stderr}"
        pattern = re.escape(wanted.strip()).replace("…", ".*?")
        assert re.fullmatch(pattern, run.stdout.strip(), re.DOTALL), f"{text}\n{run.stdout}{run.stderr}"


def test_the_settings(tmp_path: Path) -> None:
    """`fumarole config check` takes the broker's, once there are passwords; the others are at least TOML."""
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert all(tomllib.loads(block) for block in blocks)
    command = [str(Path(sys.executable).with_name("fumarole"))]
    made = subprocess.run([*command, "password"], input="secret\n", capture_output=True, text=True, check=True)
    settings = tmp_path / "broker.toml"
    settings.write_text(blocks[0].replace("PASSWORD-HASH", made.stdout.split()[-1].strip('"')))
    checked = subprocess.run([*command, "config", "check", str(settings)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
