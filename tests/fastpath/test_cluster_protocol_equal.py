"""The compiled loops of a node in a cluster against the pure ones: what leaves for other nodes, and what comes from them.

Two peers are there without a network: consumers of theirs come and go at random, clients say what they say in
test_equal.py, and frames as nodes send them, and broken ones, come in. Every byte that leaves, for clients and for peers, and
every counter must be the same.
"""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.cluster.cluster import Cluster
from fumarole.cluster.identity import DATA, NONCE_BYTES, Identity
from fumarole.cluster.lane import Lane
from fumarole.cluster.peer import Peer
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.tracer import Tracer
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.protocols.cluster_protocol import Entry, Known, Mark, frame, message
from fumarole.sessions.stream import State
from tests.desk import Desk
from tests.fastpath.test_equal import CLIENTS, LIMITS, pattern, pieces, rules
from tests.fastpath.test_equal import step as client_step
from tests.random_examples import examples

NOBODY = Identity("nobody", "test", "0", 1)


class NoNetwork:
    def dial(self, address: str, lane: str) -> None:
        raise AssertionError(address)


class Wire:
    """The owner of a lane's outbox."""

    def flush(self) -> None:
        """What leaves waits until the test takes it."""

    def adopt(self, outbox: object) -> None:
        """It is the peer's."""


