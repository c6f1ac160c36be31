"""kubemq 2.4.0."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any

import driver  # type: ignore[import-not-found]
from kubemq.commandquery.lowlevel.initiator import Initiator  # type: ignore[import-not-found]
from kubemq.commandquery.lowlevel.request import Request  # type: ignore[import-not-found]
from kubemq.commandquery.request_type import RequestType  # type: ignore[import-not-found]
from kubemq.commandquery.responder import Responder  # type: ignore[import-not-found]
from kubemq.commandquery.response import Response  # type: ignore[import-not-found]
from kubemq.events.lowlevel.event import Event  # type: ignore[import-not-found]
from kubemq.events.lowlevel.sender import Sender  # type: ignore[import-not-found]
from kubemq.events.subscriber import Subscriber  # type: ignore[import-not-found]
from kubemq.subscription.subscribe_request import SubscribeRequest  # type: ignore[import-not-found]
from kubemq.subscription.subscribe_type import SubscribeType  # type: ignore[import-not-found]
from kubemq.tools.listener_cancellation_token import ListenerCancellationToken  # type: ignore[import-not-found]

KINDS = {
    "commands": (SubscribeType.Commands, RequestType.Command),
    "queries": (SubscribeType.Queries, RequestType.Query),
}


class Commands:
    """A class of the SDK for each thing one can do, each with a connection of its own."""

    def connect(self, address: str, token: str = "", authority: str = "", **_: Any) -> None:
        if authority:
            os.environ["KUBEMQCERTIFICATEFILE"] = authority
        self._who = (address, token or None)
        self._cancellations: dict[str, ListenerCancellationToken] = {}

    def ping(self) -> str:
        return str(Sender(*self._who).ping().Version)

    def subscribe(self, name: str, channel: str, group: str = "") -> None:
        self._cancellations[name] = ListenerCancellationToken()

        def again(error: str) -> None:
            driver.failed(name, error)
            if "UNAVAILABLE" in error:  # this SDK leaves it to its users to try again
                threading.Timer(0.2, begin).start()

        def begin() -> None:
            Subscriber(*self._who).subscribe_to_events(
                SubscribeRequest(SubscribeType.Events, "python", channel, group=group),
                lambda event: driver.heard(name, event),
                again,
                self._cancellations[name],
            )

        begin()

    def send(self, events: list[dict[str, Any]], how: str = "one") -> list[str]:
        sender = Sender(*self._who)
        made = [
            Event(each["channel"], "python", False, None, each["body"].encode(), each.get("metadata"), each.get("tags"))
            for each in events
        ]
        faults: list[str] = []
        if how == "one":
            for event in made:
                sender.send_event(event)
        else:
            sender.stream_event(iter(made), lambda result: faults.append(result.error))
        return faults

    def respond(
        self, name: str, kind: str, channel: str, group: str = "", error: str = "", silent: bool = False
    ) -> None:
        def handle(request: Any) -> Any:
            driver.heard(name, request)
            if silent:
                threading.Event().wait()
            response = Response(request)
            response.body = b"answer to " + request.body
            response.metadata = "ok"
            response.executed = not error
            response.error = error
            return response

        self._cancellations[name] = ListenerCancellationToken()
        Responder(*self._who).subscribe_to_requests(
            SubscribeRequest(KINDS[kind][0], "python", channel, group=group),
            handle,
            lambda text: driver.failed(name, text),
            self._cancellations[name],
        )

    def ask(self, kind: str, channel: str, body: str, timeout: int = 5) -> dict[str, Any]:
        request = Request(
            request_type=KINDS[kind][1], client_id="python", channel=channel, body=body.encode(), timeout=timeout * 1000
        )
        answer: dict[str, Any] = driver.shown(Initiator(*self._who).send_request(request))
        return answer

    def cancel(self, name: str) -> None:
        self._cancellations.pop(name).cancel()

    def store(self, channel: str) -> None:
        Sender(*self._who).send_event(Event(channel, "python", True, None, b"keep this"))

    def close(self) -> None:
        for cancellation in self._cancellations.values():
            cancellation.cancel()
        self._cancellations.clear()


logging.getLogger("kubemq").propagate = False  # it logs every error that it also raises
sys.setswitchinterval(0.0005)  # each subscription of this SDK has a thread that spins
driver.run(Commands())
