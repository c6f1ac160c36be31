"""What the node itself answers (T9), and readings of NATS clients (M8)."""

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.exchange.readings import Reading
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Client, Desk, MsgPackClient


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


def test_consumers(hot_path: HotPath) -> None:
    """L3: per consumer."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=1000)})
    slow, asking = desk.connect(name="slow one"), desk.connect()
    slow.say("SUB a.* g 1\r\nSUB b* 2\r\n")
    asking.say("SUB inbox 1\r\n" + f"PUB a.x 200\r\n{'x' * 200}\r\n" * 10)
    report = json.loads(asking.asks("PUB $FUM.consumers inbox 0\r\n\r\n").split(b"\r\n")[1])
    assert (report["namespace"], report["consumers"], report["looked_at"]) == ("default", 3, 3)
    worst = report["worst"][0]
    assert worst == {
        "connection": "1 slow one",
        "pattern": "a.*",
        "group": "g",
        "delivered": 4,
        "dropped": 6,
        "conflated": 0,
    }
    assert {each["pattern"] for each in report["worst"]} == {"a.*", "b*", "inbox"}


def test_stats(desk: Desk) -> None:
    """L3: asked for like anything else, of the own namespace only (N2)."""
    client, other = desk.connect(), desk.connect(user="lab")
    client.say("SUB inbox 1\r\nSUB a 2\r\nPUB a 2\r\nhi\r\nPUB nowhere 3\r\nabc\r\n")
    client.hears()
    said = client.asks("PUB $FUM.stats inbox 0\r\n\r\n")
    head, body, _ = said.split(b"\r\n")
    assert head.startswith(b"MSG inbox 1 ")
    report = json.loads(body)
    assert report["received"] == 2
    assert report["received_bytes"] == 5
    assert report["delivered"] == 1
    assert report["dropped"]["no consumer"] == 1
    assert report["consumers"] == 2
    body = other.asks("SUB inbox 1\r\nPUB $FUM.stats inbox 0\r\n\r\n").split(b"\r\n")[1]
    assert json.loads(body)["received"] == 0


PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


DEAR = "Kind = 'b' OR " + " OR ".join(f"None MATCHES 'x{number}'" for number in range(4))


def ask(client: Client, service: str, payload: str = "") -> dict[str, Any]:
    """A request to the node, and its answer."""
    said = client.asks(f"SUB answers 99\r\nPUB $FUM.{service} answers {len(payload)}\r\n{payload}\r\nUNSUB 99\r\n")
    head, body, _ = said.split(b"\r\n")
    assert head.startswith(b"MSG answers 99 ")
    answer: dict[str, Any] = json.loads(body)
    return answer


def reading(topic: str, value: str, metadata: str = "") -> str:
    block = f"NATS/1.0\r\nProducer: {PRODUCER}\r\n" + (f"Metadata: {metadata}\r\n" if metadata else "") + "\r\n"
    return f"HPUB {topic} {len(block)} {len(block) + len(value)}\r\n{block}{value}\r\n"


def test_a_message_with_a_producer_is_a_reading(desk: Desk) -> None:
    """M8."""
    client = desk.connect()
    said = client.asks("SUB volcanoes.* 1\r\n" + reading("volcanoes.atka", "21.5", '{"Kind": "a"}'))
    assert said.startswith(b"HMSG volcanoes.atka 1 ")
    assert said.endswith(b"\r\n\r\n21.5\r\n")
    answer = ask(client, "producers", "Kind = 'a'")
    known = {"id": PRODUCER, "metadata": {"Kind": "a", "_online": True}, "value": 21.5, "age": 0.0}
    assert answer == {"total": 1, "next": None, "producers": [known]}
    assert ask(client, "producers", "Kind = 'b'")["producers"] == []
    assert client.asks(reading("volcanoes.atka", "1", "{")).startswith(
        b'-ERR \'Permissions Violation for Publish to "volcanoes.atka": Invalid Reading: the'
    )
    assert ask(client, "forget", PRODUCER) == {"forgotten": True}
    assert ask(client, "forget", PRODUCER) == {"forgotten": False}
    assert "UUID" in ask(client, "forget", "x")["error"]


def test_a_reading_on_the_empty_topic(desk: Desk) -> None:
    """T9: like any other message there."""
    client = desk.connect(no_responders=True)
    subscriber = MsgPackClient(desk).say({"where": "Kind = 'a'", "topic": ""})
    said = client.asks("SUB $EMPTY 1\r\n" + reading("$EMPTY", "21.5", '{"Kind": "a"}'))
    assert said.startswith(b"HMSG $EMPTY 1 ")
    assert subscriber.hears()[1:] == [{"New": [PRODUCER], "Del": []}, [PRODUCER, {"Kind": "a"}, 21.5]]
    subscriber.session.close()
    client.say("UNSUB 1\r\nSUB answers 2\r\n")
    said = client.asks(reading("$EMPTY answers", "22"))
    assert b"NATS/1.0 503\r\nNats-Subject: $EMPTY\r\n" in said
    assert client.asks("PING\r\n") == b"PONG\r\n"


def test_no_reading_on_other_topics_of_the_server(desk: Desk) -> None:
    """T9."""
    said = desk.connect().asks(reading("$FUM.x", "1"))
    assert said == b"-ERR 'Permissions Violation for Publish to \"$FUM.x\"'\r\n"


@pytest.mark.parametrize(
    "metadata", [r'{"Kind": "a", "a": "\ud800"}', r'{"Kind": "a", "\udfff": 1}', f'{{"Kind": "a", "a": {10**30}}}']
)
def test_what_only_json_can_carry_is_refused(desk: Desk, metadata: str) -> None:
    """L1: and then nothing has happened."""
    subscriber = MsgPackClient(desk).say({"where": "Kind = 'a'", "topic": "t"})
    client = desk.connect()
    said = client.asks("SUB t 1\r\n" + reading("t", "1", metadata) + reading("t", "2", '{"Kind": "a"}'))
    assert said.startswith(b'-ERR \'Permissions Violation for Publish to "t": Invalid Reading: ')
    assert said.count(b"HMSG t 1 ") == 1
    assert subscriber.hears()[1:] == [{"New": [PRODUCER], "Del": []}, [PRODUCER, {"Kind": "a"}, 2]]
    assert desk.counters()["dropped"]["refused"] == 1


def test_a_number_that_is_too_large_is_text(desk: Desk) -> None:
    """M8: the payload stays as it is, a number or not."""
    subscriber = MsgPackClient(desk).say({"topic": "t"})
    desk.connect().say(reading("t", str(2**64 - 1)) + reading("t", str(2**64)) + reading("t", "9" * 400))
    assert [each[2] for each in subscriber.hears()[1:]] == [2**64 - 1, str(2**64), "9" * 400]


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (" -1.5e3 ", -1500.0),
        ("-0", 0),
        ("", ""),
        ("-", "-"),
        ("1 [[]]", "1 [[]]"),
        ("\x0b1", "\x0b1"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("true", "true"),
        ('"1"', '"1"'),
        ("[[],[]]", "[[],[]]"),
    ],
)
def test_the_value_is_a_number_where_json_says_so(desk: Desk, payload: str, value: float | str) -> None:
    subscriber = MsgPackClient(desk).say({"topic": "t"})
    desk.connect().say(reading("t", payload))
    assert subscriber.hears()[1:] == [[PRODUCER, {}, value]]


def test_metadata_is_as_long_in_json_as_it_can_be(hot_path: HotPath) -> None:
    """All that a producer may say of itself fits, in the longest way to write it, with as much that it takes back."""
    desk = Desk(hot_path, Limits(metadata_bytes=100))
    client = desk.connect()
    old, key, text = (rf"\u{ord(letter):04x}" * 50 for letter in "abc")
    longest = f'{{"{old}": null, "{key}": "{text}"}}'
    assert client.asks(reading("t", "1", '{"' + "a" * 50 + '": 1}') + reading("t", "1", longest)) == b""
    assert ask(client, "producers")["producers"][0]["metadata"] == {"b" * 50: "c" * 50, "_online": True}
    refused = client.asks(reading("t", "1", '{"a": 1' + " " * 1600 + "}"))
    assert refused.endswith(b": Invalid Reading: the header `Metadata` is longer than 1600 characters'\r\n")


def test_describe(desk: Desk) -> None:
    """What `$FUM.producers` answers can be said again elsewhere."""
    client = desk.connect()
    client.say(reading("a", "1", '{"Kind": "a", "Level": 9007199254740993}'))
    known = ask(client, "producers")
    ask(client, "forget", PRODUCER)
    assert ask(client, "describe", json.dumps(known)) == {"described": 1}
    assert ask(client, "producers")["producers"] == [{**known["producers"][0], "value": None, "age": None}]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("{", "expected a JSON object with `producers`"),
        ("[]", "expected a JSON object with `producers`"),
        ('{"producers": [1]}', "expected a JSON object with `producers`"),
        ('{"producers": [{"id": 1, "metadata": {}}]}', "UUID of version 4"),
        (f'{{"producers": [{{"id": "{PRODUCER}", "metadata": {{"a": [1]}}}}]}}', "neither text"),
        (f'{{"producers": [{{"id": "{PRODUCER}", "metadata": {{"a": NaN}}}}]}}', "not a finite number"),
        (f'{{"producers": [{{"id": "{PRODUCER}", "metadata": {{"a": {2**64}}}}}]}}', "whole numbers are from"),
        (f'{{"producers": [{{"id": "{PRODUCER}", "metadata": {{"a": "\\ud800"}}}}]}}', "half a surrogate pair"),
        (json.dumps({"producers": [{"id": PRODUCER, "metadata": {}}] * 101}), "at most 100 producers"),
        ("[" * 262_145, "at most 262144 characters"),
    ],
    ids=[
        "half",
        "list",
        "number",
        "no identity",
        "list of metadata",
        "NaN",
        "too large",
        "half a character",
        "too many",
        "too long",
    ],
)
def test_describe_refused(desk: Desk, payload: str, text: str) -> None:
    client = desk.connect()
    assert text in ask(client, "describe", payload)["error"]
    assert ask(client, "producers")["producers"] == []


def test_who_may_not_publish_may_neither_describe_nor_forget(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = Client(desk)
    client.say('CONNECT {"verbose":false}\r\n')
    client.hears()
    client.session.admit(User("ann", "lab", Permissions(("a.>",)), None))
    said = json.dumps({"producers": [{"id": PRODUCER, "metadata": {"a": 1}}]})
    refused = f"you may not publish to readings.{PRODUCER}"
    assert ask(client, "describe", said)["error"].startswith(refused)
    assert ask(client, "producers")["producers"] == []
    lab = desk.node.namespaces.get("lab")
    assert lab is not None
    lab.producers.describe(PRODUCER, {"a": 1}, 0.0)
    assert ask(client, "forget", PRODUCER)["error"].startswith(refused)
    assert len(ask(client, "producers")["producers"]) == 1


@pytest.mark.parametrize(
    ("topic", "publish", "speaks"),
    [
        ("site1.x", Permissions(("site1.>",)), False),
        ("site1.x", Permissions(deny=("readings.>",)), False),
        ("site1.x", Permissions(("site1.>", f"readings.{PRODUCER}")), True),
        ("site1.x", Permissions(deny=("site2.>",)), True),
        ("site1.x", None, True),
        (f"readings.{PRODUCER}", Permissions(("readings.>",)), True),
    ],
)
@pytest.mark.parametrize("metadata", ["", '{"Kind": null, "Room": "411"}'])
def test_who_speaks_for_a_producer(
    hot_path: HotPath, topic: str, publish: Permissions | None, speaks: bool, metadata: str
) -> None:
    """On every topic only who may publish on the producer's own; else nothing has happened."""
    desk = Desk(hot_path, authentication=True)
    owner, watcher, other = user(desk, None), MsgPackClient(desk).say({"token": "x"}), Client(desk)
    watcher.session.admit(User("cyd", "lab"))
    owner.say(reading("a", "1", '{"Kind": "a"}'))
    watcher.say("Kind = 'a'").hears()
    other.say('CONNECT {"verbose":false}\r\n').hears()
    other.session.admit(User("bob", "lab", publish))
    said, known = other.asks(reading(topic, "2", metadata)), ask(owner, "producers")["producers"]
    if speaks:
        assert said == b""
        assert known[0]["value"] == 2
    else:
        assert said.decode() == f"-ERR 'Permissions Violation for Publish to \"readings.{PRODUCER}\"'\r\n"
        assert (known[0]["metadata"], known[0]["value"]) == ({"Kind": "a", "_online": True}, 1)
        assert watcher.hears() == []
        assert desk.counters("lab")["dropped"]["refused"] == 1
    assert other.asks("PING\r\n") == b"PONG\r\n"


