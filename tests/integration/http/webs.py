"""A broker with a web door, in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

from tests.integration.running import RunningBroker

_WEB_DOOR = re.compile(r"Web door open on ([0-9.]+):([0-9]+)")


class WebBroker(RunningBroker):
    """It listens for NATS clients, too."""

    def __init__(self, folder: Path, config: str = "", hot_path: str = "compiled") -> None:
        self.web_port = 0
        super().__init__(folder, f"doors.http = ['127.0.0.1:0']\n{config}", hot_path)

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    def heard(self, line: str) -> bool:
        if door := _WEB_DOOR.search(line):
            self.web_port = int(door[2])
        return super().heard(line)
