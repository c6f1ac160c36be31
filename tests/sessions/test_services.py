"""What the node itself answers (T9), and readings of NATS clients (M8)."""

import json
from typing import Any

import pytest

from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.engine import Engine
from tests.desk import Client, Desk


@pytest.fixture
def desk(engine: Engine) -> Desk:
    return Desk(engine)


def test_consumers(engine: Engine) -> None:
    """L3: per consumer."""
    desk = Desk(engine, rules={"default": NamespaceRules(outbox=1000)})
    slow, asking = desk.connect(name="slow one"), desk.connect()
    slow.say("SUB a.* g 1\r\nSUB b* 2\r\n")
    asking.say("SUB inbox 1\r\n" + f"PUB a.x 200\r\n{'x' * 200}\r\n" * 10)
    report = json.loads(asking.asks("PUB $FUM.consumers inbox 0\r\n\r\n").split(b"\r\n")[1])
    assert (report["namespace"], report["consumers"], report["looked_at"]) == ("default", 3, 3)
    worst = report["worst"][0]
    assert worst == {"connection": "1 slow one", "pattern": "a.*", "group": "g", "delivered": 4, "dropped": 6}
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
    known = {"id": PRODUCER, "metadata": {"Kind": "a"}, "value": 21.5, "age": 0.0}
    assert answer == {"total": 1, "next": None, "producers": [known]}
    assert ask(client, "producers", "Kind = 'b'")["producers"] == []
    assert client.asks(reading("volcanoes.atka", "1", "{")).startswith(b"-ERR 'Invalid Reading: the header")
    assert ask(client, "forget", PRODUCER) == {"forgotten": True}
    assert ask(client, "forget", PRODUCER) == {"forgotten": False}
    assert "UUID" in ask(client, "forget", "x")["error"]


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
        (json.dumps({"producers": [{"id": PRODUCER, "metadata": {}}] * 101}), "at most 100 producers"),
    ],
    ids=["half", "a list", "a number", "no identity", "a list of metadata", "NaN", "too many"],
)
def test_describe_refused(desk: Desk, payload: str, text: str) -> None:
    client = desk.connect()
    assert text in ask(client, "describe", payload)["error"]
    assert ask(client, "producers")["producers"] == []


def test_who_may_not_publish_may_neither_describe_nor_forget(engine: Engine) -> None:
    desk = Desk(engine, authentication=True)
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


def test_where(desk: Desk) -> None:
    """Readings and diffs as JSON on topics of their own, until nobody listens any more."""
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
    assert exchange.producers._watches == {}


def test_where_and_a_listener_that_is_too_slow(engine: Engine) -> None:
    """Readings may be lost, diffs are not; one that has no room even for those is cut off (M4, D6)."""
    desk = Desk(engine, rules={"default": NamespaceRules(outbox=3000)})
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
    ],
)
def test_where_refused(desk: Desk, payload: str, text: str) -> None:
    answer = ask(desk.connect(), "where", payload)
    assert text in answer["error"]
    assert ("position" in answer) == (payload == "Kind =")
    assert desk.node.relays == []


def test_an_unknown_service(desk: Desk) -> None:
    said = desk.connect().asks("PUB $FUM.nonsense 0\r\n\r\n")
    assert said == b"-ERR 'Permissions Violation for Publish to \"$FUM.nonsense\"'\r\n"


def test_an_answer_goes_where_it_was_asked_for(desk: Desk) -> None:
    """Also to a client that listens to everything, and did so before."""
    client = desk.connect()
    client.say("SUB > 1\r\nSUB inbox.* 2\r\n")
    assert client.asks("PUB $FUM.stats inbox.1 0\r\n\r\n").startswith(b"MSG inbox.1 2 ")
