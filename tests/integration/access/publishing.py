"""Ways on which a user says something: root hears what gets through."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import grpc

from fumarole.core import headers
from fumarole.protocols.kubemq_pb2 import Event, Request, Response, Subscribe
from fumarole.protocols.mqtt_fields import NONE, Property
from fumarole.protocols.mqtt_packets import Will
from tests.integration.access.desks import OPEN, SECRET, AccessNode, Stage, named, reading_headers
from tests.integration.access.paths import path, put
from tests.integration.raw import RawClient

Say = Callable[[AccessNode, str, int], None]
"""Says the secret message, then the open one, as the user with this token."""
OF_A_READING = {"secret": SECRET, "open": OPEN}


def heard_by_root(say: Say, pattern: str = ">") -> Any:
    """What arrives at root, on the first node."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        with stage.nodes[0].nats("root") as root:
            root.talk(b"SUB %b 1\r\n" % pattern.encode())
            say(node, token, number)
            return named(root.read_until(b"open %d." % number), number)

    return hears


def both(number: int) -> list[tuple[str, bytes]]:
    return [(name, f"{name} {number}.".encode()) for name in ("secret", "open")]


def nats_says(frame: Callable[[bytes, bytes], bytes], come: Callable[[AccessNode, str], RawClient]) -> Say:
    def say(node: AccessNode, token: str, number: int) -> None:
        with come(node, token) as client:
            client.talk(b"".join(frame(name.encode(), payload) for name, payload in both(number)))

    return say


def plain(name: bytes, payload: bytes) -> bytes:
    return b"PUB %b.a %d\r\n%b\r\n" % (name, len(payload), payload)


def with_reply(name: bytes, payload: bytes) -> bytes:
    return b"PUB %b.a _INBOX.me %d\r\n%b\r\n" % (name, len(payload), payload)


def with_headers(name: bytes, payload: bytes, *fields: tuple[str, str]) -> bytes:
    block = headers.build([("X", "y"), *fields])
    return b"HPUB %b.a %d %d\r\n%b%b\r\n" % (name, len(block), len(block) + len(payload), block, payload)


def retained(name: bytes, payload: bytes) -> bytes:
    return with_headers(name, payload, ("Retain", "1"))


put("nats says", ("nats:Publish",), heard_by_root(nats_says(plain, AccessNode.nats)))
put("nats over web says", ("nats:Publish",), heard_by_root(nats_says(plain, AccessNode.nats_over_web)))
put("nats requests", ("nats:Publish",), heard_by_root(nats_says(with_reply, AccessNode.nats)))
put("nats says with headers", ("nats:Publish",), heard_by_root(nats_says(with_headers, AccessNode.nats)))
put("nats says and retains", ("nats:Publish",), heard_by_root(nats_says(retained, AccessNode.nats)))


def mqtt_says(qos: int, come: Callable[[AccessNode, str], Any], **options: Any) -> Say:
    def say(node: AccessNode, token: str, number: int) -> None:
        with come(node, token) as client:
            for name, payload in both(number):
                client.publishes(f"{name}/a", payload, qos, **options)

    return say


PRODUCED = ("mqtt:Publish", "mqtt:Answer", "mqtt:Ping")
for qos in range(3):
    put(f"mqtt says with qos {qos}", PRODUCED, heard_by_root(mqtt_says(qos, AccessNode.mqtt)))
put("mqtt over web says", PRODUCED, heard_by_root(mqtt_says(1, AccessNode.mqtt_over_web)))
put("mqtt says and retains", PRODUCED, heard_by_root(mqtt_says(1, AccessNode.mqtt, retain=True)))


def mqtt_wills(node: AccessNode, token: str, number: int) -> None:
    """Each of a client that is gone without a word, the first one first."""
    for name, payload in both(number):
        with contextlib.suppress(EOFError):
            client = node.mqtt(token, Will(f"{name}/a", payload, 0, False, NONE))
            client.settle()
            client.socket.close()


put("mqtt will", ("mqtt:Connect",), heard_by_root(mqtt_wills))


def web_says(node: AccessNode, token: str, number: int) -> None:
    for name, payload in both(number):
        node.web(token, "POST", f"/v1/topics/{name}.a", payload)


def web_says_and_retains(node: AccessNode, token: str, number: int) -> None:
    for name, payload in both(number):
        node.web(token, "POST", f"/v1/topics/{name}/a?retain=1", payload)


def web_says_lines(node: AccessNode, token: str, number: int) -> None:
    lines = [json.dumps({"topic": f"{name}.a", "payload": payload.decode()}) for name, payload in both(number)]
    node.web(token, "POST", "/v1/topics", "\n".join(lines), Content_Type="application/x-ndjson")


