"""docs/tutorial/live-query.md, from its first command to its last, in an empty folder."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fumarole
from tests.client.brokers import BrokerProcess
from tests.docs.test_docs import DOCS, ROOT

PAGE = (DOCS / "tutorial" / "live-query.md").read_text()
BLOCKS = re.findall(r"(?ms)^```(sh|console|python)\n(.*?)^```$", PAGE)
ADDRESS = "nats://127.0.0.1:4222"
FILE = re.compile(r"Save this as `([\w.]+)`")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path)
    yield running
    assert running.stop() == 0


def consumers(url: str) -> int:
    async def ask() -> int:
        async with fumarole.connect(url) as client:
            number: int = (await client.stats())["consumers"]
            return number

    return asyncio.run(ask())


def wait_for_consumers(url: str, number: int) -> None:
    """Returns when there are so many besides the one that asks."""
    deadline = time.monotonic() + 30
    while (found := consumers(url) - 1) < number:
        assert time.monotonic() < deadline, f"{found} consumers, not {number}"


class Terminal:
    """Runs the commands of a block, those with `&` in the background; what all of them print."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        program = folder / "bin" / "fumarole"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fumarole "$@"\n')
        program.chmod(0o755)
        python = program.parent / "python"  # no link: where it stands is how Python finds its packages
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "FUMAROLE_SERVERS": url}

    def run(self, block: str) -> str:
        background: list[subprocess.Popen[str]] = []
        printed = ""
        before = consumers(self._url) - 1
        for command in re.findall(r"(?m)^\$ (.*)$", block):
            process = self._start(command.removesuffix(" &"))
            if command.endswith(" &"):
                background.append(process)
                wait_for_consumers(self._url, before + len(background))
            else:
                printed += process.communicate(timeout=30)[0]
        return printed + "".join(process.communicate(timeout=30)[0] for process in background)

    def _start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def test_the_tutorial_from_beginning_to_end(broker: BrokerProcess, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, broker.url)
    names = iter(FILE.findall(PAGE))
    for kind, block in BLOCKS:
        if kind == "python":
            assert ADDRESS in block
            (tmp_path / next(names)).write_text(block.replace(ADDRESS, broker.url))
        elif kind == "console":
            assert terminal.run(block) == re.sub(r"(?m)^\$ .*\n", "", block), block
    assert list(names) == []


def test_the_other_commands_are_those_that_the_fixtures_stand_for() -> None:
    """The set-up is what made this environment, and the broker is started as the page says, but for its port."""
    assert [block.splitlines() for kind, block in BLOCKS if kind == "sh"] == [
        ["make setup", ". .venv/bin/activate"],
        ["fumarole serve"],
    ]
    assert re.search(r"(?m)^setup:.*## ", (ROOT / "Makefile").read_text())
    assert len(BLOCKS) > 10
