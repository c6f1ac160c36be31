"""What other nodes are told of a producer's topic (A3): the compiled readers against the pure sessions."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.exchange.exchange import Exchange
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.desk import Desk, MsgPackClient
from tests.fastpath.test_nats_readings_equal import A, B, usual
from tests.random_examples import examples

ON_A, NEWS, OTHER_NEWS = f"readings.{A}", '{"Room": "410"}', '{"Room": "411"}'

nats = st.builds(
    usual,
    st.sampled_from([ON_A, f"readings.{B}", "plant", "secret"]),
    st.sampled_from([A, B]),
    st.sampled_from(["1", "text"]),
    st.sampled_from(["", NEWS, OTHER_NEWS]),
)
msgpack = st.sampled_from([A, B])
"""A reading on the producer's own topic, in the form that the compiled loop takes."""


def play(hot_path: HotPath, steps: list[bytes | str]) -> list[object]:
    """What is told, in its order, with the topic that the producer's latest reading has then."""
    desk, told = Desk(hot_path), list[object]()

    def changed(exchange: Exchange, identity: str, keys: Collection[str]) -> None:
        told.append(("described", sorted(keys), exchange.producers.known[identity].latest()[0]))

    def moved(exchange: Exchange, identity: str, is_described: bool) -> None:
        told.append(("moved", is_described, exchange.producers.known[identity].latest()[0]))

    desk.node.namespaces.replicate(lambda *_: None, changed, lambda *_: None, moved=moved)
    publisher, other = desk.connect(), MsgPackClient(desk)
    MsgPackClient(desk).say("Room = '410'")
    for step in steps:
        if isinstance(step, bytes):
            publisher.say(step)
        else:
            other.say([step, {}, 1])
        told.append("said")
    return told


@examples(100)
@given(st.lists(st.one_of(nats, msgpack), max_size=12))
@example([usual(ON_A, A, "1", NEWS), usual("plant", A, "2"), usual("plant", A, "3"), usual(ON_A, A, "4"), A, A])
def test_the_same_is_told(steps: list[bytes | str]) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, steps) == play(PLAIN, steps)


def test_a_reading_that_changes_metadata_and_topic_is_told_as_one(hot_path: HotPath) -> None:
    """Else the set of a user of another node would tell of what holds in between only."""
    steps: list[bytes | str] = [usual(ON_A, A, "1", NEWS), usual("secret", A, "2", OTHER_NEWS), usual(ON_A, A, "3"), A]
    told = play(hot_path, [*steps, usual("plant", A, "4"), A])
    assert told == [
        *[("described", ["Room"], ON_A), "said"],
        *[("moved", True, "secret"), ("described", ["Room"], "secret"), "said"],
        *[("moved", False, ON_A), "said", "said"],
        *[("moved", False, "plant"), "said"],
        *[("moved", False, ON_A), "said"],
    ]
