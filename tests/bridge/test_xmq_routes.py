"""B2, B4, B6: routes expire, are renewed, and lead where the definition says. Time is a number here."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.bridge import xmq_routes
from fumarole.bridge.xmq_routes import DIRECT, TOPIC, Route, Routes
from fumarole.core.topic import matches, parse_amqp, split_amqp
from fumarole.fastpath.hot_path import HotPath
from tests.conformance.tables import AMQP_BINDINGS, AMQP_KEYS


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def routes(clock: Clock, hot_path: HotPath) -> Routes:
    return Routes(clock, hot_path.parts.index)


def test_the_four_functions(routes: Routes) -> None:
    assert routes.add_direct("q", "one", 160)
    assert not routes.add_direct("q", "two", 160)
    assert routes.add_topic("test.#", "one", 160)
    assert routes.get_direct("q") == ["one", "two"]
    assert routes.get_direct("test.#") == []
    assert routes.get_topic("test") == routes.get_topic("test.a.b") == ["one"]
    assert routes.get_topic("q") == []


def test_a_client_gets_a_topic_once(routes: Routes) -> None:
    for pattern in ("a.#", "a.*", "#", "a.b"):
        routes.add_topic(pattern, "one", 160)
    assert routes.get_topic("a.b") == ["one"]


@pytest.mark.parametrize("key", AMQP_KEYS)
def test_the_seeds_table(routes: Routes, key: str) -> None:
    for name, pattern in AMQP_BINDINGS.items():
        routes.add_topic(pattern, name, 160)
    assert sorted(routes.get_topic(key)) == AMQP_KEYS[key].split()


def test_an_expired_route_is_never_used_even_before_it_is_swept(routes: Routes, clock: Clock) -> None:
    routes.add_topic("a", "one", 102)
    routes.add_direct("a", "one", 102)
    clock.now = 101.999
    assert routes.get_topic("a") == routes.get_direct("a") == ["one"]
    clock.now = 102
    assert routes.get_topic("a") == routes.get_direct("a") == []
    assert len(routes) == 2
    assert sorted(routes.sweep()) == [Route(DIRECT, "a", "one", 102), Route(TOPIC, "a", "one", 102)]
    assert (len(routes), routes.keys(TOPIC), routes.held("one"), routes.sweep()) == (0, [], 0, [])


def test_one_that_renews_never_misses_anything_over_50_renewals(routes: Routes, clock: Clock) -> None:
    routes.add_topic("a.#", "silent", clock.now + 2)
    for _ in range(50):
        routes.add_topic("a.#", "renewing", clock.now + 2)
        clock.now += 1.9
        assert "renewing" in routes.get_topic("a.b")
        routes.sweep()
    assert routes.get_topic("a.b") == ["renewing"]
    assert [route.destination for route in routes] == ["renewing"]


def test_keys_are_there_until_the_last_route_is_gone(routes: Routes, clock: Clock) -> None:
    routes.add_topic("a.#", "one", 110)
    routes.add_topic("a.#", "two", 120)
    clock.now = 115
    assert [route.destination for route in routes.sweep()] == ["one"]
    assert routes.keys(TOPIC) == ["a.#"]
    assert not routes.remove_topic("a.#", "one")
    assert routes.remove_topic("a.#", "two")
    assert routes.keys(TOPIC) == []


def test_binding_and_unbinding_leaves_nothing_behind(routes: Routes, clock: Clock) -> None:
    for number in range(10_000):
        routes.add_topic(f"a.{number % 7}", "one", clock.now + 60)
        routes.remove_topic(f"a.{number % 7}", "one")
    assert len(routes) == 0
    assert len(routes._due) <= xmq_routes.STALE_KEPT + 1


WORDS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "a*"]), max_size=5).map(".".join)


@given(st.lists(st.tuples(WORDS, st.integers(0, 3), st.integers(95, 105))), WORDS)
def test_as_the_definition_says(added: list[tuple[str, int, int]], key: str) -> None:
    routes = Routes(lambda: 100)
    latest: dict[tuple[str, int], int] = {}
    for pattern, dest, expires in added:
        routes.add_topic(pattern, dest, expires)
        latest[pattern, dest] = expires
    wanted = {
        dest
        for (pattern, dest), expires in latest.items()
        if expires > 100 and matches(parse_amqp(pattern), split_amqp(key))
    }
    found = routes.get_topic(key)
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_at_random_against_a_plain_list(routes: Routes, clock: Clock) -> None:
    chance = random.Random(5)
    plain: dict[tuple[str, str, int], float] = {}
    for _ in range(5_000):
        kind, key, dest = chance.choice([DIRECT, TOPIC]), chance.choice(["a", "a.#", "#.b", "*"]), chance.randrange(5)
        action = chance.random()
        if action < 0.5:
            expires = clock.now + chance.uniform(0, 5)
            (routes.add_direct if kind == DIRECT else routes.add_topic)(key, dest, expires)
            plain[kind, key, dest] = expires
        elif action < 0.6:
            removed = (routes.remove_direct if kind == DIRECT else routes.remove_topic)(key, dest)
            assert removed == (plain.pop((kind, key, dest), None) is not None)
        elif action < 0.8:
            clock.now += chance.uniform(0, 1)
        else:
            due = {row for row, expires in plain.items() if expires <= clock.now}
            assert {tuple(route[:3]) for route in routes.sweep()} == due
            for row in due:
                del plain[row]
        assert len(routes) == len(plain)
        assert sorted(routes.get_direct("a")) == sorted(
            dest for (kind, key, dest), expires in plain.items() if (kind, key) == (DIRECT, "a") and expires > clock.now
        )


def test_a_thousand_wildcards_cost_little(routes: Routes) -> None:
    """T7: many `#` never make matching exponential."""
    routes.add_topic(".".join(["#", "a"] * 60), "one", 160)
    assert routes.get_topic(".".join("a" * 59)) == []
    assert routes.get_topic(".".join("a" * 120)) == ["one"]
