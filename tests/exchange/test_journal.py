import pytest

from fumarole.exchange.journal import LONGEST, Event, Journal, Kind
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.kubemq import Fault
from tests.desk import Client, Desk, MqttClient, MsgPackClient
from tests.sessions.kubemq_door import Door


def test_the_newest_events_stay_and_numbers_go_on() -> None:
    journal = Journal(kept=3)
    for number in range(5):
        journal.note(float(number), "join", "default", f"{number}")
    told = journal.report(10.0)
    assert told["total"] == 5
    assert [(each["number"], each["client"], each["age"]) for each in told["events"]] == [
        (5, "4", 6.0),
        (4, "3", 7.0),
        (3, "2", 8.0),
    ]


def test_a_reader_gets_what_is_new() -> None:
    journal = Journal()
    journal.note(1.0, "join", "default", "1 sensor")
    journal.note(2.0, "refusal", "", "2", "Authorization Violation")
    assert [each["kind"] for each in journal.report(2.0, after=1)["events"]] == ["refusal"]
    assert journal.report(2.0, after=2)["events"] == []
    assert journal.report(1.5, after=1)["events"][0]["age"] == 0.0  # a session's clock may be behind


def test_what_a_client_says_of_itself_is_kept_in_part() -> None:
    journal = Journal()
    journal.note(1.0, "leave", "default", "x" * 10_000, "y" * 10_000)
    (event,) = journal.report(1.0)["events"]
    assert (len(event["client"]), len(event["text"])) == (LONGEST, LONGEST)


def test_refusals_are_counted_and_told() -> None:
    """O2."""
    journal = Journal(kept=1)
    told: list[Event] = []
    kinds: list[Kind] = ["join", "refusal", "leave", "refusal"]
    journal.hear = told.append
    for kind in kinds:
        journal.note(1.0, kind, "default", "1", kind)
    assert journal.refusals == 2
    assert [each.number for each in told] == [2, 4]


def test_a_refused_operation_is_counted_and_told_and_not_kept() -> None:
    journal = Journal()
    told: list[Event] = []
    journal.hear = told.append
    journal.refuse("default", "7 me", "x" * 10_000)
    assert (journal.refusals, journal.total, journal.report(1.0)["events"]) == (1, 0, [])
    assert [(each.client, len(each.text)) for each in told] == [("7 me", LONGEST)]


LIMITED = User("bob", "default", Permissions(("open.>",)), Permissions(("open.>",)))


@pytest.mark.parametrize("said", ["SUB secret.a 1", "SUB a..>x 2", "PUB secret.a 0\r\n", "PUB $FUM 0\r\n"])
def test_every_refusal_of_the_nats_door_is_counted(hot_path: HotPath, said: str) -> None:
    desk = Desk(hot_path, authentication=True)
    client = Client(desk)
    client.say('CONNECT {"verbose":false,"user":"bob","pass":"x"}\r\n').session.admit(LIMITED)
    client.hears()
    assert b"-ERR 'Permissions Violation" in client.asks(f"{said}\r\n")
    assert desk.node.journal.refusals == 1


def test_every_refusal_of_the_mqtt_door_is_counted(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, user="bob", password=b"x")
    client.session.admit(LIMITED)
    client.hears()
    client.subscribe("secret/a", "open/a", "a/#/b")
    client.publish("secret/a", b"x", 1)
    assert desk.node.journal.refusals == 3


@pytest.mark.parametrize("said", ["Kind =", {"topic": "a.>.b"}, "Kind matches '('"])
def test_every_refusal_of_the_msgpack_door_is_counted(hot_path: HotPath, said: object) -> None:
    desk = Desk(hot_path)
    (refusal,) = MsgPackClient(desk).say(said).hears()
    assert "Error" in refusal
    assert desk.node.journal.refusals == 1


def test_every_refusal_of_the_kubemq_door_is_counted(hot_path: HotPath) -> None:
    door = Door(Desk(hot_path, authentication=True))
    for refused in (
        lambda: door.send("secret.a", session=door.open("", LIMITED)),
        lambda: door.receiver("secret.a", session=door.open("", LIMITED)),
        lambda: door.receiver("a b", session=door.open("", LIMITED)),
    ):
        with pytest.raises(Fault):
            refused()
    assert door.desk.node.journal.refusals == 3
