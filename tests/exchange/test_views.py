"""F7: a live view is what the definition says, its changes too; never an empty change, none lost."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from fumarole.core.query.errors import QueryError
from fumarole.core.query.view import arrays, content, diff, parse_view
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.readings import reading_topic
from fumarole.exchange.views import LiveView
from fumarole.fastpath.hot_path import PLAIN, HotPath
from tests.desk import Desk, MsgPackClient

VIEWS = [
    "select Room where Kind = 'a'",
    "select Room, Kind where Room != 'x' or Kind = 'b'",
    "select Room, count(*) where Kind = 'a'",
    "select Kind, Room, count(*) where Room is null or Kind = 'b'",
]


def identity(number: int) -> str:
    return str(UUID(int=(number << 80) | (4 << 76) | (8 << 60)))


class Client:
    """Takes changes while it has room."""

    def __init__(self) -> None:
        self.has_place = True
        self.told: list[dict[str, Any]] = []

    def say(self, change: dict[str, Any]) -> bool:
        if self.has_place:
            self.told.append(change)
        return self.has_place


def begin(exchange: Exchange, text: str, client: Client, sees: Permissions | None = None) -> tuple[LiveView, Consumer]:
    live = LiveView(exchange, parse_view(text), "", client.say)
    consumer = exchange.subscribe_view(live, sees)
    live.begin(consumer, client.told.append)
    return live, consumer


@pytest.mark.parametrize("text", VIEWS)
@pytest.mark.parametrize("seed", range(15))
def test_the_same_as_the_definition(seed: int, text: str) -> None:
    chance, exchange, client, view = Random(seed), Exchange("lab"), Client(), parse_view(text)
    producers = exchange.producers

    def change() -> None:
        one = identity(chance.randrange(6))
        if chance.random() < 0.1:
            producers.forget(one)
        else:
            keys = chance.sample(["Room", "Kind", "Other"], chance.randrange(3))
            producers.describe(one, {key: chance.choice(["a", "b", 1, True, 1.0, None]) for key in keys}, 0.0)

    for _ in range(10):
        change()
    live, consumer = begin(exchange, text, client)
    assert client.told.pop() == {"New": arrays(content(view, [each.metadata for each in producers])), "Del": []}
    told = live.content()
    for _ in range(60):
        client.has_place = chance.random() < 0.6
        change()
        now = content(view, [each.metadata for each in producers])
        assert live.content() == now
        if client.has_place:
            live.flush()
            expected = diff(told, now)
            said = [{"New": arrays(expected.new), "Del": arrays(expected.gone)}] if expected else []
            assert client.told == said
            client.told.clear()
            told = now
    exchange.unsubscribe(consumer)
    assert not producers.views
    assert not producers.queries


def test_a_change_of_a_key_that_is_not_shown_is_no_change() -> None:
    exchange, client = Exchange("lab"), Client()
    exchange.producers.describe(identity(1), {"Kind": "a", "Room": "410"}, 0.0)
    begin(exchange, "select Room where Kind = 'a'", client)
    exchange.producers.describe(identity(1), {"Other": 5}, 0.0)
    assert client.told == [{"New": [["410"]], "Del": []}]
    exchange.producers.describe(identity(1), {"Room": "411"}, 0.0)
    assert client.told[1:] == [{"New": [["411"]], "Del": [["410"]]}]


def test_only_producers_that_the_user_may_receive() -> None:
    exchange, client = Exchange("lab"), Client()
    for number in (1, 2):
        exchange.producers.describe(identity(number), {"Kind": "a", "Room": str(number)}, 0.0)
    sees = Permissions((reading_topic(identity(2)),))
    begin(exchange, "select Room where Kind = 'a'", client, sees)
    exchange.producers.describe(identity(1), {"Room": "9"}, 0.0)
    exchange.producers.describe(identity(3), {"Kind": "a", "Room": "3"}, 0.0)
    assert client.told == [{"New": [["2"]], "Del": []}]


def test_a_view_at_the_msgpack_door(hot_path: HotPath) -> None:
    desk = Desk(hot_path)
    publisher, view = MsgPackClient(desk), MsgPackClient(desk)
    publisher.say([identity(1), {"Kind": "t", "Room": "410"}, 1], [identity(2), {"Kind": "t", "Room": "410"}, 1])
    view.say("select Room, count(*) where Kind = 't'")
    assert view.hears() == [{"New": [["410", 2]], "Del": []}]
    publisher.say([identity(2), {"Room": None}, 1], [identity(1), {}, 5])
    assert view.hears() == [{"New": [[None, 1], ["410", 1]], "Del": [["410", 2]]}]
    view.session.close()
    view.session.remove_consumers()
    assert not view.session.node.namespaces.get("default").producers.views  # type: ignore[union-attr]


FAULTS = [
    ("no keys", "select where Kind = 't'", "a key"),
    ("a message", "select Room where $value > 5", ""),
    ("a field", "select $value where Kind = 't'", "a metadata key"),
    ("no end", "select Room", "where"),
    ("a thousand keys", f"select {', '.join(f'K{n}' for n in range(1_000))} where Kind = 't'", "at most 16"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_what_is_no_view_is_refused_with_its_place(text: str, expected: str) -> None:
    client = MsgPackClient(Desk(PLAIN))
    client.say(text)
    (answer,) = client.hears()
    assert expected in answer["Expected"]
    assert 0 <= answer["Position"] <= len(text)
    with pytest.raises(QueryError):
        parse_view(text)
    client.say("select Room where Kind = 't'")
    assert client.hears() == [{"New": [], "Del": []}]