def user(desk: Desk, subscribe: Permissions | None, roles: frozenset[str] = frozenset()) -> Client:
    """A client that may publish everything, and receive this."""
    client = Client(desk)
    client.say('CONNECT {"verbose":false,"headers":true}\r\n')
    client.hears()
    client.session.admit(User("ann", "lab", None, subscribe, roles))
    return client


@pytest.mark.parametrize(
    ("topic", "subscribe", "is_told"),
    [
        ("secret.x", None, True),
        ("secret.x", Permissions(("answers",)), False),
        ("secret.x", Permissions(("answers", "secret.*")), True),
        ("secret.x", Permissions(deny=("secret.>",)), False),
        ("secret.x", Permissions(deny=("readings.>",)), False),
        ("secret.x", Permissions(("answers", "readings.*")), True),
        ("secret.x", Permissions(("answers", "readings.*"), ("secret.>",)), False),
        (f"readings.{PRODUCER}", Permissions(("answers", "readings.*")), True),
        (f"readings.{PRODUCER}", Permissions(deny=("readings.>",)), False),
    ],
    ids=[
        "all",
        "nothing",
        "allowed",
        "denied",
        "its own topic denied",
        "its own topic allowed",
        "its own topic allowed, the other denied",
        "its own topic",
        "its own topic alone",
    ],
)
def test_who_may_not_receive_readings_is_not_told_them(
    hot_path: HotPath, topic: str, subscribe: Permissions | None, is_told: bool
) -> None:
    """A3: its own topic or that of its latest reading is allowed, and neither is denied."""
    desk = Desk(hot_path, authentication=True)
    sensor, asking = user(desk, None), user(desk, subscribe)
    sensor.say(reading("open.y", "7", '{"Room": "vault"}') + reading(topic, "42"))
    told = {"id": PRODUCER, "metadata": {"Room": "vault", "_online": True}, "value": 42, "age": 0.0}
    total = 1 if subscribe is None else None
    answer = {"total": total, "next": None, "producers": [told] if is_told else []}
    for query in ("", "Room = 'vault'"):
        assert ask(asking, "producers", query) == answer


