"""Commands that synchronous SDKs of versions 3 and 4 do alike. A script makes the two clients in `connect`."""

from __future__ import annotations

from typing import Any


class SyncCommands:
    """A client for events, one for commands and queries, and the subscriptions that can be cancelled."""

    _events: Any
    _requests: Any
    _cancellations: dict[str, Any]

    def ping(self) -> str:
        return str(self._events.ping().version)

    def cancel(self, name: str) -> None:
        self._cancellations.pop(name).cancel()

    def create(self, kind: str, channel: str) -> Any:
        return getattr(self._client_of(kind), f"create_{kind}_channel")(channel)

    def delete(self, kind: str, channel: str) -> Any:
        return getattr(self._client_of(kind), f"delete_{kind}_channel")(channel)

    def list(self, kind: str, search: str = "") -> Any:
        found = getattr(self._client_of(kind), f"list_{kind}_channels")(search)
        return [[channel.name, channel.is_active, channel.outgoing.messages] for channel in found]

    def _client_of(self, kind: str) -> Any:
        return self._events if kind.startswith("events") else self._requests

    def close(self) -> None:
        for cancellation in self._cancellations.values():
            cancellation.cancel()
        self._cancellations.clear()
        self._events.close()
        self._requests.close()
