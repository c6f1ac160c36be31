"""The Python client, on the same protocol code as the server. `docs/client.md` shows how it is used."""

from fumarole.client.client import Client, connect
from fumarole.client.errors import (
    AuthorizationError,
    ClientError,
    ClosedError,
    DisconnectedError,
    NoReplyTopicError,
    NoResponders,
    NoServerError,
    PayloadTooLargeError,
    PendingFullError,
    RefusedError,
    RequestTimeoutError,
    ServerAddressError,
)
from fumarole.client.link import Disconnected, Notice, Reconnected, Refused
from fumarole.client.message import Message
from fumarole.client.subscription import Subscription

__all__ = [
    "AuthorizationError",
    "Client",
    "ClientError",
    "ClosedError",
    "Disconnected",
    "DisconnectedError",
    "Message",
    "NoReplyTopicError",
    "NoResponders",
    "NoServerError",
    "Notice",
    "PayloadTooLargeError",
    "PendingFullError",
    "Reconnected",
    "Refused",
    "RefusedError",
    "RequestTimeoutError",
    "ServerAddressError",
    "Subscription",
    "connect",
]
