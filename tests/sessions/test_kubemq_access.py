"""Who may do what at the KubeMQ door, what the server says of itself, and that nothing is left."""

import json

import pytest

from fumarole.core.publication import Publication
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols.kubemq import Fault
from fumarole.protocols.kubemq_pb2 import Response, Subscribe
from fumarole.sessions.kubemq import MANAGEMENT, KubemqSession
from tests.desk import Desk
from tests.sessions.kubemq_door import (
    COMMAND,
    COMMANDS,
    NOW,
    QUERIES,
    QUERY,
    Door,
    channels,
    events,
    request,
    requests,
)


@pytest.fixture
def door(hot_path: HotPath) -> Door:
    return Door(Desk(hot_path))


def test_a_token_is_a_namespace_where_authentication_is_off(door: Door) -> None:
    """N3."""
    receiver = door.receiver("a", session=door.open("lab"))
    nats = door.desk.connect(user="lab")
    nats.say("PUB a 1\r\nx\r\n")
    assert channels(receiver) == ["a"]
    with pytest.raises(Fault, match="Error 421: authentication verification failed, a namespace is"):
        door.open("not a namespace")


def test_only_allowed_namespaces(hot_path: HotPath) -> None:
    door = Door(Desk(hot_path, allowed=frozenset({"lab"})))
    door.open("lab")
    with pytest.raises(Fault, match="not one of the allowed"):
        door.open()


@pytest.fixture
def guarded(hot_path: HotPath) -> Door:
    return Door(Desk(hot_path, authentication=True))


def test_a_token_is_needed_where_authentication_is_on(guarded: Door) -> None:
    for token, reason in (("", "a token is needed"), ("wrong", "no user has this token")):
        with pytest.raises(Fault) as caught:
            guarded.open(token, None)
        assert caught.value.status == "UNAUTHENTICATED"
        assert caught.value.text == f"Error 421: authentication verification failed, {reason}"
    guarded.open("right", User("ada", "lab"))
    assert guarded.desk.counters("lab")["connections"] == 1


ADA = User(
    "ada",
    "kubemq",
    publish=Permissions(("open.>", "_QUERIES_.open.>", "_INBOX.>"), ("open.secret",)),
    subscribe=Permissions(("open.>", "_QUERIES_.open.>"), ("open.secret",)),
)
ROOT = User("root", "kubemq")


def test_what_a_user_may_publish(guarded: Door) -> None:
    receiver = guarded.receiver(">", session=guarded.open("", ROOT))
    guarded.send("open.a", session=guarded.open("", ADA))
    for channel in ("open.secret", "closed", "open"):
        with pytest.raises(Fault) as caught:
            guarded.send(channel, session=guarded.open("", ADA))
        assert (caught.value.status, caught.value.text) == ("PERMISSION_DENIED", "Error 412: access denied to resource")
    assert channels(receiver) == ["open.a"]
    assert guarded.desk.counters("kubemq")["dropped"]["refused"] == 3


