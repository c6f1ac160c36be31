"""The compiled reader of readings against the pure session: the same values in, the same bytes out.

Publishers, one of whom may not publish everywhere; subscribers by query, some of which ask something of each reading (F6), one that may not see
everything, a group and NATS clients; readings in their usual form, with news about their producer, with the same again, odd and broken, cut
anywhere; outboxes so small that readings are dropped and diffs come late; quotas so small that news is refused.
"""

import math
import struct
from typing import Any

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.limits import Limits, Quotas
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.sessions.stream import Claim
from tests.desk import Desk, MsgPackClient
from tests.fastpath.test_equal import pieces
from tests.random_examples import examples

PUBLISHERS = 3
IDENTITIES = [f"2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e6{n}" for n in range(3)]
QUERIES: list[Any] = [
    "Room = '410'",
    "Room like '4%'",
    {"where": "Level > 3", "group": "g"},
    {"topic": "readings.>", "group": "g"},
    {"topic": "other.*"},
    {"where": "Room != '410'", "topic": f"readings.{IDENTITIES[0]}"},
    "Room = '410' and $value > 20",
    "$value > 20 and Room = '410'",
    {"where": "$value < 0 or Level > 3", "group": "g"},
    {"where": "$size > 3 and $topic like 'readings.%' and $.x is null", "topic": "readings.*"},
    f"$producer = '{IDENTITIES[1]}' and not $value between 1 and 100",
]

USER = User(
    "some",
    "default",
    publish=Permissions(deny=(f"readings.{IDENTITIES[1]}",)),
    subscribe=Permissions(deny=(f"readings.{IDENTITIES[0]}",)),
)
ODD_MAPS = [
    b"\x81\xa1a\x90\x01",
    b"\x81\xa1a\x80\x01",
    b"\x81\x01\x01\x01",
    b"\x81\xc0\x01\x01",
    b"\x81\xa1\xff\x01\x01",
    b"\x81\xa1a\xa3\xed\xa0\x80\x01",
    b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01",
    b"\x81\xa1a\xca\x7f\x80\x00\x00\x01",
    b"\x81\xa1a\xc1\x01",
    b"\x81\xa1a\xc4\x01a\x01",
    b"\x81\xa1a\x01\xa1a",
    b"\x81\xa1a\x01\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"\x82\xa4Room\xa3410\xa4Room\xa3411\x01",
    b"\x82\xa4Room\xa3410\xa4Room\xc0\x01",
    b"\x81\xd9\x04Room\xd9\x03411\x05",
    b"\x81\xda\x00\x04Room\xda\x00\x03410\x05",
    b"\xde\x00\x01\xa4Room\xa3410\x05",
    b"\x81\xa7_online\xc2\x05",
    b"\x84\xa1a\xd9\xfa"
    + b"x" * 250
    + b"\xa1b\xd9\xfa"
    + b"y" * 250
    + b"\xa1c\xd9\xfa"
    + b"z" * 250
    + b"\xa1d\xd9\xfa"
    + b"d" * 250
    + b"\x05",
]