def test_who_may_know_few_of_many_producers_finds_all_of_those(hot_path: HotPath) -> None:
    """Page by page: those that are passed over are counted, so that no answer takes long."""
    desk = Desk(hot_path, authentication=True)
    asking = user(desk, Permissions(("answers", "open.*")))
    lab = desk.node.namespaces.get("lab")
    assert lab is not None
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(2_500)]
    for number, identity in enumerate(ids):
        lab.producers.hear(Reading(identity, {}, number), 0.0, "open.x" if number % 900 == 0 else "secret.x")
    assert [[each["id"] for each in page] for page in pages(asking)] == [[ids[0], ids[900], ids[1800]]]


def pages(client: Client, query: str = "") -> Iterator[list[dict[str, Any]]]:
    """All that it is told of producers, each answer when it is asked for."""
    skip: int | None = 0
    while skip is not None:
        answer = ask(client, "producers", json.dumps({"where": query, "skip": skip}))
        yield answer["producers"]
        skip = answer["next"]


@pytest.mark.parametrize("query", ["", "HAS Kind"])
def test_who_is_there_all_the_time_is_told_once(desk: Desk, query: str) -> None:
    """Whichever producers are forgotten, forgotten and back again, or new between two answers."""
    client, ids = desk.connect(), [f"{number:08}-0000-4000-8000-000000000000" for number in range(2_500)]
    (exchange,) = desk.node.namespaces
    for identity in ids:
        exchange.producers.describe(identity, {"Kind": "a"}, 0.0)
    told: list[str] = []
    for page in pages(client, query):
        told += [each["id"] for each in page]
        for identity in ids[50:100] if len(told) == 1_000 else ids[:50]:
            exchange.producers.forget(identity)
            exchange.producers.describe(identity, {"Kind": "a"}, 0.0)
    assert told[:2_500] == ids
    assert set(told[2_500:]) == set(ids[:100])


