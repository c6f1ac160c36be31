"""What MQTT clients get and hear (Q1–Q4), without sockets."""

from typing import Any

import pytest

from fumarole.core.limits import Limits, NamespaceQuotas, Quotas
from fumarole.core.topic import Grammar
from fumarole.exchange.client_ids import ClientClaim
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.exchange.presence import said_by_producer
from fumarole.fastpath.hot_path import HotPath
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import NONE, Packet, Property
from fumarole.protocols.mqtt_packets import V3, V5, Acknowledged, Answer, ConnAck, Disconnect, Filter, Publish, Will
from fumarole.protocols.mqtt_reasons import Reason
from fumarole.sessions.mqtt import ALIASES, RECEIVE_MAXIMUM, Terms
from fumarole.sessions.mqtt_clients import DUE_AT_ONCE, STALE, LastWill, clients_of
from fumarole.sessions.mqtt_window import NONE_UNDER_WAY
from fumarole.sessions.stream import Claim, State
from tests.desk import Desk, MqttClient, events_of
from tests.sessions.test_answers import Slow

A = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
BOTH = pytest.mark.parametrize("version", [V3, V5], ids=["3.1.1", "5.0"])


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


def topics(events: list[Any]) -> list[str]:
    return [event.topic for event in events if isinstance(event, Publish)]


def reasons(events: list[Any]) -> list[int]:
    return [reason for event in events if isinstance(event, Acknowledged) for reason in event.reasons]


def code(events: list[Any]) -> int:
    """The reason of the one answer or DISCONNECT."""
    (event,) = events
    assert isinstance(event, Answer | Disconnect)
    return event.reason


# Connecting.


def test_connack_3_1_1(desk: Desk) -> None:
    client = MqttClient(desk, V3, connects=False)
    client.send(packets.connect(packets.Connect(V3, "c", False, 0, None, None, None, NONE)))
    assert client.raw() == b"\x20\x02\x00\x00"  # Session Present is 0, though a session was asked for


def test_connack_5(desk: Desk) -> None:
    """Q1: the session ends with the connection, and that is said."""
    connack = MqttClient(desk, client_id="c", session_expiry=3600).connack
    assert connack == ConnAck(
        False,
        0,
        {
            Property.RECEIVE_MAXIMUM: RECEIVE_MAXIMUM,
            Property.TOPIC_ALIAS_MAXIMUM: ALIASES,
            Property.MAXIMUM_PACKET_SIZE: 1024 * 1024 + 17 * 4096,
            Property.SESSION_EXPIRY: 0,
        },
    )


def test_what_is_told_where_it_is_asked_for(desk: Desk) -> None:
    terms = Terms(max_qos=1, max_keep_alive=30)
    connack = MqttClient(desk, terms=terms, request_response_information=1, keep_alive=60).connack
    assert connack is not None
    given = connack.properties
    assert given[Property.MAXIMUM_QOS] == 1
    assert given[Property.SERVER_KEEP_ALIVE] == 30
    assert given[Property.ASSIGNED_CLIENT_ID].startswith("auto-")
    assert given[Property.RESPONSE_INFORMATION].startswith("_INBOX/")


def test_refused_connects(desk: Desk) -> None:
    assert MqttClient(desk, V3, clean=False).connack == ConnAck(False, 2, NONE)
    refused = MqttClient(desk, authentication_method="x").connack
    assert refused is not None
    assert refused.reason == Reason.AUTHENTICATION_METHOD
    will = Will("t", b"", 2, False, NONE)
    refused = MqttClient(desk, terms=Terms(max_qos=1), will=will).connack
    assert refused is not None
    assert refused.reason == Reason.NO_QOS


def test_no_connect_in_time(desk: Desk) -> None:
    client = MqttClient(desk, connects=False)
    client.session.tick(desk.now + 60)
    assert client.session.close_expected()


@BOTH
def test_keep_alive(desk: Desk, version: int) -> None:
    """A client is gone after one and a half periods of silence."""
    client = MqttClient(desk, version, keep_alive=10)
    client.session.tick(desk.now)
    client.session.tick(desk.now + 15)
    assert not client.session.close_expected()
    client.asks(packets.PINGREQ)
    client.session.tick(desk.now + 16)
    client.session.tick(desk.now + 31.5)
    assert client.session.close_expected()
    heard = client.hears()
    assert heard == [] if version == V3 else code(heard) == Reason.KEEP_ALIVE


def test_no_keep_alive(desk: Desk) -> None:
    client = MqttClient(desk)
    client.session.tick(desk.now + 100_000)
    assert not client.session.close_expected()


def test_take_over(desk: Desk) -> None:
    """Q3: the later CONNECT wins. The same id in another namespace is another client."""
    older = MqttClient(desk, client_id="c", will=Will("gone", b"older", 0, False, NONE))
    other = MqttClient(desk, client_id="c", terms=Terms(namespace="lab"))
    watcher = MqttClient(desk, client_id="watcher")
    watcher.subscribe("gone")
    newer = MqttClient(desk, client_id="c")
    assert code(older.hears()) == Reason.TAKEN_OVER
    assert older.session.close_expected()
    assert not newer.session.close_expected()
    assert not other.session.close_expected()
    assert topics(watcher.hears()) == ["gone"]
    older.session.remove_consumers()
    assert MqttClient(desk, client_id="c").connack is not None
    assert newer.session.close_expected()


