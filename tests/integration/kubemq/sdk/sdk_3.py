"""kubemq 3.6.0."""

from __future__ import annotations

import threading
from typing import Any

import driver  # type: ignore[import-not-found]
from kubemq.cq import (  # type: ignore[import-not-found]
    CancellationToken,
    Client,
    CommandMessage,
    CommandResponseMessage,
    CommandsSubscription,
    QueriesSubscription,
    QueryMessage,
    QueryResponseMessage,
)
from kubemq.pubsub import Client as PubSubClient  # type: ignore[import-not-found]
from kubemq.pubsub import EventMessage, EventsSubscription, EventStoreMessage
from sync_commands import SyncCommands  # type: ignore[import-not-found]


class Commands(SyncCommands):  # type: ignore[misc]
    """A client for events, and one for commands and queries."""

    def connect(self, address: str, token: str = "", authority: str = "", certificate: str = "", key: str = "") -> None:
        options: dict[str, Any] = {"address": address, "client_id": "python", "auth_token": token}
        if authority:
            options |= {"tls": True, "tls_ca_file": authority, "tls_cert_file": certificate, "tls_key_file": key}
        self._events = PubSubClient(**options)
        self._requests = Client(**options)
        self._cancellations: dict[str, CancellationToken] = {}

    def subscribe(self, name: str, channel: str, group: str = "") -> None:
        self._cancellations[name] = CancellationToken()
        self._events.subscribe_to_events(
            EventsSubscription(
                channel=channel,
                group=group,
                on_receive_event_callback=lambda event: driver.heard(name, event),
                on_error_callback=lambda error: driver.failed(name, error),
            ),
            self._cancellations[name],
        )

    def send(self, events: list[dict[str, Any]], how: str = "one") -> None:
        for each in events:
            self._events.send_events_message(EventMessage(**{**each, "body": each["body"].encode()}))

    def respond(
        self, name: str, kind: str, channel: str, group: str = "", error: str = "", silent: bool = False
    ) -> None:
        def handle(request: Any) -> None:
            driver.heard(name, request)
            if silent:
                threading.Event().wait()
            if kind == "commands":
                response = CommandResponseMessage(command_received=request, is_executed=not error, error=error)
            else:
                body = b"answer to " + request.body
                response = QueryResponseMessage(
                    query_received=request, is_executed=not error, error=error, body=body, metadata="ok"
                )
            self._requests.send_response_message(response)

        token = self._cancellations[name] = CancellationToken()
        common = {"channel": channel, "group": group, "on_error_callback": lambda text: driver.failed(name, text)}
        if kind == "commands":
            subscription = CommandsSubscription(on_receive_command_callback=handle, **common)
            self._requests.subscribe_to_commands(subscription, token)
        else:
            subscription = QueriesSubscription(on_receive_query_callback=handle, **common)
            self._requests.subscribe_to_queries(subscription, token)

    def ask(self, kind: str, channel: str, body: str, timeout: int = 5) -> dict[str, Any]:
        if kind == "commands":
            message = CommandMessage(channel=channel, body=body.encode(), timeout_in_seconds=timeout)
            answer = self._requests.send_command_request(message)
        else:
            message = QueryMessage(channel=channel, body=body.encode(), timeout_in_seconds=timeout)
            answer = self._requests.send_query_request(message)
        shown: dict[str, Any] = driver.shown(answer)
        return shown

    def store(self, channel: str) -> dict[str, Any]:
        result = self._events.send_events_store_message(EventStoreMessage(channel=channel, body=b"keep this"))
        return {"sent": result.sent, "error": result.error}


driver.run(Commands())
