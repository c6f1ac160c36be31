"""paho-mqtt against a broker: `talk_paho.py PORT VERSION [PART]`. Ends with an error where anything is not as it should be.

The parts `secured` (files and passwords are in the environment) and `restarted` (it prints `ready`, and then the broker
is restarted) are run only where they are named.
"""

import json
import os
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


def request_and_response():
    asking, answering = Client("asking"), Client("answering")
    answering.subscribe("ask", 1)
    asking.subscribe("answer/1", 1)
    how = {}
    if VERSION == 5:
        how = {"properties": given(PacketTypes.PUBLISH, ResponseTopic="answer/1", CorrelationData=b"7")}
    asking.publish("ask", b"?", 1, **how)
    question = answering.gets(("ask", b"?", 1, False))
    if VERSION == 5:
        how = {"properties": given(PacketTypes.PUBLISH, CorrelationData=question.properties.CorrelationData)}
        answering.publish(question.properties.ResponseTopic, b"21.5", 1, **how)
    else:
        answering.publish("answer/1", b"21.5", 1)
    answer = asking.gets(("answer/1", b"21.5", 1, False))
    assert VERSION < 5 or answer.properties.CorrelationData == b"7"
    asking.end()
    answering.end()


def secured():
    files = json.loads(os.environ["MQTT_FILES"])

    def dialed(name, password, **certificates):
        client = Client.__new__(Client)
        client.messages, client.reasons = queue.Queue(), queue.Queue()
        made = client.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=VERSION)
        made.on_connect = lambda _client, _data, _flags, reason, _given: client.reasons.put(reason)
        made.on_subscribe = lambda _client, _data, _id, reasons, _given: client.reasons.put(reasons[0])
        made.on_message = lambda _client, _data, message: client.messages.put(message)
        made.tls_set(files["authority"], **certificates)
        made.username_pw_set("ann", password)
        made.connect("127.0.0.1", PORT)
        made.loop_start()
        return client

    own = {"certfile": files["certificate"], "keyfile": files["key"]}
    wrong = dialed(f"paho-wrong-{VERSION}", "wrong", **own)
    assert wrong.reason().is_failure
    wrong.client.loop_stop()
    client = dialed(f"paho-right-{VERSION}", files["password"], **own)
    assert not client.reason().is_failure
    assert not client.subscribe("allowed/#", 1).is_failure
    assert client.subscribe("elsewhere/#", 1).is_failure
    client.publish("elsewhere/a", b"dropped", 1)
    client.publish("allowed/paho", b"x", 1)
    while (message := client.messages.get(timeout=SECONDS)).topic != "allowed/paho":
        assert message.topic.startswith("allowed/")
    client.end()


def restarted():
    messages, connected = queue.Queue(), queue.Queue()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"paho-{VERSION}", protocol=VERSION)
    client.reconnect_delay_set(0.1, 0.5)
    client.on_connect = lambda *_: client.subscribe(f"again/paho/{VERSION}", 1)
    client.on_subscribe = lambda *_: connected.put(True)
    client.on_message = lambda _client, _data, message: messages.put(message)
    client.connect("127.0.0.1", PORT)
    client.loop_start()
    connected.get(timeout=SECONDS)
    print("ready", flush=True)
    connected.get(timeout=3 * SECONDS)
    client.publish(f"again/paho/{VERSION}", b"x", 1).wait_for_publish(SECONDS)
    assert messages.get(timeout=SECONDS).payload == b"x"
    client.disconnect()
    client.loop_stop()


PARTS = [qualities, retained, wills, groups, taking_over, request_and_response]
if sys.argv[3:]:
    PARTS = [globals()[sys.argv[3]]]
elif VERSION == 5:
    PARTS.append(version_5)
for part in PARTS:
    part()
    print(part.__name__, flush=True)