@pytest.mark.parametrize("text", ["x", "\u0001", "ü", "😀"], ids=ascii)
@pytest.mark.parametrize("outbox", [20_000, 1 << 22])
def test_answers_about_producers_that_say_much(hot_path: HotPath, text: str, outbox: int) -> None:
    """Each fits what the asker can receive; of a long text the beginning is kept, which is a bound too (L2)."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=outbox)})
    client = desk.connect()
    (exchange,) = desk.node.namespaces
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(300)]
    for identity in ids:
        metadata = {"Kind": text * 500}
        exchange.producers.hear(Reading(identity, metadata, text * 10_000), 0.0, f"logs.{identity[:8]}")
    told = [each for page in pages(client) for each in page]
    assert [each["id"] for each in told] == ids
    assert {each["value"] for each in told} == {f"{text * 256}…"}
    assert desk.counters()["dropped"]["outbox full"] == 0


def test_a_producer_that_alone_is_a_long_answer(desk: Desk) -> None:
    """Comes alone."""
    client, (exchange,) = desk.connect(), desk.node.namespaces
    for number in range(3):
        exchange.producers.restore(f"{number:08}-0000-4000-8000-000000000000", {"Kind": "x" * 600_000}, 0.0)
    assert [len(page) for page in pages(client)] == [1, 1, 1]


def test_where_a_producer_was_heard_last_is_what_counts(hot_path: HotPath) -> None:
    """Also where the compiled reader has heard it."""
    desk = Desk(hot_path, authentication=True)
    sensor = MsgPackClient(desk).say({"token": "x"})
    sensor.session.admit(User("bob", "lab"))
    own = user(desk, Permissions(("answers", "readings.>"), ("secret.>",)))
    secret = user(desk, Permissions(("answers", "secret.>")))

    def values() -> list[Any]:
        return [[each["value"] for each in ask(client, "producers")["producers"]] for client in (own, secret)]

    for said, expected in [
        ([PRODUCER, {"Kind": "a"}, 1], [[1], []]),
        ({"id": PRODUCER, "value": 2, "topic": "secret.x"}, [[], [2]]),
        ([PRODUCER, {}, 3], [[3], []]),
        ([PRODUCER, {}, 4], [[4], []]),
        ({"id": PRODUCER, "value": 5, "topic": "secret.y"}, [[], [5]]),
    ]:
        sensor.say(said)
        assert values() == expected


def test_where(desk: Desk) -> None:
    """Readings and diffs as JSON on topics of their own, until there is no subscriber any more."""
    client, sensor = desk.connect(), desk.connect()
    desk.connect().say("SUB elsewhere 1\r\n")
    answer = ask(client, "where", json.dumps({"where": "Kind = 'a'", "topic": "volcanoes.>"}))
    assert answer["New"] == []
    client.say(f"SUB {answer['topic']} 1\r\nSUB {answer['diffs']} 2\r\n")
    sensor.say(reading("volcanoes.atka", "1", '{"Kind": "a"}') + reading("elsewhere", "2"))
    lines = client.hears().decode().split("\r\n")[:-1]
    assert [line.split()[2] for line in lines[::2]] == ["2", "1"]
    assert json.loads(lines[1]) == {"New": [PRODUCER], "Del": []}
    assert json.loads(lines[3]) == {"id": PRODUCER, "metadata": {"Kind": "a"}, "value": 1, "topic": "volcanoes.atka"}
    desk.node.tick(desk.now + 1000)
    assert len(desk.node.relays) == 1
    client.say("UNSUB 1\r\nUNSUB 2\r\n")
    desk.node.tick(desk.now + 1001)
    assert desk.node.relays == []
    (exchange,) = desk.node.namespaces
    assert exchange.producers._subscribed == {}


def test_where_with_tests_on_messages(desk: Desk) -> None:
    """F6: JSON payloads of NATS clients too."""
    client, sensor = desk.connect(), desk.connect()
    answer = ask(client, "where", "Kind = 'a' and $.air.hpa between 900 and 1000")
    client.say(f"SUB {answer['topic']} 1\r\nSUB {answer['diffs']} 2\r\n")
    for hpa in ("899", "900.5", '"950"', "1000"):
        sensor.say(reading("air", f'{{"air": {{"hpa": {hpa}}}}}', '{"Kind": "a"}'))
    lines = client.hears().decode().split("\r\n")[:-1]
    assert json.loads(lines[1]) == {"New": [PRODUCER], "Del": []}
    assert [json.loads(json.loads(line)["value"])["air"]["hpa"] for line in lines[3::2]] == [900.5, 1000]


def test_producers_are_asked_nothing_about_messages(desk: Desk) -> None:
    answer = ask(desk.connect(), "producers", "Kind = 'a' and $value > 80")
    assert "there is no message here to test" in answer["error"]
    assert answer["position"] == 15


def test_where_is_answered_when_its_set_is_whole(desk: Desk) -> None:
    """L1: and its time begins then."""
    slices = desk.node.namespaces.slices
    slices.put_off = lambda: None
    client, other = desk.connect(), desk.connect()
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(3)]
    said = [{"id": each, "metadata": {"Kind": "a"}} for each in ids]
    ask(client, "describe", json.dumps({"producers": said}))
    dear = DEAR.replace("'b'", "'a'")
    assert client.asks(f"SUB answers 9\r\nPUB $FUM.where answers {len(dear)}\r\n{dear}\r\n") == b""
    desk.node.tick(desk.now + 11)
    ask(other, "describe", json.dumps({"producers": [{"id": ids[2], "metadata": {"Kind": "b"}}]}))
    while slices.step():
        assert client.hears() == b""
    answer = json.loads(client.hears().split(b"\r\n")[1])
    assert answer["New"] == ids[:2]
    ask(other, "describe", json.dumps({"producers": [{"id": ids[2], "metadata": {"Kind": "a"}}]}))
    client.say(f"SUB {answer['diffs']} 1\r\n")
    desk.node.tick(desk.now + 20)
    assert json.loads(client.hears().split(b"\r\n")[1]) == {"New": [ids[2]], "Del": []}


@pytest.mark.parametrize(("query", "most"), [("Kind = 'b'", 20_000), (DEAR, 99)], ids=["simple", "dear"])
def test_a_query_is_put_to_so_many_producers_in_one_request(desk: Desk, query: str, most: int) -> None:
    """L1: an answer may have no producer, and `next` all the same."""
    client, (exchange,) = desk.connect(), desk.node.namespaces
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(most + 1)]
    for each in ids:
        exchange.producers.describe(each, {"Kind": "a"}, 0.0)
    exchange.producers.describe(ids[-1], {"Kind": "b"}, 0.0)
    assert [[each["id"] for each in page] for page in pages(client, query)] == [[], ids[-1:]]


def test_where_and_a_listener_that_is_too_slow(hot_path: HotPath) -> None:
    """Readings may be lost, diffs are not; one that has no room even for those is cut off (M4, D6)."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=3000)})
    client, sensor = desk.connect(), desk.connect()
    answer = ask(client, "where", "Kind = 'a'")
    client.say(f"SUB {answer['topic']} 1\r\nSUB {answer['diffs']} 2\r\n")
    kinds = ["a", "b"] * 5
    for number, kind in enumerate(kinds):
        sensor.say(reading("t", str(number), json.dumps({"Kind": kind})) + reading("t", str(number)) * 10)
    lines = client.hears().decode().split("\r\n")[:-1]
    heard = [
        json.loads(payload) for head, payload in zip(lines[::2], lines[1::2], strict=True) if head.split()[2] == "2"
    ]
    assert [bool(diff["New"]) for diff in heard] == [kind == "a" for kind in kinds]
    assert sum(line.split()[2] == "1" for line in lines[::2]) < 5 * 11
    for number in range(200):
        sensor.say(reading("t", "1", json.dumps({"Kind": "ab"[number % 2]})))
    assert client.session.outbox.overflowed