identity = st.sampled_from([*IDENTITIES, *IDENTITIES, IDENTITIES[1].upper()])
value = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-200, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 21.5, 1e300, -5e-324]),
)
plain_reading: st.SearchStrategy[list[Any]] = st.tuples(identity, st.just({}), value).map(list)
news = st.dictionaries(
    st.sampled_from(["Room", "Level"]), st.sampled_from(["410", "411", "5", 4, 2.5, True, None]), min_size=1, max_size=2
)
more_news = st.dictionaries(
    st.sampled_from(["Room", "Level", "ä", 'a"b', "", "_online", *[f"k{n}" for n in range(14)]]),
    st.one_of(
        st.sampled_from(["410", "ä", 'a"b', "a\\b", "\n", "\x7f", "x" * 31, "x" * 32, "y" * 200, False, True, None]),
        value,
    ),
    max_size=16,
)
maps = st.one_of(
    st.tuples(news, value).map(lambda said: msgpack.packb(said[0]) + msgpack.packb(said[1])),
    st.tuples(more_news, value).map(lambda said: msgpack.packb(said[0]) + msgpack.packb(said[1])),
    st.tuples(news, value).map(lambda said: msgpack.packb(said[0]) + b"\xca" + struct.pack(">f", said[1] % 1e30)),
)
again = st.builds(
    lambda who, what, times: (b"\x93\xd9\x24" + who.encode() + what) * times,
    st.sampled_from(IDENTITIES),
    maps,
    st.integers(1, 4),
)
"""The same reading some times, with what it brings."""
reading = st.one_of(
    *[plain_reading.map(msgpack.packb)] * 5,
    st.tuples(identity, news, value).map(list).map(msgpack.packb),
    *[again] * 3,
    st.tuples(identity, value).map(
        lambda said: b"\x93" + msgpack.packb(said[0]) + b"\x80\xca" + struct.pack(">f", math.remainder(said[1], 1e30))
    ),
    st.builds(lambda who, v: msgpack.packb({"id": who, "value": v, "topic": "other.a"}), identity, value),
    identity.map(lambda who: msgpack.packb({"forget": who})),
)
broken = st.sampled_from(
    [
        b"\xc1",
        msgpack.packb([IDENTITIES[0], {}, math.nan]),
        msgpack.packb([IDENTITIES[0], {}, math.inf]),
        b"\x93\xd9\x24" + IDENTITIES[0].encode() + b"\x80\xca\x7f\x80\x00\x00",
        msgpack.packb([IDENTITIES[0], {}, "21.5"]),
        msgpack.packb([IDENTITIES[0], {}, True]),
        msgpack.packb([IDENTITIES[0], {}]),
        msgpack.packb([IDENTITIES[0], {"a": []}, 1]),
        msgpack.packb({"id": IDENTITIES[0], "value": 1, "topic": "a..b"}),
        b"\x93\xd9\x24" + b"\xff" * 36 + b"\x80\x01",
        b"\x93\xd9\x24" + b"x" * 36 + b"\x80\x01",
        *[b"\x93\xd9\x24" + IDENTITIES[0].encode() + rest for rest in ODD_MAPS],
        b"\xdb\xff\xff\xff\xff",
        b"\x9f" * 10,
    ]
)

said = st.lists(reading, min_size=1, max_size=30).map(b"".join)
step = st.tuples(
    st.integers(0, PUBLISHERS - 1),
    st.one_of(said, said, said, st.tuples(said, broken, said).map(b"".join)),
    st.integers(0, 2**32),
)
rules = st.builds(
    NamespaceRules,
    last=st.sampled_from(["retained", "all"]),
    overflow=st.sampled_from(Overflow),
    outbox=st.sampled_from([200, 400, 1000, 1 << 20]),
    quota=st.builds(Quotas, metadata_bytes=st.sampled_from([None, None, 60])),
)


def play(hot_path: HotPath, rule: NamespaceRules, steps: list[tuple[int, bytes, int]]) -> list[object]:
    """Everything that can be seen from outside."""
    desk = Desk(hot_path, Limits(metadata_keys=12), {"default": rule})
    nats = desk.connect(headers=True)
    nats.say(b"SUB readings.> 1\r\nSUB readings.* g 2\r\n")
    plain = desk.connect(headers=False)  # its second consumer has had enough after three, its third has a period
    plain.say(b"SUB readings.> 1\r\nSUB readings.* 2\r\nUNSUB 2 3\r\nSUB $EVERY.1s.readings.> 3\r\n")
    subscribers = [MsgPackClient(desk).say(query) for query in QUERIES]
    subscribers.append(allowed_some(desk).say("Room = '410'"))
    publishers = [*[MsgPackClient(desk) for _ in range(PUBLISHERS - 1)], allowed_some(desk)]
    everybody = [*publishers, *subscribers]
    seen: list[object] = []
    for who, data, cuts in steps:
        for piece in pieces(data, cuts):
            publishers[who].send(piece)
        if cuts % 3:
            seen.append([*(client.session.outbox.take() for client in everybody), nats.hears(), plain.hears()])
        if cuts % 5 == 0:
            desk.now += 1
            for client in everybody:
                client.session.tick(desk.now)
    for client in publishers:
        client.session.receive_eof()  # as the pump does
    seen.append([*(client.session.outbox.take() for client in everybody), nats.hears(), plain.hears()])
    seen.append([(client.session.close_expected(), client.session.outbox.overflowed) for client in everybody])
    seen.append([(k.accepted, k.dropped) for client in everybody for k in client.session._consumers.values()])
    exchange = desk.node.namespaces.join("default")
    seen.append([(p.identity, p.metadata, p.value, p.heard) for p in exchange.producers])
    seen.append(desk.counters())
    seen.insert(-1, desk.last_values())
    return seen


