from collections.abc import Callable
from itertools import pairwise

from fumarole.doors.busy_poll import LONGEST, PREEMPTED, PREEMPTED_REST, SHORTEST, UNPAID_REST, BusyPoll

A_TURN = 1e-5


class Loop:
    """Turns of a loop without work, and what is called in the next one."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waiting: list[Callable[[], None]] = []
        self.busy_poll = BusyPoll(self.waiting.append, lambda: self.now)

    def turn(self, seconds: float = A_TURN) -> None:
        self.now += seconds
        waiting, self.waiting[:] = self.waiting[:], []
        for poll in waiting:
            poll()

    def turns_polled(self) -> int:
        count = 0
        while self.busy_poll.polling:
            self.turn()
            count += 1
        assert self.waiting == []
        return count


def test_nothing_comes() -> None:
    """Half as long each time, then not at all, then tried again."""
    loop = Loop()
    lengths = []
    for _ in range(4):
        loop.busy_poll.batch_done()
        lengths.append(loop.turns_polled() * A_TURN)
    assert abs(lengths[0] - LONGEST) < 3 * A_TURN
    assert all(abs(after - before / 2) < 3 * A_TURN for before, after in pairwise(lengths[:3]))
    assert lengths[3] == 0
    assert lengths[2] > SHORTEST
    for _ in range(UNPAID_REST):
        loop.busy_poll.batch_done()
    assert loop.turns_polled() > 0


def test_an_answer_comes_while_polling() -> None:
    """While the next batch comes in time, polling goes on and does not get shorter."""
    loop = Loop()
    for _ in range(1000):
        loop.busy_poll.batch_done()
        for _ in range(20):
            loop.turn()
        assert loop.busy_poll.polling
    assert abs(loop.turns_polled() * A_TURN - LONGEST) < 25 * A_TURN


def test_batches_of_one_moment_are_not_waited_for_long() -> None:
    """What comes every 10 µs has ended after 100 µs. A wait that gets longer is followed at once."""
    loop = Loop()
    for _ in range(100):
        loop.busy_poll.batch_done()
        loop.turn()
    loop.busy_poll.batch_done()
    assert abs(loop.turns_polled() * A_TURN - 2 * SHORTEST) < 3 * A_TURN
    loop.busy_poll.batch_done()
    for _ in range(4):
        loop.turn()
    loop.busy_poll.batch_done()
    assert abs(loop.turns_polled() * A_TURN - LONGEST) < 3 * A_TURN


def test_another_process_needs_the_cpu() -> None:
    loop = Loop()
    loop.busy_poll.batch_done()
    loop.turn(2 * PREEMPTED)
    assert not loop.busy_poll.polling
    for _ in range(PREEMPTED_REST - 1):
        loop.busy_poll.batch_done()
        assert not loop.busy_poll.polling
    loop.busy_poll.batch_done()
    assert loop.busy_poll.polling


def test_one_poll_at_a_time() -> None:
    loop = Loop()
    for _ in range(10):
        loop.busy_poll.batch_done()
    assert len(loop.waiting) == 1
