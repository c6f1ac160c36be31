"""Faults on one of three real nodes, held to the marks (C4, D1, D4, G3). `make soak` runs the rest, and for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cluster import matrix
from tests.integration.cluster.matrix import CASES, Outcome
from tests.integration.cluster.nodes import namespaces, running, why_no_namespaces

SHORT = ["SIGTERM", "SIGSTOP for 6 s", "partition, both ways"]
TRIES = 3
"""What a killed node takes with it is what was under way just then, which depends on how busy the machine is."""


def faults_in(outcome: Outcome, name: str) -> list[str]:
    """What must not be."""
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
    if outcome.over_after() > case.over:
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
    return found


async def suffered(name: str, folder: Path) -> Outcome:
    case = CASES[name]
    if case.needs_namespaces:
        secret = folder / "secret"
        secret.write_text("a secret of this test")
        with namespaces(3) as network, running(folder, 3, network, ("--links-secret-file", str(secret))) as nodes:
            return await matrix.suffer(nodes, case.fault, case.seconds, case.end)
    with running(folder, 3) as nodes:
        return await matrix.suffer(nodes, case.fault, case.seconds, case.end)


@pytest.mark.parametrize("name", SHORT)
async def test_a_fault(name: str, tmp_path: Path) -> None:
    if CASES[name].needs_namespaces and (reason := why_no_namespaces()):
        pytest.skip(f"no network namespaces: {reason}")
    outcome = await suffered(name, tmp_path)
    assert len(outcome.published) > 1000
    assert faults_in(outcome, name) == []


async def test_a_node_is_killed(tmp_path: Path) -> None:
    found: list[str] = []
    for attempt in range(TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = await suffered("kill -9", folder)
        assert (outcome.doubled(), outcome.disordered()) == (0, 0)
        assert outcome.over_after() < 0.5
        found = faults_in(outcome, "kill -9")
        if not found:
            return
    assert found == []
