"""In which order passwords are verified (A2). Pure: time comes in as a number.

A password hash takes a third of a second by design, so logins wait for a few threads. Three rules keep the right ones
coming in whatever others try:

1. Turns go by address. Each address has a line of its own, and the lines are served one after the other.
2. A wrong password slows its address down, and within that address its user goes last. The pause doubles with each
   wrong one, from `FIRST_PAUSE` to `LONGEST_PAUSE`, and is forgotten after `FORGIVEN` seconds without another. After a
   wrong one it is also at least `REST` times as long as the verification. Where an address is slowed down, a login that
   has waited for `PATIENCE` seconds more than this is given up (`too_late`).
3. Equal credentials that wait are one entry, from any client: they are verified once. Where they wait at an address
   that is slowed down and come again from one that is not, they wait there instead.

    put("a", "x", 10.0.0.1), put("b", "y", 10.0.0.1), put("c", "z", 10.0.0.2)   →   next is a, then c, then b

What waits is bounded for each address and in all; beyond that `put` refuses.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 1.0
PATIENCE: Final = 2.0
REST: Final = 4.0
"""So the wrong passwords of one address take at most a fifth of one thread, however slow the machine is."""
FORGIVEN: Final = 60.0
"""Seconds after the last wrong password from an address in which it is still slowed down."""
MOST_WAITING: Final = 20_000
MOST_WAITING_PER_ADDRESS: Final = 5_000
MOST_ADDRESSES: Final = 10_000
"""Addresses whose failures are remembered; the one that failed longest ago is forgotten first."""


class Entry(NamedTuple):
    """Credentials that wait to be verified."""

    digest: bytes
    """Equal for equal credentials, and no secret."""
    user: str
    address: str
    since: float = 0.0


class _Failures:
    """The failed attempts of one address."""

    __slots__ = ("last", "pause", "rest", "until", "users")

    def __init__(self) -> None:
        self.pause = 0.0
        self.rest = 0.0
        """How long the pause after the last one was at least."""
        self.until = 0.0
        self.last = 0.0
        self.users: set[str] = set()


class LoginQueue:
    """Entries wait here. `put`, then `next` as often as there is a free thread, and `failed` for each wrong one."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Entry]] = OrderedDict()
        """By address, in the order of their turns."""
        self._waiting: dict[bytes, Entry] = {}
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, entry: Entry) -> bool:
        """Lines it up, unless equal credentials wait already. False: too many wait."""
        waiting = self._waiting.get(entry.digest)
        if waiting is not None and not self._is_faster(entry, waiting):
            return True
        line = self._lines.get(entry.address)
        if len(self) >= MOST_WAITING or (line is not None and len(line) >= MOST_WAITING_PER_ADDRESS):
            return False
        if line is None:
            line = self._lines[entry.address] = deque()
        if waiting is not None:
            self._leave(waiting)
        line.append(entry)
        self._waiting[entry.digest] = entry
        return True

    def _is_faster(self, entry: Entry, waiting: Entry) -> bool:
        """Is the address of the second slowed down, and that of the first not?"""
        slowed, free = self._recent(waiting.address, entry.since), self._recent(entry.address, entry.since)
        return slowed is not None and free is None

    def _leave(self, waiting: Entry) -> None:
        line = self._lines[waiting.address]
        line.remove(waiting)
        if not line:
            del self._lines[waiting.address]

    def next(self, now: float) -> Entry | None:
        """The entry whose turn it is. None: none waits, or each that waits is slowed down (see `wakes_at`)."""
        for address in list(self._lines):
            failures = self._recent(address, now)
            if failures is not None and failures.until > now:
                continue
            line = self._lines[address]
            entry = line.popleft()
            if failures is not None and entry.user in failures.users:
                entry = self._unsuspected(line, entry, failures)
            if line:
                self._lines.move_to_end(address)
            else:
                del self._lines[address]
            del self._waiting[entry.digest]
            if failures is not None:
                failures.until = now + failures.pause
            return entry
        return None

    def _unsuspected(self, line: deque[Entry], entry: Entry, failures: _Failures) -> Entry:
        """The first in line whose user has not failed from here; `entry` where there is none."""
        for at, other in enumerate(line):
            if other.user not in failures.users:
                del line[at]
                line.appendleft(entry)
                return other
        return entry

    def too_late(self, now: float) -> list[Entry]:
        """Entries that have waited too long at an address that is slowed down. They are taken out."""
        late: list[Entry] = []
        for address in list(self._lines):
            failures = self._recent(address, now)
            if failures is None:
                continue
            line = self._lines[address]
            while line and now - line[0].since > PATIENCE + failures.rest:
                late.append(line.popleft())
            if not line:
                del self._lines[address]
        for entry in late:
            del self._waiting[entry.digest]
        return late

    def wakes_at(self, now: float) -> float | None:
        """When `next` has an entry again. None: none waits."""
        times = [now if (failures := self._recent(each, now)) is None else failures.until for each in self._lines]
        return min(times, default=None)

    def failed(self, entry: Entry, now: float, took: float = 0.0) -> None:
        """These credentials were wrong, and to verify them took so many seconds."""
        failures = self._recent(entry.address, now) or _Failures()
        self._failures[entry.address] = failures
        self._failures.move_to_end(entry.address)
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        failures.pause = min(max(failures.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        failures.rest = REST * took
        failures.last, failures.until = now, now + max(failures.pause, failures.rest)
        if len(failures.users) < MOST_WAITING_PER_ADDRESS:
            failures.users.add(entry.user)

    def _recent(self, address: str, now: float) -> _Failures | None:
        failures = self._failures.get(address)
        if failures is not None and now - failures.last > FORGIVEN:
            del self._failures[address]
            return None
        return failures
