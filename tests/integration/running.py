"""A real broker in a process of its own, on a port to which it can come back."""

from __future__ import annotations

import re
from pathlib import Path

from tests.integration.process import RunningProcess
from tests.ports import free_port

_DOOR_OPEN = re.compile(r"NATS door open on ([0-9.]+):([0-9]+)")
_HOT_PATH = re.compile(r"hot path: (.+)")
HOT_PATHS = {"compiled": "compiled", "plain": "plain Python"}
"""Hot paths by the names that tests use, and what the broker says of each."""


class RunningBroker(RunningProcess):
    """`fumarole serve`, or with `observed` the same broker with eyes inside (observed.py)."""

    def __init__(
        self, folder: Path, config: str = "", hot_path: str = "compiled", port: int = 0, observed: bool = False
    ) -> None:
        self.hot_path = hot_path
        self.port = 0
        path = folder / "fumarole.toml"
        path.write_text(config)
        module = ["tests.integration.observed"] if observed else ["fumarole.cli.main", "serve"]
        address = f"127.0.0.1:{port or free_port()}"
        arguments = ["--config", str(path), "--nats", address, "--data", str(folder / "data")]
        variables = {"FUMAROLE_PURE": "1"} if hot_path == "plain" else {}
        self.folder = folder
        super().__init__(*module, *arguments, folder=folder, observed=observed, **variables)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def heard(self, line: str) -> bool:
        if door := _DOOR_OPEN.search(line):
            self.port = int(door[2])
        hot_path = _HOT_PATH.search(line)
        return hot_path is not None and hot_path[1] == HOT_PATHS[self.hot_path] and bool(self.port)