def test_an_id_in_use_by_another_user(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    for version in (V3, V5):
        first = MqttClient(desk, version, client_id="c", user="ann", password=b"x")
        first.session.admit(User("ann", "default"))
        second = MqttClient(desk, version, client_id="c", user="bob", password=b"x")
        second.session.admit(User("bob", "default"))
        (refused,) = second.hears()
        assert refused.reason == (2 if version == V3 else Reason.CLIENT_ID)
        assert not first.session.close_expected()
        first.send(packets.disconnect())


def test_logins(hot_path: HotPath) -> None:
    """A user and a password; a password or a user alone is a token."""
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, user="ann", password=b"secret")
    assert client.session.claim == Claim("ann", "secret", None)
    assert MqttClient(desk, password=b"token").session.claim == Claim(None, None, "token")
    assert MqttClient(desk, V3, user="token").session.claim == Claim(None, None, "token")
    client.session.admit(None)
    (refused,) = client.hears()
    assert refused.reason == Reason.BAD_LOGIN
    client = MqttClient(desk, V3, user="ann", password=b"wrong")
    client.session.admit(None)
    assert client.hears() == [ConnAck(False, 4, NONE)]
    client = MqttClient(desk, user="ann", password=b"\xff")
    assert client.connack is not None
    assert client.connack.reason == Reason.BAD_LOGIN


def test_what_comes_before_the_login_is_done_afterwards(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, client_id="c", user="ann", password=b"x")
    assert client.subscribe("a") == []
    assert client.publish("a", b"1") == []
    client.session.admit(User("ann", "default"))
    while client.reader.unfinished:
        client.reader.go_on()
    client.send(b"")
    assert [type(event) for event in client.hears()] == [ConnAck, Acknowledged, Publish]


# Publishing and subscribing.


@BOTH
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_every_quality_of_service(desk: Desk, version: int, published: int, granted: int) -> None:
    """Q1: spoken in full on each hop; the lesser of what is published and granted is delivered."""
    publisher, subscriber = MqttClient(desk, version), MqttClient(desk, version)
    assert reasons(subscriber.subscribe("a/+", qos=granted)) == [granted]
    answers = publisher.publish("a/b", b"21.5", qos=published, packet_id=7)
    if published == 2:
        assert answers == [Answer(Packet.PUBREC, 7, 0, NONE)]
        assert publisher.asks(packets.answer(Packet.PUBREL, 7)) == [Answer(Packet.PUBCOMP, 7, 0, NONE)]
    else:
        assert answers == ([Answer(Packet.PUBACK, 7, 0, NONE)] if published else [])
    qos = min(published, granted)
    assert subscriber.hears() == [Publish("a/b", b"21.5", qos, False, False, 1 if qos else 0, NONE)]
    if qos == 1:
        assert subscriber.asks(packets.answer(Packet.PUBACK, 1)) == []
    elif qos == 2:
        assert subscriber.asks(packets.answer(Packet.PUBREC, 1)) == [Answer(Packet.PUBREL, 1, 0, NONE)]
        assert subscriber.asks(packets.answer(Packet.PUBCOMP, 1)) == []


def test_what_a_puback_says(desk: Desk) -> None:
    """Q1."""
    rules = {"lab": NamespaceRules(grammar=Grammar.CHANNEL)}
    desk = Desk(desk.hot_path, rules=rules)
    client = MqttClient(desk, terms=Terms(namespace="lab"))
    for qos in (1, 2):
        assert code(client.publish("a", qos=qos)) == Reason.NO_MATCH
        client.send(packets.answer(Packet.PUBREL, 1)).hears()
        assert code(client.publish("/a", qos=qos)) == Reason.TOPIC
        assert code(client.publish("$SYS/a", qos=qos)) == Reason.NOT_AUTHORIZED
    old = MqttClient(desk, V3, terms=Terms(namespace="lab"))
    assert code(old.publish("/a", qos=1)) == 0
    assert old.publish("/a") == []
    assert desk.counters("lab")["dropped"]["refused"] == 6