@pytest.mark.parametrize("listens", ["SUB {} 1\r\n", "SUB {} together 1\r\n"], ids=["alone", "in a group"])
@pytest.mark.parametrize("overflow", Overflow)
def test_where_and_a_group_that_passes_its_full_members_over(
    hot_path: HotPath, listens: str, overflow: Overflow
) -> None:
    """G3: though readings take more room as JSON than they did before."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=20_000, overflow=overflow)})
    stuck, well, sensor = desk.connect(), desk.connect(), MsgPackClient(desk)
    metadata = {f"a key that is {number}": "\u0001" * 20 for number in range(10)}
    sensor.say({"id": PRODUCER, "metadata": {"Kind": "a"}, "value": 0})
    for client in (stuck, well):
        topic = ask(client, "where", '{"where": "HAS Kind", "group": "g"}')["topic"]
        client.say(listens.format(topic))
    heard: list[int] = []
    for number in range(500):
        reading = {"id": PRODUCER, "metadata": metadata, "value": number} if number % 9 else [PRODUCER, {}, number]
        heard += [each["value"] for each in values(well, sensor.say(reading))]
    assert sorted([*heard, *(each["value"] for each in values(stuck))]) == list(range(500))
    assert 200 < len(heard) < 500
    assert desk.counters()["dropped"]["outbox full"] == 0


def values(client: Client, *_: object) -> list[dict[str, Any]]:
    """The readings that it was told."""
    return [json.loads(line) for line in client.hears().split(b"\r\n") if line.startswith(b"{")]


def test_where_counts_what_was_published_and_heard(desk: Desk) -> None:
    """L3: each reading is received once; those who listen get it, and not who tells them."""
    clients, sensor = [desk.connect() for _ in range(2)], MsgPackClient(desk)
    sensor.say([PRODUCER, {"Kind": "a"}, 0])
    before = desk.counters()
    topic = ask(clients[0], "where", "HAS Kind")["topic"]
    sensor.say([PRODUCER, {}, 1])
    counted = desk.counters()
    assert counted["received"] - before["received"] == 1
    assert counted["delivered"] - before["delivered"] == 0
    assert counted["dropped"]["no consumer"] - before["dropped"]["no consumer"] == 1
    for client in clients:
        client.say(f"SUB {topic} 1\r\nSUB {topic}.diff 2\r\n")
    for number in range(10):
        sensor.say([PRODUCER, {}, number])
    MsgPackClient(desk).say({"forget": PRODUCER})
    assert [len(values(client)) for client in clients] == [10 + 1, 10 + 1]
    after = desk.counters()
    assert after["received"] - counted["received"] == 10
    assert after["received_bytes"] - counted["received_bytes"] == 10 * len(msgpack.packb([PRODUCER, {}, 1]))
    assert after["delivered"] - counted["delivered"] == 20


@pytest.mark.parametrize("overflow", Overflow)
def test_an_answer_finds_room_or_says_that_there_is_none(hot_path: HotPath, overflow: Overflow) -> None:
    """L3: no client has published it, so it is neither delivered nor dropped; a client that takes no answers is cut off."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=2000, overflow=overflow)})
    client, sender = desk.connect(), desk.connect()
    client.say("SUB inbox 1\r\nSUB a 2\r\n")
    sender.say(f"PUB a 1800\r\n{'x' * 1800}\r\n")
    counted = desk.counters()
    assert "received" in json.loads(client.asks("PUB $FUM.stats inbox 0\r\n\r\n").split(b"\r\n")[-2])
    (exchange,) = desk.node.namespaces
    for number in range(100):
        exchange.producers.describe(f"{number:08}-0000-4000-8000-000000000000", {"Kind": "a"}, 0.0)
    assert ask(client, "where", "HAS Kind")["error"].endswith("that is more than your outbox holds")
    assert {**desk.counters(), "producers": 0} == counted
    client.say("PUB $FUM.stats inbox 0\r\n\r\n" * 100)
    assert client.session.outbox.overflowed