def web_asks(node: AccessNode, token: str, number: int) -> None:
    for name, payload in both(number):
        node.web(token, "POST", f"/v1/requests/{name}.a?timeout=0.01", payload)


put("web says", ("http:POST /v1/topics/{topic}",), heard_by_root(web_says))
put("web says and retains", ("http:POST /v1/topics/{topic}",), heard_by_root(web_says_and_retains))
put("web says lines", ("http:POST /v1/topics",), heard_by_root(web_says_lines))
put("web asks", ("http:POST /v1/requests/{topic}",), heard_by_root(web_asks))


def kubemq_says(node: AccessNode, token: str, number: int) -> None:
    with node.kubemq(token) as calls:
        for name, payload in both(number):
            with contextlib.suppress(grpc.RpcError):
                calls.send(f"{name}.a", payload)


def kubemq_streams(node: AccessNode, token: str, number: int) -> None:
    with node.kubemq(token) as calls:
        for name, payload in both(number):
            stream = calls.stream()
            stream.send_bytes(Event(ClientID="me", Channel=f"{name}.a", Body=payload, EventID="e").SerializeToString())
            with contextlib.suppress(grpc.RpcError):
                stream.end()


put("kubemq says", ("kubemq:SendEvent",), heard_by_root(kubemq_says))
put("kubemq streams", ("kubemq:SendEventsStream",), heard_by_root(kubemq_streams))


def kubemq_asks(kind: Any, asked: Any) -> Any:
    """Root is the responder on both channels."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        found = set()
        with node.kubemq(token) as calls, node.kubemq("root") as root:
            for name in ("secret", "open"):
                channel = f"{name}.k{number}"
                responder = root.responder(kind, channel)
                request = Request(RequestTypeData=asked, ClientID="me", Channel=channel, Body=b"?", Timeout=20_000)
                with contextlib.suppress(grpc.RpcError):
                    call = calls.channel.unary_unary("/kubemq.kubemq/SendRequest")
                    said = call.future(request.SerializeToString(), timeout=20, metadata=calls._metadata)
                    said.add_done_callback(lambda _, responder=responder: responder.cancel())
                    stage.answer(node, responder.next())
                    assert Response.FromString(said.result()).Executed
                    found.add(name)
                responder.cancel()
        return found

    return hears


put(
    "kubemq commands asked",
    ("kubemq:SendRequest", "kubemq:SendResponse"),
    kubemq_asks(Subscribe.Commands, Request.Command),
)
put(
    "kubemq queries asked", ("kubemq:SendRequest", "kubemq:SendResponse"), kubemq_asks(Subscribe.Queries, Request.Query)
)


# For producers: only a user who may publish to `readings.<id>` speaks for one.


def spoken_for(say: Say) -> Any:
    """Whose metadata are those of this cell, at the user's node."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        say(node, token, number)
        known: list[dict[str, Any]] = []
        while not any(each["id"] == OPEN for each in known):
            known = node.ask("producers", f"Said = {number}")["producers"]
        return {name for name, identity in OF_A_READING.items() if identity in [each["id"] for each in known]}

    return hears


def nats_reads(topic: Callable[[str], str]) -> Say:
    def say(node: AccessNode, token: str, number: int) -> None:
        with node.nats(token) as client:
            for identity in (SECRET, OPEN):
                block = reading_headers(identity, {"Said": number})
                client.send(b"HPUB %b %d %d\r\n%b1\r\n" % (topic(identity).encode(), len(block), len(block) + 1, block))
            client.talk(b"")

    return say


def service_describes(node: AccessNode, token: str, number: int) -> None:
    for identity in (SECRET, OPEN):
        node.ask("describe", json.dumps({"producers": [{"id": identity, "metadata": {"Said": number}}]}), token)


def msgpack_reads(make: Callable[[str, int], Any]) -> Say:
    def say(node: AccessNode, token: str, number: int) -> None:
        for identity in (SECRET, OPEN):
            with node.msgpack(token, make(identity, number)) as peer:
                peer.say(7)  # is refused, and then everything before has been taken in
                while not peer.hears_no_more():
                    pass

    return say


def mqtt_reads(node: AccessNode, token: str, number: int) -> None:
    with node.mqtt(token) as client:
        for identity in (SECRET, OPEN):
            users = [("Producer", identity), ("Said", str(number))]
            client.publishes("open/r", b"1", 1, given={Property.USER: users})


def web_reads(node: AccessNode, token: str, number: int) -> None:
    for identity in (SECRET, OPEN):
        metadata = json.dumps({"Said": number})
        node.web(token, "POST", "/v1/topics/open.r", b"1", Fumarole_Producer=identity, Fumarole_Metadata=metadata)


