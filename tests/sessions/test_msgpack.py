from typing import Any

import msgpack
import pytest

from fumarole import sessions
from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.msgpack import pack
from fumarole.sessions.diff import Diff
from fumarole.sessions.stream import Claim
from tests.desk import Desk
from tests.desk import MsgPackClient as Client
from tests.sessions.test_answers import Slow

A, B = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "00000000-0000-4000-8000-000000000001"
ROOM_410 = "Kind = 'temperature' and Room like '4%'"


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


def test_the_seeds_conversation(desk: Desk) -> None:
    """M1, M4, M5, M6."""
    sensor, subscriber = Client(desk), Client(desk)
    subscriber.say(ROOM_410)
    assert subscriber.hears() == [{"New": [], "Del": []}]
    sensor.say([A, {"Room": "410", "Kind": "temperature"}, 21.5], [A, {}, 21.6])
    assert subscriber.hears() == [
        {"New": [A], "Del": []},
        [A, {"Room": "410", "Kind": "temperature"}, 21.5],
        [A, {}, 21.6],
    ]
    sensor.say([A, {"Room": "510"}, 1], [A, {}, 2], [A, {"Room": "411"}, 3], [A, {"Room": None}, 4])
    assert subscriber.hears() == [
        {"New": [], "Del": [A]},
        {"New": [A], "Del": []},
        [A, {"Room": "411"}, 3],
        {"New": [], "Del": [A]},
    ]
    assert sensor.hears() == []


def test_tests_on_readings(desk: Desk) -> None:
    """F6: the set by metadata, readings by the whole query."""
    sensor, subscriber, worker, other = (Client(desk) for _ in range(4))
    subscriber.say("Kind = 'so2' and $value > 80")
    worker.say({"where": "$value > 80", "group": "g"})
    other.say({"where": "not $value > 80", "group": "g", "topic": "readings.*"})
    for client in (subscriber, worker, other):
        assert client.hears() == [{"New": [], "Del": []}]
    sensor.say([A, {"Kind": "so2"}, 79], [A, {}, 80.5], [A, {}, 80], [A, {"Kind": "co2"}, 90], [A, {}, 2**64 - 1])
    assert subscriber.hears() == [{"New": [A], "Del": []}, [A, {}, 80.5], {"New": [], "Del": [A]}]
    assert worker.hears() == [{"New": [A], "Del": []}, [A, {}, 80.5], [A, {"Kind": "co2"}, 90], [A, {}, 2**64 - 1]]
    assert other.hears() == [{"New": [A], "Del": []}, [A, {"Kind": "so2"}, 79], [A, {}, 80]]


def test_an_unknown_name_of_the_message(desk: Desk) -> None:
    (error,) = Client(desk).say("Kind = 'so2' and $valu > 80").hears()
    assert (error["Position"], error["Found"]) == (17, "`$valu`")
    assert error["Expected"].startswith("$value, $topic, $producer, $size or $.path.to.field")


def test_cut_anywhere(desk: Desk) -> None:
    sensor, subscriber = Client(desk), Client(desk)
    for byte in msgpack.packb("Room = '410'"):
        subscriber.send(bytes([byte]))
    for byte in msgpack.packb([A, {"Room": "410"}, 21.5]) * 2:
        sensor.send(bytes([byte]))
    assert subscriber.hears() == [
        {"New": [], "Del": []},
        {"New": [A], "Del": []},
        [A, {"Room": "410"}, 21.5],
        [A, {"Room": "410"}, 21.5],
    ]


def test_the_long_forms(desk: Desk) -> None:
    """M2: topic, query and group; a reading with a topic of its own."""
    members = [Client(desk).say({"where": "Kind = 'a'", "topic": "volcanoes.>", "group": "g"}) for _ in range(2)]
    everything = Client(desk).say({})
    by_topic = Client(desk).say({"topic": "volcanoes.*"})
    sensor = Client(desk).say({"id": A, "metadata": {"Kind": "a"}, "value": 1, "topic": "volcanoes.atka"})
    sensor.say({"id": A, "value": 2, "topic": "volcanoes.atka"}, [A, {}, 3])
    heard = [[each for each in member.hears() if isinstance(each, list)] for member in members]
    assert sorted(value for one in heard for _, _, value in one) == [1, 2]
    assert [each[2] for each in everything.hears()[1:]] == [1, 2, 3]
    assert [each[2] for each in by_topic.hears()[1:]] == [1, 2]


