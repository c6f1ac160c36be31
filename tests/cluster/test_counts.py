"""Counters that nodes tell each other: changed ones only, some at a time, all of them to a peer that comes."""

from typing import Any

from fumarole.cluster.counts import BETWEEN_NODES, BETWEEN_WORKERS, TOLD_AT_ONCE, CountsTold, add_numbers, numbers_of
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.protocols.cluster_protocol import Counts, Frame


def told(frames: list[Frame]) -> list[str]:
    """The namespaces in these frames, which are taken out."""
    names = [frame.namespace for frame in frames if isinstance(frame, Counts)]
    frames.clear()
    return names


def test_what_has_changed_is_told_once() -> None:
    node, frames = Node("n", "0"), list[Frame]()
    lab = node.namespaces.open("lab")
    counts = CountsTold(node, frames.append, 0.0, has_workers=False)
    counts.tick(0.0, {"b"})
    assert sorted(told(frames)) == sorted(each.name for each in node.namespaces)
    lab.publish_to("a", b"x")
    counts.tick(BETWEEN_NODES - 0.01, {"b"})
    assert told(frames) == []
    counts.tick(BETWEEN_NODES, {"b"})
    assert told(frames) == ["lab"]
    counts.tick(2 * BETWEEN_NODES, {"b"})
    assert told(frames) == []
    counts.tick(3 * BETWEEN_NODES, {"b", "c"})
    assert sorted(told(frames)) == sorted(each.name for each in node.namespaces)


def test_workers_tell_each_other_more_often() -> None:
    node, frames = Node("n", "0"), list[Frame]()
    counts = CountsTold(node, frames.append, 0.0, has_workers=True)
    counts.tick(0.0, {"b"})
    told(frames)
    node.namespaces.open("default").publish_to("a")
    counts.tick(BETWEEN_WORKERS, {"b"})
    assert told(frames) == ["default"]


def test_very_many_are_told_a_part_at_a_time() -> None:
    node, frames = Node("n", "0"), list[Frame]()
    names = {f"n{number}" for number in range(TOLD_AT_ONCE + 1)}
    for name in names:
        node.namespaces.open(name)
    counts = CountsTold(node, frames.append, 0.0, has_workers=False)
    counts.tick(0.0, {"b"})
    first = told(frames)
    counts.tick(0.1, {"b"})
    assert len(first) == TOLD_AT_ONCE
    assert {*first, *told(frames)} == {each.name for each in node.namespaces} >= names


def test_numbers_are_added_within_tables_too() -> None:
    exchange = Exchange("lab")
    exchange.publish_to("a", b"xy")
    numbers = numbers_of(exchange)
    total: dict[str, Any] = {"namespace": "lab"}
    add_numbers(total, numbers)
    add_numbers(total, numbers)
    assert (total["received"], total["received_bytes"], total["dropped"]["no consumer"]) == (2, 4, 2)
    assert total["namespace"] == "lab"
