"""Retained messages on disk (F1)."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from fumarole.core.publication import Publication
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.store.retained import FILE, RetainedKeeper


def make(folder: Path) -> tuple[Exchange, RetainedKeeper, list[str]]:
    namespaces = Namespaces(rules={"default": NamespaceRules()})
    exchange = namespaces.get("default")
    assert exchange is not None
    said: list[str] = []

    def warn(text: str, *details: Any) -> None:
        said.append(text % details)

    return exchange, RetainedKeeper(folder, namespaces, warn), said


def known(exchange: Exchange) -> dict[str, tuple[bytes, bytes, int]]:
    return {kept.topic: (kept.payload, kept.headers, kept.time) for kept in exchange.retained}


async def test_what_was_kept_is_there_after_a_restart_marks_too(tmp_path: Path) -> None:
    exchange, keeper, said = make(tmp_path)
    keeper.start()
    for topic, payload in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("c", b"")):
        exchange.retained.keep(Publication(topic, payload, "", b"NATS/1.0\r\nA: b\r\n\r\n"))
    await keeper.close()
    assert exchange.retained.unsaved == {}
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    again, keeper, _ = make(tmp_path)
    assert await keeper.load() == 3
    assert known(again) == known(exchange)
    assert len(again.retained) == 2
    assert again.retained.unsaved == {}
    again.retained.keep(Publication("a", b"5"))
    kept = again.retained.get("a")
    assert kept is not None
    assert kept.payload == b"5"
    await keeper.save()
    await keeper.close()
    assert said == []


async def test_a_damaged_file_is_set_aside_and_a_new_one_begun(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    exchange, keeper, said = make(tmp_path)
    assert await keeper.load() == 0
    assert len(said) == 1
    assert "retained-damaged-" in said[0]
    exchange.retained.keep(Publication("a", b"1"))
    assert await keeper.save()
    await keeper.close()
    again, keeper, _ = make(tmp_path)
    assert await keeper.load() == 1
    await keeper.close()
    assert known(again) == known(exchange)


async def test_a_disk_that_takes_nothing_is_said_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    exchange, keeper, said = make(tmp_path / "data")
    exchange.retained.keep(Publication("a", b"1"))
    assert not await keeper.save()
    assert "in memory only" in said[0]
    (tmp_path / "data").unlink()
    assert await keeper.save()
    assert exchange.retained.unsaved == {}
    await keeper.close()
