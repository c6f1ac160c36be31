"""What befalls the machines of the simulation. Each fault says how long it lasts and whom it touches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.simulation.hosts import Host
    from tests.cluster.simulation.world import World


def touch(world: World, begin: float, end: float, hosts: list[Host]) -> None:
    world.history.touched.append((begin, end, frozenset(host.name for host in hosts)))


def pause(world: World, host: Host, seconds: float) -> None:
    touch(world, world.now, world.now + seconds, [host])
    host.pause()
    world.after(seconds, host.resume)


def crash(world: World, host: Host, seconds: float) -> None:
    touch(world, world.now, world.now + seconds, [host])
    host.kill()
    others = [name for name in world.names if name != host.name]
    world.after(seconds, lambda: host.start(world.random.sample(others, min(2, len(others)))))


def partition(world: World, side: list[Host], seconds: float, one_way: bool) -> None:
    rest = [host for host in world.running if host not in side]
    cut = {(one.name, other.name) for one in side for other in rest}
    if not one_way:
        cut |= {(other, one) for one, other in cut}
    touch(world, world.now, world.now + seconds, world.running)
    world.cut |= cut
    world.after(seconds, lambda: world.cut.difference_update(cut))


def part_in_three(world: World, seconds: float) -> None:
    """All are cut off from each other, or stand in three camps; the camps find together one after another."""
    camps: list[list[Host]] = [[], [], []]
    for host in world.running:
        world.random.choice(camps).append(host)
    touch(world, world.now, world.now + seconds, world.running)
    for number, camp in enumerate(camps):
        others = [host for other in camps[number + 1 :] for host in other]
        cut = {pair for one in camp for other in others for pair in ((one.name, other.name), (other.name, one.name))}
        world.cut |= cut
        world.after(world.random.uniform(0.3, 1.0) * seconds, partial(world.cut.difference_update, cut))


def jump(world: World, host: Host, seconds: float) -> None:
    """The machine was asleep, as far as its clock can tell."""
    touch(world, world.now, world.now, [host])
    host.clock += seconds


def slow(world: World, seconds: float) -> None:
    """Within what is forgiven: no node is evicted, and nothing is lost."""
    world.delay = world.random.uniform(0.05, 0.25)
    touch(world, world.now, world.now + seconds, world.running)
    world.after(seconds, lambda: setattr(world, "delay", 0.0))


def reset_a_lane(world: World, host: Host) -> None:
    ends = [end for end in host.ends if not end.closed]
    if ends:
        end = world.random.choice(ends)
        assert end.other is not None
        touch(world, world.now, world.now, [host, end.other.host])
        end.other.host.run(lambda: end.other.arrive(None))  # type: ignore[union-attr]
        host.run(lambda: end.arrive(None))


def random_fault(world: World) -> None:
    up = [host for host in world.running if host.is_up and not host.paused]
    if not up:
        return
    host, random = world.random.choice(up), world.random
    kind = random.randrange(9)
    if kind == 0:
        pause(world, host, random.uniform(0.1, 1.0))
    elif kind == 1:
        pause(world, host, random.uniform(2.0, 12.0))
    elif kind == 2:
        crash(world, host, random.uniform(0.0, 4.0))
    elif kind in (3, 4):
        side = random.sample(world.running, random.randint(1, len(world.running) - 1))
        partition(world, side, random.uniform(0.5, 6.0), one_way=kind == 4)
    elif kind == 5:
        slow(world, random.uniform(1.0, 3.0))
    elif kind == 6:
        part_in_three(world, random.uniform(0.5, 6.0))
    elif kind == 7:
        jump(world, host, random.uniform(2.5, 100.0))
    else:
        reset_a_lane(world, host)
