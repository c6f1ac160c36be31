"""What the MQTT sessions of a node share: which session has which client id, and wills that wait.

A client id belongs to one connection of a namespace. A later CONNECT with the same id takes it over, and the older
connection ends (Q3). A will is published when its connection ends without a DISCONNECT. One with a delay waits here,
and the client's return cancels it. Very many clients may go at once, so wills are published in slices.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from fumarole.core.errors import FumaroleError
from fumarole.core.query.evaluation import Unprepared
from fumarole.exchange.client_ids import ClientClaim, Verdict
from fumarole.exchange.node import Node
from fumarole.protocols.mqtt_packets import Will
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.sessions.mqtt_broker_topics import BrokerTopics
from fumarole.sessions.mqtt_speaker import Speaker

if TYPE_CHECKING:
    from fumarole.sessions.mqtt import MqttSession

SHARED: Final = "mqtt"
MOST_DELAYED: Final = 65_536
"""Wills that wait for their time. More are published at once."""
MOST_DELAYED_BYTES: Final = 64 * 1024 * 1024
OTHER_USER: Final = "another user is connected with this client id"
LONGEST_DELAY: Final = 24 * 3600.0
"""Seconds. A longer delay is this one."""

DUE_AT_ONCE: Final = 1_000
"""Delayed wills that fall due in one slice."""
STALE: Final = 1_000
"""Times of wills that were cancelled, besides as many as there are wills; of more, all are taken out."""
TICK: Final = 0.5
"""Seconds that the time of a session may be behind: a will is published late rather than early."""

Key = tuple[str, str]
"""Namespace and client id."""


class LastWill(NamedTuple):
    """What a client wants published when it is gone."""

    key: Key
    speaker: Speaker
    will: Will


class Clients:
    """One for a node, whatever door its MQTT clients come in by."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: dict[Key, MqttSession] = {}
        self._due: deque[LastWill] = deque()
        self._is_publishing = self._is_looking = False
        self._delayed: dict[Key, tuple[int, LastWill]] = {}
        self._delayed_bytes = 0
        self._times: list[tuple[float, int, Key]] = []
        self._numbers = count()
        self._connected: Counter[str] = Counter()
        self._most: dict[str, int] = {}
        """The most at once of a namespace, since it had none."""
        self.broker_topics = BrokerTopics(self, node.version)
        self.taken_over = 0
        self.wills = 0
        """Published."""
        self.now = 0.0
        node.timers.append(self.tick)
        node.client_ids.holder = self

    def get(self, key: Key) -> MqttSession | None:
        """The session that has this client id."""
        return self._sessions.get(key)

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, namespace: str) -> int:
        """Clients of a namespace that are connected here."""
        return self._connected[namespace]

    def most_of(self, namespace: str) -> int:
        return self._most.get(namespace, 0)

    def take(self, key: Key, session: MqttSession) -> None:
        """The client is connected: an older session with its id is closed, and a waiting will is cancelled."""
        older = self._sessions.get(key)
        if older is not None:
            self.taken_over += 1
            older.take_over()
        self._come_back(key, session.user_name())
        if self._sessions.get(key) is None:
            self._connected[key[0]] += 1
            self._most[key[0]] = max(self.most_of(key[0]), self._connected[key[0]])
        self._sessions[key] = session

    def release(self, key: Key, session: MqttSession) -> None:
        """The connection is gone."""
        if self._sessions.get(key) is session:
            del self._sessions[key]
            self._connected[key[0]] -= 1
            if not self._connected[key[0]]:
                del self._connected[key[0]], self._most[key[0]]

    # The other nodes (exchange/client_ids.py).

    def claimed(self, claim: ClientClaim, node: str) -> Verdict:
        """A connection of another node claims an id."""
        key = claim.namespace, claim.client_id
        older, clock = self._sessions.get(key), self._node.namespaces.clock
        clock.see(claim.time)
        if older is None:
            self._come_back(key, claim.user)
            return Verdict.GRANTED
        is_later = (claim.time, node) > (older.claim_time, clock.node)
        if older.user_name() != claim.user:
            if not is_later:
                older.refuse(Reason.CLIENT_ID, OTHER_USER)
            return Verdict.OTHER_USER if is_later else Verdict.GRANTED
        if not is_later:
            return Verdict.TOO_LATE
        self.taken_over += 1
        older.take_over()
        self._come_back(key, claim.user)
        return Verdict.GRANTED

    def claims(self) -> Iterator[ClientClaim]:
        """All that stand here."""
        for (namespace, client_id), session in self._sessions.items():
            yield ClientClaim(namespace, client_id, session.user_name(), session.claim_time)

    # Wills.

    def bequeath(self, will: LastWill, delay: float, now: float) -> None:
        """To be published after so many seconds."""
        size = len(will.will.payload)
        has_room = len(self._delayed) < MOST_DELAYED and self._delayed_bytes + size <= MOST_DELAYED_BYTES
        if delay > 0 and has_room:
            number = next(self._numbers)
            self._delayed[will.key] = number, will
            self._delayed_bytes += size
            heappush(self._times, (now + min(delay, LONGEST_DELAY) + TICK, number, will.key))
            if len(self._times) > 2 * len(self._delayed) + STALE:
                self._times = [time for time in self._times if self._is_waiting(time)]
                heapify(self._times)
        else:
            self._publish(will)

    def _come_back(self, key: Key, user: str | None) -> None:
        """The client is here again: a will that waits is not published. That of another user is, at once."""
        will = self._cancel(key)
        if will is not None and (will.speaker.user.name if will.speaker.user else None) != user:
            self._publish(will)

    def _cancel(self, key: Key) -> LastWill | None:
        _, will = self._delayed.pop(key, (0, None))
        if will is not None:
            self._delayed_bytes -= len(will.will.payload)
        return will

    def tick(self, now: float) -> None:
        """Time passes: delayed wills fall due, and the broker's own topics are told."""
        self.now = now
        telling = self.broker_topics.tick(now)
        if telling is not None:
            self._node.namespaces.slices.begin(telling)
        if not self._is_looking:
            self._is_looking = True
            self._node.namespaces.slices.begin(self._fall_due())

    def _fall_due(self) -> Iterator[None]:
        """Very many may be due together: those of clients that one broken network had."""
        number = 0
        while self._times and self._times[0][0] <= self.now:
            time = heappop(self._times)
            if self._is_waiting(time):
                will = self._cancel(time[2])
                assert will is not None
                self._publish(will)
            number += 1
            if number % DUE_AT_ONCE == 0:
                yield
        self._is_looking = False

    def _is_waiting(self, time: tuple[float, int, Key]) -> bool:
        """Does a will wait for this time? Its client may have come back."""
        return self._delayed.get(time[2], (-1, None))[0] == time[1]

    def _publish(self, will: LastWill) -> None:
        self._due.append(will)
        if not self._is_publishing:
            self._is_publishing = True
            self._node.namespaces.slices.begin(self._publish_all())

    def _publish_all(self) -> Iterator[None]:
        yield  # in a turn of the loop of its own: so many connections may end in this one
        while self._due:
            will = self._due.popleft()
            try:
                self._publish_one(will)
            except Unprepared as change:
                self._due.appendleft(will)
                while change.evaluation.is_under_way:
                    yield
            yield
        self._is_publishing = False

    def _publish_one(self, last: LastWill) -> None:
        exchange = self._node.namespaces.get(last.key[0])
        if exchange is None:
            return  # its namespace has ended: it has no consumer
        speaker = last.speaker
        plans = exchange.plans(speaker.user.publish if speaker.user else None)
        try:
            speaker.publish(speaker.publication(last.will, exchange), exchange, plans, self.now)
            self.wills += 1
            self._node.journal.note(self.now, "will", last.key[0], last.key[1], last.will.topic)
        except FumaroleError:
            exchange.counters.refused += 1


def clients_of(node: Node) -> Clients:
    """Made for the first MQTT session of a node."""
    clients = node.shared.get(SHARED)
    if clients is None:
        clients = node.shared[SHARED] = Clients(node)
    assert isinstance(clients, Clients)
    return clients
