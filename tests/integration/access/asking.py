"""Ways on which a user learns of producers: sets and their changes, readings, views, lists; and what others do (A4)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import quote

from tests.integration.access.desks import IDS, MARK, TOPICS, AccessNode, Stage, WebStream, named
from tests.integration.access.paths import PRODUCERS, path, put
from tests.integration.peer import Peer
from tests.integration.raw import RawClient

READING_PATTERNS = (">", "secret.>", *TOPICS.values())


class Listener(Protocol):
    """A subscription that was made."""

    def first(self) -> bytes | None:
        """What it is told first. None: it was refused."""

    def until(self, end: bytes) -> bytes:
        """What it is told up to these bytes."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


Open = Callable[[AccessNode, str, str, str], Listener]
"""For a user at a node: a query and a pattern."""


def told(begin: Open, patterns: tuple[str, ...]) -> Any:
    """The producers that are there, those that leave, those that come, and their readings: each set of a pattern."""

    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        found: set[str] = set()
        for pattern in patterns:
            stage.read(number, number)
            stage.await_producers(node, number, len(TOPICS))
            with begin(node, token, f"Cell = {number}", pattern) as listener:
                said = listener.first()
                if said is None:
                    continue
                stage.read(number, -number)
                said += listener.until(mark(number))
                stage.read(number, number)
                found |= named(said + listener.until(mark(number)), number)
        return found

    return hears


def mark(number: int) -> bytes:
    """An expression for the producer that is told last."""
    return b"%b|mark %d" % (MARK.encode(), number)


class MsgPackListener(Peer):
    """At the MsgPack door."""

    def first(self) -> bytes | None:
        said = repr(self.hear()).encode()
        return None if b"Error" in said else said

    def until(self, end: bytes) -> bytes:
        said = b""
        while not re.search(end, said):
            said += repr(self.hear()).encode()
        return said


def at_msgpack(ask: Callable[[str, str], Any]) -> Open:
    return lambda node, token, where, pattern: MsgPackListener(
        node, {"token": token}, ask(where, pattern), namespace=None
    )


def asked_for(**options: Any) -> Callable[[str, str], Any]:
    return lambda where, pattern: {"where": where, "topic": pattern, **options}


def plain_or_map(where: str, pattern: str) -> Any:
    """M1 and M2: a query alone is one for every topic."""
    return where if pattern == ">" else {"where": where, "topic": pattern}


SET = ("door:msgpack", "msgpack:where", "msgpack:user", "msgpack:pass", "msgpack:token")
put("msgpack set", SET, told(at_msgpack(plain_or_map), READING_PATTERNS), PRODUCERS)
put("msgpack set of topics", ("msgpack:topic",), told(at_msgpack(asked_for()), READING_PATTERNS), PRODUCERS)
put("msgpack set of a group", ("msgpack:group",), told(at_msgpack(asked_for(group="g")), READING_PATTERNS), PRODUCERS)
put("msgpack set with last", ("msgpack:last",), told(at_msgpack(asked_for(last=True)), READING_PATTERNS), PRODUCERS)
put("msgpack set with every", ("msgpack:every",), told(at_msgpack(asked_for(every="1ms")), READING_PATTERNS), PRODUCERS)
VIEW = "select Name where {}"
COUNT = "select Cell, count(*) where {}"
put("msgpack view", ("msgpack:where",), told(at_msgpack(lambda where, _: VIEW.format(where)), ("",)), PRODUCERS)


class NatsListener(RawClient):
    """Of the topics that `$FUM.where` and `$FUM.view` make."""

    def ask(self, service: bytes, payload: bytes) -> None:
        self.talk(b"SUB _INBOX.x 1\r\n")
        self.send(b"PUB $FUM.%b _INBOX.x %d\r\n%b\r\n" % (service, len(payload), payload))
        self.read_until(b"MSG _INBOX.x 1 ")
        self._answer = self.read_exactly(int(self.read_until(b"\r\n")))

    def first(self) -> bytes | None:
        answer = json.loads(self._answer)
        if "error" in answer:
            return None
        for sid, topic in enumerate([answer["topic"], answer.get("diffs", "unused")], 2):
            self.talk(f"SUB {topic} {sid}\r\n".encode())
        return self._answer

    def until(self, end: bytes) -> bytes:
        said = b""
        while not re.search(end, said):
            said += self.read_until(b"\r\n")
        return said