def test_permissions(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    ann = User("ann", "default", Permissions(("a.>",)), Permissions(("a.>",), ("a.secret",)))
    client = MqttClient(desk, client_id="c", user="ann", password=b"x")
    client.session.admit(ann)
    client.hears()
    assert code(client.publish("b", qos=1)) == Reason.NOT_AUTHORIZED
    assert code(client.publish("a/b", qos=1)) == Reason.NO_MATCH
    assert reasons(client.subscribe("a/+", "b", "#", "a/secret")) == [0, 0x80, 0x80, 0x80]
    for topic in ("a/b", "a/secret", "b"):
        client.publish(topic)
    client.publish("a/b")
    # `a/secret` was published, and is not shown.
    assert client.session.outbox.size == 0


def test_quotas_of_a_user(hot_path: HotPath) -> None:
    """A5, Q1: what a client makes counts as its user's; over it, 0x97."""
    desk = Desk(hot_path, authentication=True)
    ann = User("ann", "default", quota=Quotas(producers=1, consumers=2))
    client = MqttClient(desk, client_id="c", user="ann", password=b"x", metadata=[("Kind", "so2")])
    client.session.admit(ann)
    client.hears()
    assert code(client.publish("t", b"1", qos=1)) == Reason.NO_MATCH
    assert code(client.publish("t", b"1", qos=1, user=[("Producer", A)])) == Reason.QUOTA
    assert reasons(client.subscribe("a", "b", "c")) == [0, 0, Reason.QUOTA]
    old = MqttClient(desk, V3, client_id="d", user="ann", password=b"x")
    old.session.admit(ann)
    old.hears()
    assert code(old.publish("$FUM/metadata", b'{"Kind": "co2"}', qos=1)) == 0
    assert len(producers(desk)) == 1
    assert desk.counters()["dropped"]["refused"] == 2


def test_a_quota_of_retained_messages(hot_path: HotPath) -> None:
    """F1, Q1."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(quota=Quotas(retained_bytes=300))})
    client = MqttClient(desk)
    assert code(client.publish("a", b"x" * 50, qos=1, retain=True)) == Reason.NO_MATCH
    assert code(client.publish("b", b"x" * 300, qos=1, retain=True)) == Reason.QUOTA
    assert topics(client.subscribe("#")) == ["a"]


def test_new_rules_of_a_user(hot_path: HotPath) -> None:
    """A7: who may keep its filters goes on under them; another one is cut off."""
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, client_id="c", user="ann", password=b"x")
    client.session.admit(User("ann", "default"))
    client.hears()
    client.subscribe("a/#", "$SYS/#")
    publisher = MqttClient(desk, client_id="p", user="bob", password=b"x")
    publisher.session.admit(User("bob", "default"))
    publisher.hears()

    def renew(user: User) -> None:
        client.session.renew(user)
        if client.reader is not client.session:
            client.reader.renew()  # type: ignore[attr-defined]

    client.hears()
    renew(User("ann", "default", Permissions(("a.>",)), Permissions(None, ("a.secret",))))
    assert code(client.publish("b", qos=1)) == Reason.NOT_AUTHORIZED
    for topic in ("a/b", "a/secret"):
        publisher.publish(topic)
    assert topics(client.hears()) == ["a/b"]
    assert not client.session.close_expected()
    renew(User("ann", "default", None, Permissions(("b",))))
    assert code(client.hears()) == Reason.NOT_AUTHORIZED
    assert client.session.close_expected()


def test_a_filter_with_everything_below(hot_path: HotPath) -> None:
    """A3: `a/#` is allowed where `a.>` is; `a` itself is then not shown."""
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, client_id="c", user="ann", password=b"x")
    client.session.admit(User("ann", "default", None, Permissions(("a.>",))))
    client.hears()
    assert reasons(client.subscribe("a/#", "#")) == [0, 0x80]
    publisher = MqttClient(desk, client_id="p", user="bob", password=b"x")
    publisher.session.admit(User("bob", "default"))
    publisher.publish("a", b"1", retain=True)
    publisher.publish("a/b", b"2", retain=True)
    assert topics(client.hears()) == ["a/b"]
    assert topics(client.subscribe("a/#")) == ["a/b"]
    client.session.renew(User("ann", "default", None, Permissions(("a.>",), ("b",))))
    assert not client.session.close_expected()
    publisher.publish("a")
    publisher.publish("a/b")
    assert topics(client.hears()) == ["a/b"]


def test_same_packet_identifier(desk: Desk) -> None:
    """QoS 2: what comes again under an identifier in use is not published again."""
    publisher, subscriber = MqttClient(desk), MqttClient(desk)
    subscriber.subscribe("a", qos=2)
    assert code(publisher.publish("a", b"1", qos=2)) == 0
    assert code(publisher.publish("a", b"1", qos=2, dup=True)) == 0
    assert code(publisher.publish("a", b"2", qos=2)) == Reason.PACKET_ID_IN_USE
    assert len(subscriber.hears()) == 1
    assert code(publisher.asks(packets.answer(Packet.PUBREL, 1))) == 0
    assert code(publisher.asks(packets.answer(Packet.PUBREL, 1))) == Reason.PACKET_ID_UNKNOWN
    assert code(publisher.publish("a", b"2", qos=2)) == 0
    subscriber.hears()
    assert code(subscriber.asks(packets.answer(Packet.PUBREC, 77))) == Reason.PACKET_ID_UNKNOWN


def test_receive_maximum_of_the_server(desk: Desk) -> None:
    """Q3: 0x93 is enforced."""
    client = MqttClient(desk)
    for number in range(1, RECEIVE_MAXIMUM + 1):
        assert code(client.publish("a", qos=2, packet_id=number)) == Reason.NO_MATCH
    assert code(client.publish("a", qos=2, packet_id=RECEIVE_MAXIMUM + 1)) == Reason.RECEIVE_MAXIMUM
    assert client.session.close_expected()


def test_receive_maximum_of_the_client(desk: Desk) -> None:
    """Q1: what is more waits, in order, and so does what follows."""
    publisher, subscriber = MqttClient(desk), MqttClient(desk, receive_maximum=2)
    subscriber.subscribe("a", qos=1)
    for number in range(4):
        publisher.publish("a", b"%d" % number, qos=1)
    publisher.publish("a", b"4", qos=0)
    assert [event.payload for event in subscriber.hears()] == [b"0", b"1"]
    assert [event.payload for event in subscriber.asks(packets.answer(Packet.PUBACK, 1))] == [b"2"]
    assert subscriber.asks(packets.answer(Packet.PUBACK, 1)) == []  # nothing of this identifier is under way
    heard = subscriber.asks(packets.answer(Packet.PUBACK, 2))
    assert [event.payload for event in heard] == [b"3", b"4"]
    assert [event.qos for event in heard] == [1, 0]


@pytest.mark.parametrize(
    ("policy", "kept"), [(Overflow.DROP_OLDEST, b"9"), (Overflow.DROP_NEWEST, b"1"), (Overflow.DISCONNECT, b"")]
)
def test_what_waits_follows_the_policy(hot_path: HotPath, policy: Overflow, kept: bytes) -> None:
    """D6."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(overflow=policy, outbox=2000)})
    publisher, subscriber = MqttClient(desk), MqttClient(desk, receive_maximum=1)
    subscriber.subscribe("a", qos=1)
    for number in range(10):
        publisher.publish("a", bytes([48 + number]) * 400, qos=1)
    assert [event.payload[:1] for event in subscriber.hears()] == [b"0"]
    if policy is Overflow.DISCONNECT:
        assert subscriber.session.outbox.overflowed
        return
    waiting = []
    for number in range(1, 10):
        waiting += [event.payload[:1] for event in subscriber.asks(packets.answer(Packet.PUBACK, number))]
    assert (waiting[-1] if policy is Overflow.DROP_OLDEST else waiting[0]) == kept
    assert waiting == sorted(waiting)
    assert len(waiting) + desk.counters()["dropped"]["outbox full"] == 9


def test_overlapping_filters_are_one_entity(desk: Desk) -> None:
    """D2: one copy, the greatest QoS, all identifiers."""
    publisher, subscriber = MqttClient(desk), MqttClient(desk)
    subscriber.subscribe("a/+", identifier=1)
    subscriber.subscribe("a/#", identifier=2, qos=2)
    subscriber.subscribe("#", qos=1)
    subscriber.subscribe("b", identifier=4)
    publisher.publish("a/b", b"x", qos=1)
    (one,) = subscriber.hears()
    assert one.qos == 1
    assert sorted(one.properties[Property.SUBSCRIPTION_IDENTIFIER]) == [1, 2]
    assert desk.counters()["delivered"] == 1
    publisher.publish("a", b"x")
    (one,) = subscriber.hears()
    assert one.properties == {Property.SUBSCRIPTION_IDENTIFIER: [2]}
    subscriber.asks(packets.unsubscribe(packets.Unsubscribe(3, ("a/#", "#"), NONE), V5))
    publisher.publish("a/b", b"x")
    (one,) = subscriber.hears()
    assert one.properties == {Property.SUBSCRIPTION_IDENTIFIER: [1]}


def test_a_subscription_is_replaced(desk: Desk) -> None:
    client = MqttClient(desk)
    client.subscribe("a/#", identifier=1)
    client.subscribe("a/#", identifier=2, qos=1)
    (answer, message) = client.publish("a/b", b"", qos=1)[::-1]
    assert isinstance(answer, Answer)
    assert message.properties == {Property.SUBSCRIPTION_IDENTIFIER: [2]}
    assert desk.counters()["consumers"] == 2  # `a` and `a.>`


def test_unsubscribe(desk: Desk) -> None:
    client = MqttClient(desk)
    client.subscribe("a/#", "b")
    gone = client.asks(packets.unsubscribe(packets.Unsubscribe(5, ("a/#", "c"), NONE), V5))
    assert gone == [Acknowledged(Packet.UNSUBACK, 5, (0, Reason.NO_SUBSCRIPTION), NONE)]
    assert desk.counters()["consumers"] == 1
    old = MqttClient(desk, V3)
    old.send(packets.unsubscribe(packets.Unsubscribe(5, ("a/#", "c"), NONE), V3))
    assert old.raw() == b"\xb0\x02\x00\x05"


def test_a_long_list_of_filters(hot_path: HotPath) -> None:
    """It is taken in by parts, and answered once."""
    desk = Desk(hot_path, Limits(consumers_per_connection=500))
    client = MqttClient(desk, V3)
    (answer,) = client.subscribe(*(f"a/{number}" for number in range(1000)))
    assert answer.reasons == (0,) * 500 + (0x80,) * 500
    client.session.close()
    while not client.session.remove_consumers():
        pass
    assert desk.counters()["consumers"] == 0


def test_no_local(desk: Desk) -> None:
    client, other = MqttClient(desk), MqttClient(desk)
    client.subscribe(Filter("a", 0, no_local=True), Filter("b", 0, no_local=True))
    client.subscribe("b/#")
    assert code(client.publish("a", qos=1)) == Reason.NO_MATCH
    assert topics(client.publish("b", qos=1)) == ["b"]  # another filter wants it
    other.publish("a")
    assert topics(client.hears()) == ["a"]
    assert desk.counters()["delivered"] == 2


def test_wild_filters_match_no_topic_of_the_servers_own(desk: Desk) -> None:
    client = MqttClient(desk)
    client.subscribe("#", "+/a", "$SRV/#")
    (exchange,) = (each for each in desk.node.namespaces if each.name == "default")
    for topic in ("$SRV.a", "$SYS.a"):
        plan = exchange.plan(topic)
        exchange.publish(plan, publication(topic))
    assert topics(client.hears()) in (["$SRV/a"], [])


def publication(topic: str) -> Any:
    from fumarole.core.publication import Publication

    return Publication(topic, b"")


def test_the_empty_topic(desk: Desk) -> None:
    """T9, Q2."""
    client, nats = MqttClient(desk), desk.connect()
    client.subscribe("#")
    nats.say("SUB $EMPTY 1\r\nPUB $EMPTY 1\r\nx\r\n")
    assert topics(client.hears()) == ["$EMPTY"]
    nats.hears()
    client.publish("$EMPTY", b"y")
    assert nats.hears() == b"MSG $EMPTY 1 1\r\ny\r\n"


def test_shared_subscriptions(desk: Desk) -> None:
    """Q3: `$share` is our group, whatever the version, and shared with other doors."""
    new, old, nats = MqttClient(desk), MqttClient(desk, V3), desk.connect()
    assert reasons(new.subscribe("$share/g/a/#")) == [0]
    assert reasons(old.subscribe("$share/g/a/+")) == [0]
    nats.say("SUB a.> g 1\r\n")
    publisher = MqttClient(desk)
    for _ in range(30):
        publisher.publish("a/b", b"1")
    heard = [len(new.hears()), len(old.hears()), nats.hears().count(b"MSG")]
    assert sum(heard) == 30
    assert all(9 <= each <= 11 for each in heard)
    wrong = ["$share/g", "$share//a", "$share/g/", "$share/+/a", "$share/#/a", "a#"]
    assert reasons(new.subscribe(*wrong)) == [Reason.FILTER] * len(wrong)
    assert reasons(old.subscribe("$share/g")) == [0x80]


# Properties and headers.


def test_properties_cross_as_they_were(desk: Desk) -> None:
    """Q5."""
    publisher, subscriber, old = MqttClient(desk), MqttClient(desk), MqttClient(desk, V3)
    subscriber.subscribe("a")
    old.subscribe("a")
    given: dict[int, Any] = {
        Property.PAYLOAD_FORMAT: 1,
        Property.MESSAGE_EXPIRY: 60,
        Property.CONTENT_TYPE: "text/plain",
        Property.RESPONSE_TOPIC: "r/1",
        Property.CORRELATION_DATA: b"\x00\xff",
        Property.USER: [
            ("b", "2"),
            ("a", "1"),
            ("b", "2"),
            ("sp ace", "x"),
            ("x", " y\n"),
            ("", ""),
            ("Mqtt-Qos", "2"),
        ],
    }
    publisher.publish("a", b"p", **{Property(number).name.lower(): value for number, value in given.items()})
    (heard,) = subscriber.hears()
    assert heard.properties == given
    assert old.hears() == [Publish("a", b"p", 0, False, False, 0, NONE)]


def test_properties_are_headers_at_other_doors(desk: Desk) -> None:
    nats, publisher = desk.connect(), MqttClient(desk)
    nats.say("SUB a 1\r\n")
    publisher.publish(
        "a", b"p", qos=1, message_expiry=60, response_topic="r/1", correlation_data=b"key", user=[("k", "v")]
    )
    head = b"NATS/1.0\r\nMqtt-Qos: 1\r\nMqtt-Expiry: 60\r\nMqtt-Correlation: a2V5\r\nk: v\r\n\r\n"
    assert nats.hears() == b"HMSG a 1 r.1 %d %d\r\n%bp\r\n" % (len(head), len(head) + 1, head)


def test_headers_are_properties(desk: Desk) -> None:
    nats, subscriber = desk.connect(), MqttClient(desk)
    subscriber.subscribe("a", qos=1)
    head = b"NATS/1.0\r\nContent-Type: t\r\nMqtt-Expiry: 5\r\nMqtt-Format: 1\r\nMqtt-Correlation: a2V5\r\nk: v\r\nk: w\r\n\r\n"
    nats.say(b"HPUB a r.1 %d %d\r\n%bp\r\n" % (len(head), len(head) + 1, head))
    assert subscriber.hears() == [
        Publish(
            "a",
            b"p",
            0,
            False,
            False,
            0,
            {
                Property.CONTENT_TYPE: "t",
                Property.MESSAGE_EXPIRY: 5,
                Property.PAYLOAD_FORMAT: 1,
                Property.CORRELATION_DATA: b"key",
                Property.USER: [("k", "v"), ("k", "w")],
                Property.RESPONSE_TOPIC: "r/1",
            },
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"Mqtt-Expiry: -1",
        b"Mqtt-Expiry: 99999999999",
        b"Mqtt-Format: 7",
        b"Mqtt-Correlation: !",
        b"Mqtt-Property: [",
        b"Mqtt-Property: [38, 1, 2]",
        b'Mqtt-Property: [38, "\\ud800", "x"]',
        b"Mqtt-Qos: 3",
        b"x: a\x00b",
    ],
)
def test_headers_that_are_no_properties(desk: Desk, line: bytes) -> None:
    nats, subscriber = desk.connect(), MqttClient(desk)
    subscriber.subscribe("a", qos=2)
    head = b"NATS/1.0\r\n" + line + b"\r\n\r\n"
    nats.say(b"HPUB a %d %d\r\n%bp\r\n" % (len(head), len(head) + 1, head))
    assert subscriber.hears() == [Publish("a", b"p", 0, False, False, 0, NONE)]


def test_maximum_packet_size_of_the_client(desk: Desk) -> None:
    publisher, small = MqttClient(desk), MqttClient(desk, maximum_packet_size=50)
    small.subscribe("a")
    publisher.publish("a", b"x" * 60)
    publisher.publish("a", b"y")
    assert [event.payload for event in small.hears()] == [b"y"]
    assert desk.counters()["dropped"]["outbox full"] == 1


# Producers (Q4).


def producers(desk: Desk) -> dict[str, Any]:
    (exchange,) = (each for each in desk.node.namespaces if each.name == "default")
    return {producer.identity: said_by_producer(producer.metadata) for producer in exchange.producers}


def test_user_properties_of_connect_are_metadata(desk: Desk) -> None:
    nats = desk.connect()
    nats.say("SUB > 1\r\n")
    users = [("Kind", "so2"), ("Height", "12.5"), ("On", "true"), ("Code", "007"), ("Producer", "x"), ("Big", "1e999")]
    client = MqttClient(desk, client_id="sensor", metadata=users)
    ((identity, metadata),) = producers(desk).items()
    assert metadata == {"Kind": "so2", "Height": 12.5, "On": True, "Code": "007", "Big": "1e999"}
    assert identity[14] == "5"
    client.publish("volcanoes/usa/atka", b"21.5", user=[("Kind", ""), ("Room", "410")])
    assert producers(desk) == {identity: {"Height": 12.5, "On": True, "Code": "007", "Big": "1e999", "Room": 410}}
    said = nats.hears()
    assert f"Producer: {identity}\r\n".encode() in said
    assert b'Metadata: {"Kind": null, "Room": 410}\r\n' in said
    again = MqttClient(desk, client_id="sensor", metadata=[("Kind", "co2")])
    assert again.connack is not None
    assert list(producers(desk)) == [identity]


def test_a_client_id_that_is_a_uuid(desk: Desk) -> None:
    MqttClient(desk, V3, client_id=A.upper()).publish("t", b"7")
    assert list(producers(desk)) == [A]


def test_metadata_of_3_1_1(desk: Desk) -> None:
    client = MqttClient(desk, V3, client_id="sensor")
    client.publish("t", b"1")
    assert producers(desk) == {}
    client.publish("$FUM/metadata", b'{"Kind": "so2"}')
    client.publish("$FUM/metadata", b"nonsense")
    ((identity, metadata),) = producers(desk).items()
    assert metadata == {"Kind": "so2"}
    client.publish("t", b"1")
    assert list(producers(desk)) == [identity]


def test_a_property_names_the_producer(desk: Desk) -> None:
    client = MqttClient(desk)
    client.publish("t", b"1", user=[("Producer", A), ("Kind", "so2")])
    client.publish("t", b"1", user=[("Producer", "somebody"), ("Kind", "co2")])
    assert producers(desk) == {A: {"Kind": "so2"}}


def test_a_uuid_needs_a_right(hot_path: HotPath) -> None:
    """Without it the message goes out as an ordinary one."""
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, client_id=A, user="ann", password=b"x")
    client.session.admit(User("ann", "default", Permissions(("t",)), Permissions(("t",))))
    client.hears()
    client.subscribe("t")
    assert topics(client.publish("t", b"1")) == ["t"]
    assert producers(desk) == {}
    assert code(client.publish("t", b"1", qos=1, user=[("Producer", A)])) == Reason.NOT_AUTHORIZED


