"""The live job killed with -9 at random moments, again and again: `python -m tests.pipeline.live.alarm_faults [TIMES]`.

A producer is hot and cold by turns, each time with another value, and its alarms have these values. What reached the
buffer has no gap but where the job was away. So of the values that were published, those without an alarm are in at most
one run for each kill; an alarm comes twice only with the same identity; and nobody was silent (P13).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import fumarole
from tests.integration.running import RunningBroker
from tests.pipeline.archives import FOR_COMMANDS

RULES = """
[[rules]]
name = "hot"
where = "$value > 0"
publish = "alarms.hot"

[[rules]]
name = "silent"
silence = "8 s"
publish = "alarms.silent"
"""
BETWEEN = 0.05
PATIENCE = 300.0


class Traffic:
    """Readings of a producer, and all alarms that are heard."""

    def __init__(self, url: str) -> None:
        self.published = 0
        self.heard: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """By identity."""
        self._done, self._stop = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=lambda: asyncio.run(self._publish(url)), daemon=True),
            threading.Thread(target=lambda: asyncio.run(self._listen(url)), daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop_publishing(self) -> None:
        self._done.set()
        self._threads[0].join()

    def stop(self) -> None:
        self.stop_publishing()
        self._stop.set()
        self._threads[1].join(10)

    async def _publish(self, url: str) -> None:
        async with fumarole.connect(url) as client:
            producer = client.producer({"Kind": "heat"}, "sensors.one")
            while not self._done.is_set():
                self.published += 1
                await producer.publish(float(self.published))
                await asyncio.sleep(BETWEEN)
                await producer.publish(-float(self.published))
                await client.flush()

    async def _listen(self, url: str) -> None:
        import json

        async with fumarole.connect(url) as client:
            subscription = await client.subscribe("alarms.>")

            async def take() -> None:
                async for message in subscription:
                    self.heard[dict(message.headers)["Fumarole-Alarm"]].append(json.loads(message.payload))

            task = asyncio.create_task(take())
            await asyncio.to_thread(self._stop.wait)
            task.cancel()


def main(times: int) -> int:
    chance = random.Random()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules.toml").write_text(RULES)
        broker = RunningBroker(folder)
        traffic = Traffic(broker.url)
        traffic.start()
        try:
            for number in range(1, times + 1):
                seconds = chance.random() * 6
                process = _begun(broker.url, folder)
                time.sleep(seconds)
                _kill(process)
                print(f"killed {number} of {times}, {seconds:.1f} s after its first batch", flush=True)
            process = _begun(broker.url, folder)
            traffic.stop_publishing()
            _wait_for(lambda: any(each["value"] == -traffic.published for each in _of(traffic, "cleared")), process)
            _kill(process)
        finally:
            traffic.stop()
            broker.release()
        return _judged(traffic, times)


def _begun(url: str, folder: Path) -> subprocess.Popen[bytes]:
    before = _batches(folder)
    command = [sys.executable, "-m", "fumarole.cli.main", "pipeline", "watch", "--rules", str(folder / "rules.toml")]
    command += ["--servers", url, "--checkpoint", str(folder / "watch"), *FOR_COMMANDS]
    with (folder / "watch.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    _wait_for(lambda: _batches(folder) > before + 1, process)
    return process


def _wait_for(holds: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert process.poll() is None, "the job ended by itself"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # the JVM and the Python processes beside it, all of them ours
    process.wait()


def _batches(folder: Path) -> int:
    names = [path.name for path in (folder / "watch" / "alarms" / "commits").glob("[0-9]*") if path.suffix == ""]
    return max(map(int, names), default=-1)


def _of(traffic: Traffic, state: str) -> list[dict[str, Any]]:
    return [each[0] for each in list(traffic.heard.values()) if each[0]["state"] == state]


def _judged(traffic: Traffic, times: int) -> int:
    differing = [each for each in traffic.heard.values() if any(other != each[0] for other in each)]
    repeats = sum(len(each) - 1 for each in traffic.heard.values())
    silent = [each for each in _of(traffic, "raised") if each["rule"] == "silent"]
    raised = {int(each["value"]) for each in _of(traffic, "raised") if each["rule"] == "hot"}
    missing = sorted(set(range(min(raised), traffic.published + 1)) - raised)
    runs = sum(1 for each in missing if each - 1 not in missing)
    print(
        f"{len(raised):,} alarms of {traffic.published:,} values, {runs} gaps after {times} kills; {repeats} repeats, "
        f"{len(differing)} of them different; {len(silent)} silences"
    )
    return int(bool(differing or silent) or runs > times)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