def allowed_some(desk: Desk) -> MsgPackClient:
    """A client whose user may not publish and see everything."""
    client = MsgPackClient(desk)
    client.session.claim = Claim(None, None, None)
    client.session.admit(USER)
    return client


FIRST = msgpack.packb([IDENTITIES[0], {"Room": "410"}, 1])
USUAL = msgpack.packb([IDENTITIES[0], {}, 21.5])
NEWS = [msgpack.packb([IDENTITIES[0], {"Room": room, "Level": 4.5, "ä": None}, 5]) for room in ("410", "411")]


@examples(200)
@given(rules, st.lists(step, max_size=8))
@example(
    NamespaceRules(), [(0, FIRST + USUAL * 3, 0), (0, USUAL * 3, 0), (0, USUAL[:20], 1), (0, USUAL[20:] + USUAL, 1)]
)
@example(
    NamespaceRules(), [(0, FIRST + NEWS[0] * 3 + NEWS[1], 0), (0, NEWS[1] + USUAL + NEWS[0], 1), (2, NEWS[0] * 3, 1)]
)
@example(NamespaceRules(outbox=200), [(0, FIRST + USUAL, 0), (0, USUAL * 20, 3), (0, FIRST, 3), (0, USUAL, 1)])
def test_the_same_bytes_out(rule: NamespaceRules, steps: list[tuple[int, bytes, int]]) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, rule, steps) == play(PLAIN, rule, steps)


def test_readings_with_metadata_stay_in_the_loop() -> None:
    """The session sees the first one only."""
    desk = Desk(compiled() or PLAIN)
    headers, plain = desk.connect(headers=True).say("SUB > 1\r\n"), desk.connect(headers=False).say("SUB > 1\r\n")
    room, publisher = MsgPackClient(desk).say("Room = '410'"), MsgPackClient(desk).send(FIRST)
    heard = headers.hears(), plain.hears(), room.hears()
    publisher.session.receive_data = None  # type: ignore[assignment, method-assign]
    publisher.send(NEWS[0] * 2 + NEWS[1][:60]).send(NEWS[1][60:] + NEWS[0])
    assert all(heard)
    said = [b'Metadata: {"Room": "%s", "Level": 4.5, "\\u00e4": null}\r\n' % each for each in (b"410", b"411")]
    frames = headers.hears()
    assert [frames.count(each) for each in said] == [3, 1]
    assert len(room.hears()) == 5
    assert plain.hears().count(b"\r\n5\r\n") == 4


def test_the_comparison_would_notice() -> None:
    """Readings do reach subscribers here, of both kinds, and through the compiled loop."""
    for hot_path in (PLAIN, compiled()):
        assert hot_path is not None
        seen = play(hot_path, NamespaceRules(), [(0, FIRST, 0), (0, USUAL * 2, 0)])[0]
        assert isinstance(seen, list)
        assert seen[PUBLISHERS].endswith(FIRST + USUAL * 2)
        assert (seen[-2].count(b" 1 60 64\r\n"), seen[-1].count(b" 1 4\r\n")) == (2, 2)
        asking = PUBLISHERS + QUERIES.index("Room = '410' and $value > 20")
        assert seen[asking].endswith(USUAL * 2)
        assert FIRST not in seen[asking]
