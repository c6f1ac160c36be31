"""The compiled reader, outbox, plans and groups against the pure ones: the same bytes in, the same bytes out.

This is where the fast loop is held equal to the slow one. Operations are drawn at random, well-formed and odd and
broken, from several clients in turn, cut into pieces at random; every byte that would leave, and every counter, must
be the same.
"""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from tests.desk import Client, Desk
from tests.random_examples import examples

CLIENTS = 4
LIMITS = Limits(control_line=200, payload=300, consumers_per_connection=20)
READING = b'NATS/1.0\r\nProducer: 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60\r\nMetadata: {"a": 1}\r\n\r\n'

topic = st.sampled_from(["a", "a.b", "a.b.c", "b", "b.c", "abc", "$EMPTY", "ä", "a..b", "x.y.z"])
pattern = st.sampled_from(["a", "a.*", "a.>", ">", "*", "*.b", "a*", "*c", "$EMPTY", "b.c", "a.>.b", "a..b", "ä"])
odd_topic = st.sampled_from(["a.*", ">", "$SYS", "$FUM.stats", "a\x00", "a\xff", "", "a\tb", "A" * 150, "A" * 300])
reply = st.one_of(st.just(""), st.just(""), st.sampled_from(["r", "inbox.1", "7", "r*", "$x", "ä", "a"]))
sid = st.integers(1, 4).map(str)
payload = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"", b"x" * 100, b"\r\n", b"PING\r\n", b"x" * 300, b"y" * 301])
)
space = st.sampled_from([" ", " ", " ", "  ", "\t", " \t "])
line_end = st.sampled_from(["\r\n", "\r\n", "\r\n", "\n"])


@st.composite
def publish(draw: st.DrawFn) -> bytes:
    body, gap = draw(payload), draw(space)
    name = draw(st.one_of(topic, topic, topic, odd_topic))
    answer = draw(reply)
    words = [draw(st.sampled_from(["PUB", "PUB", "PUB", "pub", "Pub"])), name, *([answer] if answer else [])]
    block = b""
    if draw(st.integers(0, 3)) == 0:
        block = draw(st.sampled_from([b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", READING, b""]))
        words[0] = draw(st.sampled_from(["HPUB", "HPUB", "hpub"]))
        words.append(draw(st.sampled_from(["", "", "", "0"])) + str(len(block)))
    size = len(block) + len(body)
    words.append(
        draw(st.sampled_from([str(size)] * 12 + [f"00{size}", f"{size} ", "-1", "x", "9999999999", str(size + 1)]))
    )
    end = draw(st.sampled_from([b"\r\n"] * 20 + [b"\n", b"xx"]))
    return gap.join(words).encode("latin-1") + draw(line_end).encode() + block + body + end


many = st.builds(
    lambda runs: b"".join(f"PUB {name} {len(body)}\r\n{body}\r\n".encode() * times for name, body, times in runs),
    st.lists(st.tuples(topic, st.sampled_from(["", "21.5", "x" * 100]), st.integers(1, 25)), min_size=1, max_size=3),
)
"""Publishes as a busy client sends them: the same ones, many times in a row."""
subscribe = st.builds(
    lambda gap, p, group, s, end: (gap.join(["SUB", p, *([group] if group else []), s]) + end).encode(),
    space,
    pattern,
    st.sampled_from(["", "", "g", "h", "g*", "ä", "g@topic", "g@producer"]),
    sid,
    line_end,
)
unsubscribe = st.builds(
    lambda s, after: f"UNSUB {s}{after}\r\n".encode(),
    sid,
    st.sampled_from(["", " 0", " 1", " 3", " 10", " -1", " 9999999999"]),
)
connect = st.builds(
    lambda options: f"CONNECT {json.dumps(options)}\r\n".encode(),
    st.fixed_dictionaries(
        {},
        optional={
            "verbose": st.booleans(),
            "echo": st.booleans(),
            "headers": st.booleans(),
            "no_responders": st.booleans(),
        },
    ),
)
rare = st.sampled_from(
    [b"PING\r\n", b"PONG\r\n", b"ping\n", b"FOO\r\n", b"\r\n", b"CONNECT {\r\n", b"P" * 250, b"PUB a\r\n"]
)
operation = st.one_of(publish(), publish(), publish(), subscribe, subscribe, unsubscribe, connect, rare)
step = st.tuples(
    st.integers(0, CLIENTS - 1), st.lists(operation, min_size=1, max_size=6).map(b"".join), st.integers(0, 2**32)
)
rules = st.builds(
    NamespaceRules,
    st.sampled_from([Grammar.STRICT, Grammar.STRICT, Grammar.CHANNEL]),
    st.sampled_from(Overflow),
    st.sampled_from([250, 1000, 1 << 20]),
    last=st.sampled_from(["retained", "all"]),
)


def pieces(data: bytes, cuts: int) -> list[bytes]:
    """The data cut in up to four places that the number decides; mostly not at all."""
    places = sorted({(cuts >> (8 * n)) % (len(data) + 1) for n in range(cuts % 5)})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def play(hot_path: HotPath, rule: NamespaceRules, steps: list[tuple[int, bytes, int]]) -> list[object]:
    """Everything that can be seen from outside."""
    desk = Desk(hot_path, LIMITS, {"default": rule})
    clients = [desk.connect(headers=number != 1, no_responders=number == 2) for number in range(CLIENTS - 1)]
    clients.append(Client(desk))
    seen: list[object] = []
    for who, data, cuts in steps:
        for piece in pieces(data, cuts):
            clients[who].say(piece)
        if cuts % 3:
            seen.append([client.hears() for client in clients])
    seen.append([client.hears() for client in clients])
    seen.append([(client.session.close_expected(), client.session.outbox.overflowed) for client in clients])
    seen.append([(k.key, k.accepted, k.dropped) for client in clients for k in client.session._consumers.values()])
    seen.append(desk.counters())
    seen.insert(0, desk.last_values())
    return seen


@examples(300)
@given(rules, st.lists(step, max_size=12))
@example(NamespaceRules(), [(0, b"SUB a 1\r\nPUB a 2\r\nhi\r\nPUB a 300\r\n" + b"x" * 300 + b"\r\n", 4_000_000_004)])
@example(NamespaceRules(), [(0, b"SUB a 1\r\n", 0), (0, b"UNSUB 1 2\r\n" + b"PUB a 1\r\nx\r\n" * 4, 0)])
@example(NamespaceRules(), [(2, b"SUB r 1\r\nPUB none r 1\r\nx\r\nHPUB none r 3 4\r\nabcd\r\n", 0)])
@example(
    NamespaceRules(), [(0, b"SUB > 1\r\n" + b"PUB %b 1\r\nx\r\n" % (b"a" * length), 0) for length in range(192, 196)]
)
def test_the_same_bytes_out(rule: NamespaceRules, steps: list[tuple[int, bytes, int]]) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, rule, steps) == play(PLAIN, rule, steps)


wide = st.sampled_from(
    [
        b"SUB > 1\r\n",
        b"SUB a.> 2\r\n",
        b"SUB > g 3\r\n",
        b"SUB a g 12\r\n",
        b"SUB > g@topic 4\r\n",
        b"SUB a.> g@topic 5\r\n",
        b"SUB > g@producer 6\r\n",
        b"SUB a 1\r\nUNSUB 1 9\r\n",
    ]
)


@examples(200)
@given(
    rules,
    st.lists(st.tuples(st.integers(0, 2), wide, st.just(0)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 2), many, st.integers(0, 2**32)), min_size=1, max_size=4),
)
def test_the_same_bytes_out_of_many_in_a_row(
    rule: NamespaceRules, subscriptions: list[tuple[int, bytes, int]], steps: list[tuple[int, bytes, int]]
) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, rule, subscriptions + steps) == play(PLAIN, rule, subscriptions + steps)