# Wills.


def test_wills(desk: Desk) -> None:
    watcher = MqttClient(desk)
    watcher.subscribe("gone/+", qos=1)
    will = Will("gone/c", b"bye", 1, False, {Property.USER: [("why", "lost")]})
    MqttClient(desk, will=will).session.close()
    (heard,) = watcher.hears()
    assert heard[:3] == ("gone/c", b"bye", 1)
    assert heard.properties == {Property.USER: [("why", "lost")]}
    MqttClient(desk, will=will).send(packets.disconnect())
    assert watcher.hears() == []
    MqttClient(desk, will=will).send(packets.disconnect(4))
    assert topics(watcher.hears()) == ["gone/c"]
    MqttClient(desk, will=will).session.send_away()
    assert watcher.hears() == []
    MqttClient(desk, will=will).send(b"\xff\xff\xff\xff\xff\xff")
    assert topics(watcher.hears()) == ["gone/c"]


def test_a_delayed_will(desk: Desk) -> None:
    """Q3: with a delay where the client asked for a session of at least that length; its return cancels it."""
    watcher = MqttClient(desk)
    watcher.subscribe("gone")
    will = Will("gone", b"", 0, False, {Property.WILL_DELAY: 5})

    def lost(expiry: int, client_id: str) -> None:
        MqttClient(desk, client_id=client_id, will=will, session_expiry=expiry).session.close()

    lost(0, "short")
    assert topics(watcher.hears()) == ["gone"]
    lost(60, "long")
    lost(60, "back")
    assert watcher.hears() == []
    MqttClient(desk, client_id="back")
    desk.node.tick(desk.now + 4)
    assert watcher.hears() == []
    desk.node.tick(desk.now + 6)
    assert topics(watcher.hears()) == ["gone"]
    desk.node.tick(desk.now + 60)
    assert watcher.hears() == []


