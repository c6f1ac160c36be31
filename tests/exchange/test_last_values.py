"""F2: the newest of each topic, found by its place; the compiled form is the same."""

import random

import pytest

from fumarole.core.publication import Publication
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.last_values import LastValues
from fumarole.exchange.readings import Reading
from fumarole.fastpath.hot_path import HotPath


@pytest.mark.parametrize("seed", range(5))
def test_the_same_as_a_dictionary(hot_path: HotPath, seed: int) -> None:
    chance = random.Random(seed)
    values = hot_path.parts.last_values(HybridClock(lambda: 1.0), None)
    newest: dict[str, tuple[bytes, bytes]] = {}
    for number in range(3_000):
        topic = f"t.{chance.randrange(700)}" * chance.choice([1, 1, 1, 9])
        headers = chance.choice([b"", b"NATS/1.0\r\nA: b\r\n\r\n"])
        payload = b"%d" % number * chance.randrange(12)
        newest[topic] = headers, payload
        values.put(Publication(topic, payload, "", headers))
    assert len(values) == len(newest)
    found = [value for begin in range(0, len(values), 100) for value in values.some(begin, 100, "")]
    assert {topic: (headers, payload) for topic, _, headers, payload in found} == newest
    assert [topic for topic, _, _, _ in found] == list(newest)
    assert [value[0] for value in values.some(0, len(values), "t.1")] == [t for t in newest if t.startswith("t.1")]
    for topic, kept in newest.items():
        value = values.get(topic)
        assert value is not None
        assert value[2:] == kept
    assert values.get("never") is None
    times = sorted(value[1] for value in found)
    assert len(set(times)) == len(times)


def test_what_is_over_the_quota_is_not_kept_and_counted(hot_path: HotPath) -> None:
    values = hot_path.parts.last_values(HybridClock(), 400)
    values.put(Publication("a", b"1" * 100))
    values.put(Publication("b", b"1" * 100))
    values.put(Publication("c", b"1" * 100))
    values.put(Publication("a", b"2" * 300))
    values.put(Publication("b", b"2" * 50))
    assert values.refused == 2
    assert [(topic, payload[:1], len(payload)) for topic, _, _, payload in values.some(0, 9, "")] == [
        ("a", b"1", 100),
        ("b", b"2", 50),
    ]


def test_inboxes_and_topics_of_the_server_are_not_kept() -> None:
    values = LastValues(HybridClock())
    for topic in ("_INBOX.a.b", "$SYS.a", "_FORGOTTEN"):
        values.put(Publication(topic, b"1"))
    assert len(values) == 0


def test_a_reading_is_kept_with_its_producer() -> None:
    values = LastValues(HybridClock())
    reading = Reading("2f1c0f5e-0000-4000-8000-000000000000", {"Room": "410"}, 21.5)
    values.put(Publication("a", b"21.5", reading=reading))
    kept = values.get("a")
    assert kept is not None
    assert b"Producer: 2f1c0f5e" in kept[2]