def at_nats(service: bytes, ask: Callable[[str, str], str]) -> Open:
    def begin(node: AccessNode, token: str, where: str, pattern: str) -> NatsListener:
        listener = NatsListener(node.port)
        listener.connect(auth_token=token)
        listener.ask(service, ask(where, pattern).encode())
        return listener

    return begin


def in_json(**options: Any) -> Callable[[str, str], str]:
    return lambda where, pattern: json.dumps({"where": where, "topic": pattern, **options})


put("service where", ("service:where",), told(at_nats(b"where", in_json()), READING_PATTERNS), PRODUCERS)
put(
    "service where of a group",
    ("service:where",),
    told(at_nats(b"where", in_json(group="g")), READING_PATTERNS),
    PRODUCERS,
)
put("service view", ("service:view",), told(at_nats(b"view", lambda where, _: VIEW.format(where)), ("",)), PRODUCERS)


class WebListener(WebStream):
    """Of server-sent events."""

    def first(self) -> bytes | None:
        return None if self.status != 200 else self.read_until(b"Del")

    def until(self, end: bytes) -> bytes:
        said = b""
        while not re.search(end, said):
            line = self.answer.readline()
            assert line, said
            said += line
        return said


def at_the_web(target: str) -> Open:
    def begin(node: AccessNode, token: str, where: str, pattern: str) -> WebListener:
        return WebListener(node, token, "GET", target.format(where=quote(where), topic=quote(pattern)))

    return begin


WEB = ("http:GET /v1/stream",)
put("web set", WEB, told(at_the_web("/v1/stream?where={where}&topic={topic}"), READING_PATTERNS), PRODUCERS)
put(
    "web set of a group",
    WEB,
    told(at_the_web("/v1/stream?where={where}&topic={topic}&group=g"), READING_PATTERNS),
    PRODUCERS,
)
put(
    "web set with last",
    WEB,
    told(at_the_web("/v1/stream?where={where}&topic={topic}&last=1"), READING_PATTERNS),
    PRODUCERS,
)
put("web set alone", WEB, told(at_the_web("/v1/stream?where={where}&readings=0"), ("",)), PRODUCERS)
put("web view", WEB, told(at_the_web(f"/v1/stream?where={quote('select Name where ')}{{where}}"), ("",)), PRODUCERS)


# Answers to one question.


def counted(count: int) -> set[str]:
    """A count tells how many there are: those of the open ones and the mark, or of all."""
    return {len(TOPICS): set(PRODUCERS), 3: {"open id", "open topic"}}.get(count, {f"a count of {count}"})


def prepare(stage: Stage, node: AccessNode, number: int) -> str:
    stage.read(number, number)
    stage.await_producers(node, number, len(TOPICS))
    return f"Cell = {number}"


