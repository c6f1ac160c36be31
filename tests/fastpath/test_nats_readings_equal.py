"""The compiled reader of readings from NATS clients against the pure session: the same bytes in, the same bytes out.

Publishers with different options and permissions, NATS consumers with headers and without, a group, subscribers by query of
the MsgPack door, some of which ask something of each reading (F6). Headers in their usual form, odd, doubled and broken;
metadata that brings something, nothing, or what is refused; everything cut anywhere.
"""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.sessions.stream import Claim
from tests.desk import Client, Desk, MsgPackClient
from tests.fastpath.test_equal import pieces
from tests.random_examples import examples

IDENTITIES = [f"2f1c0a52-6d0f-{version}c8e-9a5e-3b1f7d2c4e6{n}" for n, version in enumerate([4, 5, 4])]
STRANGER = "2f1c0a52-6d0f-1c8e-9a5e-3b1f7d2c4e60"
QUERIES: list[Any] = [
    "Room = '410'",
    {"where": "Level > 3", "group": "g"},
    {"topic": "readings.>"},
    {"where": "Room != '410'", "topic": "a.*"},
    "Room = '410' and $value > 20",
    {"where": "$value < 0 or Level > 3", "group": "g"},
    {"where": "$size > 3 and $topic like 'a%' and $.x is null"},
    "$.x > 1 and Level > 3",
    "$.x < 0 or $.x is null or $.x = 'a'",
]
PUBLISHERS: list[dict[str, Any]] = [
    {},
    {"echo": False},
    {"verbose": True},
    {"no_responders": True},
    {"headers": False},
]
DENIED = User("some", "default", publish=Permissions(deny=(f"readings.{IDENTITIES[1]}", "a.b")))

topic = st.sampled_from(["a", "a.b", "a.c", "readings.x", *[f"readings.{identity}" for identity in IDENTITIES]])
identity = st.sampled_from([*IDENTITIES * 4, IDENTITIES[0].upper(), STRANGER, IDENTITIES[0][:-1], "", "sensor", "ä"])
around = st.sampled_from([" "] * 8 + ["", "  ", "\t", "\x1c", " ", "\r "])
news = st.dictionaries(
    st.sampled_from(["Room", "Level", "ä"]), st.sampled_from(["410", "411", 4, 2.5, True, None]), max_size=2
)
metadata = st.one_of(
    news.map(json.dumps),
    news.map(json.dumps),
    st.sampled_from(
        ['{"Room": "410"}', "[]", "{", "", "null", '{"a": []}', '{"b": NaN}', '{"\\ud800": 1}', '{"x": 1e999}']
    ),
    st.sampled_from([json.dumps({"k" * 90: 1}), json.dumps({f"k{n}": n for n in range(9)}), "{}" + " " * 2000]),
)
value = st.one_of(
    st.integers(-200, 300).map(str),
    st.floats(-100, 100).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(
        ["21.5", "-0", "-0.0", "007", "0.1e3", "1e5", "-Infinity", "NaN", " 5 ", "5\x0b", "1.", ".5", "-", "--1"]
    ),
    st.sampled_from(
        ['{"x": 1}', '{"x": 2.5}', '{"x": -1, "x": 3}', '{"x": "a"}', '{"x": 7, "y": "ä"}', "[1]", "tr\\u00fc"]
    ),
    st.sampled_from(
        [
            '{"x": 123456789012345678}',
            '{"x": [1]}',
            '{"x": tru}',
            '{"x": false}',
            '{"y": 2}',
            "",
            "hello",
            "ä" * 300,
            "x" * 256,
            "x" * 257,
            "9" * 400,
            "0.0000000000000001",
        ]
    ),
    st.sampled_from(["123456789012345", "1234567890123456", "0.30000000000000004", "0.1234567890123456789012345"]),
)


@st.composite
def reading(draw: st.DrawFn) -> bytes:
    times = draw(st.sampled_from([1, 1, 1, 1, 0, 2]))
    lines = ["NATS/1.0", *[f"Producer:{draw(around)}{draw(identity)}{draw(around)}" for _ in range(times)]]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        lines.insert(draw(st.integers(1, len(lines))), f"Metadata:{draw(around)}{draw(metadata)}")
    if draw(st.integers(0, 4)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["Unit: celsius", "producer: x", "", ":"])))
    end = draw(st.sampled_from(["\r\n\r\n"] * 8 + ["", "\r\n", "\n"]))
    return publish(draw(topic), "\r\n".join(lines) + end, draw(value), draw(st.sampled_from(["", "", "", "r", "none"])))


def publish(name: str, block: str, payload: str, reply: str = "") -> bytes:
    head, body = block.encode("utf-8", "surrogatepass"), payload.encode()
    answer = f"{reply} " if reply else ""
    return f"HPUB {name} {answer}{len(head)} {len(head) + len(body)}\r\n".encode() + head + body + b"\r\n"


def usual(name: str, who: str, payload: str, brought: str = "") -> bytes:
    more = f"Metadata: {brought}\r\n" if brought else ""
    return publish(name, f"NATS/1.0\r\nProducer: {who}\r\n{more}\r\n", payload)