entry = st.builds(
    Entry,
    st.sampled_from(["default", "default", "other"]),
    pattern,
    st.sampled_from(["", "", "g", "h"]),
    st.integers(0, 3),
    st.just(""),
    st.just(None),
    st.sampled_from([(), (), ("a.b",)]),
)
forwarded = st.builds(
    message,
    st.sampled_from([b"a", b"a.b", b"a.b.c", b"b", b"", b"x.y.z", b"\xc3\xa4", b"\xff", b"a.*"]),
    st.sampled_from([b"default", b"default", b"default\x01g", b"default\x01g\x01h", b"default\x01q", b"nowhere"]),
    st.sampled_from([b"", b"", b"r", b"7", b"inbox.1"]),
    st.sampled_from([b"", b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"]),
    st.sampled_from([b"", b"hi", b"x" * 100, b"\r\n"]),
)
other_frame = st.sampled_from(
    [
        frame(Mark(1.0)),
        frame(Known(1)),
        b"MSG a default 2\nhi\r\n",
        b"MSG a default 3\r\nhi\r\n",
        b"MSG a  default 2\r\nhi\r\n",
        b"MSG a default -2\r\nhi\r\n",
        b"HMSG a default 5 2\r\nhi\r\n",
        b"MSG a default 9999999999\r\n",
        b"PING\r\n",
        b"CTL 1\r\n\xc1\r\n",
        b"CTL 99999999\r\n",
    ]
)
frames = st.lists(st.one_of(*[forwarded] * 12, other_frame), min_size=1, max_size=5).map(b"".join)
step = st.one_of(
    st.tuples(st.just("client"), client_step),
    st.tuples(st.just("client"), client_step),
    st.tuples(st.just("entry"), st.tuples(st.integers(0, 1), entry, st.just(0))),
    st.tuples(st.just("entry"), st.tuples(st.integers(0, 1), entry, st.just(0))),
    st.tuples(st.just("frames"), st.tuples(st.integers(0, 1), frames, st.integers(0, 2**32))),
    st.tuples(st.just("doubt"), st.tuples(st.integers(0, 1), st.booleans(), st.just(0))),
    st.tuples(st.just("rest"), st.tuples(st.integers(0, 1), st.sampled_from(["g", "h"]), st.just(0))),
)


class Table:
    """A desk with two peers."""

    def __init__(self, hot_path: HotPath, rule: NamespaceRules, tracer: Tracer | None = None) -> None:
        self.desk = Desk(hot_path, LIMITS, {"default": rule})
        if tracer is not None:
            self.desk.node.namespaces.trace(tracer)
        self.cluster = Cluster(self.desk.node, NOBODY, NoNetwork(), lambda: bytes(NONCE_BYTES), 1000.0)
        self.peers = [self._peer(name) for name in ("one", "two")]
        self.lanes = [self._lane(peer) for peer in self.peers]
        make = hot_path.peer_link_reader
        self.readers = [lane if make is None else make(lane) for lane in self.lanes]
        self.clients = [self.desk.connect(headers=number != 1) for number in range(CLIENTS)]

    def _peer(self, name: str) -> Peer:
        peer = Peer(self.cluster, Identity(name, "test", "0", 1).hello(DATA, bytes(NONCE_BYTES)))
        peer.outbox.doubted = False
        self.cluster.peers[name] = peer
        return peer

    def _lane(self, peer: Peer) -> Lane:
        lane = Lane(self.cluster, Wire())
        lane.name = DATA
        lane.state = State.OPEN
        lane._protocol.trusted = True
        peer.attach(lane)
        return lane

    def take(self, kind: str, what: Any) -> None:
        number, data, cuts = what
        if kind == "client":
            for piece in pieces(data, cuts):
                self.clients[number].say(piece)
        elif kind == "entry":
            if self.lanes[number].state is State.OPEN:
                self.peers[number].others.apply(data)
        elif kind == "doubt":
            self.peers[number].outbox.doubted = data
        elif kind == "rest":
            for member in self.peers[number].others.members("default", data):
                member.resting = True
        else:
            for piece in pieces(data, cuts):
                self.readers[number].receive_data(piece)
                while self.readers[number].unfinished:
                    self.readers[number].go_on()

    def seen(self) -> list[object]:
        return [
            [client.hears() for client in self.clients],
            [peer.outbox.take() for peer in self.peers],
            [(lane.state, lane.outbox.take()) for lane in self.lanes],
            [(peer.received, peer.too_old, peer.others.entries()) for peer in self.peers],
            [[(name, courier.accepted) for name, courier in peer.others.couriers()] for peer in self.peers],
            self.desk.counters(),
            sorted(exchange.name for exchange in self.desk.node.namespaces),
        ]


def play(hot_path: HotPath, rule: NamespaceRules, steps: list[tuple[str, Any]]) -> list[object]:
    table = Table(hot_path, rule)
    seen: list[object] = []
    for number, (kind, what) in enumerate(steps):
        table.take(kind, what)
        if number % 2:
            seen.append(table.seen())
    return [*seen, table.seen()]


@examples(400)
@given(rules, st.lists(step, max_size=14))
@example(
    NamespaceRules(),
    [
        ("entry", (0, Entry("default", "a", "", 1), 0)),
        ("entry", (0, Entry("default", "a", "g", 2), 0)),
        ("entry", (1, Entry("default", "a", "g", 1), 0)),
        ("client", (0, b"SUB a g 1\r\n" + b"PUB a 2\r\nhi\r\n" * 8, 0)),
        ("frames", (0, message(b"a", b"default\x01g", b"r", b"", b"hi") * 3, 0)),
    ],
)
def test_the_same_bytes_to_clients_and_peers(rule: NamespaceRules, steps: list[tuple[str, Any]]) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, rule, steps) == play(PLAIN, rule, steps)


def test_the_comparison_would_notice() -> None:
    steps: list[tuple[str, Any]] = [
        ("entry", (0, Entry("default", "a.*", "", 1), 0)),
        ("entry", (0, Entry("default", "a.b", "g", 1), 0)),
        ("client", (0, b"PUB a.b r 2\r\nhi\r\n", 0)),
        ("client", (1, b"SUB a.> 1\r\nSUB a.b h 2\r\n", 0)),
        ("frames", (1, message(b"a.b", b"default\x01h", b"", b"", b"yo"), 0)),
    ]
    for hot_path in (PLAIN, compiled()):
        assert hot_path is not None
        table = Table(hot_path, NamespaceRules())
        for kind, what in steps:
            table.take(kind, what)
        assert table.peers[0].outbox.take() == b"MSG a.b default\x01g r 2\r\nhi\r\n"  # one copy
        assert table.clients[1].hears() == b"MSG a.b 1 2\r\nyo\r\nMSG a.b 2 2\r\nyo\r\n"
        assert table.peers[1].outbox.take() == b""  # one hop
