"""What the live source tells of producers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fumarole.pipeline.live.clock import Clock


class Broker:
    """Knows producers, and gives them in one page."""

    def __init__(self, **producers: dict[str, Any]) -> None:
        self.producers = producers

    async def all_producers(self, _where: str, _timeout: float) -> AsyncIterator[list[Any]]:
        yield [SimpleNamespace(id=name, metadata=metadata) for name, metadata in self.producers.items()]


async def test_only_news_is_told_again(tmp_path: Path) -> None:
    """`_online` is no news, nor told at all: an archive has no such key, and rules mean the same on both."""
    told: list[dict[str, Any]] = []

    async def append(rows: pa.Table) -> None:
        told.extend(rows.to_pylist())

    clock: Any = Clock(tmp_path, append)
    broker = Broker(p={"Kind": "heat", "_online": True}, q={"_online": False})
    await clock.tell_all(broker, "")
    assert [(row["event"], row["producer"]) for row in told] == [("known", "p"), ("known", "q"), ("complete", None)]
    keys = [[change["key"] for change in row["changes"] or []] for row in told]
    assert keys == [["", "Kind"], [""], []]
    broker.producers["p"]["_online"] = False
    await clock.refresh(broker, "")
    assert len(told) == 3
    broker.producers["q"]["Kind"] = "gas"
    await clock.refresh(broker, "")
    assert [row["producer"] for row in told[3:]] == ["q"]


async def test_a_kill_leaves_the_time_up_to_which_it_listened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it writes when it is killed: the gap afterwards begins there."""
    told: list[dict[str, Any]] = []

    async def append(rows: pa.Table) -> None:
        told.extend(rows.to_pylist())

    clock = Clock(tmp_path, append)
    await clock.turn(1_000_000)

    def killed(path: Path, _text: str) -> int:
        path.open("w").close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            await clock.turn(2_000_000)
    await Clock(tmp_path, append).resume()
    assert [row["event"] for row in told] == ["tick", "tick", "gap"]
    assert told[-1]["event_time"].timestamp() == 1.0
