"""The bridge between AMQP 0-9-1 and ZeroMQ (B1–B6): pure mapping and routes, an AMQP side, a ZeroMQ side, a client.

`BridgeClient` is asyncio's, `BlockingBridgeClient` is for plain programs; docs/reference/bridge.md shows both.
"""

from typing import TYPE_CHECKING, Any

from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.bridge.blocking import BlockingBridgeClient
    from fumarole.bridge.client import BridgeClient
    from fumarole.bridge.errors import BridgeClosedError, BridgeError, BridgeRefusedError
    from fumarole.bridge.messages import Message

__all__ = [
    "BlockingBridgeClient",
    "BridgeClient",
    "BridgeClosedError",
    "BridgeError",
    "BridgeRefusedError",
    "Message",
]

_PLACES = {
    "BlockingBridgeClient": "blocking",
    "BridgeClient": "client",
    "BridgeClosedError": "errors",
    "BridgeError": "errors",
    "BridgeRefusedError": "errors",
    "Message": "messages",
}


def __getattr__(name: str) -> Any:
    # The routing tables alone need neither ZeroMQ nor AMQP.
    if name in _PLACES:
        from importlib import import_module

        if _PLACES[name] != "errors":
            need("bridge")
        return getattr(import_module(f"fumarole.bridge.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
