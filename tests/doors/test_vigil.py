from collections.abc import Callable
from itertools import pairwise

from fumarole.doors.vigil import LONGEST, ROBBED, ROBBED_REST, SHORTEST, UNPAID_REST, Vigil

A_LOOK = 1e-5


class Loop:
    """Turns that take no more time than a look; what a vigil wants done in the next one."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waiting: list[Callable[[], None]] = []
        self.vigil = Vigil(self.waiting.append, lambda: self.now)

    def turn(self, seconds: float = A_LOOK) -> None:
        self.now += seconds
        waiting, self.waiting[:] = self.waiting[:], []
        for look in waiting:
            look()

    def turns_awake(self) -> int:
        count = 0
        while self.vigil.awake:
            self.turn()
            count += 1
        assert self.waiting == []
        return count


def test_nothing_comes() -> None:
    """Half as long each time, then not at all, then tried again."""
    loop = Loop()
    lengths = []
    for _ in range(4):
        loop.vigil.batch_done()
        lengths.append(loop.turns_awake() * A_LOOK)
    assert abs(lengths[0] - LONGEST) < 3 * A_LOOK
    assert all(abs(after - before / 2) < 3 * A_LOOK for before, after in pairwise(lengths[:3]))
    assert lengths[3] == 0
    assert lengths[2] > SHORTEST
    for _ in range(UNPAID_REST):
        loop.vigil.batch_done()
    assert loop.turns_awake() > 0


def test_it_pays() -> None:
    """As long as the next batch comes in time it stays awake, and does not get shorter."""
    loop = Loop()
    for _ in range(1000):
        loop.vigil.batch_done()
        for _ in range(20):
            loop.turn()
        assert loop.vigil.awake
    assert abs(loop.turns_awake() * A_LOOK - LONGEST) < 25 * A_LOOK


def test_somebody_else_wants_the_processor() -> None:
    loop = Loop()
    loop.vigil.batch_done()
    loop.turn(2 * ROBBED)
    assert not loop.vigil.awake
    for _ in range(ROBBED_REST - 1):
        loop.vigil.batch_done()
        assert not loop.vigil.awake
    loop.vigil.batch_done()
    assert loop.vigil.awake


def test_one_look_at_a_time() -> None:
    loop = Loop()
    for _ in range(10):
        loop.vigil.batch_done()
    assert len(loop.waiting) == 1
