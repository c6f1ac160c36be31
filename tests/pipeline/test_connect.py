"""Spark Connect (P9): the same calls, with no Java in the process that makes them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.archives import Recorder, change, message


@pytest.mark.timeout(300)
def test_every_transform(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    seconds = [*range(20), *range(40, 60)]
    recorder.seal([message(second, producer="p", value=float(second % 2)) for second in seconds])
    recorder.seal(change(0, "p", {"Region": "usa"}), "changes")
    program = Path(__file__).with_name("connect.py")
    ran = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "rollup": [[40, 0.5]],
        "gaps": [["p", 21.0]],
        "traffic": [[40]],
        "balance": [["r", 1.0]],
        "summary": [[40, 1]],
        "where": [["a", 40]],
        "enrich": [["usa"]],
        "live": [[True]],
    }