@pytest.mark.parametrize(("expiry", "at"), [(0, 0), (3, 4), (60, 6)])
def test_a_disconnect_says_how_long_its_will_waits(desk: Desk, expiry: int, at: int) -> None:
    """DISCONNECT with will, and another Session Expiry Interval: the will waits for the shorter of that and its delay."""
    watcher = MqttClient(desk)
    watcher.subscribe("gone")
    will = Will("gone", b"", 0, False, {Property.WILL_DELAY: 5})
    leaving = MqttClient(desk, client_id="leaving", will=will, session_expiry=30)
    leaving.send(packets.disconnect(Reason.WITH_WILL, values={Property.SESSION_EXPIRY: expiry}))
    if at:
        desk.node.tick(desk.now + at - 1)
        assert watcher.hears() == []
        desk.node.tick(desk.now + at)
    assert topics(watcher.hears()) == ["gone"]


def test_very_many_delayed_wills_fall_due_together(desk: Desk) -> None:
    """Hazard 14: they are looked at and published in slices. Hazard 9: what was cancelled leaves nothing behind."""
    slices, clients = desk.node.namespaces.slices, clients_of(desk.node)
    watcher = MqttClient(desk)
    watcher.subscribe("gone/+")
    speaker = watcher.session.speaker
    assert speaker is not None
    wills = [
        LastWill(("default", f"c{number}"), speaker, Will(f"gone/{number}", b"", 0, False, NONE))
        for number in range(3 * DUE_AT_ONCE)
    ]
    for will in wills:
        clients.bequeath(will, 5.0, desk.now)
    for _ in range(3 * STALE):  # a client that comes and goes
        clients.bequeath(wills[0], 5.0, desk.now)
        clients.claimed(ClientClaim("default", "c0", None, 1), "other")
    assert len(clients._times) <= 2 * 3 * DUE_AT_ONCE + STALE
    slices.put_off = lambda: None
    desk.node.tick(desk.now + 6.0)
    heard, most, is_more = len(watcher.hears()), 0, True
    assert heard == 0
    while is_more:
        is_more = slices.step()
        some = len(watcher.hears())
        heard, most = heard + some, max(most, some)
    assert (heard, most) == (3 * DUE_AT_ONCE - 1, 1)


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_very_many_wills_at_once(hot_path: HotPath, count: int) -> None:
    """Hazard 14: clients that all go at once have their wills published one in a slice; nothing is left."""
    desk = Desk(hot_path, Limits(quota=NamespaceQuotas(connections=2 * count)))
    slices, asked = desk.node.namespaces.slices, []
    watcher = MqttClient(desk)
    watcher.subscribe("gone/#")
    clients = [
        MqttClient(desk, V3, client_id=f"c{number}", will=Will(f"gone/{number}", b"", 0, False, NONE))
        for number in range(count)
    ]
    slices.put_off = lambda: asked.append(True)
    for client in clients:
        client.session.close()
        client.session.remove_consumers()
    assert asked
    assert watcher.hears() == []
    heard, most, is_more = 0, 0, True
    while is_more:
        is_more = slices.step()
        some = len(watcher.hears())
        heard, most = heard + some, max(most, some)
    assert (heard, most) == (count, 1)
    assert len(clients_of(desk.node)) == 1