def test_where_is_for_who_asked(hot_path: HotPath) -> None:
    """Who listens to everything neither hears it, nor keeps it, nor finds out where it is (hazard 4)."""
    desk = Desk(hot_path, authentication=True)
    denied, asking, sensor = user(desk, Permissions(deny=("secret.>",))), user(desk, None), user(desk, None)
    denied.say("SUB > 1\r\nSUB _WHERE.> 2\r\nSUB _WHERE.* 3\r\n")
    topics = [ask(asking, "where", '{"where": "HAS Kind", "topic": "secret.>"}')["topic"] for _ in range(20)]
    assert sensor.asks(reading("secret.x", "42", '{"Kind": "a"}')) == b""
    assert denied.hears() == b""
    asking.say(f"SUB {topics[0]} 1\r\n")
    sensor.say(reading("secret.x", "43"))
    assert asking.hears().count(b'"value": 43') == 1
    assert denied.hears() == b""
    desk.node.tick(desk.now + 11)
    assert [relay.topic for relay in desk.node.relays] == topics[:1]
    admin = user(desk, None, frozenset({"admin"}))
    patterns = [each["pattern"] for each in ask(admin, "consumers")["worst"]]
    assert f"{topics[0][:11]}…" in patterns
    assert topics[0] not in patterns


