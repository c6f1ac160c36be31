"""What must hold of random conversations. Each check takes a seed, and raises AssertionError with what differs.

protocol   the parser: the same bytes whole, byte by byte, and cut anywhere give the same events and last words
hot_paths    plain and compiled: after every step the same bytes wait for every client, and the same was counted
outbox     the compiled outbox, read through a real socket: whole frames in order, the missing ones counted
…          every other parser on bytes that are almost right (parsers.py)
equal_…    plain and compiled: the tests of tests/fastpath, on input that hypothesis makes of random bytes (equal.py)
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.consumer import Outlet
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.protocols.nats import Event, ServerProtocol
from tests.desk import Client, Desk, events_of
from tests.fuzz import equal, parsers
from tests.fuzz.conversations import Speaker, Step, conversation, cut

LIMITS = Limits(control_line=512, payload=4096, consumers_per_connection=6, outbox=2000, idle=60.0)
RULES = {
    "newest": NamespaceRules(overflow=Overflow.DROP_NEWEST, outbox=600),
    "cut": NamespaceRules(overflow=Overflow.DISCONNECT, outbox=900),
    "wide": NamespaceRules(grammar=Grammar.CHANNEL, outbox=1500),
    "tiny": NamespaceRules(outbox=150),
}
USERS = {
    "free": User("free", "default"),
    "limited": User(
        "limited",
        "default",
        publish=Permissions(allow=("a.>", "b", "r"), deny=("a.c",)),
        subscribe=Permissions(allow=("a.>", "in.*", "r"), deny=("a.b.*",)),
    ),
}


def compiled_engine() -> HotPath:
    hot_path = compiled()
    assert hot_path is not None, "the compiled fast path is not built: `make setup` says why"
    return hot_path


# The parser.


def check_protocol(seed: int) -> None:
    chance = random.Random(seed)
    speaker = Speaker(chance, chance.choice([0.0, 0.3, 1.0]), [""])
    said = speaker.greeting(False) + speaker.operations(chance.randrange(1, 30))
    expected = heard_in_pieces([said])
    for pieces in ([said[at : at + 1] for at in range(len(said))], cut(chance, said), cut(chance, said)):
        assert heard_in_pieces(pieces) == expected, f"cut into {[len(piece) for piece in pieces]}"


def heard_in_pieces(pieces: list[bytes]) -> tuple[list[Event], bytes, bool]:
    protocol = ServerProtocol(LIMITS)
    return events_of(protocol, *pieces), protocol.data_to_send(), protocol.close_expected()


# The hot_paths.


class Replay:
    """One hot_path going through the steps of a conversation."""

    def __init__(self, hot_path: HotPath, authentication: bool) -> None:
        self.desk = Desk(hot_path, LIMITS, RULES, authentication=authentication)
        self.clients: list[Client] = []
        self.heard: list[bytes] = []

    def do(self, step: Step) -> None:
        if step.do == "come":
            self.clients.append(Client(self.desk))
            self.heard.append(b"")
        elif step.client < len(self.clients):
            self._do(step, self.clients[step.client])
        self._flush()

    def _do(self, step: Step, client: Client) -> None:
        session = client.session
        if step.do == "say":
            client.say(step.data)
        elif step.do == "read":
            self.heard[step.client] += session.outbox.take(step.number)
        elif step.do == "end":
            session.receive_eof()
        elif step.do == "admit" and session.claim is not None:
            session.admit(USERS.get(session.claim.user or ""))
        elif step.do == "leave":
            session.close()
            session.remove_consumers()
        elif step.do == "tick":
            self.desk.now += step.number
            for each in self.clients:
                each.session.tick(self.desk.now)

    def _flush(self) -> None:
        """What the pump does with those who do not read."""
        self.desk.node.ready.clear()
        for client in self.clients:
            if client.session.outbox.overflowed:
                client.session.fail("Slow Consumer")

    def state(self) -> list[Any]:
        """Everything that can be seen from outside, short of what waits in the outboxes."""
        exchanges = sorted(self.desk.node.namespaces, key=lambda exchange: exchange.name)
        consumers = [
            sorted(
                (each.key, each.pattern, each.group, each.accepted, each.dropped)
                for each in client.session._consumers.values()
            )
            for client in self.clients
        ]
        sessions = [
            (client.session.state, client.session.claim, client.session.outbox.size, client.session.outbox.overflowed)
            for client in self.clients
        ]
        return [self.heard, sessions, consumers, [exchange.report() for exchange in exchanges]]

    def waiting(self) -> list[bytes]:
        return [client.session.outbox.take() for client in self.clients]


def check_hot_paths(seed: int) -> None:
    authentication, steps = conversation(seed)
    replay_both(authentication, steps)


def replay_both(authentication: bool, steps: list[Step]) -> None:
    plain, fast = Replay(PLAIN, authentication), Replay(compiled_engine(), authentication)
    for number, step in enumerate(steps):
        plain.do(step)
        fast.do(step)
        # Of pieces that were cut from one whole, only the last is looked at closely.
        following = steps[number + 1] if number + 1 < len(steps) else None
        if following is None or (step.do, step.client) != (following.do, following.client):
            assert fast.state() == plain.state(), f"after step {number}, {step}"
    assert fast.waiting() == plain.waiting()


def shortest(authentication: bool, steps: list[Step]) -> list[Step]:
    """Leaves out of a failing conversation whatever is not needed for it to fail."""
    size = max(len(steps) // 2, 1)
    while True:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if _fails(authentication, fewer):
                steps = fewer
            else:
                at += size
        if size == 1:
            return steps
        size //= 2


def _fails(authentication: bool, steps: list[Step]) -> bool:
    try:
        replay_both(authentication, steps)
    except Exception:  # noqa: BLE001 - whatever it is that fails
        return True
    return False


# The compiled outbox and a socket.


def check_outbox(seed: int) -> None:
    chance = random.Random(seed)
    parts = compiled_engine().parts
    counters = parts.counters()
    limit = chance.choice([500, 5_000, 40_000, 100_000])
    outbox: Any = parts.outbox(limit, chance.choice([Overflow.DROP_OLDEST, Overflow.DROP_NEWEST]), counters, [], None)
    consumers = [parts.consumer(cast(Outlet, _Nowhere()), "a", "", b"%d" % n) for n in range(3)]
    here, there = socket.socketpair()
    try:
        for end in (here, there):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        pushed: list[bytes] = []
        received = bytearray()
        for number in range(chance.randrange(50, 400)):
            action = chance.random()
            if action < 0.6:
                consumer = chance.choice([None, *consumers]) if outbox.size < limit else chance.choice(consumers)
                frame = _frame(chance, number, consumer is None)
                pushed.append(frame)
                outbox.push(frame, consumer)
            elif action < 0.8:
                outbox.send(here.fileno())
            else:
                received += _read(there, chance.randrange(1, 8000))
        while not outbox.send(here.fileno()):
            received += _read(there, 100_000)
        received += _read(there, 1 << 20)
    finally:
        here.close()
        there.close()
    frames = _frames(bytes(received))
    order = {frame: at for at, frame in enumerate(pushed)}
    assert all(frame in order for frame in frames), "a frame that nobody pushed, or half of one"
    messages = [frame for frame in frames if frame[:1] == b"M"]
    assert sorted(messages, key=order.__getitem__) == messages, "out of order"
    controls = [frame for frame in frames if frame[:1] == b"C"]
    assert controls == [frame for frame in pushed if frame[:1] == b"C"], "a control frame was dropped"
    assert len(messages) + counters.overflowed == sum(frame[:1] == b"M" for frame in pushed)
    assert sum(consumer.dropped for consumer in consumers) == counters.overflowed
    assert outbox.size == 0


class _Nowhere:
    echo = True
    label = ""


def _frame(chance: random.Random, number: int, control: bool) -> bytes:
    length = chance.choice([0, 10, 100, 1000, 10_000]) if not control else 5
    return b"%b%06d %06d\n" % (b"C" if control else b"M", number, length) + bytes(length)


def _frames(data: bytes) -> list[bytes]:
    frames = []
    while data:
        length = 15 + int(data[8:14])
        frames.append(data[:length])
        data = data[length:]
    return frames


def _read(end: socket.socket, most: int) -> bytes:
    data = b""
    while len(data) < most:
        try:
            data += end.recv(most - len(data))
        except BlockingIOError:
            break
    return data


CHECKS: dict[str, Callable[[int], None]] = {
    "protocol": check_protocol,
    "hot_paths": check_hot_paths,
    "outbox": check_outbox,
    **{name: partial(parsers.check, name) for name in parsers.TARGETS},
    **{name: partial(equal.check, name) for name in equal.TESTS},
}
