from __future__ import annotations

from pathlib import Path

import pytest

from fumarole.core.limits import Limits
from fumarole.exchange.node import Node
from fumarole.exchange.quotas import QuotaError
from fumarole.server import memory_watch
from fumarole.server.memory_watch import MIB, MemoryWatch, available, used


def test_what_the_system_says() -> None:
    size, most = used(), available()
    assert size is not None
    assert most is not None
    assert MIB < size < most


def test_a_container_has_less_than_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "memory.max"
    monkeypatch.setattr(memory_watch, "OF_A_CONTAINER", (group, tmp_path / "none"))
    group.write_text("max\n")
    whole = available()
    assert whole is not None
    group.write_text(f"{64 * MIB}\n")
    assert available() == 64 * MIB < whole


def test_above_the_watermark_and_below_it_again() -> None:
    size, said = [100 * MIB], list[str]()
    node = Node("n", "0", Limits(memory=200 * MIB))
    MemoryWatch(node, lambda: size[0], lambda: None, lambda text, *given: said.append(text % given))
    exchange = node.namespaces.open("default")
    for used_now, is_refused in ((200, False), (201, True), (300, True), (150, False)):
        size[0] = used_now * MIB
        node.tick(1.0)
        assert node.namespaces.memory.is_reached is is_refused
    assert said == [
        "201 MiB are used, and limits.memory is 200 MiB: new producers, queries, namespaces and retained messages"
        " are refused"
    ]
    size[0] = 300 * MIB
    node.tick(2.0)
    with pytest.raises(QuotaError, match="short of memory"):
        exchange.usage.take("producers")
    assert exchange.usage.report()["refused"] == {"producers": 1}
    with pytest.raises(QuotaError, match="short of memory"):
        node.namespaces.open("new")


def test_without_a_setting_it_is_three_quarters_of_the_machine() -> None:
    node = Node("n", "0", Limits())
    MemoryWatch(node, lambda: 301, lambda: 400, lambda *_: None)
    node.tick(1.0)
    assert node.namespaces.memory.is_reached
    node = Node("n", "0", Limits())
    MemoryWatch(node, lambda: 1 << 60, lambda: None, lambda *_: None)
    node.tick(1.0)
    assert not node.namespaces.memory.is_reached
