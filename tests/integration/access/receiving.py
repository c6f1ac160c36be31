"""Ways on which messages reach a user."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import grpc

from fumarole.protocols.kubemq_pb2 import Request, Subscribe
from tests.integration.access.desks import (
    AccessNode,
    Stage,
    WebStream,
    named,
)
from tests.integration.access.paths import path, put
from tests.integration.raw import RawClient, messages

PATTERNS = ("secret.>", "secret.a", "*.a", ">", "open.a")


# Topics.


def nats_topics(options: str, group: str, come: Callable[[AccessNode, str], RawClient]) -> Any:
    """Every pattern at once, on one connection. What is refused is passed over."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        with come(node, token) as client:
            for sid, pattern in enumerate(PATTERNS):
                own = f" {group.format(f'{number}-{sid}')}" if group else ""
                client.send(f"SUB {options}{pattern}{own} {sid}\r\n".encode())
            client.talk(b"")
            stage.publish(number)
            return named(client.read_until(b"open %d.\r\n" % number), number)

    return hears


COMERS = {"": AccessNode.nats, " over web": AccessNode.nats_over_web}
for over, come in COMERS.items():
    door = ("door:http", "http:GET /nats") if over else ("door:nats", "nats:Connect", "nats:Ping", "nats:Pong")
    put(f"nats{over}", ("nats:Subscribe", *door), nats_topics("", "", come))
put("nats group", ("nats:Subscribe",), nats_topics("", "g{}", AccessNode.nats))
put("nats group keyed by topic", ("nats:Subscribe",), nats_topics("", "g{}@topic", AccessNode.nats))
put("nats group keyed by producer", ("nats:Subscribe",), nats_topics("", "g{}@producer", AccessNode.nats))
put("nats every", ("option:every",), nats_topics("$EVERY.1s.", "", AccessNode.nats))


