"""What producers said of themselves outlives the broker, however it ends (M3)."""

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.peer import DOORS, PATIENCE, Peer
from tests.integration.process import ROOT
from tests.integration.running import RunningBroker

A, B = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(2))
AT_RISK = 1.0
"""Seconds of changes that a broker may lose."""

Start = Callable[[], RunningBroker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a broker, always on the same data."""
    started: list[RunningBroker] = []

    def start_broker() -> RunningBroker:
        started.append(RunningBroker(tmp_path, DOORS))
        return started[-1]

    yield start_broker
    for broker in started:
        broker.release()


def selected(broker: RunningBroker, where: str, namespace: str = "default") -> list[str]:
    with Peer(broker, where, namespace=namespace) as subscriber:
        heard = subscriber.hear()
        assert heard["Del"] == []
        return sorted(heard["New"])


def publish(broker: RunningBroker, *readings: Any, namespace: str = "default") -> None:
    """And the broker has heard it: a query that they match sees them."""
    with Peer(broker, "HAS Room", namespace=namespace) as subscriber:
        missing = {reading[0] for reading in readings} - set(subscriber.hear()["New"])
        with Peer(broker, *readings, namespace=namespace):
            while missing:
                value = subscriber.hear()
                missing -= set(value["New"] if isinstance(value, dict) else ())


def await_line(broker: RunningBroker, text: str) -> str:
    """The first line of its log with this text."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for line in broker.log:
            if text in line:
                return line
        time.sleep(0.01)  # the log comes from another process
    raise AssertionError(f"no {text!r} in\n{broker.tail()}")


def test_killed(start: Start) -> None:
    broker = start()
    publish(broker, [A, {"Room": "410", "Floor": 4, "Straße": "Ätna", "On": True}, 1.0])
    publish(broker, [B, {"Room": "1"}, 1.0], namespace="lab")
    time.sleep(AT_RISK + 0.1)  # this is the promise
    broker.kill()
    broker = start()
    assert selected(broker, "Room = '410' AND Floor = 4 AND `Straße` = 'Ätna' AND On = true") == [A]
    # A namespace that is not configured, and to which no client had connected since.
    assert selected(broker, "Room = '1'", "lab") == [B]
    # It goes on from there.
    with Peer(broker, "Floor = 5 AND Room = '410'") as subscriber, Peer(broker) as publisher:
        assert subscriber.hear() == {"New": [], "Del": []}
        publisher.say([A, {"Floor": 5}, 2.0])
        assert subscriber.hear() == {"New": [A], "Del": []}
        assert subscriber.hear() == [A, {"Floor": 5}, 2.0]


def test_forgotten_and_killed(start: Start) -> None:
    broker = start()
    publish(broker, [A, {"Room": "410"}, 1.0], [B, {"Room": "411"}, 1.0])
    time.sleep(AT_RISK + 0.1)
    with Peer(broker, "Room = '410'") as subscriber, Peer(broker, {"forget": A}):
        assert subscriber.hear() == {"New": [A], "Del": []}
        assert subscriber.hear() == {"New": [], "Del": [A]}
    time.sleep(AT_RISK + 0.1)
    broker.kill()
    assert selected(start(), "HAS Room") == [B]


def test_stopped(start: Start, tmp_path: Path) -> None:
    """Nothing is at risk, and the log is in the file."""
    broker = start()
    assert not (tmp_path / "data").exists()
    publish(broker, [A, {"Room": "410"}, 1.0])
    broker.stop()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["producers.sqlite"]
    assert selected(start(), "Room = '410'") == [A]


def test_full_disk(start: Start) -> None:
    broker = start()
    publish(broker, [A, {"Room": "410"}, 1.0])
    # No file of that process can grow any more.
    soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    publish(broker, [B, {"Room": "411"}, 1.0])
    await_line(broker, "warning metadata is in memory only, until it can be written again: ")
    assert selected(broker, "HAS Room") == [A, B]
    time.sleep(AT_RISK)  # it tries again, and does not say so again
    assert len([line for line in broker.log if "in memory only" in line]) == 1
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (soft, hard))
    await_line(broker, "producers.sqlite again")
    broker.kill()
    assert selected(start(), "HAS Room") == [A, B]


def test_damaged_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "producers.sqlite").write_bytes(b"no database" * 1000)
    broker = start()
    line = await_line(broker, "is damaged")
    (aside,) = (tmp_path / "data").glob("producers-damaged-*")
    assert str(aside) in line
    assert aside.read_bytes() == b"no database" * 1000
    publish(broker, [A, {"Room": "410"}, 1.0])
    broker.stop()
    assert selected(start(), "HAS Room") == [A]


def test_folder_removed_while_it_runs(start: Start, tmp_path: Path) -> None:
    broker = start()
    publish(broker, [A, {"Room": "410"}, 1.0])
    time.sleep(AT_RISK)
    shutil.rmtree(tmp_path / "data")
    publish(broker, [B, {"Room": "411"}, 1.0])
    await_line(broker, "removed or replaced while the broker ran. A new file is begun")
    broker.stop()
    assert selected(start(), "HAS Room") == [A, B]


def refusal(folder: Path) -> str:
    """What a broker says that does not start."""
    command = [sys.executable, "-m", "fumarole.cli.main", "serve", "--nats", "127.0.0.1:0", "--data", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_two_brokers_on_one_folder(start: Start, tmp_path: Path) -> None:
    broker = start()
    publish(broker, [A, {"Room": "410"}, 1.0])
    time.sleep(AT_RISK)
    said = refusal(tmp_path / "data")
    assert "in use, perhaps by another broker: each needs a data folder of its own" in said
    assert selected(broker, "HAS Room") == [A]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in refusal(tmp_path / "file" / "data")
