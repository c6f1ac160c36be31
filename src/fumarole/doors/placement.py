"""Which of several processes takes a connection, where they share the ports.

The kernel deals connections out at random, and what is said between two processes costs a hop more. So few connections
are kept together, and many are spread:

    the first process has few, and is not busy        it takes the connection
    otherwise                                         the one with the fewest does

The process that the kernel gave a connection reads the load of the others in shared memory, and hands the socket
over, before a byte was read from it. Each number has one writer, so nothing has to be locked: what was handed to a
process and what it has taken in are counted apart, and the difference is on its way.
"""

from __future__ import annotations

import array
import asyncio
import mmap
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

TOGETHER = 32
"""Connections that the first process takes before others get any."""
BUSY = 0.5
"""A share of a processor; above it, the first worker takes no more than its share of connections."""
LOST_AFTER = 2.0
"""Seconds without a sign of life; then nothing is handed to a process."""
LOOK = 0.25
"""Seconds between two looks at how busy one is."""
NUMBER_BYTES = 8
CONNECTIONS, TAKEN, BUSYNESS, SEEN, HANDED = range(5)
"""Places of a process's numbers; from the last on, how many it has handed to each."""


class ProcessLoad(NamedTuple):
    """The load of one process."""

    connections: int
    """Its connections, those on their way to it included."""
    busyness: float
    seen: float


def choose(loads: Sequence[ProcessLoad], own: int, now: float) -> int:
    """The number of the process that should have a new connection, which `own` was given by the kernel."""
    first = loads[0]
    if _is_there(first, now) and first.connections < TOGETHER and first.busyness < BUSY:
        return 0
    there = [number for number, load in enumerate(loads) if number == own or _is_there(load, now)]
    return min(there, key=lambda number: (loads[number].connections, number != own))


def _is_there(load: ProcessLoad, now: float) -> bool:
    return now - load.seen < LOST_AFTER


class Placement:
    """Made once, before the processes are; each then says `begin` with its own number."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._row = HANDED + processes
        self._numbers = memoryview(mmap.mmap(-1, NUMBER_BYTES * processes * self._row)).cast("d")
        self._ways = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(processes)]
        for way in self._ways:
            for end in way:
                end.setblocking(False)
        self._own: int | None = None
        """None until `begin`: before it, no other process needs the figures."""
        self._doors: list[Callable[[socket.socket], None]] = []
        self._busy_since = 0.0, 0.0

    def begin(self, own: int) -> None:
        """This is the process of that number, and it lets connections in from now on."""
        self._own = own
        self._set(CONNECTIONS, 0)
        self._look()
        asyncio.get_running_loop().add_reader(self._ways[own][0], self._take)

    def end(self) -> None:
        """Nothing more is taken, and what was handed over too late is closed, so that its client tries again."""
        if self._own is None:
            return
        self._set(SEEN, 0)
        asyncio.get_running_loop().remove_reader(self._ways[self._own][0])
        self._doors = [socket.socket.close for _ in self._doors]
        self._take()

    def close(self) -> None:
        """When all the processes are gone."""
        for way in self._ways:
            for end in way:
                end.close()

    def add_door(self, take: Callable[[socket.socket], None]) -> int:
        """Connections of this door come to `take`. Its number is the same in every process."""
        self._doors.append(take)
        return len(self._doors) - 1

    def note(self, connections: int) -> None:
        """So many are here now."""
        self._set(CONNECTIONS, connections)

    def hand_over(self, door: int, descriptor: int) -> bool:
        """Lets another process have a connection, if that is better. False: it stays."""
        own = self._own
        if own is None:
            return False
        to = choose([self._load(number) for number in range(self._processes)], own, time.monotonic())
        if to == own:
            return False
        try:
            rights = array.array("i", [descriptor])
            self._ways[to][1].sendmsg([bytes([door])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except OSError:
            return False  # too many are on their way already
        self._set(HANDED + to, self._get(own, HANDED + to) + 1)
        return True

    def _take(self) -> None:
        own = self._own
        assert own is not None
        while True:
            try:
                said, descriptors, _, _ = socket.recv_fds(self._ways[own][0], 1, 1)
            except OSError:
                return
            for descriptor in descriptors:
                self._set(TAKEN, self._get(own, TAKEN) + 1)
                made = socket.socket(fileno=descriptor)
                made.setblocking(False)
                self._doors[said[0]](made)

    def _look(self) -> None:
        """Publishes the recent load of this process, and that it is alive."""
        now, busy = time.monotonic(), time.process_time()
        if now > self._busy_since[0]:
            self._set(BUSYNESS, (busy - self._busy_since[1]) / (now - self._busy_since[0]))
        self._busy_since = now, busy
        self._set(SEEN, now)

    def tick(self, now: float) -> None:
        """Time passes."""
        if now - self._busy_since[0] > LOOK:
            self._look()

    def _load(self, number: int) -> ProcessLoad:
        handed = sum(self._get(each, HANDED + number) for each in range(self._processes))
        on_the_way = handed - self._get(number, TAKEN)
        return ProcessLoad(
            int(self._get(number, CONNECTIONS) + on_the_way), self._get(number, BUSYNESS), self._get(number, SEEN)
        )

    def _get(self, number: int, place: int) -> float:
        return self._numbers[number * self._row + place]

    def _set(self, place: int, value: float) -> None:
        if self._own is not None:
            self._numbers[self._own * self._row + place] = value