@path("option:last", "nats:Subscribe")
def nats_last(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    stage.publish(number, f"l{number}", retain=True)
    with node.nats(token) as client:
        for sid, pattern in enumerate(PATTERNS):
            client.send(f"SUB $LAST.{pattern.replace('.a', f'.l{number}')} {sid}\r\n".encode())
        said = client.read_until(b"open %d.\r\n" % number)
        # Gathered after all others.
        client.talk(b"")
        client.send(b"SUB $LAST.open.l%d 99\r\n" % number)
        said += client.read_until(b" 99 ")
        return named(said + client.read_until(b"open %d.\r\n" % number), number)


def mqtt_topics(form: str, come: Callable[[AccessNode, str], Any]) -> Any:
    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        with come(node, token) as client:
            for sid, pattern in enumerate(("secret/#", "secret/a", "+/a", "#", "open/a")):
                client.subscribe(form.format(f"{number}-{sid}") + pattern)
            stage.publish(number)
            return heard_by_mqtt(client, number)

    return hears


def heard_by_mqtt(client: Any, number: int) -> set[str]:
    """The messages up to the open one."""
    found: set[str] = set()
    while "open" not in found:
        found |= named(repr(client.hear()), number)
    return found


put("mqtt", ("door:mqtt", "mqtt:Connect", "mqtt:Subscribe"), mqtt_topics("", AccessNode.mqtt))
put("mqtt over web", ("http:GET /mqtt",), mqtt_topics("", AccessNode.mqtt_over_web))
put("mqtt shared", ("mqtt:Subscribe",), mqtt_topics("$share/g{}/", AccessNode.mqtt))
put("mqtt shared and keyed", ("mqtt:Subscribe",), mqtt_topics("$share/g{}@topic/", AccessNode.mqtt))
put("mqtt every", ("option:every",), mqtt_topics("$EVERY/1s/", AccessNode.mqtt))


def mqtt_retained(form: str) -> Any:
    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        stage.publish(number, f"l{number}", retain=True)
        with node.mqtt(token) as client:
            for pattern in ("secret/#", f"secret/l{number}", "+/+", "#", f"open/l{number}"):
                client.subscribe(form + pattern)
            return heard_by_mqtt(client, number)

    return hears


put("mqtt retained", ("mqtt:Subscribe",), mqtt_retained(""))
put("mqtt last", ("option:last",), mqtt_retained("$LAST/"))


def web_events(target: str) -> Any:
    """Server-sent events of every pattern, each on a connection of its own."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        with contextlib.ExitStack() as stack:
            streams = []
            for sid, pattern in enumerate(PATTERNS):
                asked = target.format(pattern=quote(pattern), group=f"g{number}-{sid}")
                stream = stack.enter_context(WebStream(node, token, "GET", asked, Accept="text/event-stream"))
                if stream.status == 200:
                    streams.append((pattern, stream))
            stage.publish(number)
            found: set[str] = set()
            for pattern, stream in streams:
                end = b"secret %d." if pattern.startswith("secret") else b"open %d."
                found |= named(stream.read_until(end % number), number)
            return found

    return hears


put("web events of a topic", ("door:http", "http:GET /v1/topics/{pattern}"), web_events("/v1/topics/{pattern}"))
put("web stream", ("http:GET /v1/stream",), web_events("/v1/stream?topic={pattern}"))
put("web stream of a group", ("http:GET /v1/stream",), web_events("/v1/stream?topic={pattern}&group={group}"))
put("web stream every", ("http:GET /v1/stream",), web_events("/v1/stream?topic={pattern}&every=1s"))


@path("http:GET /v1/topics/{pattern}")
def web_last(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    stage.publish(number, f"l{number}", retain=True)
    patterns = [pattern.replace(".a", f".l{number}") for pattern in PATTERNS]
    answers = [node.web(token, "GET", f"/v1/topics/{quote(each)}") for each in patterns]
    lines = node.web(token, "GET", "/v1/topics/*.*", Accept="application/x-ndjson")
    return set().union(*[named(body, number) for _, body in [*answers, lines]])


@path("http:GET /v1/levels")
def web_levels(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    stage.publish(number, f"l{number}", retain=True)
    found = set()
    for name in ("secret", "open"):
        _, above = node.web(token, "GET", "/v1/levels")
        _, below = node.web(token, "GET", f"/v1/levels?below={name}")
        assert (name in above.decode()) is (f"l{number}" in below.decode()), (above, below)
        found |= {name} if f"l{number}" in below.decode() else set()
    return found


@path("service:last")
def service_last(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    stage.publish(number, f"l{number}", retain=True)
    found: set[str] = set()
    with node.nats(token) as client:
        client.talk(b"SUB _INBOX.x 1\r\n")
        for pattern in PATTERNS:
            asked = pattern.replace(".a", f".l{number}").encode()
            client.send(b"PUB $FUM.last _INBOX.x %d\r\n%b\r\n" % (len(asked), asked))
            said = b""
            while b"error" not in said and b"204" not in said:
                said += client.read_until(b"\r\n")
            found |= named(said, number)
    return found


@path("nats:Subscribe", everything=frozenset({"open"}))
def no_wildcard_finds_an_inbox(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    """A4: not even for a user without rules."""
    with node.nats(token) as client:
        for sid, pattern in enumerate(("*.*", "*.*.*", ">", "_INBOX*.>", "_INBOX.open.>", "open.a")):
            client.send(f"SUB {pattern} {sid}\r\n".encode())
        client.talk(b"")
        for payload in (b"secret", b"secret id"):
            text = b"%b %d." % (payload, number)
            stage.root.send(b"PUB _INBOX.n%d %d\r\n%b\r\n" % (number, len(text), text))
        stage.publish(number)
        said = client.read_until(b"open %d.\r\n" % number)
        return named(b"".join(payload for topic, _, _, _, payload in messages(said) if topic != b"secret.a"), number)


def kubemq_events(options: str, group: str = "", retained: bool = False) -> Any:
    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        patterns = [pattern.replace(".a", f".l{number}") if retained else pattern for pattern in PATTERNS]
        if retained:
            stage.publish(number, f"l{number}", retain=True)
        with node.kubemq(token) as calls:
            calls.ping()
            receivers = []
            for sid, channel in enumerate(patterns):
                with contextlib.suppress(grpc.RpcError):
                    receivers.append((channel, calls.receiver(options + channel, group.format(f"{number}-{sid}"))))
            if not retained:
                stage.publish(number)
            found: set[str] = set()
            for channel, receiver in receivers:
                with contextlib.suppress(grpc.RpcError):
                    wanted = "secret" if channel.startswith("secret") else "open"
                    while True:
                        heard = named(receiver.next().Body, number)
                        found |= heard
                        if wanted in heard:
                            break
            return found

    return hears


put("kubemq", ("door:kubemq", "kubemq:SubscribeToEvents", "kubemq:Ping"), kubemq_events(""))
put("kubemq group", ("kubemq:SubscribeToEvents",), kubemq_events("", "g{}"))
put("kubemq group keyed by topic", ("kubemq:SubscribeToEvents",), kubemq_events("", "g{}@topic"))
put("kubemq every", ("option:every",), kubemq_events("$EVERY.1s."))
put("kubemq last", ("option:last",), kubemq_events("$LAST.", retained=True))


def kubemq_requests(kind: Any, asked: Any) -> Any:
    """A responder hears the requests to its channel."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        found: set[str] = set()
        with node.kubemq(token) as calls, node.kubemq("root") as root:
            for name in ("secret", "open"):
                with contextlib.suppress(grpc.RpcError):
                    responder = calls.responder(kind, f"{name}.q{number}")
                    stream = root.channel.unary_unary("/kubemq.kubemq/SendRequest")
                    request = Request(
                        RequestTypeData=asked, ClientID="r", Channel=f"{name}.q{number}", Body=b"?", Timeout=20_000
                    )
                    under_way = stream.future(
                        request.SerializeToString(), timeout=20, metadata=(("authorization", "root"),)
                    )
                    heard = responder.next()
                    found.add(name)
                    stage.answer(node, heard)
                    under_way.result()
        return found

    return hears


put("kubemq commands", ("kubemq:SubscribeToRequests",), kubemq_requests(Subscribe.Commands, Request.Command))
put("kubemq queries", ("kubemq:SubscribeToRequests",), kubemq_requests(Subscribe.Queries, Request.Query))


@path("kubemq:SendRequest")
def kubemq_list_of_channels(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    """Of those to which root is subscribed."""
    with node.kubemq("root") as root, node.kubemq(token) as calls:
        receivers = [root.receiver(f"{name}.c{number}") for name in ("secret", "open")]
        answer = calls.ask(
            2,
            "kubemq.cluster.internal.requests",
            Metadata="list-channels",
            Tags={"channel_type": "events", "channel_search": f"c{number}"},
        )
        for receiver in receivers:
            receiver.cancel()
        return {each["name"].partition(".")[0] for each in json.loads(answer.Body)}