def test_other_doors_are_in_the_same_exchange(desk: Desk) -> None:
    """M8. Who understands headers is told whose reading it is, and what it brought."""
    nats, plain = desk.connect(), desk.connect(headers=False)
    nats.say("SUB readings.> 1\r\n")
    plain.say("SUB readings.> 1\r\n")
    subscriber = Client(desk).say({"topic": ">"})
    Client(desk).say([A, {"Kind": "a"}, 21.5], [A, {}, 7])
    topic = f"readings.{A}"
    assert plain.hears().decode() == f"MSG {topic} 1 4\r\n21.5\r\nMSG {topic} 1 1\r\n7\r\n"
    block = f"NATS/1.0\r\nProducer: {A}\r\n"
    assert nats.hears().decode() == (
        f'HMSG {topic} 1 85 89\r\n{block}Metadata: {{"Kind": "a"}}\r\n\r\n21.5\r\n'
        f"HMSG {topic} 1 60 61\r\n{block}\r\n7\r\n"
    )
    nats.say("PUB plain 2\r\nhi\r\n")
    assert subscriber.hears()[-1] == {"topic": "plain", "payload": b"hi"}


def test_identity_in_capitals(desk: Desk) -> None:
    subscriber = Client(desk).say("HAS Kind")
    Client(desk).say([A.upper(), {"Kind": "a"}, 1])
    assert subscriber.hears()[1:] == [{"New": [A], "Del": []}, [A, {"Kind": "a"}, 1]]


def test_forgetting(desk: Desk) -> None:
    """M7: a disconnect is nothing, being told so is."""
    subscriber = Client(desk).say("HAS Kind")
    sensor = Client(desk).say([A, {"Kind": "a"}, 1], [B, {"Kind": "a"}, 1])
    sensor.session.close()
    assert len(subscriber.hears()) == 5
    Client(desk).say({"forget": A})
    assert subscriber.hears() == [{"New": [], "Del": [A]}]


