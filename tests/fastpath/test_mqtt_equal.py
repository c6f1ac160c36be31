"""The compiled reader of the MQTT door against its session: the same packets in, the same bytes out.

Packets are drawn at random, usual and odd and broken, from clients of both versions in turn and a NATS client, cut into
pieces at random. Every byte that would leave, and every counter, must be the same.
"""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.fastpath.hot_path import PLAIN, HotPath, compiled
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import Packet, Property
from fumarole.protocols.mqtt_packets import V3, V5, Filter, Publish, Subscribe, Unsubscribe
from fumarole.sessions.mqtt import Terms
from tests.desk import Client, Desk, MqttClient
from tests.fastpath.test_equal import pieces
from tests.random_examples import examples

LIMITS = Limits(control_line=200, payload=300, consumers_per_connection=20)
VERSIONS = (V5, V3, V5, V5)
"""Of the clients that send packets; the third describes itself, the fourth takes few bytes and topic aliases."""
NATS = len(VERSIONS)
IDENTITY = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"

name = st.sampled_from(["a", "a/b", "a/b/c", "b", "/a", "a//b", "x-1/y_2", "T" * 150])
odd_name = st.sampled_from(["ä/b", "a.b", "$SYS/x", "$EMPTY", "$FUM/metadata", "a b", "a%2E", "T" * 1100, "+/a", "a\0"])
payload = st.one_of(
    st.binary(max_size=12), st.sampled_from([b"21.5", b"-3", b"", b"x" * 130, b'{"a": 1}', b"x" * 300, b"y" * 4000])
)
qos = st.sampled_from([0, 0, 0, 0, 1, 1, 2])
packet_id = st.integers(1, 5)
users = st.sampled_from([[("a", "1")], [("Producer", IDENTITY)], [("Producer", "x"), ("traceparent", "y")]])
properties: st.SearchStrategy[dict[int, Any]] = st.one_of(
    st.just({}),
    st.just({}),
    st.fixed_dictionaries({Property.TOPIC_ALIAS: st.sampled_from([1, 2, 2, 3, 64, 65, 0])}),
    st.fixed_dictionaries(
        {},
        optional={
            Property.TOPIC_ALIAS: st.sampled_from([1, 2]),
            Property.USER: users,
            Property.CONTENT_TYPE: st.just("text/plain"),
            Property.MESSAGE_EXPIRY: st.integers(0, 9),
            Property.RESPONSE_TOPIC: st.just("r/1"),
        },
    ),
)
rarely = st.integers(0, 9).map(lambda number: number == 0)
publish = st.builds(
    Publish, st.one_of(name, name, name, name, odd_name), payload, qos, rarely, rarely, packet_id, properties
)
aliased = st.builds(
    lambda topic, load, alias, which: Publish(topic, load, which, False, False, 1, {Property.TOPIC_ALIAS: alias}),
    st.one_of(st.just(""), name),
    payload,
    st.integers(1, 3),
    st.sampled_from([0, 0, 1]),
)
text = st.sampled_from(
    [
        "a",
        "a/+",
        "a/#",
        "#",
        "+",
        "+/b",
        "/#",
        "$share/g/a/#",
        "$share/h/#",
        "a/b",
        "$LAST/a/#",
        "a/#/b",
        "$SYS/#",
        "+/+",
    ]
)
asked = st.builds(Filter, text, st.integers(0, 2), rarely, st.booleans(), st.integers(0, 2))
subscribe = st.builds(
    lambda number, filters, identifier: Subscribe(
        number, tuple(filters), {Property.SUBSCRIPTION_IDENTIFIER: identifier} if identifier else {}
    ),
    packet_id,
    st.lists(asked, min_size=1, max_size=3),
    st.sampled_from([0, 0, 0, 1, 300]),
)
unsubscribe = st.builds(
    lambda number, filters: Unsubscribe(number, tuple(filters), {}), packet_id, st.lists(text, min_size=1, max_size=2)
)
answer = st.tuples(st.sampled_from([Packet.PUBACK, Packet.PUBREC, Packet.PUBREL, Packet.PUBCOMP]), packet_id)
odd = st.sampled_from(
    [
        packets.PINGREQ,
        packets.PINGREQ,
        packets.disconnect(),
        b"\x30\xff\xff\xff\xff\x01",
        b"\x30\x80",
        b"\x30\x81",
        b"\x38\x04\x00\x01a\x00",
        b"\x36\x04\x00\x01a\x00",
        b"\x30\x02\x00\x01",
        b"\x32\x05\x00\x01a\x00\x00",
        b"\x30\xff\xff\x7f\x00",
        b"\x30\x05\x00\x01a\x02\x01",
        b"\x30\x00",
        b"\x00\x00",
        b"\xf0\x00",
        b"\x10\x02",
    ]
)
packet = st.one_of(publish, publish, publish, publish, aliased, aliased, subscribe, subscribe, unsubscribe, answer, odd)
line = st.sampled_from(
    [
        b"SUB > 1\r\n",
        b"SUB a.> g 2\r\n",
        b"SUB a.b 3\r\nUNSUB 3 2\r\n",
        b"PUB a.b 4\r\n21.5\r\n",
        b"PUB a 0\r\n\r\n",
        b"PUB a..b 2\r\nhi\r\n" * 30,
        b"PUB %41 2\r\nhi\r\n",
        b"PUB a r 2\r\nhi\r\n",
        b"HPUB a.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HPUB a 26 27\r\nNATS/1.0\r\nMqtt-Qos: 1\r\n\r\nx\r\n",
        b"UNSUB 1\r\n",
    ]
)
step = st.one_of(
    st.tuples(st.integers(0, NATS - 1), st.lists(packet, min_size=1, max_size=6), st.integers(0, 2**32)),
    st.tuples(st.just(NATS), st.lists(line, min_size=1, max_size=3), st.integers(0, 2**32)),
)
rules = st.builds(
    NamespaceRules,
    st.sampled_from([Grammar.STRICT, Grammar.STRICT, Grammar.CHANNEL, Grammar.OPEN]),
    st.sampled_from(Overflow),
    st.sampled_from([400, 2000, 1 << 20]),
    last=st.sampled_from(["retained", "all"]),
)


