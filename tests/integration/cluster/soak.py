"""The cluster under faults, for long: thousands of random schedules in the simulation, then every fault on real nodes.

python tests/integration/cluster/soak.py [--seeds 2000] [--first 0] [--loops 10000] [--nodes 3] [--only simulation|real]

Prints the rows of the table in docs/cluster.md. A seed that fails is named and replays exactly. Ends with 1 if anything was
not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from fumarole.fastpath.engine import PLAIN
from tests.cluster.simulation import World
from tests.cluster.simulation.checks import registry_faults
from tests.integration.cluster.matrix import CASES
from tests.integration.cluster.nodes import running, why_no_namespaces
from tests.integration.cluster.test_confirmed import subscribe_flush_publish
from tests.integration.cluster.test_faults import faults_in, suffered

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
    """What a larger cluster costs: the figures of the model in docs/cluster.md."""
    bad = 0
    for nodes in sizes:
        world = World(nodes, nodes, PLAIN)
        began = time.monotonic()
        for number, host in enumerate(world.running):
            host.start([world.names[0]] if number else [])
        world.run(0.5)
        while registry_faults(world) and world.now < 30:
            world.run(0.1)
        joined, sent = world.now, sum(end.sent for host in world.running for end in host.ends)
        ear = world.hosts["n1"].subscribe("volcanoes.usa.atka", "")
        asked = world.now
        while ear.confirmed is None and world.now < asked + 5:
            world.run(0.001)
        changed = sum(end.sent for host in world.running for end in host.ends) - sent
        bad += bool(registry_faults(world))
        print(
            f"{nodes} nodes: all know each other after {joined:.1f} s; a change is known everywhere after "
            f"{(world.now - asked) * 1000:.1f} ms; {changed / (nodes - 1):.0f} B a peer meanwhile, heartbeats included; "
            f"simulated in {time.monotonic() - began:.0f} s",
            flush=True,
        )
    return bad


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