def test_who_may_not_publish_may_not_forget(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    sensor = Client(desk).say({"token": "ann"})
    sensor.session.admit(User("ann", "lab"))
    sensor.say([A, {"Kind": "a"}, 1])
    other = Client(desk).say({"token": "bob"})
    other.session.admit(User("bob", "lab", Permissions((f"readings.{B}",))))
    other.say({"forget": B}, {"forget": A})
    (error,) = other.hears()
    assert error["Error"].startswith(f"you may not publish to readings.{A}")
    watcher = Client(desk).say({"token": "cyd"})
    watcher.session.admit(User("cyd", "lab"))
    assert watcher.say("HAS Kind").hears() == [{"New": [A], "Del": []}]


@pytest.mark.parametrize(
    "said",
    [
        [A, {}, 2],
        {"id": A, "value": 2, "topic": "site1.x"},
        {"id": A, "metadata": {"Kind": None}, "value": 2, "topic": "site1.x"},
    ],
)
def test_who_speaks_for_a_producer(hot_path: HotPath, said: Any) -> None:
    """On every topic only who may publish on the producer's own; else nothing has happened."""
    desk = Desk(hot_path, authentication=True)
    owner, other, watcher = (Client(desk).say({"token": "x"}) for _ in range(3))
    for client, may in ((owner, ("site1.>", "readings.>")), (other, ("site1.>", f"readings.{B}")), (watcher, ())):
        client.session.admit(User("x", "lab", Permissions(may)))
    owner.say({"id": A, "metadata": {"Kind": "a"}, "value": 1, "topic": "site1.x"})
    watcher.say("HAS Kind")
    assert watcher.hears() == [{"New": [A], "Del": []}]
    other.say([B, {}, 1], {"id": B, "value": 1, "topic": "site1.x"}, said)
    (error,) = other.hears()
    assert error["Error"].startswith(f"you may not publish to readings.{A}")
    assert watcher.hears() == []
    assert desk.counters("lab")["dropped"]["refused"] == 1


def test_what_may_not_be_published(hot_path: HotPath) -> None:
    client = Client(Desk(hot_path, authentication=True)).say({"token": "x"})
    client.session.admit(User("ann", "lab", Permissions(("readings.>",))))
    client.say({"id": A, "value": 1, "topic": "site1.x"})
    assert client.hears() == [{"Error": "you may not publish to site1.x"}]


def test_no_reading_on_topics_of_the_server(hot_path: HotPath) -> None:
    """T9, also where the grammar would let them pass."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(Grammar.CHANNEL)})
    everything = desk.connect().say("SUB > 1\r\n")
    client = Client(desk).say({"id": A, "value": 1, "topic": "$FUM.stats"}, {"id": A, "value": 2, "topic": "a"})
    assert client.hears() == [
        {"Error": "topics that begin with `$` are the server's own, at position 0", "Position": 0}
    ]
    assert everything.hears().startswith(b"HMSG a 1 ")


def test_a_bad_query_can_be_said_again(desk: Desk) -> None:
    client = Client(desk).say("Room = ")
    (error,) = client.hears()
    assert error["Position"] == 7
    assert error["Error"]
    assert error["Expected"]
    client.say({"topic": "a.>.b"})
    assert client.hears() == [{"Error": "`>` must be the last word, at position 2", "Position": 2}]
    assert not client.session.close_expected()
    assert client.say("Room = '410'").hears() == [{"New": [], "Del": []}]


@pytest.mark.parametrize("key", ["topic", "group"])
def test_topics_patterns_and_groups_have_a_length(hot_path: HotPath, key: str) -> None:
    """L2: the same as at other doors."""
    desk = Desk(hot_path, Limits(control_line=256))
    client = Client(desk).say({key: "a" * 257})
    assert client.hears() == [{"Error": "more than 256 bytes, at position 256", "Position": 256}]
    assert client.say({key: "a" * 256}).hears() == [{"New": [], "Del": []}]


def test_a_reading_on_a_topic_that_is_too_long(hot_path: HotPath) -> None:
    desk = Desk(hot_path, Limits(control_line=256))
    subscriber = Client(desk).say({"topic": ">"})
    sensor = Client(desk).say({"id": A, "value": 1, "topic": "a" * 257}, {"id": A, "value": 2, "topic": "a" * 256})
    assert sensor.hears() == [{"Error": "more than 256 bytes, at position 256", "Position": 256}]
    assert subscriber.hears()[1:] == [[A, {}, 2]]
    assert desk.counters()["dropped"]["refused"] == 1


# M1: as first value, each is answered with an error, and closed.
WRONG: list[tuple[str, Any]] = [
    ("nil", None),
    ("truth", True),
    ("integer", 7),
    ("float", 1.5),
    ("bytes", b"Room = '410'"),
    ("empty array", []),
    ("array of 2", [A, {}]),
    ("array of 4", [A, {}, 1, 2]),
    ("no UUID", ["x", {}, 1]),
    ("UUID version 1", ["2f1c0a52-6d0f-1c8e-9a5e-3b1f7d2c4e60", {}, 1]),
    ("identity as bytes", [A.encode(), {}, 1]),
    ("no map", [A, [], 1]),
    ("a key that is no text", [A, {1: 2}, 1]),
    ("a nested value", [A, {"a": {"b": 1}}, 1]),
    ("an array as value", [A, {"a": [1]}, 1]),
    ("NaN", [A, {}, float("nan")]),
    ("infinity", [A, {}, float("inf")]),
    ("NaN in metadata", [A, {"a": float("nan")}, 1]),
    ("text as reading", [A, {}, "1"]),
    ("no reading", [A, {}, None]),
    ("10,000 keys", [A, {str(n): n for n in range(10_000)}, 1]),
    ("100 keys", [A, {str(n): n for n in range(100)}, 1]),
    ("a long value", [A, {"a": "x" * 10_000}, 1]),
    ("10 MB value", [A, {"a": "x" * 10_000_000}, 1]),
    ("another map", {"hello": 1}),
    ("where is no text", {"where": 1}),
    ("id missing", {"value": 1}),
    ("extension", msgpack.ExtType(5, b"x")),
    ("nested", [[[[[[[[[[]]]]]]]]]]),
]


@pytest.mark.parametrize("value", [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
def test_anything_else_is_an_error_and_the_end(desk: Desk, value: Any) -> None:
    canary = Client(desk).say("HAS Kind")
    sensor = Client(desk).say([B, {"Kind": "a"}, 1])
    client = Client(desk).say(value, "HAS Kind")
    (error,) = client.hears()
    assert list(error) == ["Error"]
    assert error["Error"]
    assert client.session.close_expected()
    sensor.say([B, {}, 2])
    assert [each[2] for each in canary.hears() if isinstance(each, list)] == [1, 2]


@pytest.mark.parametrize(
    "raw", [b"\xc1", b"\xdb\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000, b"\xa1\xff"]
)
def test_bytes_that_are_no_value(desk: Desk, raw: bytes) -> None:
    client = Client(desk).send(raw)
    (error,) = client.hears()
    assert error["Error"]
    assert client.session.close_expected()


def test_each_keeps_to_its_role(desk: Desk) -> None:
    subscriber = Client(desk).say("HAS Kind", [A, {}, 1])
    assert "a subscriber has said all it can" in subscriber.hears()[-1]["Error"]
    publisher = Client(desk).say([A, {}, 1], "HAS Kind")
    assert "expected a reading" in publisher.hears()[-1]["Error"]
    assert subscriber.session.close_expected()
    assert publisher.session.close_expected()


def test_claims(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    stranger = Client(desk).say("HAS Kind")
    assert "say who you are first" in stranger.hears()[0]["Error"]
    client = Client(desk).say({"token": "secret"}, "HAS Kind")
    assert client.session.claim == Claim(None, None, "secret")
    client.session.admit(User("ann", "lab", None, Permissions(("readings.>",))))
    assert "may not subscribe to >" in client.hears()[0]["Error"]
    other = Client(desk).say({"user": "bob", "pass": "x"})
    other.session.admit(User("bob", "lab"))
    assert other.say("HAS Kind").hears() == [{"New": [], "Del": []}]
    wrong = Client(desk).say({"token": "wrong"})
    wrong.session.admit(None)
    assert wrong.session.close_expected()


def test_namespaces_are_strangers(desk: Desk) -> None:
    """N2."""
    here = Client(desk).say("HAS Kind")
    there = Client(desk).say({"user": "lab"}, "HAS Kind")
    Client(desk).say({"user": "lab"}, [A, {"Kind": "a"}, 1])
    assert len(here.hears()) == 1
    assert len(there.hears()) == 3


def test_a_slow_subscriber_loses_readings_but_never_a_diff(hot_path: HotPath) -> None:
    """D6: and when even diffs find no room, one that says it all comes before the next reading."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=2000)})
    subscriber, sensor = Client(desk), Client(desk)
    subscriber.say("On = true")
    producers = [f"{n:08}-0000-4000-8000-000000000000" for n in range(60)]
    for turn in range(4):
        for producer in producers:
            sensor.say([producer, {"On": turn != 2}, turn])
    story = subscriber.hears()
    assert desk.counters()["dropped"]["outbox full"] > 100
    seen: set[str] = set()
    for each in story:
        if isinstance(each, dict):
            assert not seen.intersection(each["New"])
            assert seen.issuperset(each["Del"])
            seen = seen.union(each["New"]).difference(each["Del"])
        else:
            assert each[0] in seen
    sensor.say([producers[0], {}, 9])
    late = subscriber.hears()
    assert late[-1] == [producers[0], {}, 9]
    for each in late[:-1]:
        seen = seen.union(each["New"]).difference(each["Del"])
    assert seen == set(producers)


def test_a_late_diff_comes_with_time_too(hot_path: HotPath) -> None:
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=500)})
    subscriber, sensor = Client(desk).say("HAS On"), Client(desk)
    for number in range(40):
        sensor.say([f"{number:08}-0000-4000-8000-000000000000", {"On": 1}, 1])
    subscriber.hears()
    subscriber.session.tick(desk.now)
    (diff,) = subscriber.hears()
    assert diff["New"]


