"""Another node, as this one sees it: its four lanes, its pulse, its consumers, and what it knows of this node."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fumarole.cluster.contacts import seen_from_here
from fumarole.cluster.identity import BEATS, DATA
from fumarole.cluster.lane import Lane
from fumarole.cluster.pulse import Lateness, Pulse
from fumarole.cluster.registry import Others
from fumarole.core.publication import Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.outbox import Outbox, Overflow
from fumarole.protocols.cluster_protocol import (
    Beat,
    Changes,
    ClientsAnswered,
    ClientsClaimed,
    ClusterProtocolError,
    Counts,
    Doors,
    Echo,
    Frame,
    Heard,
    Hello,
    Known,
    LastAnswered,
    LastAsked,
    Leaving,
    Mark,
    Moved,
    Online,
    Producers,
    Refusal,
    Rest,
    RetainedMessages,
    Spoken,
    Whole,
    frame,
)

if TYPE_CHECKING:
    from fumarole.cluster.cluster import Cluster

SAID_AHEAD = 1024 * 1024
"""Bytes of a snapshot that wait in the outbox; the rest waits where it is."""


class NoOwner:
    """The owner of an outbox that no connection empties yet."""

    def flush(self) -> None:
        """There is no connection to send on."""


class Peer:
    """An outlet of the exchange: messages for its consumers leave here, on the data lane that this node dialed."""

    takes_nats_frames = True
    """The compiled loop writes into its outbox as into a client's."""
    echo = True

    def __init__(self, cluster: Cluster, hello: Hello) -> None:
        node = cluster.node
        self.cluster = cluster
        self.hello = hello
        self.name = self.label = hello.node
        self.clients = hello.clients
        self.address = hello.address
        """Where others reach it."""
        self.lanes: dict[tuple[bool, str], Lane] = {}
        """By whether this node dialed the lane, and the lane's name."""
        self.pulse = Pulse(cluster.now)
        self.lateness = Lateness()
        self.counters = node.parts.counters()
        """What its outbox had no room for."""
        self.outbox: Outbox = node.parts.outbox(
            cluster.link_limit, Overflow.DROP_OLDEST, self.counters, node.ready, NoOwner()
        )
        self.outbox.takes_headers = True
        self.outbox.doubted = True
        self.others = Others(node.namespaces, node.limits, self, cluster.warn)
        self.known: int | None = None
        """The latest change of this node that it has confirmed; None: it has not got all of them yet."""
        self.has_answered = False
        """Has it confirmed anything?"""
        self.is_whole = False
        """Has it sent its whole state?"""
        self.leaving = False
        self.received = 0
        """Messages that it forwarded to this node."""
        self.too_old = 0
        self.astray = 0
        """Of these, for a namespace that is not here any more."""
        self.unsent = 0
        """Messages that were still here when the link ended."""
        self.counted: dict[str, dict[str, int | dict[str, int]]] = {}
        """By namespace, what it has counted; only workers of one node tell each other."""
        self.resting: dict[tuple[str, str], float] = {}
        self._in_time: deque[Iterator[bytes]] = deque()
        """Frames that are made as there is room for them: the snapshot, and what follows it."""

    # An outlet of the exchange.

    def has_room(self, weight: int) -> bool:
        return self.outbox.has_room(weight)

    def accept(self, consumer: Consumer, publication: Publication) -> None:  # noqa: ARG002
        """A consumer elsewhere is never given a message here: its courier is."""
        raise AssertionError(consumer.pattern)

    def forward(self, courier: Consumer, key: bytes, publication: Publication) -> None:
        """One copy, for all its consumers and those groups that it was chosen for."""
        courier.accepted += 1
        self.outbox.push(self.cluster.encode(key, publication), courier)

    def tell(self, consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        """It knows its producers itself (C6)."""

    # Lanes.

    def is_settled(self) -> bool:
        """Does each know all that the other has?"""
        return self.is_whole and self.has_answered

    def clients_from_here(self) -> list[str]:
        """Where NATS clients reach it. If it listens on all its addresses, that is the host at which this node does."""
        host = self.address.rpartition(":")[0].strip("[]")
        return [seen_from_here(client, host) for client in self.clients]

    def is_linked(self) -> bool:
        """Can both say what they have to say?"""
        return len(self.lanes) == 4

    def attach(self, lane: Lane) -> None:
        """A lane has been opened."""
        self.lanes[lane.dialed, lane.name] = lane
        lane.peer = self
        if lane.dialed and lane.name == DATA:
            self._begin(lane)
        elif not lane.dialed and lane.name == DATA:
            lane.exchange = self.cluster.exchange(b"default")
            assert lane.exchange is not None
            lane.plans = lane.exchange.own_plans()

    def _begin(self, lane: Lane) -> None:
        """From here on the outbox of this peer leaves by this lane: first the whole state, then changes."""
        rest, owner = lane.outbox.take(), lane.outbox.owner
        self.outbox.owner = owner
        if self.outbox.size:
            self.outbox.clear()
        if rest:
            self.outbox.push(rest)
        lane.outbox = self.outbox
        owner.adopt(self.outbox)
        self.outbox.push(frame(Mark(self.cluster.now)))
        self.say_in_time(self._snapshot())

    def _snapshot(self) -> Iterator[bytes]:
        yield from map(frame, self.cluster.everything())
        # From here on it is waited for: what changes now may reach it only after it has let clients in. What has
        # changed before, it knows by then.
        self.known = self.cluster.ticket()
        yield frame(Whole(self.known))

    def say_in_time(self, frames: Iterator[bytes]) -> None:
        """Sends on the data lane, after what waits there already: state that may be too much to be sent at once.

        An empty frame says that to look for the next is work as well, and may wait for another time.
        """
        self._in_time.append(frames)
        self.advance()

    def advance(self) -> None:
        """Goes on with it while there is room."""
        while self._in_time and self.outbox.size < SAID_AHEAD and (True, DATA) in self.lanes:
            said = next(self._in_time[0], None)
            if said is None:
                self._in_time.popleft()
            elif said:
                self.outbox.push(said)
            else:
                break

    def say(self, what: Frame) -> None:
        """Sends on the data lane, if there is one."""
        if (True, DATA) in self.lanes:
            self.outbox.push(frame(what))

    def beat(self, now: float) -> None:
        lane = self.lanes.get((True, BEATS))
        if lane is not None:
            lane.push(Beat(now))
        self.say(Mark(now))

    def close(self) -> None:
        """It is gone, or is taken for it: nothing that is under way from it or to it counts any more."""
        for lane in list(self.lanes.values()):
            lane.close()
        self.lanes.clear()
        self.outbox.owner = NoOwner()
        self.outbox.doubted = True
        self.outbox.govern(0, Overflow.DROP_NEWEST, self.counters)
        self.unsent += self.outbox.messages()
        self.outbox.clear()

    # What it says.

    def take(self, lane: Lane, said: Frame) -> None:
        """A frame on an open lane. Raises ClusterProtocolError."""
        if not isinstance(said, PLACES[lane.dialed, lane.name]):
            raise ClusterProtocolError("a frame that has no place here")
        now = self.cluster.now
        match said:
            case Mark(time):
                lane.marked = time
            case Beat(time):
                self.lateness.beat(time, now)
                lane.push(Echo(time))
            case Echo(time):
                self.pulse.echo(time, now)
            case Changes(ticket, entries):
                for entry in entries:
                    self.others.apply(entry)
                self._answer(lane, ticket)
            case Whole(ticket):
                if self.is_whole:
                    raise ClusterProtocolError("everything was said already")
                self.is_whole = True
                lane.push(Known(ticket))
                self.cluster.joined(self)
            case Known(ticket):
                self._advance(ticket)
            case Leaving(ticket):
                if self.leaving:
                    raise ClusterProtocolError("it is leaving already")
                self.leaving = self.outbox.doubted = True  # from here on no group chooses it
                self.cluster.client_ids.evict(self.name)
                self.cluster.remove_consumers(self)
                self._answer(lane, ticket)
            case Counts(namespace, numbers):
                if len(self.counted) < MOST_COUNTED or namespace in self.counted:
                    self.counted[namespace] = numbers
            case Doors(clients):
                self.clients = clients
                self.cluster.changed()
            case Rest(namespace, group, seconds):
                self._rest(namespace, group, seconds if 0 < seconds < LONGEST_REST else LONGEST_REST)
            case Refusal(reason):
                self.cluster.warn("%s ended the link: %s", lane.whom(), ascii(reason[:128]))
                lane.close()
            case _:
                self._take_state(lane, said)

    def _take_state(self, lane: Lane, said: Frame) -> None:
        """Metadata, readings, retained messages and client ids of that node."""
        match said:
            case Producers():
                self.cluster.metadata.learn(said, self.name)
            case Moved():
                self.cluster.metadata.move(said)
            case Heard():
                self.cluster.metadata.heard(said)
            case Online():
                self.cluster.metadata.online(said, self.name)
            case Spoken():
                lane.deliver_reading(said)
            case RetainedMessages():
                self.cluster.fresh_state.learn(said)
            case LastAsked():
                self.cluster.fresh_state.answer(self, said)
            case LastAnswered():
                self.cluster.fresh_state.answered(self.name, said)
            case ClientsClaimed():
                self.cluster.client_ids.claimed(self, said)
            case ClientsAnswered():
                self.cluster.client_ids.answered(self.name, said)

    def _advance(self, ticket: int) -> None:
        """The peer knows this change of this node, and all before it."""
        if self.known is None or ticket > self.cluster.ticket():
            raise ClusterProtocolError("an answer to what was not said")
        self.has_answered = True
        before = self.known
        self.known = max(before, ticket)
        if not self.cluster.is_reached(before + 1):  # others cannot have been the last
            self.cluster.advance()

    def _answer(self, lane: Lane, ticket: int) -> None:
        if ticket and self.is_whole:
            lane.push(Known(ticket))

    def _rest(self, namespace: str, group: str, seconds: float) -> None:
        for member in self.others.members(namespace, group):
            member.resting = True
            self.resting[namespace, group] = self.cluster.now + seconds

    def tick(self, now: float) -> None:
        is_quiet = self.pulse.silence(now) > self.cluster.timing.doubt
        self.outbox.doubted = is_quiet or self.leaving or not self.is_linked()
        for (namespace, group), until in list(self.resting.items()):
            if now > until:
                del self.resting[namespace, group]
                for member in self.others.members(namespace, group):
                    member.resting = False

    def traffic(self) -> Counter[str]:
        """Messages to it and from it, and what became of some."""
        return Counter(
            {
                "forwarded": sum(courier.accepted for _, courier in self.others.couriers()),
                "received": self.received,
                "outbox full": self.counters.overflowed,
                "link lost": self.unsent,
                "too old": self.too_old,
                "no namespace": self.astray,
            }
        )

    def report(self, now: float) -> dict[str, Any]:
        """For people and scripts."""
        state = "doubted" if self.outbox.doubted else "live" if self.is_settled() else "joining"
        return {
            "node": self.name,
            "version": self.hello.version,
            "address": self.address,
            "state": "leaving" if self.leaving else state,
            "silence": round(self.pulse.silence(now), 3),
            "round_trip": round(self.pulse.round_trip, 6),
            "consumers": self.others.consumers,
            "behind": None if self.known is None else self.cluster.ticket() - self.known,
            "outbox": self.outbox.size,
            **traffic_report(self.traffic()),
        }


def traffic_report(traffic: Counter[str]) -> dict[str, Any]:
    """For people and scripts."""
    return {
        "forwarded": traffic["forwarded"],
        "received": traffic["received"],
        "dropped": {reason: traffic[reason] for reason in DROPPED},
    }


PLACES = {
    (False, DATA): (
        *(Mark, Changes, Whole, Leaving, Counts, Doors, Producers, Moved, Heard, Online, Spoken, Refusal),
        *(RetainedMessages, LastAsked, LastAnswered, ClientsClaimed, ClientsAnswered),
    ),
    (True, DATA): (Known, Rest, Refusal),
    (False, BEATS): (Beat, Refusal),
    (True, BEATS): (Echo, Refusal),
}
"""The frames that a peer may send on a lane, by whether this node dialed the lane, and the lane's name."""
DROPPED = ("outbox full", "link lost", "too old", "no namespace")
LONGEST_REST = 1.0
MOST_COUNTED = 10_000
