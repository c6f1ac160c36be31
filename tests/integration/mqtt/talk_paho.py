"""paho-mqtt against a broker: `talk_paho.py PORT VERSION`. Ends with an error where anything is not as it should be."""

import queue
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PORT, VERSION = int(sys.argv[1]), int(sys.argv[2])
SECONDS = 10.0


class Client:
    def __init__(self, name, will=None, **options):
        self.messages, self.reasons = queue.Queue(), queue.Queue()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=VERSION)
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_connect = lambda _client, _data, _flags, reason, _given: self.reasons.put(reason)
        self.client.on_subscribe = lambda _client, _data, _id, reasons, _given: self.reasons.put(reasons[0])
        self.client.on_disconnect = lambda _client, _data, _flags, reason, _given: self.reasons.put(reason)
        if will:
            self.client.will_set(*will)
        self.client.connect("127.0.0.1", PORT, **options)
        self.client.loop_start()
        assert not self.reason().is_failure

    def reason(self):
        return self.reasons.get(timeout=SECONDS)

    def subscribe(self, *what, **how):
        self.client.subscribe(*what, **how)
        return self.reason()

    def publish(self, *what, **how):
        self.client.publish(*what, **how).wait_for_publish(SECONDS)

    def gets(self, *expected):
        found = []
        while len(found) < len(expected):
            message = self.messages.get(timeout=SECONDS)
            found.append((message.topic, message.payload, message.qos, bool(message.retain)))
        assert found == list(expected), (found, expected)
        return message

    def gets_nothing(self):
        time.sleep(0.3)
        assert self.messages.empty(), self.messages.get()

    def end(self):
        self.client.disconnect()
        self.client.loop_stop()


def qualities():
    one, two = Client("one"), Client("two")
    for qos in range(3):
        assert two.subscribe(f"q/{qos}", qos).value == qos
    for published in range(3):
        for granted in range(3):
            one.publish(f"q/{granted}", b"x", published)
            two.gets((f"q/{granted}", b"x", min(published, granted), False))
    one.end()
    two.end()


def retained():
    one, two = Client("one"), Client("two")
    one.publish("r/a", b"1", 1, retain=True)
    one.publish("r/b", b"2", 0, retain=True)
    two.subscribe("r/a", 1)
    two.gets(("r/a", b"1", 1, True))
    one.publish("r/a", b"", 1, retain=True)
    two.gets(("r/a", b"", 1, False))
    two.subscribe("r/#", 0)
    two.gets(("r/b", b"2", 0, True))
    one.end()
    two.end()


def wills():
    watcher = Client("watcher")
    watcher.subscribe("will", 1)
    dying = Client("dying", ("will", b"bye", 1))
    dying.client._sock_close()  # as a broken network does
    watcher.gets(("will", b"bye", 1, False))
    dying.client.loop_stop()
    polite = Client("polite", ("will", b"bye", 1))
    polite.end()
    watcher.gets_nothing()
    watcher.end()


def groups():
    members = [Client(f"member{number}") for number in range(3)]
    for member in members:
        member.subscribe("$share/g/s/#", 1)
    publisher = Client("publisher")
    for number in range(90):
        publisher.publish("s/x", b"%d" % number, 1)
    end = time.monotonic() + SECONDS
    while sum(member.messages.qsize() for member in members) < 90 and time.monotonic() < end:
        time.sleep(0.01)
    sizes = [member.messages.qsize() for member in members]
    assert sum(sizes) == 90 and min(sizes) >= 28, sizes
    for client in (*members, publisher):
        client.end()


def taking_over():
    older = Client("same")
    newer = Client("same")
    assert older.reason().is_failure or VERSION < 5
    older.client.loop_stop()
    newer.subscribe("t", 0)
    newer.publish("t", b"1")
    newer.gets(("t", b"1", 0, False))
    newer.end()


def given(packet, **values):
    made = Properties(packet)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def version_5():
    connect = given(PacketTypes.CONNECT, UserProperty=[("Kind", "so2")], TopicAliasMaximum=10)
    one = Client("one", properties=connect)
    two = Client("two")
    two.subscribe(
        "v/#",
        options=SubscribeOptions(qos=1, noLocal=True),
        properties=given(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=7),
    )
    two.subscribe(
        "v/a", options=SubscribeOptions(qos=2), properties=given(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=8)
    )
    alias = given(
        PacketTypes.PUBLISH,
        TopicAlias=3,
        UserProperty=[("b", "1"), ("a", "2"), ("b", "1")],
        CorrelationData=b"\0\xff",
        ResponseTopic="v/answer",
        ContentType="text/plain",
        PayloadFormatIndicator=1,
        MessageExpiryInterval=60,
    )
    one.publish("v/a", b"first", 1, properties=alias)
    message = two.gets(("v/a", b"first", 1, False))
    found = message.properties
    assert found.UserProperty[:3] == [("b", "1"), ("a", "2"), ("b", "1")], found.UserProperty
    assert (found.CorrelationData, found.ResponseTopic, found.ContentType) == (b"\0\xff", "v/answer", "text/plain")
    assert (found.PayloadFormatIndicator, found.MessageExpiryInterval) == (1, 60)
    assert sorted(found.SubscriptionIdentifier) == [7, 8], found.SubscriptionIdentifier
    one.publish("", b"second", 1, properties=given(PacketTypes.PUBLISH, TopicAlias=3))
    two.gets(("v/a", b"second", 1, False))
    two.publish("v/b", b"own", 1)
    two.gets_nothing()
    one.subscribe("v/answer")
    two.publish(
        found.ResponseTopic, b"answer", properties=given(PacketTypes.PUBLISH, CorrelationData=found.CorrelationData)
    )
    assert one.gets(("v/answer", b"answer", 0, False)).properties.CorrelationData == b"\0\xff"
    one.end()
    two.end()


for part in (qualities, retained, wills, groups, taking_over, *([version_5] if VERSION == 5 else [])):
    part()
    print(part.__name__, flush=True)