def test_a_will_that_is_not_allowed_is_counted(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = MqttClient(desk, user="ann", password=b"x", will=Will("b", b"", 0, False, NONE))
    client.session.admit(User("ann", "default", Permissions(("a",))))
    client.session.close()
    assert desk.counters()["dropped"]["refused"] == 1


# The end.


def test_nothing_is_left(desk: Desk) -> None:
    clients = [MqttClient(desk, client_id=str(number)) for number in range(5)]
    for client in clients:
        client.subscribe("a/#", "$share/g/b", qos=2)
    MqttClient(desk).publish("a/b", b"1", qos=2)
    for client in clients:
        client.session.close()
        assert client.session.remove_consumers()
    assert desk.counters()["consumers"] == 0
    assert desk.counters()["connections"] == 1


def test_an_idle_session_takes_no_room_that_it_does_not_need(desk: Desk) -> None:
    """With more than 30 attributes an instance dict takes 1.6 KB, and an empty deque 760 bytes."""
    client, publisher = MqttClient(desk, receive_maximum=1), MqttClient(desk)
    client.subscribe("a", qos=1)
    for number in range(3):
        publisher.publish("a", b"%d" % number, qos=1)
    client.hears()
    for number in range(1, 4):
        client.asks(packets.answer(Packet.PUBACK, number))
    session, outlet = client.session, client.session.outlet
    assert outlet is not None
    assert outlet._window._waiting is None
    assert outlet._window._is_received is NONE_UNDER_WAY
    for each in (session, outlet, session._subscriptions, session._protocol, session._answers, session.speaker):
        assert not hasattr(each, "__dict__"), each


def test_idle_sessions_share_what_is_empty(desk: Desk) -> None:
    """What one of them needs is its own, and another one's is still empty."""
    busy, idle, publisher = MqttClient(desk), MqttClient(desk), MqttClient(desk)
    idle.subscribe("b")
    busy.subscribe("a", "+", "$SYS/#", qos=2)
    busy.publish("c", b"1", qos=2, packet_id=5, topic_alias=1)
    busy.publish("t", b"1", user=[("Producer", A)])
    publisher.publish("a", b"1", qos=2)
    one, other = busy.session, idle.session
    for session, is_empty in ((one, False), (other, True)):
        outlet, subscriptions, speaking = session.outlet, session._subscriptions, session.speaking
        assert outlet is not None
        assert subscriptions is not None
        assert speaking is not None
        found = [
            session._received,
            session.aliases,
            speaking.producers,
            outlet._joined,
            outlet._window._is_received,
            subscriptions._own,
        ]
        assert all(not each for each in found) if is_empty else all(found)
    assert one.aliases == {1: "c"}
    assert other.aliases is MqttClient(desk).session.aliases


def test_a_session_cannot_be_made_longer(desk: Desk) -> None:
    client = MqttClient(desk)
    heard = client.asks(packets.disconnect(0, values={Property.SESSION_EXPIRY: 5}))
    assert code(heard) == Reason.PROTOCOL_ERROR


def test_confirmed_everywhere_first(desk: Desk) -> None:
    """C2: SUBACK is the confirmation."""
    slow = Slow()
    desk.node.confirmations = slow
    client = MqttClient(desk)
    slow.given = 1
    assert client.subscribe("a") == []
    slow.reach(1)
    assert reasons(client.hears()) == [0]
    assert client.session.state is State.OPEN


# Retained messages (F1, F3).


def flags(events: list[Any]) -> list[tuple[str, bytes, bool]]:
    return [(event.topic, event.payload, event.retain) for event in events if isinstance(event, Publish)]


@BOTH
def test_retained(desk: Desk, version: int) -> None:
    """By wildcard, with the retain flag; an empty payload removes it."""
    publisher, subscriber = MqttClient(desk, version), MqttClient(desk, version)
    live = MqttClient(desk, version)
    live.subscribe("#")
    for topic in ("a", "a/b", "c"):
        publisher.publish(topic, b"1", retain=True)
    publisher.publish("a/b", b"2", qos=1, retain=True)
    publisher.publish("a/b", b"3")
    assert not any(retain for _, _, retain in flags(live.hears()))
    heard = subscriber.subscribe("a/#", qos=1)
    assert isinstance(heard[0], Acknowledged)
    assert sorted(flags(heard[1:])) == [("a", b"1", True), ("a/b", b"2", True)]
    publisher.publish("a/b", b"", retain=True)
    assert flags(subscriber.hears()) == [("a/b", b"", False)]
    assert flags(subscriber.subscribe("a/#")) == [("a", b"1", True)]


def test_what_is_retained_before_the_confirmation_comes_once(desk: Desk) -> None:
    """Nothing was retained when the client subscribed: what is retained from then on is a live message."""
    slow = Slow()
    desk.node.confirmations = slow
    client, publisher = MqttClient(desk), MqttClient(desk)
    slow.given = 1
    assert client.subscribe("a/#") == []
    publisher.publish("a/b", b"1", retain=True)
    slow.reach(1)
    assert flags(client.hears()) == [("a/b", b"1", False)]
    client.subscribe("a/#")
    slow.reach(1)
    assert flags(client.hears()) == [("a/b", b"1", True)]


def test_retain_handling_and_as_published(desk: Desk) -> None:
    publisher, subscriber = MqttClient(desk), MqttClient(desk)
    publisher.publish("a", b"1", retain=True)
    assert len(subscriber.subscribe(Filter("a", 0, handling=1))) == 2
    assert len(subscriber.subscribe(Filter("a", 0, handling=1))) == 1
    assert len(subscriber.subscribe(Filter("+", 0, handling=2))) == 1
    assert len(subscriber.subscribe(Filter("a", 0, as_published=True))) == 2
    assert len(subscriber.subscribe("$share/g/a")) == 1
    subscriber.asks(packets.unsubscribe(packets.Unsubscribe(1, ("$share/g/a",), NONE), V5))
    publisher.publish("a", b"2", retain=True)
    publisher.publish("a", b"3")
    assert flags(subscriber.hears()) == [("a", b"2", True), ("a", b"3", False)]


def test_retained_crosses_doors(desk: Desk) -> None:
    nats, client = desk.connect(), MqttClient(desk)
    nats.say(b"HPUB a 23 25\r\nNATS/1.0\r\nRetain: 1\r\n\r\nhi\r\n")
    assert flags(client.subscribe("a")) == [("a", b"hi", True)]
    client.publish("b", b"x", retain=True, user=[("k", "v")])
    nats.say("SUB $LAST.b 1\r\n")
    heard = nats.hears()
    assert b"Retain: 1\r\nk: v\r\n" in heard
    assert b"Last: " in heard


def test_a_retained_message_expires(desk: Desk) -> None:
    client = MqttClient(desk)
    client.publish("a", b"1", retain=True, message_expiry=0)
    client.publish("b", b"1", retain=True, message_expiry=100)
    assert topics(client.subscribe("#")) == ["b"]


def test_what_waits_for_the_client_expires(desk: Desk) -> None:
    """Of what waits behind the receive maximum: what has expired is dropped, and the rest says how much is left."""
    publisher, subscriber = MqttClient(desk), MqttClient(desk, receive_maximum=1)
    subscriber.subscribe("a", qos=1)
    for payload, seconds in ((b"0", 10), (b"1", 3), (b"2", 10)):
        publisher.publish("a", payload, qos=1, message_expiry=seconds)
    publisher.publish("a", b"3", message_expiry=3)
    (first,) = subscriber.hears()
    assert first.properties[Property.MESSAGE_EXPIRY] == 10
    desk.node.namespaces.timers.run(desk.node.namespaces.timers.now() + 4)
    (second,) = subscriber.asks(packets.answer(Packet.PUBACK, 1))
    assert (second.payload, second.properties[Property.MESSAGE_EXPIRY]) == (b"2", 6)
    assert subscriber.asks(packets.answer(Packet.PUBACK, 2)) == []
    assert desk.counters()["dropped"]["outbox full"] == 2
    assert not subscriber.session.outbox.late


def test_overlapping_filters_and_what_is_retained(desk: Desk) -> None:
    client, publisher = MqttClient(desk), MqttClient(desk)
    publisher.publish("a", b"1", retain=True)
    client.subscribe("a")
    client.subscribe("#")
    publisher.publish("a", b"2", retain=True)
    publisher.publish("a", b"3")
    assert [payload for _, payload, _ in flags(client.hears())] == [b"2", b"3"]


def test_last_and_every(hot_path: HotPath) -> None:
    """F9: options as leading levels of a filter."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(last="all")})
    client = MqttClient(desk)
    client.publish("a/b", b"1")
    assert flags(client.subscribe("$LAST/a/#")) == [("a/b", b"1", True)]
    assert client.subscribe("a/#")[1:] == []
    assert reasons(client.subscribe("$EVERY/1s/a/b", "$EVERY/x/a")) == [0, Reason.FILTER]


def test_aliases_of_the_server(desk: Desk) -> None:
    """Q3: for messages that cannot be dropped any more, so that no alias is lost."""
    publisher, subscriber = MqttClient(desk), MqttClient(desk, topic_alias_maximum=1)
    subscriber.subscribe("a/#", qos=1)
    for topic, qos in (("a/long/topic", 1), ("a/long/topic", 1), ("a/other", 1), ("a/long/topic", 0)):
        publisher.publish(topic, b"x", qos=qos)
    raw = subscriber.raw()
    assert raw.count(b"a/long/topic") == 1
    heard = events_of(subscriber.protocol, raw)
    assert [event.topic for event in heard] == ["a/long/topic", "a/long/topic", "a/other", "a/long/topic"]
    assert [event.properties.get(Property.TOPIC_ALIAS) for event in heard] == [1, 1, None, 1]