def web_reads_lines(node: AccessNode, token: str, number: int) -> None:
    lines = [json.dumps({"producer": each, "metadata": {"Said": number}, "value": 1}) for each in (SECRET, OPEN)]
    node.web(token, "POST", "/v1/topics", "\n".join(lines), Content_Type="application/x-ndjson")


def web_describes(node: AccessNode, token: str, number: int) -> None:
    for identity in (SECRET, OPEN):
        patch = json.dumps({"Said": number})
        node.web(token, "PATCH", f"/v1/producers/{identity}", patch, Content_Type="application/merge-patch+json")


put("nats reads", ("nats:Publish",), spoken_for(nats_reads(lambda identity: f"readings.{identity}")))
put("nats reads on an open topic", ("nats:Publish",), spoken_for(nats_reads(lambda _: "open.r")))
put("service describes", ("service:describe",), spoken_for(service_describes))
put("msgpack reads", ("msgpack:array",), spoken_for(msgpack_reads(lambda each, n: [each, {"Said": n}, 1])))
put(
    "msgpack reads on an open topic",
    ("msgpack:id", "msgpack:metadata", "msgpack:value", "msgpack:topic", "msgpack:retain", "msgpack:traceparent"),
    spoken_for(msgpack_reads(lambda each, n: {"id": each, "metadata": {"Said": n}, "value": 1, "topic": "open.r"})),
)
put("mqtt reads", ("mqtt:Publish",), spoken_for(mqtt_reads))
put("web reads", ("http:POST /v1/topics/{topic}",), spoken_for(web_reads))
put("web reads lines", ("http:POST /v1/topics",), spoken_for(web_reads_lines))
put("web describes", ("http:PATCH /v1/producers/{id}",), spoken_for(web_describes))


def forgotten(say: Callable[[AccessNode, str, str], None]) -> Any:
    """Who is no longer known at the user's node."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        stage.read(number, number, OF_A_READING.values())
        stage.await_producers(node, number, len(OF_A_READING))
        for identity in OF_A_READING.values():
            say(node, token, identity)
        left = [each["id"] for each in node.ask("producers", f"Cell = {number}")["producers"]]
        return {name for name, identity in OF_A_READING.items() if identity not in left}

    return hears


def msgpack_forgets(node: AccessNode, token: str, identity: str) -> None:
    with node.msgpack(token, {"forget": identity}) as peer:
        peer.say(7)
        while not peer.hears_no_more():
            pass


def web_forgets(node: AccessNode, token: str, identity: str) -> None:
    node.web(token, "DELETE", f"/v1/producers/{identity}")


put("service forgets", ("service:forget",), forgotten(lambda node, token, each: node.ask("forget", each, token)))
put("msgpack forgets", ("msgpack:forget",), forgotten(msgpack_forgets))
put("web forgets", ("http:DELETE /v1/producers/{id}",), forgotten(web_forgets))


@path("http:POST /v1/preview/{id}")
def web_previews(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    asked = {name: f"/v1/preview/{identity}" for name, identity in OF_A_READING.items()}
    stage.read(number, number, OF_A_READING.values())
    stage.await_producers(node, number, len(OF_A_READING))
    answers = {name: node.web(token, "POST", target, b'{"a": 1}')[0] for name, target in asked.items()}
    return {name for name, status in answers.items() if status == 200}


@path("http:DELETE /v1/topics/{topic}")
def web_removes(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    stage.publish(number, f"l{number}", retain=True)
    answers = {name: node.web(token, "DELETE", f"/v1/topics/{name}.l{number}")[0] for name in ("secret", "open")}
    found = {name for name, status in answers.items() if status == 204}
    for name in ("secret", "open"):
        _, left = node.web("root", "GET", f"/v1/topics/{name}.l{number}")
        assert named(left, number) == ({name} - found)
    return found


@path("nats:Publish", "topic:_FORGOTTEN", everything=frozenset({"open"}))
def nobody_says_who_is_forgotten(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    """T9: nor publishes to other topics of the server."""
    with stage.nodes[0].nats("root") as root, node.nats(token) as client:
        root.talk(b"SUB > 1\r\n")
        for topic in (b"_FORGOTTEN", b"_WHERE.x", b"$FUM.x", b"$SYS.x", b"$LAST.x"):
            client.send(b"PUB %b %d\r\nsecret %d.\r\n" % (topic, len(f"secret {number}."), number))
        payload = f"open {number}.".encode()
        client.talk(plain(b"open", payload))
        return named(root.read_until(payload), number)