@examples(200)
@given(
    rules,
    st.lists(st.tuples(st.integers(0, 2), wide, st.just(0)), min_size=1, max_size=6),
    st.lists(st.tuples(topic, st.integers(1, 20), st.binary(max_size=12)), min_size=1, max_size=8),
)
@example(NamespaceRules(), [(1, b"SUB a 1\r\nUNSUB 1 9\r\n", 0)], [("a", 40, b"x")])
def test_a_buffer_is_the_same_as_its_operations(
    rule: NamespaceRules, subscriptions: list[tuple[int, bytes, int]], said: list[tuple[str, int, bytes]]
) -> None:
    """What is read at once goes out as it would if it had been read one operation at a time."""
    operations = [
        f"PUB {name} {len(load)}\r\n".encode() + load + b"\r\n" for name, times, load in said for _ in range(times)
    ]
    for hot_path in (PLAIN, compiled()):
        assert hot_path is not None
        whole = play(hot_path, rule, [*subscriptions, (0, b"".join(operations), 0)])
        assert whole == play(hot_path, rule, [*subscriptions, *((0, operation, 0) for operation in operations)])


def test_the_comparison_would_notice() -> None:
    """A comparison of two silences proves nothing: the usual operations do reach several clients here."""
    steps = [(0, b"SUB a.> 1\r\n", 0), (1, b"SUB a.* g 1\r\n", 0), (2, b"PUB a.b 2\r\nhi\r\n", 0)]
    for hot_path in (PLAIN, compiled()):
        assert hot_path is not None
        assert play(hot_path, NamespaceRules(), steps)[-4] == [
            b"MSG a.b 1 2\r\nhi\r\n",
            b"MSG a.b 1 2\r\nhi\r\n",
            b"",
            play(hot_path, NamespaceRules(), [])[-4][3],  # type: ignore[index]
        ]
