"""Fumarole: a message exchange for many small, fresh messages.

The names of the client are here, `fumarole.connect` first, and what can be tried without a server:

    >>> import fumarole
    >>> fumarole.matches("volcanoes.*", "volcanoes.usa")
    True
    >>> fumarole.Query("Room like '4%'").holds({"Room": "410"})
    True

Each is loaded when it is first used.
"""

TYPE_CHECKING = False  # not from typing, whose import would take as long as all else here
if TYPE_CHECKING:
    from typing import Any

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
    from fumarole.core.text import PatternError, Query, QueryError, TopicError, matches

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
    "PatternError",
    "PayloadTooLargeError",
    "PendingFullError",
    "Producer",
    "ProducerInfo",
    "Query",
    "QueryError",
    "QueryRefusedError",
    "Reading",
    "Readings",
    "Reconnected",
    "Refused",
    "RefusedError",
    "RequestTimeoutError",
    "ServerAddressError",
    "Subscription",
    "TopicError",
    "__version__",
    "connect",
    "matches",
]

AT_THE_PROMPT = {"PatternError", "Query", "QueryError", "TopicError", "matches"}
"""Of core/text.py; all others are the client's."""


def __getattr__(name: str) -> "Any":
    # Every command and every layer imports this module. A name costs time only where it is used.
    if name in AT_THE_PROMPT:
        from fumarole.core import text

        return getattr(text, name)
    if name in __all__:
        from fumarole import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
