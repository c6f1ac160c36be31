"""One object makes a door: it is reached from the command line and from a configuration file (tests/doors/toy.py)."""

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fumarole.doors.registry import DOORS

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "import tests.doors.toy\nfrom fumarole.cli.main import main\nmain()"]
SECONDS = 20.0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False, env=ENVIRONMENT
    )


ENVIRONMENT = {"COLUMNS": "200", "TERM": "dumb", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def answers(tmp_path: Path, *arguments: str) -> bytes:
    """What a broker with these arguments echoes at its toy door."""
    ready = tmp_path / "ready"
    options = ["--ready-file", str(ready), "--data", str(tmp_path / "data")]
    with subprocess.Popen([*COMMAND, "serve", *options, *arguments], cwd=ROOT, env=ENVIRONMENT) as broker:
        try:
            deadline = time.monotonic() + SECONDS
            while not ready.exists():
                assert broker.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            (port,) = re.findall(r"^toy://127.0.0.1:([0-9]+)$", ready.read_text(), re.MULTILINE)
            with socket.create_connection(("127.0.0.1", int(port)), SECONDS) as client:
                client.sendall(b"21.5\n")
                return client.makefile("rb").read()
        finally:
            broker.terminate()


def test_a_door_from_the_command_line(tmp_path: Path) -> None:
    assert answers(tmp_path, "--toy", "127.0.0.1:0", "--toy-times", "2") == b"21.5\n21.5\n"


def test_a_door_from_a_file(tmp_path: Path) -> None:
    config = tmp_path / "fumarole.toml"
    config.write_text("[doors]\ntoy = ['127.0.0.1:0']\n[toy]\ntimes = 3\n")
    assert answers(tmp_path, "--config", str(config)) == b"21.5\n" * 3


def test_its_settings_are_checked_and_its_help_is_shown(tmp_path: Path) -> None:
    config = tmp_path / "fumarole.toml"
    config.write_text("allowed_namespaces = ['default']\n[toy]\nnamespace = 'other'\n")
    checked = run("config", "check", str(config))
    assert (checked.returncode, checked.stdout) == (2, "")
    assert "fumarole.toml:3: toy.namespace" in checked.stderr
    config.write_text("[toy]\ntimes = 'x'\nnamespace = '-'\n")
    assert run("config", "check", str(config)).stderr.count("toy.") == 2
    assert "Listen for toy clients here." in run("serve", "--help").stdout


@pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: door.name)
def test_every_door_has_its_page_and_its_row(door: object) -> None:
    page = getattr(door, "page", "")
    assert (ROOT / page).is_file()
