import random

import pytest

from fumarole.exchange.consumer import Consumer
from fumarole.exchange.outbox import Outbox, Overflow
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.exchange.fakes import Listener


class Box:
    """An outbox with its consumers and counters."""

    def __init__(self, hot_path: HotPath, limit: int, overflow: Overflow = Overflow.DROP_OLDEST) -> None:
        self.ready: list[object] = []
        self.counters = hot_path.parts.counters()
        self.outbox: Outbox = hot_path.parts.outbox(limit, overflow, self.counters, self.ready, self)
        self.consumers: list[Consumer] = [
            hot_path.parts.consumer(Listener(), ">", "", b"%d" % number) for number in range(3)
        ]

    def push(self, frame: bytes, consumer: int | None = 0) -> None:
        self.outbox.push(frame, None if consumer is None else self.consumers[consumer])


def test_first_in_first_out(hot_path: HotPath) -> None:
    box = Box(hot_path, 100)
    box.push(b"one")
    box.push(b"two", None)
    assert box.ready == [box]
    assert box.outbox.size == 6
    assert box.outbox.take() == b"onetwo"
    assert box.outbox.size == 0
    assert box.outbox.take() == b""
    box.push(b"three")
    assert box.ready == [box, box]


def test_take_gives_whole_frames_and_at_least_one(hot_path: HotPath) -> None:
    box = Box(hot_path, 100)
    for frame in (b"aaaa", b"bb", b"cccc"):
        box.push(frame)
    assert box.outbox.take(1) == b"aaaa"
    assert box.outbox.take(5) == b"bb"
    assert box.outbox.take(5) == b"cccc"


def test_drop_oldest(hot_path: HotPath) -> None:
    """D6: whole messages, the oldest first, counted where they are missed."""
    box = Box(hot_path, 10)
    box.push(b"1111", 0)
    box.push(b"2222", 1)
    box.push(b"3333", 2)
    assert box.outbox.take() == b"22223333"
    assert [consumer.dropped for consumer in box.consumers] == [1, 0, 0]
    assert box.counters.overflowed == 1


def test_drop_newest(hot_path: HotPath) -> None:
    box = Box(hot_path, 10, Overflow.DROP_NEWEST)
    box.push(b"1111", 0)
    box.push(b"2222", 1)
    box.push(b"3333", 2)
    assert box.outbox.take() == b"11112222"
    assert [consumer.dropped for consumer in box.consumers] == [0, 0, 1]


def test_disconnect(hot_path: HotPath) -> None:
    box = Box(hot_path, 10, Overflow.DISCONNECT)
    box.push(b"1111", 0)
    assert not box.outbox.overflowed
    box.push(b"22222222", 1)
    assert box.outbox.overflowed
    assert not box.outbox.has_room(1)
    assert box.ready == [box, box], "its owner is told, even if it is stuck"


def test_control_frames_are_never_dropped(hot_path: HotPath) -> None:
    box = Box(hot_path, 10)
    box.push(b"PONG", None)
    box.push(b"1111", 0)
    box.push(b"2222", 0)
    box.push(b"333333", 0)
    assert box.outbox.take() == b"PONG333333"
    assert box.consumers[0].dropped == 2


def test_who_reads_no_control_frames_either_is_cut_off(hot_path: HotPath) -> None:
    box = Box(hot_path, 10)
    for _ in range(5):
        box.push(b"PONG", None)
    assert not box.outbox.overflowed
    box.push(b"PONG", None)
    assert box.outbox.overflowed


def test_a_frame_larger_than_the_outbox_is_dropped_alone(hot_path: HotPath) -> None:
    box = Box(hot_path, 10)
    box.push(b"1111", 0)
    box.push(b"x" * 11, 1)
    assert box.outbox.take() == b"1111"
    assert [consumer.dropped for consumer in box.consumers] == [0, 1, 0]


def test_how_many_messages_wait(hot_path: HotPath) -> None:
    box = Box(hot_path, 1 << 20)
    for number in range(1000):
        box.push(b"x" * 100, number % 3)
        box.push(b"control", None)
    assert len(box.outbox.take(500)) == 4 * 107
    assert box.outbox.messages() == 996
    box.outbox.clear()
    assert (box.outbox.messages(), box.outbox.size) == (0, 0)


@pytest.mark.parametrize("overflow", Overflow)
def test_both_forms_do_the_same(overflow: Overflow) -> None:
    """Random frames in, random amounts out: the same bytes and the same counts."""
    fast = compiled()
    assert fast is not None
    for seed in range(30):
        chance = random.Random(seed)
        limit = chance.choice([50, 1000, 100_000])
        plain, quick = boxes = Box(PLAIN, limit, overflow), Box(fast, limit, overflow)
        for _ in range(400):
            frame = bytes([chance.randrange(97, 123)]) * chance.choice([1, 5, 40, limit // 3, limit, limit + 1])
            consumer = chance.choice([None, 0, 1, 2, 0, 1, 2]) if len(frame) < 50 else chance.randrange(3)
            for box in boxes:
                box.push(frame, consumer)
            if chance.random() < 0.1:
                most = chance.choice([1, limit // 2, 1 << 60])
                assert plain.outbox.take(most) == quick.outbox.take(most)
            assert plain.outbox.size == quick.outbox.size
            assert plain.outbox.overflowed == quick.outbox.overflowed
            assert plain.outbox.has_room(7) == quick.outbox.has_room(7)
            assert len(plain.ready) == len(quick.ready)
        assert plain.outbox.take() == quick.outbox.take()
        assert [c.dropped for c in plain.consumers] == [c.dropped for c in quick.consumers]
        assert plain.counters.overflowed == quick.counters.overflowed