run = st.builds(
    lambda name, who, payload, brought, times: usual(name, who, payload, brought) * times,
    topic,
    st.sampled_from(IDENTITIES),
    value,
    st.one_of(st.just(""), metadata),
    st.integers(1, 20),
)
"""The same reading many times, as a busy sensor says it."""
other = st.sampled_from(
    [b"PUB a 2\r\nhi\r\n", b"SUB > 7\r\n", b"UNSUB 7\r\n", b"SUB a.> g 8\r\n", b"SUB r 9\r\n", b"PING\r\n"]
)
said = st.lists(st.one_of(reading(), reading(), run, run, other), min_size=1, max_size=6).map(b"".join)
change = st.sampled_from([*[f"forget {who}" for who in IDENTITIES], "watch", "leave", "tick"])
step = st.tuples(st.integers(0, len(PUBLISHERS)), said, st.integers(0, 2**32), st.one_of(st.just(""), change))
rules = st.builds(
    NamespaceRules,
    last=st.sampled_from(["retained", "all"]),
    overflow=st.sampled_from(Overflow),
    outbox=st.sampled_from([300, 1000, 1 << 20]),
)
Step = tuple[int, bytes, int, str]


def play(hot_path: HotPath, rule: NamespaceRules, steps: list[Step]) -> list[object]:
    """Everything that can be seen from outside."""
    desk = Desk(hot_path, Limits(metadata_keys=6, metadata_bytes=80), {"default": rule})
    publishers = [desk.connect(**options) for options in PUBLISHERS]
    publishers.append(denied(desk))
    consumers = [desk.connect(headers=number != 1) for number in range(3)]
    consumers[0].say(b"SUB > 1\r\n")
    consumers[1].say(b"SUB a.> 1\r\nSUB readings.* g 2\r\n")
    consumers[2].say(b"SUB readings.* g 2\r\nSUB a.b 3\r\nUNSUB 3 5\r\n")
    subscribers = [MsgPackClient(desk).say(query) for query in QUERIES]
    exchange = desk.node.namespaces.join("default")
    everybody: list[Client | MsgPackClient] = [*publishers, *consumers, *subscribers]
    seen: list[object] = []
    for who, data, cuts, what in steps:
        for piece in pieces(data, cuts):
            publishers[who].say(piece)
        if what.startswith("forget"):
            exchange.producers.forget(what.partition(" ")[2])
        elif what == "watch":
            everybody.append(MsgPackClient(desk).say(f"Level > {len(everybody)}"))
        elif what == "leave":
            subscribers[who].session.close()
        elif what == "tick":
            desk.now += 1
            for client in everybody:
                client.session.tick(desk.now)
        if cuts % 3:
            seen.append([client.session.outbox.take() for client in everybody])
    seen.append([client.session.outbox.take() for client in everybody])
    seen.append([(client.session.close_expected(), client.session.outbox.overflowed) for client in everybody])
    seen.append([(k.accepted, k.dropped) for client in everybody for k in client.session._consumers.values()])
    seen.append([(p.identity, p.metadata, repr(p.value), p.heard) for p in exchange.producers])
    seen.append(desk.counters())
    seen.insert(-1, desk.last_values())
    return seen


def denied(desk: Desk) -> Client:
    """A client whose user may not publish everywhere."""
    client = Client(desk)
    client.session.claim = Claim(None, None, None)
    client.session.admit(DENIED)
    client.say(b'CONNECT {"verbose":false,"headers":true}\r\n')
    client.hears()
    return client


A, B = IDENTITIES[0], IDENTITIES[1]


@examples(200)
@given(rules, st.lists(step, max_size=8))
@example(NamespaceRules(), [(0, usual("a.b", A, "21.5", '{"Room": "410"}') * 3 + usual("a.b", A, "7") * 3, 0, "")])
@example(NamespaceRules(), [(0, usual("a.b", A, "1") * 2, 0, f"forget {A}"), (0, usual("a.b", A, "2") * 2, 0, "")])
@example(NamespaceRules(), [(5, usual("a.c", A, "1") * 2 + usual("a.c", B, "1") * 2 + usual("a.b", A, "1") * 2, 0, "")])
@example(NamespaceRules(), [(0, usual("a.b", A, "x" * 257) * 3 + usual(f"readings.{A}", A, "ä" * 300) * 3, 0, "")])
@example(
    NamespaceRules(), [(3, b"SUB r 1\r\n" + publish("none", f"NATS/1.0\r\nProducer: {A}\r\n\r\n", "1", "r") * 3, 0, "")]
)
def test_the_same_bytes_out(rule: NamespaceRules, steps: list[Step]) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, rule, steps) == play(PLAIN, rule, steps)


def test_the_comparison_would_notice() -> None:
    """Readings do reach all kinds of consumers here, and through the compiled loop."""
    steps = [(0, usual("a.b", A, "21.5", '{"Room": "410"}') + usual("a.b", A, "22.5") * 2, 0, "")]
    for hot_path in (PLAIN, compiled()):
        assert hot_path is not None
        seen = play(hot_path, NamespaceRules(), steps)[0]
        assert isinstance(seen, list)
        consumers = len(PUBLISHERS) + 1
        assert seen[consumers].count(b"HMSG a.b 1") == 3
        assert seen[consumers + 1].count(b"\r\n22.5\r\n") == 2
        assert seen[consumers + 3].count(A.encode()) == 1 + 3


def test_readings_do_not_go_to_the_session_again() -> None:
    """The first one does; after it, neither others nor those with metadata that changes."""
    fast = compiled()
    assert fast is not None
    desk = Desk(fast)
    client = desk.connect()
    client.say(usual("a.b", A, "21.5"))
    taken: list[bytes] = []
    client.session.receive_data = taken.append  # type: ignore[method-assign, assignment]
    client.say(usual("a.b", A, "7") + usual("a.b", A, "7", '{"Room": 1}') * 2 + usual("a.c", A, "x", '{"Room": 2}'))
    assert taken == []
    client.say(usual("a.b", A, "7", '{"Room": []}'))
    assert b"".join(taken) == usual("a.b", A, "7", '{"Room": []}')  # what is wrong with it, the session says
