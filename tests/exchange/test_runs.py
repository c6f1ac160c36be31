"""A run is the same as its messages one by one, and is refused where it would not be."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.groups import turns
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.runs import Run, publish_run
from fumarole.fastpath.engine import PLAIN, Engine
from tests.desk import Client, Desk
from tests.exchange.fakes import Listener

MESSAGES = 20


class RunListener(Listener):
    """Remembers what it got, in runs too."""

    def accept_run(self, consumer: Consumer, run: Run) -> None:
        consumer.accepted += len(run)
        self.heard += [(consumer.key, topic.decode()) for topic in run.topics]


class World:
    """An exchange with two who hear everything and three who share it; `listeners` in that order."""

    def __init__(self, engine: Engine) -> None:
        self.exchange = Exchange("default", parts=engine.parts)
        self.listeners: list[Listener] = [RunListener(str(number)) for number in range(5)]
        self.consumers = [self.subscribe(each, "g" if at > 1 else "") for at, each in enumerate(self.listeners)]
        self.publisher: Listener = RunListener("publisher")

    def subscribe(self, listener: Listener, group: str = "", key: bytes = b"1") -> Consumer:
        consumer = self.exchange.consumer(listener, ">", group, key)
        self.exchange.subscribe(consumer)
        return consumer

    def publish_run(self) -> bool:
        run = Run([b"t.%d" % number for number in range(MESSAGES)], [b"x" * number for number in range(MESSAGES)])
        plan = self.exchange.plans().find(b"t.0")
        return publish_run(self.exchange.counters, plan, run, self.publisher)

    def publish_each(self) -> None:
        plan = self.exchange.plans().find(b"t.0")
        for number in range(MESSAGES):
            self.exchange.publish(plan, Publication(f"t.{number}", b"x" * number), self.publisher)

    def outcome(self) -> object:
        return (
            [listener.heard for listener in self.listeners],
            [consumer.accepted for consumer in self.consumers],
            self.exchange.report(),
        )


def _hears_itself_not(world: World) -> None:
    world.publisher = world.listeners[0]
    world.publisher.echo = False


def _nobody(world: World) -> None:
    for consumer in world.consumers:
        world.exchange.unsubscribe(consumer)


def _own_consumer(world: World) -> None:
    world.publisher = world.listeners[3]


def _two_groups(world: World) -> None:
    world.listeners.append(RunListener("other"))
    world.consumers.append(world.subscribe(world.listeners[-1], "h"))


@pytest.mark.parametrize(
    "arrange",
    [
        pytest.param(lambda _: None, id="the usual"),
        pytest.param(_hears_itself_not, id="the publisher consumes and wants no echo"),
        pytest.param(_own_consumer, id="the publisher is a member"),
        pytest.param(_two_groups, id="two groups"),
        pytest.param(_nobody, id="nobody is there"),
    ],
)
def test_the_same_as_one_by_one(engine: Engine, arrange: Callable[[World], None]) -> None:
    whole, single = World(engine), World(engine)
    for world in (whole, single):
        arrange(world)
    for _ in range(3):
        assert whole.publish_run()
        single.publish_each()
    assert whole.outcome() == single.outcome()


def _set(at: int, **values: object) -> Callable[[World], None]:
    def arrange(world: World) -> None:
        for name, value in values.items():
            setattr(world.consumers[at], name, value)

    return arrange


def _twice_on_one_connection(world: World) -> None:
    world.subscribe(world.listeners[0], key=b"2")


def _member_and_alone_on_one_connection(world: World) -> None:
    world.subscribe(world.listeners[4], key=b"2")


def _no_room(world: World) -> None:
    world.listeners[2].healthy = False


def _silent_member(world: World) -> None:
    world.publisher = world.listeners[2]
    world.publisher.echo = False


def _other_door(world: World) -> None:
    world.subscribe(Listener("takes no runs"))


@pytest.mark.parametrize(
    "arrange",
    [
        pytest.param(_twice_on_one_connection, id="two consumers on one connection"),
        pytest.param(_member_and_alone_on_one_connection, id="a member and a consumer on one connection"),
        pytest.param(_set(0, limit=7), id="a consumer that will have had enough"),
        pytest.param(_set(2, limit=7), id="a member that will have had enough"),
        pytest.param(_set(2, resting=True), id="a member that rests"),
        pytest.param(_no_room, id="a member without room"),
        pytest.param(_silent_member, id="the publisher is a member and wants no echo"),
        pytest.param(_other_door, id="somebody whose door takes no runs"),
    ],
)
def test_not_as_a_run(engine: Engine, arrange: Callable[[World], None]) -> None:
    world = World(engine)
    arrange(world)
    before = world.exchange.report()
    assert not world.publish_run()
    assert not any(listener.heard for listener in world.listeners)
    assert world.exchange.report() == before


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(0, 50))
def test_turns_are_those_of_choosing(start: int, members: int, messages: int) -> None:
    at_once, one_by_one = PLAIN.parts.group("g"), PLAIN.parts.group("g")
    at_once.turn = one_by_one.turn = start
    consumers = tuple(Consumer(Listener(), ">", "g", b"%d" % number) for number in range(members))
    chosen = [one_by_one.choose(consumers, 1, None) for _ in range(messages)]
    assert [consumers[place] for place in turns(at_once, members, messages)] == chosen
    assert at_once.turn == one_by_one.turn


topic = st.sampled_from(["a", "a", "a", "a.b", "b", "c", "a..b", "a*", "$EMPTY", "ä"])
subscription = st.sampled_from(
    [
        b"SUB a 1\r\n",
        b"SUB a.> 2\r\n",
        b"SUB > 1\r\n",
        b"SUB > g 3\r\n",
        b"SUB a g 12\r\n",
        b"SUB a h 4\r\n",
        b"SUB a 1\r\nUNSUB 1 9\r\n",
        b"SUB > g 3\r\nUNSUB 3 5\r\n",
    ]
)
publishes = st.lists(st.tuples(topic, st.integers(1, 20), st.binary(max_size=12)), max_size=8)


@settings(max_examples=300)
@given(
    st.sampled_from(Overflow),
    st.sampled_from([300, 3_000, 1 << 20]),
    st.lists(st.tuples(st.integers(0, 3), subscription), max_size=6),
    st.booleans(),
    publishes,
)
@example(Overflow.DROP_OLDEST, 1 << 20, [(1, b"SUB a 1\r\nUNSUB 1 9\r\n")], True, [("a", 40, b"x")])
def test_a_buffer_is_the_same_as_its_operations(
    overflow: Overflow,
    limit: int,
    subscriptions: list[tuple[int, bytes]],
    echo: bool,
    said: list[tuple[str, int, bytes]],
) -> None:
    """What is read at once goes out as it would if it had been read line by line."""
    operations = [
        f"PUB {name} {len(load)}\r\n".encode() + load + b"\r\n" for name, times, load in said for _ in range(times)
    ]
    seen = []
    for pieces in ([b"".join(operations)], operations):
        desk = Desk(PLAIN, rules={"default": NamespaceRules(overflow=overflow, outbox=limit)})
        clients: list[Client] = [desk.connect(echo=echo) for _ in range(4)]
        for who, line in subscriptions:
            clients[who].say(line)
        for piece in pieces:
            clients[0].say(piece)
        counts = [(c.key, c.accepted, c.dropped) for each in clients for c in each.session._consumers.values()]
        seen.append(([client.hears() for client in clients], counts, desk.counters()))
    assert seen[0] == seen[1]
