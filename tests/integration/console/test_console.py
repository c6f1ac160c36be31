"""The console in a real browser, used as a person would: the scenarios of use.mjs, on one node."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.http.webs import WebBroker

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "console"
NAMES = re.findall(r'^  async "(.*)"\(page\)', (HERE / "use.mjs").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What was wrong with each scenario; empty: nothing."""
    broker = WebBroker(tmp_path_factory.mktemp("broker"))
    pictures = ROOT / "build" / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    try:
        script = BUILD / "use.mjs"
        script.write_text((HERE / "use.mjs").read_text())  # node looks for packages beside the script
        command = ["node", str(script), broker.web, str(pictures)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    finally:
        broker.stop()
    told = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, run.stdout + run.stderr
    return {each["name"]: each["problem"] for each in told}


@pytest.mark.parametrize("name", NAMES)
def test_the_console(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == ""
