"""Answers come in the order of the questions, though some have to wait (C2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.node import Node
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.sessions.answers import MOST_HELD
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.stream import RemoteAddress

ENGINES = [pytest.param(PLAIN, id="plain"), pytest.param(compiled(), id="compiled")]


class Slow:
    """Confirmations of a cluster that takes its time."""

    def __init__(self) -> None:
        self.given = 0
        self.reached = 0
        self.waiting: list[tuple[int, Callable[[], None]]] = []

    def ticket(self) -> int:
        return self.given

    def is_reached(self, ticket: int) -> bool:
        return ticket <= self.reached

    def after(self, ticket: int, call: Callable[[], None]) -> None:
        self.waiting.append((ticket, call))

    def reach(self, ticket: int) -> None:
        self.reached = ticket
        due = [call for each, call in self.waiting if each <= ticket]
        self.waiting = [(each, call) for each, call in self.waiting if each > ticket]
        for call in due:
            call()


class Talk:
    """A client of a node in such a cluster."""

    def __init__(self, hot_path: HotPath) -> None:
        self.slow = Slow()
        namespaces = Namespaces(parts=hot_path.parts)
        node = Node("one", "0", namespaces=namespaces, parts=hot_path.parts, confirmations=self.slow)
        exchange = node.namespaces.join("default")
        exchange.consumer_changed = self._changed
        self.session = NatsSession(node, RemoteAddress("", 0, ""), 0.0, object())
        self._reader = self.session if hot_path.nats_reader is None else hot_path.nats_reader(self.session)
        self.session.outbox.take()

    def _changed(self, *_: object) -> None:
        self.slow.given += 1

    def say(self, data: bytes) -> bytes:
        self._reader.receive_data(data)
        while self._reader.unfinished:
            self._reader.go_on()
        return self.session.outbox.take()


@pytest.fixture(params=ENGINES)
def talk(request: pytest.FixtureRequest) -> Talk:
    made = Talk(request.param)
    assert made.say(b'CONNECT {"verbose":true}\r\n') == b"+OK\r\n"
    return made


def test_what_follows_a_pong_that_waits_waits_too(talk: Talk) -> None:
    assert talk.say(b"SUB a 1\r\nPING\r\nPUB b 2\r\nhi\r\nPING\r\n") == b"+OK\r\n"
    assert talk.say(b"SUB a.>.b 2\r\n") == b""
    talk.slow.reach(1)
    heard = talk.session.outbox.take()
    assert heard.startswith(b"PONG\r\n+OK\r\nPONG\r\n-ERR 'Permissions Violation for Subscription to")
    assert talk.say(b"PUB b 2\r\nhi\r\nPING\r\n") == b"+OK\r\nPONG\r\n"


def test_each_waits_for_its_own(talk: Talk) -> None:
    assert talk.say(b"SUB a 1\r\nPING\r\nSUB b 2\r\nPING\r\n") == b"+OK\r\n"
    talk.slow.reach(1)
    assert talk.session.outbox.take() == b"PONG\r\n+OK\r\n"
    talk.slow.reach(2)
    assert talk.session.outbox.take() == b"PONG\r\n"


def test_messages_do_not_wait(talk: Talk) -> None:
    assert talk.say(b"SUB a 1\r\nPING\r\nPUB a 2\r\nhi\r\n") == b"+OK\r\nMSG a 1 2\r\nhi\r\n"
    talk.slow.reach(1)
    assert talk.session.outbox.take() == b"PONG\r\n+OK\r\n"


@pytest.mark.parametrize(
    "asked", [b"PUB b 0\r\n\r\n", b"PING\r\n", b"SUB a 1\r\nPING\r\n"], ids=["PUB", "PING", "SUB, PING"]
)
def test_who_asks_too_much_meanwhile_is_cut_off(talk: Talk, asked: bytes) -> None:
    """Whatever it asks, and whether it waits for one change or for many."""
    heard = talk.say(b"SUB a 1\r\nPING\r\n")
    for _ in range(MOST_HELD // 5 // 1000 + 1):
        heard = talk.say(asked * 1000)
        if talk.session.close_expected():
            break
    assert heard == b"-ERR 'Too Many Unconfirmed Operations'\r\n"
    assert talk.session.close_expected()
    talk.slow.reach(talk.slow.given)
    assert talk.session.outbox.take() == b""
