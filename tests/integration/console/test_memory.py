"""The memory of each view of the console is flat: `FUMAROLE_MINUTES=60` watches it for an hour, else it is 30 minutes."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.integration.console.browser import ROOT, copy_scripts, run_node
from tests.integration.http.webs import WebBroker

MINUTES = int(os.environ.get("FUMAROLE_MINUTES", "30"))
FULL = 15
"""Minutes until charts, histories and lists have as much as they keep, and the browser has compiled what is used."""
GROWTH = 1.03
SWING = (20_000, 20, 10)
"""Bytes, nodes and listeners by which two looks at the same view differ."""
Look = tuple[int, int, int]
PRODUCERS, RATE = 1_000, 2_000


@pytest.mark.soak
def test_the_memory_of_each_view_is_flat(tmp_path: Path) -> None:
    copy_scripts()
    broker = WebBroker(tmp_path)
    command = [sys.executable, str(ROOT / "bench" / "console.py"), str(broker.port), str(PRODUCERS), str(RATE)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            assert load.stdout is not None
            load.stdout.readline()
            arguments = (broker.web, str(tmp_path), str(broker.port), str(MINUTES))
            said = run_node("memory.mjs", *arguments, patience=60 * (MINUTES + 5))
            load.terminate()
    finally:
        broker.stop()
    looks: defaultdict[str, list[Look]] = defaultdict(list)
    for line in said.splitlines():
        look = json.loads(line)
        looks[look["view"]].append((look["bytes"], look["nodes"], look["listeners"]))
    grown: dict[str, list[Look]] = {}
    for view, found in looks.items():
        assert len(found) == MINUTES
        middle = FULL + (MINUTES - FULL) // 2
        early, late = zip(*found[FULL:middle], strict=True), zip(*found[middle:], strict=True)
        for before, after, swing in zip(map(min, early), map(min, late), SWING, strict=True):
            if after > GROWTH * before + swing:
                grown[view] = found
    assert grown == {}
