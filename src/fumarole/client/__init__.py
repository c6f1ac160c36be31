"""The Python client, on the same protocol code as the server. `docs/how-to/client.md` shows how it is used."""

from fumarole.client.client import Client, connect
from fumarole.client.errors import (
    AuthorizationError,
    ClientError,
    ClosedError,
    DisconnectedError,
    FlushTimeoutError,
    InvalidReadingError,
    NoReplyTopicError,
    NoResponders,
    NoServerError,
    PayloadTooLargeError,
    PendingFullError,
    QueryRefusedError,
    RefusedError,
    RequestTimeoutError,
    ServerAddressError,
)
from fumarole.client.message import Message
from fumarole.client.producer import Producer, ProducerInfo
from fumarole.client.reconnect import Disconnected, Notice, Reconnected, Refused
from fumarole.client.subscription import Subscription
from fumarole.client.where import Change, Reading, Readings

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
    "connect",
]