@pytest.mark.parametrize("query", [{"where": "Kind = 'a'"}, {"topic": "readings.>"}], ids=["by metadata", "by topic"])
def test_a_group_passes_over_who_does_not_know_its_set_yet(hot_path: HotPath, query: dict[str, str]) -> None:
    """G3: while another node takes its time to hear of a new member (C2), the others lose nothing."""
    desk = Desk(hot_path)
    sensor, well, new = Client(desk), Client(desk), Client(desk)
    sensor.say([A, {"Kind": "a"}, 0])
    well.say({**query, "group": "g"}).hears()
    desk.node.confirmations = slow = Slow()
    slow.given = 1
    new.say({**query, "group": "g"})
    sensor.say(*[[A, {}, number] for number in range(50)])
    assert new.hears() == []
    assert [value for _, _, value in well.hears()] == list(range(50))
    slow.reach(1)
    sensor.say(*[[A, {}, number] for number in range(50)])
    assert len(new.hears()) + len(well.hears()) == 1 + 50
    assert desk.counters()["dropped"]["outbox full"] == 0


@pytest.mark.parametrize("overflow", Overflow)
def test_what_other_nodes_choose_a_member_for_before_it_knows_its_set(hot_path: HotPath, overflow: Overflow) -> None:
    """G3, M5: it is told afterwards, within bounds (L2), and only what is in its set then."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=10_000, overflow=overflow)})
    sensor, member, alone = Client(desk), Client(desk), Client(desk)
    sensor.say([A, {"Kind": "a"}, 0], [B, {"Kind": "a"}, 0])
    desk.node.confirmations = slow = Slow()
    slow.given = 1
    member.say({"where": "Kind = 'a'", "group": "g"})
    alone.say("Kind = 'a'")
    before = desk.counters()
    sensor.say([A, {}, 1], [B, {}, 2], [A, {}, 3], [B, {"Kind": "b"}, 4])
    slow.reach(1)
    assert member.hears() == [{"New": [A], "Del": []}, [A, {}, 1], [A, {}, 3]]
    assert alone.hears() == [{"New": [A], "Del": []}]
    after = desk.counters()
    assert after["delivered"] - before["delivered"] == 2
    assert after["dropped"]["outbox full"] - before["dropped"]["outbox full"] == 3 + 1


def test_a_set_that_is_worked_out_bit_by_bit(hot_path: HotPath) -> None:
    """M4, M5, L1: it is told when it is whole, and what producers say meanwhile finds whom it is for."""
    desk = Desk(hot_path)
    slices = desk.node.namespaces.slices
    slices.put_off = lambda: None
    sensor, member, gone = Client(desk), Client(desk), Client(desk)
    c = A.replace("2f", "3f")
    sensor.say(*([each, {"Kind": "a"}, 0] for each in (A, B, c)))
    dear = "Kind = 'a' OR " + " OR ".join(f"None MATCHES 'x{number}'" for number in range(4))
    member.say({"where": dear, "group": "g"})
    gone.say(dear)
    gone.session.close()
    sensor.say([c, {}, 1], [A, {}, 2], [B, {"Kind": "b"}, 3])
    assert member.hears() == []
    while slices.step():
        assert member.hears() == []
    (first, *readings) = member.hears()
    assert (set(first["New"]), first["Del"]) == ({A, c}, [])
    assert readings == [[c, {}, 1], [A, {}, 2]]
    sensor.say([B, {"Kind": "a"}, 4], [c, {}, 5])
    assert member.hears() == [{"New": [B], "Del": []}, [B, {"Kind": "a"}, 4], [c, {}, 5]]


def test_a_member_keeps_only_so_much_until_it_knows_its_set(hot_path: HotPath) -> None:
    """L2: the rest is dropped, and counted."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=10_000)})
    sensor, member = Client(desk), Client(desk)
    sensor.say([A, {"Kind": "a"}, 0])
    desk.node.confirmations = slow = Slow()
    slow.given = 1
    member.say({"where": "Kind = 'a'", "group": "g"})
    sensor.say(*[[A, {}, number] for number in range(500)])
    dropped = desk.counters()["dropped"]["outbox full"]
    slow.reach(1)
    heard = [value for _, _, value in member.hears()[1:]]
    assert heard == list(range(500 - dropped))
    assert 30 < len(heard) < 200
    assert desk.counters()["delivered"] == len(heard)