@pytest.mark.parametrize("service", ["stats", "consumers", "cluster"])
def test_what_shows_others_is_for_admins(hot_path: HotPath, service: str) -> None:
    """A4: with users those who have the role, without users all clients on loopback."""
    desk = Desk(hot_path, authentication=True)
    refused = {"error": f"$FUM.{service} shows what others do, and is for users with the role admin"}
    assert ask(user(desk, None), service) == refused
    assert "error" not in ask(user(desk, None, frozenset({"admin"})), service)
    assert "error" not in ask(Desk(hot_path).connect(), service)


def test_how_many_where(hot_path: HotPath) -> None:
    """L2: of one connection; those that have ended do not count."""
    desk = Desk(hot_path, Limits(consumers_per_connection=3))
    client, other = desk.connect(), desk.connect()
    first = ask(client, "where", "HAS Kind")["topic"]
    client.say(f"SUB {first} 1\r\n")
    for _ in range(2):
        assert "topic" in ask(client, "where", "HAS Kind")
    refused = {"error": "this connection has 3 such topics, and may have no more until one of them has ended"}
    assert ask(client, "where", "HAS Kind") == refused
    assert "topic" in ask(other, "where", "HAS Kind")
    desk.node.tick(desk.now + 11)
    assert [relay.topic for relay in desk.node.relays] == [first]
    for _ in range(2):
        assert "topic" in ask(client, "where", "HAS Kind")
    assert ask(client, "where", "HAS Kind") == refused
    client.session.close()
    desk.node.tick(desk.now + 22)
    assert desk.node.relays == []
    assert desk.node.relays_of == {}


