"""A stream that watches producers: the newest values of those that a call names, at most once in a period."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import pytest

from fumarole.core.limits import Quotas
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.permissions import Permissions, User
from fumarole.exchange.slices import Slices
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.http.call import PIECE
from fumarole.sessions.http.producers import MOST_ASKED
from fumarole.sessions.http.watch import LOOKED_AT_ONCE
from tests.desk import Desk
from tests.sessions.http.web import Browser, Web

ATKA = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
ETNA = "3a1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e61"
WHERE = "where=has%20Kind&readings=0"


Timer = tuple[float, int, Callable[[], None]]


class TimedWeb(Web):
    """Its timers are called at their time, in `passes`."""

    def __init__(self, desk: Desk, users: dict[str, User] | None = None) -> None:
        super().__init__(desk, users)
        self.due: list[Timer] = []
        self.called = 0
        self._numbers = count()
        self.service.later = self._at

    def _at(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        timer = self.desk.node.namespaces.timers.now() + seconds, next(self._numbers), call
        self.due.append(timer)
        return lambda: self.due.remove(timer)


@pytest.fixture
def web(hot_path: HotPath) -> TimedWeb:
    return TimedWeb(Desk(hot_path))


def reads(web: TimedWeb, producer: str, value: float, topic: str = "a", **metadata: Any) -> None:
    fields = {"Fumarole_Producer": producer}
    if metadata:
        fields["Fumarole_Metadata"] = json.dumps(metadata)
    assert web.asks("POST", f"/v1/topics/{topic}", str(value), **fields).status == 202


def opens(web: TimedWeb, options: str = f"{WHERE}&every=1s", **fields: str) -> tuple[Browser, str]:
    """A stream, and its id."""
    browser = web.connect().sends("GET", f"/v1/stream?{options}", **fields)
    [(kind, told), (then, _)] = browser.events()
    assert (kind, then) == ("stream", "set")
    return browser, told["id"]


def watches(web: TimedWeb, stream: str, *ids: str, status: int = 204, every: object = None, user: str = "") -> None:
    body = {"ids": ids} if every is None else {"ids": ids, "every": every}
    assert web.asks("PUT", f"/v1/streams/{stream}", json.dumps(body), **(bearer(user) if user else {})).status == status


def passes(web: TimedWeb, seconds: float) -> None:
    """Time passes, and each timer is called when it is due."""
    timers = web.desk.node.namespaces.timers
    end = timers.now() + seconds
    while (due := min(web.due, default=None)) and due[0] <= end + 1e-9:
        web.due.remove(due)
        web.desk.now += max(0.0, due[0] - timers.now())
        timers.run(due[0])
        web.called += 1
        due[2]()
    web.desk.now += max(0.0, end - timers.now())
    timers.run(end)


def told(browser: Browser) -> list[tuple[str, Any]]:
    """What it was told of which producer; of those with metadata alone None."""
    events = [event for kind, event in browser.events() if kind == "producers"]
    return [(each["id"], each.get("value")) for event in events for each in event["producers"]]


def test_the_newest_value_once_in_a_period(web: TimedWeb) -> None:
    """F4."""
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    passes(web, 0)
    [(kind, event)] = browser.events()
    assert kind == "producers"
    age = event["producers"][0].pop("age")
    assert age >= 0
    metadata = {"Kind": "so2", "_online": False}
    assert event == {"producers": [{"id": ATKA, "metadata": metadata, "topic": "a", "value": 1}]}
    for value in (2, 3, 4):
        reads(web, ATKA, value)
    passes(web, 0.9)
    assert told(browser) == []
    passes(web, 0.1)
    assert told(browser) == [(ATKA, 4)]
    passes(web, 10)
    assert told(browser) == []


def test_a_reading_of_the_same_value_is_news(web: TimedWeb) -> None:
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    passes(web, 1)
    assert told(browser) == [(ATKA, 1)]
    reads(web, ATKA, 1)
    passes(web, 1)
    assert told(browser) == [(ATKA, 1)]


def test_metadata_that_changed_is_told_without_the_value(web: TimedWeb) -> None:
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    passes(web, 0)
    assert told(browser) == [(ATKA, 1)]
    web.asks("PATCH", f"/v1/producers/{ATKA}", '{"Floor": 3}')
    passes(web, 1)
    metadata = {"Kind": "so2", "_online": False, "Floor": 3}
    assert browser.events() == [("producers", {"producers": [{"id": ATKA, "metadata": metadata}]})]


def test_others_are_watched_from_here_on(web: TimedWeb) -> None:
    for producer in (ATKA, ETNA):
        reads(web, producer, 1, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    passes(web, 0)
    watches(web, stream, ATKA, ETNA)
    passes(web, 0)
    assert told(browser) == [(ATKA, 1), (ETNA, 1)]
    watches(web, stream, ETNA)
    for producer in (ATKA, ETNA):
        reads(web, producer, 2)
    passes(web, 1)
    assert told(browser) == [(ETNA, 2)]
    watches(web, stream)
    reads(web, ETNA, 3)
    passes(web, 10)
    assert told(browser) == []
    assert not web.due


def test_no_producer_is_told_twice_in_a_period_nor_late(web: TimedWeb) -> None:
    """Whatever else is watched meanwhile."""
    for producer in (ATKA, ETNA):
        reads(web, producer, 0, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    told_at: dict[str, list[float]] = {ATKA: [], ETNA: []}
    for tenth in range(1, 60):
        if tenth % 3 == 0:
            watches(web, stream, *([ATKA, ETNA] if tenth % 2 else [ETNA, ATKA]))
        for producer in (ATKA, ETNA):
            reads(web, producer, tenth)
        for now, seconds in ((tenth - 1, 0), (tenth, 0.1)):
            passes(web, seconds)
            for producer, _ in told(browser):
                told_at[producer].append(now / 10)
    for times in told_at.values():
        assert {round(b - a, 1) for a, b in pairwise(times)} == {1.0}


@pytest.mark.parametrize(("every", "most"), [("1s", 12), ("100ms", 82)])
def test_a_client_that_names_others_all_the_time_causes_few_looks(web: TimedWeb, every: str, most: int) -> None:
    """Hazard 14: nor afterwards."""
    ids = [f"2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c{number:04x}" for number in range(200)]
    _, stream = opens(web, f"{WHERE}&every={every}")
    for many in range(200):
        watches(web, stream, *ids[: many + 1])
        passes(web, 0.0037)
    before = web.called
    passes(web, 1)
    assert 1 <= web.called - before <= most


def test_the_period_is_changed(web: TimedWeb) -> None:
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA, every="5s")
    passes(web, 0)
    reads(web, ATKA, 2)
    passes(web, 4.5)
    assert told(browser) == [(ATKA, 1)]
    watches(web, stream, ATKA, every=0.5)
    passes(web, 0)
    assert told(browser) == [(ATKA, 2)]
    reads(web, ATKA, 3)
    passes(web, 0.5)
    assert told(browser) == [(ATKA, 3)]


def test_a_producer_that_is_not_known_yet(web: TimedWeb) -> None:
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    passes(web, 1)
    assert told(browser) == []
    reads(web, ATKA, 1, Kind="so2")
    passes(web, 1)
    assert told(browser) == [(ATKA, 1)]
    web.asks("DELETE", f"/v1/producers/{ATKA}")
    reads(web, ATKA, 1, Kind="so2")
    passes(web, 1)
    assert told(browser) == [(ATKA, 1)]


def test_many_are_told_in_slices_and_in_frames_of_bounded_size(web: TimedWeb) -> None:
    ids = [f"2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c{number:04x}" for number in range(MOST_ASKED)]
    for each in ids:
        reads(web, each, 1, Kind="so2", Note="x" * 1000)
    browser, stream = opens(web)
    steps: list[int] = []
    slices = web.service.slices = Slices()
    slices.put_off = lambda: steps.append(1)
    watches(web, stream, *ids)
    passes(web, 0)
    while slices.step():
        steps.append(1)
    assert len(steps) >= MOST_ASKED / LOOKED_AT_ONCE
    frames = [event for _, event in browser.events()]
    assert [each["id"] for event in frames for each in event["producers"]] == ids
    assert max(len(json.dumps(event)) for event in frames) < 2 * PIECE


def test_what_finds_no_room_is_told_later_as_it_is_then(web: TimedWeb) -> None:
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    limit = web.desk.node.namespaces.join("default").outbox_limit
    browser.session.outbox.push(b"x" * limit)
    watches(web, stream, ATKA)
    passes(web, 0)
    reads(web, ATKA, 2)
    assert browser.hears() == b"x" * limit
    passes(web, 1)
    assert told(browser) == [(ATKA, 2)]


BAD_BODIES = {
    "nothing": "",
    "a list": "[]",
    "no ids": '{"every": 1}',
    "another name": '{"ids": [], "group": "g"}',
    "ids of another kind": '{"ids": [1]}',
    "an id that is none": '{"ids": ["<img>"]}',
    "too many": json.dumps({"ids": [ATKA] * (MOST_ASKED + 1)}),
    "no period": '{"ids": [], "every": "soon"}',
    "a period that is too short": '{"ids": [], "every": 0.01}',
    "no period at all": '{"ids": [], "every": 0}',
    "one that is too long": '{"ids": [], "every": 1e9}',
    "a truth value": '{"ids": [], "every": true}',
    "not a number": '{"ids": [], "every": NaN}',
    "nested": "[" * 5000,
    "not UTF-8": '{"ids": ["\udcff"]}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_refused(web: TimedWeb, body: str) -> None:
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    data = body.encode("utf-8", "surrogateescape")
    assert web.asks("PUT", f"/v1/streams/{stream}", data).status == 400
    passes(web, 10)
    assert told(browser) == []


@pytest.mark.parametrize("name", ["x", "watch", "%2E", "A", "a.b", "*", "%3E", "a%00b", "a" * 65, "%E2%80%AE"])
def test_a_stream_that_there_is_not(web: TimedWeb, name: str) -> None:
    """Nor is anything else reached by its name."""
    opens(web)
    heard = web.desk.connect().say("SUB > 1\r\nSUB x 2\r\n")
    assert web.asks("PUT", f"/v1/streams/{name}", '{"ids": []}').status in (400, 404)
    assert heard.hears() == b""


@pytest.mark.parametrize("every", ["0", "50ms", "25h", "x"])
def test_a_period_that_no_stream_has(web: TimedWeb, every: str) -> None:
    assert web.asks("GET", f"/v1/stream?{WHERE}&every={every}").status == 400
    assert not web.service.streams


def test_the_end_leaves_nothing(web: TimedWeb) -> None:
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    watches(web, stream, ATKA)
    browser.session.close()
    assert browser.session.remove_consumers()
    assert not web.due
    assert not web.service.streams
    watches(web, stream, ATKA, status=404)


def test_a_set_without_a_period_watches_nothing(web: TimedWeb) -> None:
    browser = web.connect().sends("GET", f"/v1/stream?{WHERE}")
    assert [kind for kind, _ in browser.events()] == ["set"]
    assert not web.due


def test_it_is_no_message_of_the_namespace(web: TimedWeb) -> None:
    _, stream = opens(web)
    client = web.connect()
    counted = []
    for _ in range(2):
        assert client.asks("PUT", f"/v1/streams/{stream}", json.dumps({"ids": [ATKA]})).status == 204
        counted.append(web.desk.counters())
    assert counted[0] == counted[1]
    assert counted[0]["received"] == 0


USERS = {
    "boss": User("boss", "default", Permissions(), Permissions(), roles=frozenset({"admin"})),
    "sensor": User("sensor", "default", Permissions(allow=()), Permissions(allow=("open.>",))),
}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def test_only_what_the_user_may_receive(hot_path: HotPath) -> None:
    """A3, hazard 4: also while it is watched already."""
    web = TimedWeb(Desk(hot_path, authentication=True), USERS)
    for producer, topic in ((ATKA, "open/atka"), (ETNA, "hidden/etna")):
        fields = {"Fumarole_Producer": producer, "Fumarole_Metadata": '{"Kind": "so2"}', **bearer("boss")}
        assert web.asks("POST", f"/v1/topics/{topic}", "1", **fields).status == 202
    browser, stream = opens(web, **bearer("sensor"))
    assert web.asks("PUT", f"/v1/streams/{stream}", "{}").status == 401
    watches(web, stream, ATKA, ETNA, user="sensor")
    passes(web, 1)
    assert told(browser) == [(ATKA, 1)]
    for producer, topic in ((ATKA, "hidden/atka"), (ETNA, "open/etna")):
        web.asks("POST", f"/v1/topics/{topic}", "2", Fumarole_Producer=producer, **bearer("boss"))
    passes(web, 1)
    assert told(browser) == [(ETNA, 2)]


def test_namespaces_are_strangers(web: TimedWeb) -> None:
    """N2."""
    reads(web, ATKA, 1, Kind="so2")
    browser, stream = opens(web)
    assert web.asks("PUT", f"/v1/streams/{stream}?namespace=plant", json.dumps({"ids": [ATKA]})).status == 404
    passes(web, 1)
    assert told(browser) == []


@pytest.mark.parametrize("quotas", [Quotas(consumers=1), Quotas(consumers=0), Quotas(standing_cost=0)])
def test_a_stream_beyond_a_quota_leaves_nothing(hot_path: HotPath, quotas: Quotas) -> None:
    web = TimedWeb(Desk(hot_path, rules={"default": NamespaceRules(quota=quotas)}))
    browser = web.connect()
    for _ in range(3):
        assert browser.asks("GET", f"/v1/stream?{WHERE}&every=1s").status == 429
    assert not web.service.streams
    assert web.desk.counters()["consumers"] == 0


def test_a_client_that_leaves_before_the_answer_leaves_nothing(web: TimedWeb) -> None:
    confirmations = web.desk.node.confirmations
    waiting: list[Callable[[], None]] = []
    confirmations.after = lambda _ticket, call: waiting.append(call)  # type: ignore[method-assign, assignment]
    browser = web.connect().sends("GET", f"/v1/stream?{WHERE}&every=1s")
    assert web.service.streams
    browser.session.close()
    for call in waiting:
        call()
    assert browser.hears() == b""
    assert not web.service.streams
    assert not web.due