def written(event: Any, version: int) -> bytes:
    """As a client sends it. What cannot be written at all is left out."""
    try:
        match event:
            case Publish():
                event = event._replace(dup=event.dup and event.qos > 0, packet_id=event.packet_id if event.qos else 0)
                return packets.publish(event, version)
            case Subscribe():
                return packets.subscribe(event, version)
            case Unsubscribe():
                return packets.unsubscribe(event, version)
            case (kind, number):
                return packets.answer(kind, number)
    except KeyError:
        return b""
    assert isinstance(event, bytes)
    return event


def play(hot_path: HotPath, rule: NamespaceRules, most: int, steps: list[Any]) -> list[object]:
    """Everything that can be seen from outside."""
    desk = Desk(hot_path, LIMITS, {"default": rule})
    terms = Terms(max_qos=most)
    clients: list[Any] = [
        MqttClient(desk, V5, terms, client_id="one", receive_maximum=2),
        MqttClient(desk, V3, terms, client_id="two"),
        MqttClient(desk, V5, terms, client_id="three", metadata=[("site", "Atka")]),
        MqttClient(desk, V5, terms, client_id="four", maximum_packet_size=100, topic_alias_maximum=2),
        Client(desk),
    ]
    clients[NATS].say('CONNECT {"headers": true}\r\n')
    seen: list[object] = []
    for who, said, cuts in steps:
        data = b"".join(each if who == NATS else written(each, VERSIONS[who]) for each in said)
        for piece in [data[at : at + 1] for at in range(len(data))] if cuts % 7 == 0 else pieces(data, cuts):
            clients[who].say(piece) if who == NATS else clients[who].send(piece)
        if cuts % 3:
            seen.append([client.session.outbox.take() for client in clients])
    seen.append([client.session.outbox.take() for client in clients])
    seen.append([(client.session.close_expected(), client.session.outbox.overflowed) for client in clients])
    seen.append([(k.key, k.accepted, k.dropped) for client in clients for k in client.session._consumers.values()])
    seen.append(desk.counters())
    seen.insert(0, desk.last_values())
    (exchange,) = desk.node.namespaces
    seen.append({each: (known.value, known.metadata) for each, known in exchange.producers.known.items()})
    return seen


@examples(400)
@given(rules, st.sampled_from([2, 2, 2, 1, 0]), st.lists(step, max_size=12))
def test_the_same_bytes_out(rule: NamespaceRules, most: int, steps: list[Any]) -> None:
    fast = compiled()
    assert fast is not None
    assert play(fast, rule, most, steps) == play(PLAIN, rule, most, steps)


def one(topic: str, load: bytes = b"21.5", which: int = 0, **given: Any) -> Publish:
    return Publish(
        topic, load, which, False, False, 7, {Property[name.upper()]: value for name, value in given.items()}
    )


WIDE = [
    (0, [Subscribe(1, (Filter("a/#", 0), Filter("#", 0, no_local=True)), {Property.SUBSCRIPTION_IDENTIFIER: [5]})], 0),
    (1, [Subscribe(1, (Filter("a/#", 1), Filter("$share/g/#", 0)), {})], 0),
    (2, [Subscribe(1, (Filter("#", 0, no_local=True),), {})], 0),
    (3, [Subscribe(1, (Filter("+/b", 0),), {})], 0),
    (NATS, [b"SUB > 1\r\nSUB a.> g 2\r\nSUB > 3\r\nUNSUB 3 4\r\n"], 0),
]
many = st.lists(
    st.tuples(
        st.integers(0, NATS - 1),
        st.lists(st.tuples(st.one_of(publish, aliased), st.integers(1, 25)), min_size=1, max_size=4),
        st.integers(0, 2**32),
    ),
    min_size=1,
    max_size=4,
)
"""Publishes as a busy client sends them: the same ones, many times in a row."""