def test_a_group_passes_over_who_has_no_room_behind_a_late_diff(hot_path: HotPath) -> None:
    """G3: and comes back to it when it has."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=1000)})
    sensor, late, well = Client(desk), Client(desk), desk.connect()
    producers = [f"{number:08}-0000-4000-8000-000000000000" for number in range(80)]
    late.say({"where": "HAS On", "group": "g"})
    for producer in producers:
        sensor.say([producer, {"On": 1}, 1])
    late.hears()
    well.say("SUB readings.> g 1\r\n")
    dropped = desk.counters()["dropped"]["outbox full"]
    for number in range(50):
        sensor.say([producers[number], {}, number])
        assert well.hears().endswith(b"\r\n%d\r\n" % number)
    late.session.tick(desk.now)
    late.hears()
    sensor.say(*[[producers[0], {}, number] for number in range(8)])
    assert 0 < len(late.hears()) < 8
    assert desk.counters()["dropped"]["outbox full"] == dropped


def test_a_late_diff_is_written_once(hot_path: HotPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again with each reading that it holds back: a stuck subscriber must not cost others their time."""
    written: list[int] = []

    def counting(value: dict[str, list[str]]) -> bytes:
        written.append(len(value["New"]))
        return pack(value)

    monkeypatch.setattr(sessions.msgpack, "pack", counting)
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=2000)})
    stuck, sensor = Client(desk).say("HAS On"), Client(desk)
    for _ in range(10):
        for number in range(100):
            sensor.say([f"{number:08}-0000-4000-8000-000000000000", {"On": 1}, 1])
            stuck.session.tick(desk.now)
    assert sum(written) < 100
    stuck.hears()
    stuck.session.tick(desk.now)
    assert sum(written) == 100
    assert len(stuck.hears()) == 1


