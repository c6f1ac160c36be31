"""kubemq 4.1.5, its asynchronous clients."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import driver  # type: ignore[import-not-found]
from kubemq import (  # type: ignore[import-not-found]
    AsyncCancellationToken,
    AsyncCQClient,
    AsyncPubSubClient,
    ClientConfig,
    CommandMessage,
    CommandResponse,
    CommandsSubscription,
    EventMessage,
    EventsSubscription,
    EventStoreMessage,
    QueriesSubscription,
    QueryMessage,
    QueryResponse,
    TLSConfig,
)


def ignore(_message: Any) -> None:
    """Subscriptions want a callback, though the message comes another way."""


class Commands:
    """A client for events, and one for commands and queries."""

    async def connect(self, address: str, token: str = "", authority: str = "", **_: Any) -> None:
        tls = TLSConfig(enabled=True, ca_file=Path(authority)) if authority else TLSConfig()
        config = ClientConfig(address=address, client_id="python", auth_token=token or None, tls=tls)
        self._events = AsyncPubSubClient(config=config)
        self._requests = AsyncCQClient(config=config)
        await self._events.connect()
        await self._requests.connect()
        self._running: dict[str, tuple[AsyncCancellationToken, asyncio.Task[None]]] = {}

    async def ping(self) -> str:
        return str((await self._events.ping()).version)

    async def subscribe(self, name: str, channel: str, group: str = "") -> None:
        token = AsyncCancellationToken()

        async def receive() -> None:
            subscription = EventsSubscription(
                channel=channel,
                group=group,
                on_receive_event_callback=ignore,
                on_error_callback=lambda error: driver.failed(name, error),
            )
            with contextlib.suppress(Exception):  # it was told to the callback
                async for event in self._events.subscribe_to_events(subscription, token):
                    driver.heard(name, event)

        self._running[name] = token, asyncio.create_task(receive())

    async def send(self, events: list[dict[str, Any]], how: str = "one") -> None:
        for each in events:
            message = EventMessage(**{**each, "body": each["body"].encode()})
            if how == "one":
                await self._events.send_event_unary(message)
            else:
                await self._events.publish_event(message)

    async def respond(
        self, name: str, kind: str, channel: str, group: str = "", error: str = "", silent: bool = False
    ) -> None:
        async def handle(request: Any) -> None:
            driver.heard(name, request)
            if silent:
                await asyncio.Event().wait()
            if kind == "commands":
                response = CommandResponse(command_received=request, is_executed=not error, error=error)
            else:
                body = b"answer to " + request.body
                response = QueryResponse(
                    query_received=request, is_executed=not error, error=error, body=body, metadata="ok"
                )
            await self._requests.send_response(response)

        async def fail(text: Any) -> None:
            driver.failed(name, text)

        token = AsyncCancellationToken()
        if kind == "commands":
            subscription = CommandsSubscription(channel=channel, group=group, on_receive_command_callback=ignore)
            work = self._requests.subscribe_commands_with_callback(subscription, handle, fail, token)
        else:
            subscription = QueriesSubscription(channel=channel, group=group, on_receive_query_callback=ignore)
            work = self._requests.subscribe_queries_with_callback(subscription, handle, fail, token)
        self._running[name] = token, asyncio.create_task(work)

    async def ask(self, kind: str, channel: str, body: str, timeout: int = 5) -> dict[str, Any]:  # noqa: ASYNC109
        if kind == "commands":
            answer = await self._requests.send_command(
                CommandMessage(channel=channel, body=body.encode(), timeout_in_seconds=timeout)
            )
        else:
            answer = await self._requests.send_query(
                QueryMessage(channel=channel, body=body.encode(), timeout_in_seconds=timeout)
            )
        shown: dict[str, Any] = driver.shown(answer)
        return shown

    async def cancel(self, name: str) -> None:
        token, task = self._running.pop(name)
        token.cancel()
        task.cancel()

    async def store(self, channel: str) -> dict[str, Any]:
        result = await self._events.send_event_store(EventStoreMessage(channel=channel, body=b"keep this"))
        return {"sent": result.sent, "error": result.error}

    async def close(self) -> None:
        for name in list(self._running):
            await self.cancel(name)
        await self._events.close()
        await self._requests.close()


driver.run(Commands())
