"""The cluster under faults, for long: thousands of random schedules in the simulation, then every fault on real nodes.

python tests/integration/cluster/soak.py [--seeds 2000] [--first 0] [--loops 10000] [--nodes 3] [--only simulation|real]

Prints the rows of the table in docs/explanation/cluster.md. A seed that fails is named and replays exactly. Ends with 1 if anything was
not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from fumarole.fastpath.hot_path import PLAIN
from tests.cluster.simulation import World, faults
from tests.cluster.simulation.checks import registry_faults
from tests.cluster.simulation.hosts import Host
from tests.integration.cluster.matrix import CASES
from tests.integration.cluster.nodes import running, why_no_namespaces
from tests.integration.cluster.test_confirmed import subscribe_flush_publish
from tests.integration.cluster.test_faults import faults_in, suffered

CHANGES = 50
"""At once, so that the heartbeats meanwhile weigh little."""
PARTED = 4.0
MOST_PARTED = 50
"""Nodes; more take minutes to simulate for so many seconds."""
HEAD = (
    "| fault on a node | lost by the group | over after | lost by those not touched | twice | out of order | oldest |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def main() -> int:
    parser = argparse.ArgumentParser(description="The cluster under faults, for long.")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--loops", type=int, default=10_000)
    parser.add_argument("--only", choices=("simulation", "real"))
    asked = parser.parse_args()
    bad = 0
    if asked.only != "real":
        bad += simulate(range(asked.first, asked.first + asked.seeds))
        bad += grow()
    if asked.only != "simulation":
        bad += confirm(asked.loops)
        bad += asyncio.run(suffer_all())
    return 1 if bad else 0


def simulate(seeds: range) -> int:
    bad, began = 0, time.monotonic()
    for seed in seeds:
        world = World(seed, nodes=3 + seed % 4)
        world.start()
        world.play(15.0)
        found = world.faults()
        if found:
            bad += 1
            print(f"World({seed}, nodes={3 + seed % 4}): {len(found)} faults, the first: {found[0]}", flush=True)
    print(f"simulation: {len(seeds)} schedules in {time.monotonic() - began:.0f} s, {bad} with a fault", flush=True)
    return bad


def grow(sizes: tuple[int, ...] = (10, 50, 100, 200)) -> int:
    """What a larger cluster costs: the figures of the model in docs/explanation/cluster.md."""
    return sum(grown(nodes) for nodes in sizes)


def grown(nodes: int) -> int:
    began, world = time.monotonic(), World(nodes, nodes, PLAIN)
    for number, host in enumerate(world.running):
        host.start([world.names[0]] if number else [])
    joined = seconds_until(world, 0.05, lambda: not unsettled(world))
    joining = sum(map(bytes_of, world.running)) / 2 / nodes / (nodes - 1)
    node = world.hosts["n1"]
    first = node.subscribe("volcanoes.usa.atka", "")
    known = seconds_until(world, 0.0005, lambda: first.confirmed is not None)
    before = bytes_of(node)
    ears = [node.subscribe(f"volcanoes.usa.{number}", "") for number in range(CHANGES)]
    seconds_until(world, 0.0005, lambda: all(ear.confirmed is not None for ear in ears))
    change = (bytes_of(node) - before) / CHANGES / (nodes - 1)
    bad = bool(registry_faults(world))
    healed = "not tried"
    if nodes <= MOST_PARTED:
        faults.partition(world, world.running[: nodes // 2], PARTED, one_way=False)
        world.run(PARTED)
        healed = f"{seconds_until(world, 0.05, lambda: not unsettled(world)):.2f} s"
        bad |= bool(registry_faults(world))
    print(
        f"{nodes} nodes: all know each other after {joined:.2f} s and {joining:.0f} B to each other node; a change is "
        f"known everywhere after {known * 1000:.1f} ms and {change:.0f} B to and from each; parted in halves for "
        f"{PARTED:.0f} s, all know each other again after: {healed}; simulated in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return bad


def seconds_until(world: World, step: float, is_so: Callable[[], bool]) -> float:
    began = world.now
    while not is_so() and world.now < began + 30:
        world.run(step)
    return world.now - began


def unsettled(world: World) -> bool:
    """Is there a node that does not know another, or all of what that has?"""
    return not all(
        len(host.cluster.peers) == len(world.running) - 1
        and all(peer.is_linked() and peer.is_settled() for peer in host.cluster.peers.values())
        for host in world.running
    )


def bytes_of(host: Host) -> int:
    """Sent by it, and sent to it."""
    return sum(end.sent + (end.other.sent if end.other else 0) for end in host.ends)


def confirm(times: int) -> int:
    for pure in (False, True):
        with tempfile.TemporaryDirectory() as folder, running(Path(folder), 3, pure=pure) as nodes:
            subscribe_flush_publish(nodes, times)
        print(f"subscribe, flush, publish elsewhere: {times} times, none lost ({'plain' if pure else 'compiled'})")
    return 0


async def suffer_all() -> int:
    bad, reason = 0, why_no_namespaces()
    print(HEAD, flush=True)
    for name, case in CASES.items():
        if case.needs_namespaces and reason:
            print(f"| {name} | not tried: {reason} |", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcome = await suffered(name, Path(folder))
        print(outcome.row(name, case.untouched), flush=True)
        for fault in faults_in(outcome, name):
            bad += 1
            print(f"    {name}: {fault}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