def test_no_user_speaks_for_a_producer(guarded: Door) -> None:
    """Others get the tags as tags; there is no reading."""
    nats = guarded.desk.connect(user="root", password="")
    nats.session.admit(ROOT)
    nats.say("SUB open.hall 1\r\n")
    receiver = guarded.receiver("open.hall", session=guarded.open("", ROOT))
    tags = {"Producer": "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "Metadata": '{"Room": "forged"}', "site": "north"}
    guarded.send("open.hall", b"21.5", session=guarded.open("", ADA), Tags=tags)
    heard = nats.hears()
    assert b"\r\nsite: north\r\n" in heard
    assert b"\r\nProducer:" not in heard
    assert b"\r\nMetadata:" not in heard
    assert [dict(event.Tags) for event in events(receiver)] == [tags]


def test_what_a_user_may_receive(guarded: Door) -> None:
    """A wider subscription is allowed where it is inside what is, and never gets the denied part."""
    receivers = [guarded.receiver(channel, session=guarded.open("", ADA)) for channel in ("open.>", "open.a*")]
    for channel in ("open.secret", "closed", ">", "*.a"):
        with pytest.raises(Fault, match="Error 412"):
            guarded.receiver(channel, session=guarded.open("", ADA))
    root = guarded.open("", ROOT)
    for channel in ("open.a", "open.secret", "closed"):
        guarded.send(channel, session=root)
    assert [channels(receiver) for receiver in receivers] == [["open.a"], ["open.a"]]


def test_what_is_denied_stays_denied_where_everything_else_is_allowed(guarded: Door) -> None:
    user = User("bob", "kubemq", subscribe=Permissions(None, ("secret.>",)))
    receiver, root = guarded.receiver(">", session=guarded.open("", user)), guarded.open("", ROOT)
    for channel in ("a", "secret.a"):
        guarded.send(channel, session=root)
    with pytest.raises(Fault, match="Error 301"):
        root.ask(request(QUERY, "a"), NOW, lambda _: None)
    assert channels(receiver) == ["a"]


def test_what_a_user_may_ask_and_answer(guarded: Door) -> None:
    """Permissions name topics: a query is published to `_QUERIES_.` and its channel."""
    responder = guarded.open("", ADA)
    responder.subscribe_to_requests(
        Subscribe(SubscribeTypeData=Subscribe.Queries, ClientID="me", Channel="open.a"), guarded
    )
    for kind, channel in ((4, "closed"), (3, "open.a"), (4, ">")):
        subscribe = Subscribe(ClientID="me", Channel=channel)
        subscribe.SubscribeTypeData = kind  # type: ignore[assignment]
        with pytest.raises(Fault, match="Error 412"):
            guarded.open("", ADA).subscribe_to_requests(subscribe, guarded)
    answers: list[Publication] = []
    guarded.open("", ADA).ask(request(QUERY, "open.a"), NOW, answers.append)
    with pytest.raises(Fault, match="Error 412"):
        guarded.open("", ADA).ask(request(QUERY, "closed"), NOW, answers.append)
    (asked,) = requests(responder)
    response = Response(ClientID="you", RequestID=asked.RequestID, ReplyChannel=asked.ReplyChannel)
    mute = User("mute", "kubemq", publish=Permissions(("open.>",)))
    with pytest.raises(Fault, match="Error 412"):
        guarded.open("", mute).respond(response)
    guarded.open("", ADA).respond(response)
    assert len(answers) == 1


# The server itself.


def test_ping(door: Door) -> None:
    """A version that KubeMQ's newest client was tested with, then ours."""
    result = door.service.ping(NOW + 7.5)
    assert (result.Host, result.Version) == ("desk", "2.6.0-fumarole-0")
    assert (result.ServerStartTime, result.ServerUpTimeSeconds) == (NOW, 7)


def manage(door: Door, what: str, session: KubemqSession | None = None, **tags: str) -> Response:
    asked = request(QUERY, MANAGEMENT, RequestID="7", Body=b"", Metadata=what, Tags=tags)
    response = (session or door.open()).ask(asked, NOW, lambda _: None)
    assert response is not None
    assert (response.RequestID, response.Timestamp) == ("7", int(NOW) * 10**9)
    return response


@pytest.mark.parametrize("what", ["create-channel", "delete-channel"])
def test_channels_need_not_be_made(door: Door, what: str) -> None:
    for kind in ("events", "commands", "queries"):
        assert manage(door, what, channel_type=kind, channel="a.b").Executed
        assert not manage(door, what, channel_type=kind, channel="a b").Executed
    for kind, reason in (("events_store", "the events store is not"), ("queues", "queues are not"), ("", "queues are")):
        response = manage(door, what, channel_type=kind, channel="a.b")
        assert not response.Executed
        assert response.Error.startswith(reason)


def test_a_request_to_the_server_that_it_does_not_know(door: Door) -> None:
    response = manage(door, "purge-queue")
    assert (response.Executed, response.Error) == (False, "not a request that is understood here")


def listed(door: Door, kind: str, search: str = "", session: KubemqSession | None = None) -> list[str]:
    response = manage(door, "list-channels", session, channel_type=kind, channel_search=search)
    assert response.Executed
    found = json.loads(response.Body)
    assert all(channel.keys() == found[0].keys() and channel["type"] == kind for channel in found)
    return [channel["name"] for channel in found]


def test_channels_are_listed_while_somebody_is_subscribed(door: Door) -> None:
    receivers = [door.receiver(channel) for channel in ("b.>", "a", "a")]
    door.responder(COMMANDS, "c")
    door.responder(QUERIES, "q")
    door.nats().say("SUB n 1\r\nSUB _INBOX.x 2\r\n")
    assert [listed(door, kind) for kind in ("events", "commands", "queries")] == [["a", "b.>", "n"], ["c"], ["q"]]
    assert listed(door, "events", "b*>") == ["b.>"]
    assert [listed(door, kind) for kind in ("queues", "events_store", "")] == [[], [], []]
    door.send("a")
    response = manage(door, "list-channels", channel_type="events")
    assert json.loads(response.Body)[0] == {
        "name": "a",
        "type": "events",
        "lastActivity": 0,
        "isActive": True,
        "incoming": {"messages": 0, "volume": 0, "responses": 0},
        "outgoing": {"messages": 2, "volume": 0, "responses": 0},
    }
    receivers[0].close()
    assert listed(door, "events") == ["a", "n"]


def test_channels_that_a_user_may_not_see_are_not_listed(guarded: Door) -> None:
    root = [guarded.open("", ROOT) for _ in range(3)]
    for channel, session in zip(("open.a", "open.secret", "closed"), root, strict=True):
        guarded.receiver(channel, session=session)
    assert listed(guarded, "events", session=guarded.open("", ADA)) == ["open.a"]
    assert listed(guarded, "events", session=guarded.open("", ROOT)) == ["closed", "open.a", "open.secret"]


# Nothing is left.


def test_calls_leave_nothing_behind(door: Door) -> None:
    sessions = [door.receiver(channel, group) for channel in ("a", ">", "b*") for group in ("", "g")]
    sessions += [door.responder(kind, "a", group) for kind in (COMMANDS, QUERIES) for group in ("", "g")]
    sessions += [door.ask(kind, "a").session for kind in (COMMAND, QUERY)]
    sessions.append(door.open())
    assert door.desk.counters("kubemq")["consumers"] == 11
    assert door.desk.counters("kubemq")["connections"] == 13
    for session in sessions:
        session.close()
        session.close()
    assert not door.service.inboxes
    assert [exchange.name for exchange in door.desk.node.namespaces] == ["default"]


def test_a_closed_receiver_gets_nothing_more(door: Door) -> None:
    receiver, other = door.receiver("a"), door.receiver("a")
    door.send("a", b"1")
    receiver.close()
    door.send("a", b"2")
    assert [event.Body for event in events(receiver)] == [b"1"]
    assert [event.Body for event in events(other)] == [b"1", b"2"]
