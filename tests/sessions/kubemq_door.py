"""The calls of KubeMQ clients on a desk, without gRPC. For tests of sessions."""

import itertools
from typing import Any

from fumarole.core.publication import Publication
from fumarole.exchange.permissions import User
from fumarole.protocols import kubemq
from fumarole.protocols.grpc import PREFIX
from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Request, Response, Subscribe
from fumarole.sessions.kubemq import KubemqService, KubemqSession
from tests.desk import Client, Desk

NOW = 1_700_000_000.0


class Door:
    """The calls of a door, without gRPC. Owner of the receivers' outboxes."""

    def __init__(self, desk: Desk) -> None:
        ids = itertools.count(1)
        self.desk = desk
        self.service = KubemqService(desk.node, "kubemq", lambda: f"id-{next(ids)}", NOW)

    def open(self, token: str = "", user: User | None = None) -> KubemqSession:
        return self.service.open(token, user)

    def send(self, channel: str, body: bytes = b"x", session: KubemqSession | None = None, **fields: Any) -> None:
        event = Event(**{"ClientID": "me", "Channel": channel, "Body": body, **fields})
        own = session or self.open()
        own.send_event(event)
        if session is None:
            own.close()

    def receiver(self, channel: str, group: str = "", session: KubemqSession | None = None) -> KubemqSession:
        own = session or self.open()
        own.subscribe_to_events(
            Subscribe(SubscribeTypeData=Subscribe.Events, ClientID="me", Channel=channel, Group=group), self
        )
        return own

    def responder(self, kind: int, channel: str, group: str = "") -> KubemqSession:
        own = self.open()
        subscribe = Subscribe(ClientID="me", Channel=channel, Group=group)
        subscribe.SubscribeTypeData = kind  # type: ignore[assignment]
        own.subscribe_to_requests(subscribe, self)
        return own

    def ask(self, request_type: int, channel: str, **fields: Any) -> "Question":
        return Question(self, request(request_type, channel, **fields))

    def nats(self, **options: Any) -> Client:
        return self.desk.connect(user="kubemq", **options)


class Question:
    """A request under way."""

    def __init__(self, door: Door, asked: Request) -> None:
        self.asked = asked
        self.answers: list[Publication] = []
        self.session = door.open()
        self.response = self.session.ask(asked, NOW, self.answers.append)

    def answer(self) -> Response:
        (publication,) = self.answers
        return kubemq.publication_response(publication, self.asked, NOW)


def request(request_type: int, channel: str, **fields: Any) -> Request:
    return Request(
        **{"RequestTypeData": request_type, "ClientID": "me", "Channel": channel, "Body": b"?", "Timeout": 10, **fields}
    )


def frames(session: KubemqSession) -> list[bytes]:
    assert session.outbox is not None
    taken = []
    while session.outbox.size:
        taken.append(session.outbox.take(0)[PREFIX:])
    return taken


def events(session: KubemqSession) -> list[EventReceive]:
    return [EventReceive.FromString(frame) for frame in frames(session)]


def channels(session: KubemqSession) -> list[str]:
    return [event.Channel for event in events(session)]


def requests(session: KubemqSession) -> list[Request]:
    return [Request.FromString(frame) for frame in frames(session)]


COMMANDS, QUERIES = 3, 4
COMMAND, QUERY = 1, 2


def answer(door: Door, responder: KubemqSession, body: bytes = b"", **fields: Any) -> Request:
    """Answers the one request that waits there."""
    (asked,) = requests(responder)
    response = {"ClientID": "you", "RequestID": asked.RequestID, "ReplyChannel": asked.ReplyChannel, "Executed": True}
    own = door.open()
    own.respond(Response(**{**response, "Body": body, **fields}))
    own.close()
    return asked