@pytest.mark.parametrize("count", [1, 15, 16, 17, 65_535, 65_536])
def test_the_size_of_a_diff(count: int) -> None:
    """Never less than it takes, and hardly more."""
    ids = tuple(f"{number:08}-0000-4000-8000-000000000000" for number in range(2 * count))
    for new, gone in ((ids[:count], ids[count:]), (ids[:count], ())):
        diff = Diff()
        diff.add(new, gone)
        assert 0 <= diff.size() - len(pack(diff.told())) <= 8


def test_too_many_to_list(hot_path: HotPath) -> None:
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=200)})
    sensor = Client(desk)
    for number in range(20):
        sensor.say([f"{number:08}-0000-4000-8000-000000000000", {"On": 1}, 1])
    subscriber = Client(desk).say("HAS On")
    assert "20 producers match" in subscriber.hears()[0]["Error"]
    assert subscriber.session.close_expected()


def test_thousands_in_one_buffer_keep_their_order(desk: Desk) -> None:
    """M5."""
    subscriber = Client(desk).say("Odd = true")
    raw = b"".join(msgpack.packb([A, {"Odd": bool(n % 2)}, n]) for n in range(5000))
    Client(desk).send(raw)
    heard = subscriber.hears()[1:]
    for number in range(2500):
        new, reading = heard[3 * number], heard[3 * number + 1]
        assert new == {"New": [A], "Del": []}
        assert reading == [A, {"Odd": True}, 2 * number + 1]


@pytest.mark.parametrize("form", ["list", "map"])
def test_to_find_out_who_gets_it_is_work_too(desk: Desk, form: str) -> None:
    """L1: who speaks for ever new producers, or on ever new topics, has no more of a turn than others."""
    desk.connect().say("".join(f"SUB readings.*-4000-*x{n}* {n}\r\n" for n in range(8000)))
    sensor = Client(desk).say([A, {}, 1])
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(100)]
    said = [[i, {}, 1] if form == "list" else {"id": A, "value": 1, "topic": f"readings.{i}"} for i in ids]
    sensor.reader.receive_data(b"".join(map(msgpack.packb, said)))
    turns = 1
    while sensor.reader.unfinished:
        sensor.reader.go_on()
        turns += 1
    assert turns > 10
    assert desk.counters()["received"] == 101


def test_saying_nothing(hot_path: HotPath) -> None:
    desk = Desk(hot_path, Limits(handshake=2))
    client = Client(desk).send(b"\xdb\x00")
    client.session.tick(1001.9)
    assert client.hears() == []
    client.session.tick(1002.1)
    assert client.session.close_expected()


def test_closing_leaves_nothing(desk: Desk) -> None:
    subscriber = Client(desk).say("HAS Kind")
    subscriber.session.receive_eof()
    assert subscriber.session.close_expected()
    assert desk.counters()["connections"] == 0
    (exchange,) = desk.node.namespaces
    assert exchange.producers._subscribed == {}
