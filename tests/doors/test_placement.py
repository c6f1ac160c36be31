"""Which process takes a connection: few stay together, many are spread, and none waits for one that is gone."""

from __future__ import annotations

import asyncio
import os
import socket
from copy import copy

import pytest

from fumarole.doors.placement import BUSY, TOGETHER, Placement, ProcessLoad, choose

NOW = 100.0


def load(connections: int, busyness: float = 0.0, age: float = 0.1) -> ProcessLoad:
    return ProcessLoad(connections, busyness, NOW - age)


@pytest.mark.parametrize(
    ("loads", "own", "chosen"),
    [
        pytest.param([load(0), load(0)], 1, 0, id="the first goes to the first"),
        pytest.param([load(TOGETHER - 1), load(0)], 1, 0, id="few stay together"),
        pytest.param([load(TOGETHER), load(0)], 0, 1, id="then it is the others' turn"),
        pytest.param([load(40), load(39), load(41)], 2, 1, id="the fewest"),
        pytest.param([load(40), load(40)], 1, 1, id="as many: it stays"),
        pytest.param([load(3, BUSY), load(2)], 0, 1, id="the first is busy"),
        pytest.param([load(3, age=9.0), load(50)], 1, 1, id="the first is gone"),
        pytest.param([load(50, age=9.0), load(60, age=9.0)], 1, 1, id="all but this one are gone"),
    ],
)
def test_the_choice(loads: list[ProcessLoad], own: int, chosen: int) -> None:
    assert choose(loads, own, NOW) == chosen


async def test_a_connection_is_handed_to_another_process() -> None:
    placement = Placement(2)
    child = os.fork()
    if child == 0:  # the first: it echoes what it is handed, once
        code = 1
        try:
            code = asyncio.new_event_loop().run_until_complete(_echo(placement))
        finally:
            os._exit(code)
    taken: list[socket.socket] = []
    placement.add_door(lambda _: None)
    placement.add_door(taken.append)
    placement.begin(1)
    ours, theirs = socket.socketpair()
    for _ in range(500):
        if placement.hand_over(1, theirs.fileno()):
            break
        await asyncio.sleep(0.01)
    theirs.close()
    ours.settimeout(5.0)
    ours.sendall(b"hello")
    assert await asyncio.to_thread(ours.recv, 10) == b"hello"
    assert await asyncio.to_thread(ours.recv, 10) == b""
    assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == 0
    assert taken == []
    ours.close()
    placement.end()
    placement.close()


async def _echo(placement: Placement) -> int:
    given: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
    placement.add_door(lambda _: None)
    placement.add_door(given.set_result)
    placement.begin(0)
    connection = await asyncio.wait_for(given, 10)
    connection.setblocking(True)
    connection.sendall(connection.recv(10))
    connection.close()
    return 0


async def test_what_is_on_its_way_counts() -> None:
    """A burst is spread though the other has not taken in any of it yet."""
    placement = Placement(2)
    for number in (1, 0):  # both have begun, and this is the first
        placement.begin(number)
    placement.add_door(socket.socket.close)
    handed = 0
    for number in range(TOGETHER + 10):
        placement.note(TOGETHER + number - handed)
        ours, theirs = socket.socketpair()
        handed += placement.hand_over(0, theirs.fileno())
        ours.close()
        theirs.close()
    assert handed == (TOGETHER + TOGETHER + 10) // 2
    placement.end()
    placement.close()


async def test_who_has_not_begun_leaves_the_others_alone() -> None:
    """A process that cannot start ends before it has said which one it is."""
    first = Placement(2)
    second, failing = copy(first), copy(first)  # as processes have them: one memory, and each its own number
    taken: list[socket.socket] = []
    first.add_door(taken.append)
    first.begin(0)
    second.begin(1)
    ours, theirs = socket.socketpair()
    assert second.hand_over(0, theirs.fileno())
    assert not failing.hand_over(0, theirs.fileno())
    failing.note(TOGETHER)
    failing.end()
    assert second.hand_over(0, theirs.fileno()), "the first is there, and has room"
    for _ in range(500):
        if len(taken) == 2:
            break
        await asyncio.sleep(0.01)
    assert len(taken) == 2
    for each in (ours, theirs, *taken):
        each.close()
    second.end()
    first.end()
    first.close()