def test_where_that_nobody_comes_for(desk: Desk) -> None:
    client = desk.connect()
    assert ask(client, "where", "HAS Kind")["topic"].startswith("_WHERE.")
    desk.node.tick(desk.now + 9)
    assert len(desk.node.relays) == 1
    desk.node.tick(desk.now + 11)
    assert desk.node.relays == []


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("Kind =", "expected"),
        ("{", "expected a query"),
        ("{}", "`where` is needed"),
        ('{"where": "HAS a", "topic": 1}', "are text"),
        ('{"where": "HAS a", "x": [' + "[]," * 100_000 + "[]]}", "at most 262144 characters"),
    ],
)
def test_where_refused(desk: Desk, payload: str, text: str) -> None:
    answer = ask(desk.connect(), "where", payload)
    assert text in answer["error"]
    assert ("position" in answer) == (payload == "Kind =")
    assert desk.node.relays == []


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"topic": "\ud800.>"}, "not allowed"),
        ({"group": "\ud800"}, "not allowed"),
        ({"where": "a = '\ud800'"}, "half a surrogate pair"),
        ({"topic": "ü" * 2_049}, "more than 4096 bytes"),
        ({"group": "ü" * 2_049}, "more than 4096 bytes"),
        ({"topic": "a." * 100_000 + "a"}, "more than 4096 bytes"),
    ],
    ids=["half a character", "the same in a group", "in a query", "long", "a long group", "deep"],
)
def test_where_refused_by_the_widest_grammar(hot_path: HotPath, asked: dict[str, str], text: str) -> None:
    """T2, L2."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(grammar=Grammar.CHANNEL)})
    answer = ask(desk.connect(), "where", json.dumps({"where": "HAS a", **asked}))
    assert text in answer["error"]
    assert desk.node.relays == []


def test_an_unknown_service(desk: Desk) -> None:
    said = desk.connect().asks("PUB $FUM.nonsense 0\r\n\r\n")
    assert said == b"-ERR 'Permissions Violation for Publish to \"$FUM.nonsense\"'\r\n"


def test_an_answer_goes_where_it_was_asked_for(desk: Desk) -> None:
    """Also to a client that listens to everything, and did so before."""
    client = desk.connect()
    client.say("SUB > 1\r\nSUB inbox.* 2\r\n")
    assert client.asks("PUB $FUM.stats inbox.1 0\r\n\r\n").startswith(b"MSG inbox.1 2 ")