@path("service:producers", everything=PRODUCERS)
def service_producers(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    answer = node.ask("producers", prepare(stage, node, number), token)
    whole = node.ask("producers", "", token)
    shown = counted(len(answer["producers"]))
    assert named(json.dumps(whole), number) == shown
    assert (whole["total"] is None) is (token != "none"), "how many there are, too"
    return shown & named(json.dumps(answer), number)


@path("service:last", everything=PRODUCERS)
def service_last_of_producers(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    where = prepare(stage, node, number)
    found: set[str] = set()
    with node.nats(token) as client:
        client.talk(b"SUB _INBOX.x 1\r\n")
        for pattern in READING_PATTERNS:
            asked = json.dumps({"where": where, "topic": pattern}).encode()
            client.send(b"PUB $FUM.last _INBOX.x %d\r\n%b\r\n" % (len(asked), asked))
            said = b""
            while b"error" not in said and b"204" not in said:
                said += client.read_until(b"\r\n")
            found |= set() if b"error" in said else named(said, number)
    return found


@path("http:PUT /v1/streams/{id}", everything=PRODUCERS)
def web_watched(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    where = quote(prepare(stage, node, number))
    with WebStream(node, token, "GET", f"/v1/stream?where={where}&readings=0&every=100ms") as stream:
        stream_id = re.findall(b'"id":"([0-9a-f]+)"', stream.read_until(b"event: set"))[0].decode()
        stream.read_until(b"\n")
        body = json.dumps({"ids": [*IDS, MARK]})
        assert node.web(token, "PUT", f"/v1/streams/{stream_id}", body)[0] == 204
        return named(stream.read_until(MARK.encode()), number)


@path("http:GET /v1/producers", "http:GET /v1/producers/{id}", everything=PRODUCERS)
def web_producers(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    where = quote(prepare(stage, node, number))
    _, listed = node.web(token, "GET", f"/v1/producers?where={where}")
    _, by_id = node.web(token, "GET", f"/v1/producers?ids={','.join(IDS)}")
    found = counted(len(json.loads(listed)["producers"])) & named(listed, number)
    assert named(by_id, number) == found
    assert {
        name for identity, name in IDS.items() if node.web(token, "GET", f"/v1/producers/{identity}")[0] == 200
    } == found
    return found


@path("http:GET /v1/explain", everything=PRODUCERS)
def web_explain(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    where = quote(prepare(stage, node, number))
    asked = {name: f"/v1/explain?where={where}&id={identity}" for identity, name in IDS.items()}
    return {name for name, target in asked.items() if node.web(token, "GET", target)[0] == 200}


@path("http:GET /v1/facets", everything=PRODUCERS)
def web_facets(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    where = quote(prepare(stage, node, number))
    _, answer = node.web(token, "GET", f"/v1/facets?where={where}")
    return counted(json.loads(answer)["producers"]) & named(answer, number)


@path("msgpack:where", everything=PRODUCERS)
def msgpack_count(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    where = prepare(stage, node, number)
    with node.msgpack(token, COUNT.format(where)) as peer:
        return counted(peer.hear()["New"][0][1])


@path("service:view", everything=PRODUCERS)
def service_count(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    return counted(node.ask("view", COUNT.format(prepare(stage, node, number)), token)["New"][0][1])


@path("nats:Subscribe", "topic:_FORGOTTEN", everything=PRODUCERS)
def told_of_the_forgotten(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    prepare(stage, node, number)
    with node.nats(token) as client:
        client.talk(b"SUB _FORGOTTEN 1\r\nSUB > 2\r\n")
        for identity in (*IDS, MARK):
            stage.root.send(b"PUB $FUM.forget %d\r\n%b\r\n" % (len(identity), identity.encode()))
        stage.settle()
        return named(client.read_until(MARK.encode()), number)


# What others do (A4).

FOR_ADMINS = frozenset({"told"})


def of_others(service: str) -> Any:
    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        assert "error" not in node.ask(service)
        return set() if "role admin" in node.ask(service, "", token)["error"] else {"told"}

    return hears


for each in ("stats", "consumers", "cluster", "reload"):
    if each != "reload":
        put(f"service {each}", (f"service:{each}",), of_others(each), frozenset())


@path("service:reload", everything=frozenset())
def service_reload(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    return set() if "role admin" in node.ask("reload", "", token)["error"] else {"told"}


def web_of_others(method: str, target: str) -> Any:
    def hears(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
        status, _ = node.web(token, method, target)
        if method == "GET":
            assert node.web("root", method, target)[0] == 200
        return set() if status == 403 else {"told"}

    return hears


for each in ("/v1/stats", "/v1/connections", "/v1/cluster", "/v1/journal", "/v1/namespaces", "/varz", "/connz"):
    put(f"web {each}", (f"http:GET {each}",), web_of_others("GET", each), frozenset())
put("web cuts off", ("http:DELETE /v1/connections/{id}",), web_of_others("DELETE", "/v1/connections/1"), frozenset())


@path("http:GET /v1/consumers", everything=frozenset())
def web_consumers_of_others(stage: Stage, node: AccessNode, token: str, number: int) -> set[str]:
    with node.nats("root") as root:
        root.talk(b"SUB secret.%d 1\r\n" % number)
        needle = f"secret.{number}"
        assert needle in node.web("root", "GET", "/v1/consumers")[1].decode()
        return {"told"} if needle in node.web(token, "GET", "/v1/consumers")[1].decode() else set()
