"""Faults on one of three real nodes, held to the marks (C4, D1, D4, G3). `make soak` runs the rest, and for longer."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.integration.cluster import matrix
from tests.integration.cluster.delays import SlowLine
from tests.integration.cluster.matrix import CASES, Case, Outcome
from tests.integration.cluster.nodes import Nodes, namespaces, running, why_no_namespaces

SHORT = ["SIGTERM", "partition, both ways"]


def faults_in(outcome: Outcome, name: str, slack: float = 1.0) -> list[str]:
    """What must not be. With `slack` it may take so many times as long to be over: for a machine that others use too."""
    case = CASES[name]
    lost = outcome.lost_by_group()
    found = []
    if outcome.doubled():
        found.append(f"S1: {outcome.doubled()} messages were heard twice")
    if outcome.disordered():
        found.append(f"S4: {outcome.disordered()} messages were out of order")
    if case.lost is not None and len(lost) > case.lost:
        found.append(
            f"S5: the group lost {len(lost)}, {case.lost} are allowed; the last {outcome.over_after():.2f} s on"
        )
    if outcome.over_after() > case.over * slack:
        found.append(f"C4: the group lost messages for {outcome.over_after():.2f} s")
    found += [
        f"S6: {name}, which the fault did not touch, lost {len(outcome.lost(name))}"
        for name in (f"alone-{number}" for number in case.untouched)
        if outcome.lost(name)
    ]
    if outcome.well_after("alone-1") > 3.5:
        found.append(f"C4: {outcome.well_after('alone-1'):.2f} s after the fault a consumer still missed messages")
    if outcome.oldest() > 5.0:
        found.append(f"S9: a message was {outcome.oldest():.2f} s late")
    found += [f"S10: {what}" for what in outcome.left_behind]
    found += [f"S11: {what}" for what in outcome.unaccounted(case.untouched)]
    return found


async def suffered(name: str, folder: Path) -> Outcome:
    case = CASES[name]
    if case.needs_lines:
        return await suffered_on_slow_lines(case, folder)
    if case.needs_namespaces:
        secret = folder / "secret"
        secret.write_text("a secret of this test")
        with namespaces(3) as network, running(folder, 3, network, ("--links-secret-file", str(secret))) as nodes:
            return await matrix.suffer(nodes, case.fault, case.seconds, case.end)
    with running(folder, 3) as nodes:
        return await matrix.suffer(nodes, case.fault, case.seconds, case.end)


def seen_gone(log: Path, name: str) -> float:
    """When a node noticed that another is gone, by this process's monotonic clock, to the millisecond."""
    line = next(line for line in log.read_text().splitlines() if f"node '{name}' is gone" in line)
    said = datetime.fromisoformat(line.split()[0])
    return said.timestamp() + 0.001 - time.time() + time.monotonic()


async def suffered_on_slow_lines(case: Case, folder: Path) -> Outcome:
    lines = [SlowLine() for _ in range(3)]
    try:
        for line in lines:
            await line.open()
        starting = await asyncio.to_thread(Nodes, folder, 3, lines=lines)
        try:
            outcome = await matrix.suffer(starting, case.fault, case.seconds, case.end)
            await asyncio.to_thread(starting.stop)
            return outcome
        finally:
            starting.kill()
    finally:
        for line in lines:
            await line.close()


@pytest.mark.parametrize("name", SHORT)
async def test_a_fault(name: str, tmp_path: Path) -> None:
    if CASES[name].needs_namespaces and (reason := why_no_namespaces()):
        pytest.skip(f"network namespaces are not allowed on this machine: {reason}")
    outcome = await suffered(name, tmp_path)
    assert len(outcome.published) > 1000
    assert faults_in(outcome, name, slack=2.0) == []


async def test_a_node_is_killed(tmp_path: Path) -> None:
    """What it takes with it is what was forwarded to it before its connection was seen to end, and nothing after that.

    How many messages that are depends on how soon the system takes the process down, and so on how busy the machine is:
    `make soak` holds it to the mark.
    """
    outcome = await suffered("kill -9", tmp_path)
    lost = outcome.lost_by_group()
    assert [fault for fault in faults_in(outcome, "kill -9", slack=2.0) if not fault.startswith("S5")] == []
    noticed = seen_gone(tmp_path / "node-0" / "log", "node-1")
    assert [number for number in lost if outcome.published[number] > noticed] == []
