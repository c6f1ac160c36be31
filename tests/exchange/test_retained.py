"""F1 on one node, and what two nodes come to."""

import random
from itertools import permutations

import pytest

from fumarole.core import headers
from fumarole.core.limits import Quotas
from fumarole.core.publication import Publication
from fumarole.exchange.hybrid_clock import MICROSECONDS, HybridClock
from fumarole.exchange.quotas import QuotaError, Usage
from fumarole.exchange.retained import MARK_SECONDS, MOST_MARKS, Kept, Retained


class Wall:
    def __init__(self, seconds: float = 1_000_000.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


def retain(retained: Retained, topic: str, payload: bytes) -> None:
    publication = Publication(topic, payload)
    retained.check_room(publication)
    retained.keep(publication)


def expiring(seconds: int) -> bytes:
    return headers.build([("Mqtt-Expiry", str(seconds))])


def known(retained: Retained) -> dict[str, bytes]:
    return {kept.topic: kept.payload for kept in retained if kept.payload}


def test_the_newest_of_each_topic_is_kept() -> None:
    retained = Retained()
    for topic, payload in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        retain(retained, topic, payload)
    assert known(retained) == {"a": b"3", "b": b"2"}
    assert len(retained) == 2


def test_an_empty_payload_removes_and_leaves_a_mark_for_a_day() -> None:
    wall = Wall()
    retained = Retained(HybridClock(wall))
    retain(retained, "a", b"1")
    retain(retained, "a", b"")
    retain(retained, "never there", b"")
    assert known(retained) == {}
    assert [kept.topic for kept in retained] == ["a"]
    assert len(retained) == 0
    wall.seconds += MARK_SECONDS
    retained.expire()
    assert not retained.is_empty()
    wall.seconds += 1
    retained.expire()
    assert retained.is_empty()


def test_one_that_has_expired_becomes_a_mark() -> None:
    """Q3: it counts no more, is told to no consumer, and no older one comes back; the disk is told."""
    wall, usage = Wall(), Usage("", Quotas())
    retained = Retained(HybridClock(wall, "b"), usage)
    for topic, payload, seconds in (("a", b"1", 5), ("b", b"1", 20), ("c", b"1", 5), ("d", b"1", 5)):
        retained.keep(Publication(topic, payload, "", expiring(seconds)))
    retain(retained, "c", b"2")
    retained.keep(Publication("d", b"2", "", expiring(20)))
    wall.seconds += 5
    retained.unsaved.clear()
    assert not retained.expire()
    assert known(retained) == {"b": b"1", "c": b"2", "d": b"2"}
    assert list(retained.unsaved) == ["a"]
    assert not retained.learn(Kept("a", (1_000_000 - 1) * MICROSECONDS, "c", b"0"))
    wall.seconds += 16
    retained.expire()
    assert known(retained) == {"c": b"2"}
    assert usage.used["retained_bytes"] == sum(kept.size() for kept in retained if kept.payload)
    wall.seconds += MARK_SECONDS
    retained.expire()
    assert retained.topics() == ["c"]


def test_there_are_only_so_many_marks() -> None:
    """Hazard 9: a client that retains and removes ever new topics does not fill the memory."""
    retained = Retained(HybridClock(Wall()))
    for number in range(MOST_MARKS + 1_500):
        retain(retained, f"t{number}", b"1")
        retain(retained, f"t{number}", b"")
    while retained.expire():
        pass
    assert len(retained.topics()) == MOST_MARKS
    assert retained.topics()[0] == "t1500"


def test_every_order_of_news_comes_to_the_same() -> None:
    news = [Kept("t", time, node, payload) for time, node, payload in
            ((5, "a", b"1"), (7, "a", b"2"), (7, "b", b"3"), (6, "c", b""), (7, "ab", b"4"))]  # fmt: skip
    for order in permutations(news):
        retained = Retained(HybridClock(Wall(0.0)))
        for kept in order:
            retained.learn(kept)
        assert retained.get("t") == news[2]


def test_a_time_is_never_behind_one_that_was_seen_and_far_ahead_is_refused() -> None:
    wall = Wall(100.0)
    retained = Retained(HybridClock(wall))
    assert retained.learn(Kept("a", 150 * MICROSECONDS, "other", b"1"))
    retain(retained, "a", b"2")
    assert known(retained) == {"a": b"2"}
    assert not retained.learn(Kept("a", 161 * MICROSECONDS, "other", b"3"))
    assert known(retained) == {"a": b"2"}


def test_a_namespace_has_its_quota_and_replacing_is_within_it() -> None:
    usage = Usage("namespace plant", Quotas(retained_bytes=1_000))
    retained = Retained(usage=usage)
    for topic in "ab":
        retain(retained, topic, b"1" * 400)
    with pytest.raises(QuotaError, match="namespace plant may have 1000 retained"):
        retain(retained, "c", b"1" * 9)
    retain(retained, "a", b"2" * 399)
    with pytest.raises(QuotaError):
        retain(retained, "b", b"2" * 500)
    retain(retained, "a", b"")
    retain(retained, "c", b"1")
    assert known(retained) == {"b": b"1" * 400, "c": b"1"}


def test_put_and_removed_at_random_nothing_is_left() -> None:
    chance = random.Random(1)
    wall = Wall()
    usage = Usage("", Quotas())
    retained = Retained(HybridClock(wall), usage)
    topics = [f"t{number}" for number in range(20)]
    for _ in range(2_000):
        retain(retained, chance.choice(topics), b"x" * chance.randrange(5))
    for topic in topics:
        retain(retained, topic, b"")
    wall.seconds += MARK_SECONDS + 1
    retained.expire()
    assert retained.is_empty()
    assert (len(retained), usage.used, retained.topics()) == (0, {}, [])
