"""The driver of a live query killed with -9 at random moments, again and again: `python -m tests.pipeline.live.faults [TIMES]`.

Consecutive numbers are published all the time. What one incarnation captured has no gap but at its end, and nothing may
come twice: so in the files at the end every number is there once, with at most one gap for each kill (P2, P5).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.integration.running import RunningBroker
from tests.pipeline.recorder.test_recording import publish_numbers


def main(times: int) -> int:
    chance = random.Random()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = RunningBroker(folder)
        done = threading.Event()
        publisher = threading.Thread(target=publish_numbers, args=(broker.url, done))
        publisher.start()
        try:
            for number in range(1, times + 1):
                seconds = _killed_once(broker.url, folder, chance.random() * 6)
                print(f"killed {number} of {times}, {seconds:.1f} s after its first batch")
        finally:
            done.set()
            publisher.join()
        command = [sys.executable, "-m", "tests.pipeline.live.driver", broker.url, name, "once"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        broker.stop()
        if ended.returncode:
            print(ended.stderr[-2_000:])
            return 1
        return _judged([int(line) for line in ended.stdout.split()], times)


def _killed_once(url: str, folder: Path, seconds: float) -> float:
    before = _batches(folder)
    command = [sys.executable, "-m", "tests.pipeline.live.driver", url, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while _batches(folder) == before:
        assert process.poll() is None, "the driver ended by itself"
        time.sleep(0.1)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)  # the JVM and the Python processes beside it, all of them ours
    process.wait()
    return seconds


def _batches(folder: Path) -> int:
    return len([path for path in (folder / "checkpoint" / "commits").glob("[0-9]*") if path.suffix == ""])


def _judged(numbers: list[int], times: int) -> int:
    doubled = [number for number, count in Counter(numbers).items() if count > 1]
    ordered = sorted(set(numbers))
    gaps = sum(after != before + 1 for before, after in pairwise(ordered))
    print(f"{len(numbers):,} rows, {len(doubled):,} twice, {gaps} gaps after {times} kills")
    return int(bool(doubled) or gaps > times)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
