"""A6 on the other nodes: a replicated change whose queries are dear waits, and what its producer says waits behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fumarole.cluster import late_changes
from fumarole.cluster.late_changes import LateChanges
from fumarole.cluster.metadata import Metadata, author
from fumarole.core.errors import TopicError
from fumarole.core.query.evaluation import Evaluation, Unprepared
from fumarole.core.query.parse import parse
from fumarole.exchange import preparations
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.readings import Reading, reading_topic
from fumarole.exchange.slices import Slices
from fumarole.protocols.cluster_protocol import Described, Producers, Spoken
from tests.exchange.test_producers import A, B, Watcher, put_off

KEY, OTHER = ("default", A), ("default", B)
TEXT = "ab" * 4_000


class Dear:
    """A change that waits so many times."""

    def __init__(self, slices: Slices, times: int, done: list[str], name: str) -> None:
        self._slices = slices
        self._times = times
        self._done = done
        self._name = name

    def __call__(self, waits: bool) -> None:
        if waits and self._times:
            self._times -= 1
            evaluation = Evaluation({})
            self._slices.begin(iter_twice(evaluation))
            raise Unprepared(evaluation)
        self._done.append(self._name)


def iter_twice(evaluation: Evaluation) -> Iterator[None]:
    evaluation._waiting = []
    yield
    yield
    evaluation._waiting = None


@pytest.fixture
def slices() -> Slices:
    return put_off()


def finish(slices: Slices) -> None:
    while slices.step():
        pass


def test_what_one_producer_says_stays_in_order_and_others_go_on(slices: Slices) -> None:
    late, done = LateChanges(slices), list[str]()
    late.take(KEY, Dear(slices, 2, done, "change"))
    late.take(KEY, Dear(slices, 0, done, "reading"))
    late.take(OTHER, Dear(slices, 0, done, "another"))
    assert done == ["another"]
    finish(slices)
    assert done == ["another", "change", "reading"]
    late.take(KEY, Dear(slices, 0, done, "at once"))
    assert done[-1] == "at once"


def test_with_too_many_all_of_a_producer_are_taken_in(slices: Slices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_changes, "MOST", 3)
    late, done = LateChanges(slices), list[str]()
    late.take(KEY, Dear(slices, 2, done, "1"))
    for name in "234":
        late.take(KEY, Dear(slices, 0, done, name))
    assert done == ["1", "2", "3", "4"]
    finish(slices)
    assert done == ["1", "2", "3", "4"]


def test_nonsense_that_waited_is_left_out(slices: Slices) -> None:
    late, done = LateChanges(slices), list[str]()

    def nonsense(_: bool) -> None:
        raise TopicError("nonsense", 0)

    late.take(KEY, Dear(slices, 2, done, "change"))
    late.take(KEY, nonsense)
    late.take(KEY, Dear(slices, 0, done, "reading"))
    finish(slices)
    assert done == ["change", "reading"]
    with pytest.raises(TopicError):
        late.take(KEY, nonsense)


def described(version: int, metadata: dict[str, str | int | float | bool]) -> Producers:
    said = dict.fromkeys(metadata, (version, "b@1"))
    return Producers("default", (Described(A, version, "b@1", metadata, said),))


def spoken(value: float) -> Spoken:
    return Spoken(b"default", reading_topic(A), "", b"", str(value).encode(), A, {}, value, b"")


def node(slices: Slices) -> tuple[Metadata, Watcher, Callable[[float], None]]:
    namespaces = Namespaces()
    exchange = namespaces.get("default")
    assert exchange is not None
    exchange.producers._slices = exchange.producers.preparations._slices = slices
    metadata = Metadata(namespaces, author("a", 1), lambda _: None)
    metadata._late = LateChanges(slices)
    watcher = Watcher()
    query = parse("K MATCHES '.*a.{12}b1' OR K MATCHES '.*a.{12}b2' OR K = 'x' OR L = 1")
    exchange.subscribe(exchange.consumer(watcher, ">", "", b"1"), query)
    finish(slices)
    return metadata, watcher, lambda value: metadata.deliver(spoken(value), exchange, (), lambda *_: None, "b")


def test_readings_wait_behind_the_metadata_they_came_with(slices: Slices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparations, "AT_ONCE", 10_000)
    metadata, watcher, deliver = node(slices)
    metadata.learn(described(1, {"K": TEXT, "L": 1}))
    deliver(1.0)
    metadata.learn(described(2, {"K": TEXT + "a", "L": 2}))
    deliver(2.0)
    assert watcher.story == []
    finish(slices)
    assert watcher.story == [((A,), ()), Reading(A, {}, 1.0, b""), ((), (A,))]
    metadata.learn(described(3, {"K": "x"}))
    deliver(3.0)
    assert watcher.story[3:] == [((A,), ()), Reading(A, {}, 3.0, b"")]