@examples(200)
@given(rules, many)
@example(NamespaceRules(), [(0, [(one("a/b", which=1), 3), (one("", topic_alias=1), 2)], 1)])
def test_the_same_bytes_out_of_many_in_a_row(rule: NamespaceRules, said: list[Any]) -> None:
    fast = compiled()
    assert fast is not None
    steps = WIDE + [(who, [each for each, times in runs for _ in range(times)], cuts) for who, runs, cuts in said]
    assert play(fast, rule, 2, steps) == play(PLAIN, rule, 2, steps)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("who", range(NATS))
@pytest.mark.parametrize("cuts", [0, 7, 4_000_000_001])
def test_what_a_busy_client_sends_is_the_same(who: int, which: int, cuts: int) -> None:
    fast = compiled()
    assert fast is not None
    said = [one("a/b", which=which), one("a", which=which), one("q" * 1024, which=which), one("a/b", b"x" * 250, which)]
    if VERSIONS[who] == V5:
        said += [one("a/c", topic_alias=1), one("", topic_alias=1), one("a/c", topic_alias=1), one("b", topic_alias=1)]
    steps = [*WIDE, (who, said * 3, cuts), (NATS, [b"PUB a.b 4\r\n21.5\r\n"], cuts)]
    heard = play(fast, NamespaceRules(), 2, steps)
    assert heard == play(PLAIN, NamespaceRules(), 2, steps)
    assert any(isinstance(each, list) and all(each) for each in heard[:-4])  # a comparison of silences proves nothing


def test_a_long_subscribe_gives_others_their_turn() -> None:
    """Its filters are taken in parts, and what follows waits for them."""
    filters = tuple(Filter(f"f/{number}", 0) for number in range(3000))
    data = written(Subscribe(1, filters, {}), V5) + written(one("f/1"), V5)
    for hot_path in (PLAIN, compiled()):
        assert hot_path is not None
        desk = Desk(hot_path, Limits(consumers_per_connection=5000))
        client = MqttClient(desk, V5, client_id="one")
        client.reader.receive_data(data[:-3])
        turns = 1
        while client.reader.unfinished:
            client.reader.go_on()
            turns += 1
        assert turns > 10
        client.reader.receive_data(data[-3:])
        suback, message = client.hears()
        assert set(suback.reasons) == {0}
        assert message.payload == b"21.5"


kept = st.builds(
    lambda topic, load, which, given_: Publish(topic, load, which, True, False, 1 if which else 0, given_),
    st.one_of(name, name, name, odd_name.filter(lambda topic: "+" not in topic and "\0" not in topic)),
    payload.filter(bool),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([{}, {}, {}, {Property.MESSAGE_EXPIRY: 9}, {Property.USER: [("a", "1")]}]),
)


@examples(60)
@given(
    rules,
    st.lists(kept, min_size=1, max_size=8),
    st.lists(asked, min_size=1, max_size=2),
    st.sampled_from([0, 1, 300]),
    st.sampled_from([{}, {}, {"topic_alias_maximum": 2}, {"maximum_packet_size": 60}]),
)
def test_what_is_retained_is_sent_as_the_same_bytes(
    rule: NamespaceRules, said: list[Publish], filters: list[Filter], identifier: int, given_: dict[str, Any]
) -> None:
    fast = compiled()
    assert fast is not None
    given_5: dict[int, Any] = {Property.SUBSCRIPTION_IDENTIFIER: [identifier]} if identifier else {}
    heard: list[object] = []
    for hot_path in (fast, PLAIN):
        desk = Desk(hot_path, LIMITS, {"default": rule})
        publisher = MqttClient(desk, V5, client_id="publisher")
        for each in said:
            publisher.send(written(each, V5))
        for version in (V3, V5):
            client = MqttClient(desk, version, client_id=f"{version}", **(given_ if version == V5 else {}))
            client.send(written(Subscribe(1, tuple(filters), given_5), version))
            client.send(written(Subscribe(2, (Filter("#", 0),), given_5), version))
            heard.append(client.raw())
            heard.append([(k.accepted, k.dropped) for k in client.session._consumers.values()])
        heard.append(desk.counters())
    assert heard[: len(heard) // 2] == heard[len(heard) // 2 :]
    assert any(isinstance(each, bytes) and each for each in heard)
