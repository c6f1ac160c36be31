import os
import subprocess
import sys
from pathlib import Path

import pytest

from fumarole.demo.desktop import is_desktop

ADDRESS = "http://127.0.0.1:8222"


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({}, "darwin", True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, "linux", False),
    ],
)
def test_a_desktop_is_told_by_its_display(environment: dict[str, str], platform: str, expected: bool) -> None:
    assert is_desktop(environment, platform) is expected


@pytest.mark.parametrize(
    ("name", "display", "expected"), [("firefox", ":0", ADDRESS), ("firefox", "", ""), ("lynx", ":0", "")]
)
def test_the_browser_gets_the_address(tmp_path: Path, name: str, display: str, expected: str) -> None:
    """A browser of the terminal is not opened, for the terminal is the demonstration's."""
    opened = tmp_path / "opened"
    opened.write_text("")
    browser = tmp_path / name
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SSH_")}
    environment |= {"BROWSER": f"{browser} %s", "DISPLAY": display, "WAYLAND_DISPLAY": ""}
    lines = f"from fumarole.demo.desktop import open_page; print(open_page({ADDRESS!r}))"
    run = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True, check=True)
    assert (run.stdout.strip(), opened.read_text()) == (str(bool(expected)), expected)
