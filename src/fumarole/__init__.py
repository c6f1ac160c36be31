"""Fumarole: a message exchange for many small, fresh messages.

The names of the client are here too, `fumarole.connect` first; it is loaded when one of them is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fumarole.client import (
        AuthorizationError,
        Change,
        Client,
        ClientError,
        ClosedError,
        Disconnected,
        DisconnectedError,
        FlushTimeoutError,
        InvalidReadingError,
        Message,
        NoReplyTopicError,
        NoResponders,
        NoServerError,
        Notice,
        PayloadTooLargeError,
        PendingFullError,
        Producer,
        ProducerInfo,
        QueryRefusedError,
        Reading,
        Readings,
        Reconnected,
        Refused,
        RefusedError,
        RequestTimeoutError,
        ServerAddressError,
        Subscription,
        connect,
    )

__version__ = "0.1.0"
__all__ = [
    "AuthorizationError",
    "Change",
    "Client",
    "ClientError",
    "ClosedError",
    "Disconnected",
    "DisconnectedError",
    "FlushTimeoutError",
    "InvalidReadingError",
    "Message",
    "NoReplyTopicError",
    "NoResponders",
    "NoServerError",
    "Notice",
    "PayloadTooLargeError",
    "PendingFullError",
    "Producer",
    "ProducerInfo",
    "QueryRefusedError",
    "Reading",
    "Readings",
    "Reconnected",
    "Refused",
    "RefusedError",
    "RequestTimeoutError",
    "ServerAddressError",
    "Subscription",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> Any:
    # Every command and every layer imports this module; only those who use the client pay for it.
    if name in __all__:
        from fumarole import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
