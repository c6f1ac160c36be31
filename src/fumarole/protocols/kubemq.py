"""KubeMQ's messages: what is wrong with one, and each as a publication and back.

The bytes themselves are read and written by protobuf (`kubemq_pb2`, made from kubemq.proto by the build). A message
becomes a publication like this (K2):

    Event                                      Publication
    Channel   volcanoes.usa.atka               topic     volcanoes.usa.atka
    Body      21.5                             payload   21.5
    EventID   7f3c                             headers   Kubemq-Id: 7f3c
    Metadata  celsius                                    Kubemq-Metadata: celsius
    Tags      {"site": "north", "a b": "1"}              site: north
                                                         Kubemq-Tag: a%20b=1

and every header that is not `Kubemq-…` becomes a tag again, from any door. What cannot stand in a header as it is
(line ends, white space at the ends) is percent-encoded: a field under its name with a `*`, a tag as `Kubemq-Tag`. So
are tags that would make a reading of the message, `Producer` and `Metadata`: clients publish no readings here.

Commands and Queries are publications too, with a reply topic, each under a first word of its own, so that a channel
of Events, one of Commands and one of Queries never mix though they have the same name.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from fumarole.core import headers, publication
from fumarole.core.errors import FumaroleError
from fumarole.core.publication import PRIVATE, Publication
from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Request, Response, Subscribe

EMPTY: Final = "$EMPTY"
"""How this protocol writes the empty topic (T9)."""
COMMANDS: Final = publication.COMMANDS
QUERIES: Final = publication.QUERIES
INBOX: Final = "_INBOX."
"""The beginning of reply topics, here as with NATS clients."""
RESERVED: Final = (COMMANDS, QUERIES, INBOX, PRIVATE)
"""Beginnings of topics that are not Events."""
NOBODY: Final = "_INBOX.nobody"
"""The reply channel of a request that wants no answer: KubeMQ's clients insist on one."""

INTERNAL: Final = "INTERNAL"
INVALID: Final = "INVALID_ARGUMENT"
DENIED: Final = "PERMISSION_DENIED"
UNAUTHENTICATED: Final = "UNAUTHENTICATED"
UNIMPLEMENTED: Final = "UNIMPLEMENTED"
EXHAUSTED: Final = "RESOURCE_EXHAUSTED"
UNAVAILABLE: Final = "UNAVAILABLE"


class Fault(FumaroleError):
    """What is wrong with a call: the name of a gRPC status, and a text, KubeMQ's own where it has one."""

    def __init__(self, text: str, status: str = INTERNAL) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


# KubeMQ's numbers and texts.
NO_CLIENT: Final = "Error 101: invalid clientID value, cannot be empty"
NO_CHANNEL: Final = "Error 102: invalid channel value, cannot be empty"
WILDCARDS: Final = "Error 107: invalid channel value, no wildcards are allowed"
WHITE_SPACE: Final = "Error 108: invalid channel value, no white spaces are allowed"
NO_TIMEOUT: Final = "Error 109: invalid set timeout value, cannot be 0 or negative"
EMPTY_MESSAGE: Final = "Error 110: invalid message, cannot be empty"
EMPTY_REQUEST: Final = "Error 115: invalid request, cannot be empty"
NO_CACHE_TTL: Final = "Error 116: invalid cache ttl value, cannot be 0 or negative"
NO_REQUEST_ID: Final = "Error 117: invalid request id, cannot be empty"
STORE_OPTIONS: Final = "Error 118: event store parameters were set but subscribe type is not event store"
TRAILING_DOT: Final = "Error 119: invalid channel value, cannot end with `.`"
REQUEST_TYPE: Final = "Error 206: invalid request type"
SUBSCRIBE_TYPE: Final = "Error 207: invalid subscribe type"
TIMED_OUT: Final = "Error 301: timeout for request message"
SHUTTING_DOWN: Final = "Error 409: server is in shutdown mode"
STOOD_STILL: Final = "this node stood still, and what was said to it before may be too old: call again"
NO_ACCESS: Final = "Error 412: access denied to resource"
NOT_AUTHENTICATED: Final = "Error 421: authentication verification failed, "

MOST_TAGS: Final = 1_000
"""Of one message. In a megabyte there is room for a hundred thousand, and others would wait until all are headers. So
many headers of a message that came through another door are looked at, too."""
_SPACE: Final = re.compile(r"\s")


def check_event(event: Event, is_sender_known: bool = False) -> None:
    """What KubeMQ asks of an event, in its order. Of a client and channel that passed before nothing is asked."""
    if not is_sender_known:
        _check_sender(event.ClientID, event.Channel)
    if not event.Body and not event.Metadata:
        raise Fault(EMPTY_MESSAGE)
    if event.Tags:
        _check_tags(event)


def check_request(request: Request) -> None:
    """The same for a Command or Query."""
    if request.RequestTypeData not in (Request.Command, Request.Query):
        raise Fault(REQUEST_TYPE)
    _check_sender(request.ClientID, request.Channel)
    if request.Timeout <= 0:
        raise Fault(NO_TIMEOUT)
    if not request.Body and not request.Metadata:
        raise Fault(EMPTY_REQUEST)
    if request.CacheKey and request.CacheTTL <= 0:
        raise Fault(NO_CACHE_TTL)
    _check_tags(request)


def check_response(response: Response) -> None:
    """The same for an answer."""
    _check_sender(response.ClientID, response.ReplyChannel)
    if not response.RequestID:
        raise Fault(NO_REQUEST_ID)
    _check_tags(response)


def check_subscribe(subscribe: Subscribe) -> None:
    """The same for a subscription, whose type has been looked at; its channel may have wildcards."""
    _check_channel(subscribe.ClientID, subscribe.Channel)
    if subscribe.EventsStoreTypeData:
        raise Fault(STORE_OPTIONS)


def _check_tags(message: Event | Request | Response) -> None:
    if len(message.Tags) > MOST_TAGS:
        raise Fault(f"the message has more than {MOST_TAGS} tags, the limit here", EXHAUSTED)


def _check_sender(client: str, channel: str) -> None:
    _check_channel(client, channel)
    if "*" in channel or ">" in channel:
        raise Fault(WILDCARDS)


def _check_channel(client: str, channel: str) -> None:
    if not client:
        raise Fault(NO_CLIENT)
    if not channel:
        raise Fault(NO_CHANNEL)
    if channel[-1] == ".":
        raise Fault(TRAILING_DOT)
    if _SPACE.search(channel):
        raise Fault(WHITE_SPACE)


# Headers.

ID: Final = "Kubemq-Id"
METADATA: Final = "Kubemq-Metadata"
TAG: Final = "Kubemq-Tag"
ERROR: Final = "Kubemq-Error"
EXECUTED: Final = "Kubemq-Executed"
OURS: Final = "Kubemq-"
READING: Final = frozenset({"Producer", "Metadata"})
"""Headers that make a message a reading. This door drops them, because it does not check permissions for readings."""

# The fields that travel as headers, by message.
EVENT_FIELDS: Final = {ID: "EventID", METADATA: "Metadata"}
REQUEST_FIELDS: Final = {
    ID: "RequestID",
    "Kubemq-Client": "ClientID",
    METADATA: "Metadata",
    "Kubemq-Timeout": "Timeout",
    "Kubemq-Cache-Key": "CacheKey",
    "Kubemq-Cache-Ttl": "CacheTTL",
    "Kubemq-Span": "Span",
}
RESPONSE_FIELDS: Final = {
    ID: "RequestID",
    "Kubemq-Client": "ClientID",
    METADATA: "Metadata",
    "Kubemq-Cache-Hit": "CacheHit",
    "Kubemq-Timestamp": "Timestamp",
    EXECUTED: "Executed",
    ERROR: "Error",
    "Kubemq-Span": "Span",
}

# A header's name that every door and client takes as it is; `*` marks what is percent-encoded.
_PLAIN_NAME: Final = re.compile(r"[-!#$%&'+.^_`|~0-9A-Za-z]+")
# No white space at the ends, where it would be lost, and nothing that some program takes for a line end.
_PLAIN_VALUE: Final = re.compile(r"(?!\s)[^\x00-\x1f\x7f-\x9f\u2028\u2029]*(?<!\s)")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_LARGEST: Final = {"Timeout": 2**31 - 1, "CacheTTL": 2**31 - 1, "Timestamp": 2**63 - 1}

Message = Event | EventReceive | Request | Response


def to_headers(message: Message, fields: Mapping[str, str]) -> bytes:
    """The block that carries these fields, those that are set, and the tags."""
    values = ((name, getattr(message, field)) for name, field in fields.items())
    pairs = [_field_pair(name, value) for name, value in values if value or name == EXECUTED]
    tags = message.Tags
    if tags:
        pairs += [_tag_pair(name, tags[name]) for name in sorted(tags)]
    return headers.build(pairs) if pairs else b""


def from_headers(block: bytes, message: Message, fields: Mapping[str, str]) -> None:
    """Sets these fields and the tags by what the block says."""
    for name, value in headers.parse(block, MOST_TAGS + len(fields)):
        if name == TAG:
            tag, _, text = value.partition("=")
            message.Tags[unquote(tag)] = unquote(text)
        elif not name.startswith(OURS):
            message.Tags[name] = value
        elif (field := fields.get(name.removesuffix("*"))) is not None:
            _set_field(message, field, unquote(value) if name.endswith("*") else value)


def _field_pair(name: str, value: str | int | bytes) -> tuple[str, str]:
    if isinstance(value, bytes):
        return name, b64encode(value).decode()
    if isinstance(value, bool):
        return name, "true" if value else "false"
    text = str(value)
    return (name, text) if _PLAIN_VALUE.fullmatch(text) else (f"{name}*", quote(text, safe=""))


def _tag_pair(name: str, value: str) -> tuple[str, str]:
    is_free = _PLAIN_NAME.fullmatch(name) and not name.startswith(OURS) and name not in READING
    if is_free and _PLAIN_VALUE.fullmatch(value):
        return name, value
    return TAG, f"{quote(name, safe='')}={quote(value, safe='')}"


def _set_field(message: Message, field: str, text: str) -> None:
    kind = type(getattr(message, field))
    if kind is str:
        setattr(message, field, text)
    elif kind is bool:
        setattr(message, field, text == "true")
    elif kind is bytes:
        setattr(message, field, _from_base64(text))
    elif _NUMBER.fullmatch(text) and int(text) <= _LARGEST[field]:
        setattr(message, field, int(text))


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""


# Events.


def event_publication(event: Event, topic: str) -> Publication:
    """An event that has passed `check_event` and has an id."""
    event_id = event.EventID
    if event.Metadata or event.Tags or not _PLAIN_VALUE.fullmatch(event_id):
        block = to_headers(event, EVENT_FIELDS)
    else:
        block = b"NATS/1.0\r\nKubemq-Id: %b\r\n\r\n" % event_id.encode()
    return Publication(topic, event.Body, "", block)


def event_frame(event: Event) -> bytes:
    """What receivers get of an event, made from the event itself."""
    received = EventReceive()
    received.EventID = event.EventID
    received.Channel = event.Channel
    received.Body = event.Body
    if event.Metadata:
        received.Metadata = event.Metadata
    if event.Tags:
        received.Tags.update(event.Tags)
    return received.SerializeToString()


NameOf = Callable[[Publication], str]
"""An id for a publication that has none: the same for all its consumers."""


def publication_event(publication: Publication, name_of: NameOf) -> EventReceive:
    """What receivers get of a publication, whichever door it came through. The definition; `event_frame` is quicker."""
    received = EventReceive(Channel=publication.topic or EMPTY, Body=publication.payload)
    if publication.headers:
        from_headers(publication.headers, received, EVENT_FIELDS)
    if publication.age is not None:
        received.Tags["Last"] = f"{publication.age:g}"
    if not received.EventID:
        received.EventID = name_of(publication)
    return received


# Requests and their answers.


class Kind(NamedTuple):
    """What Commands have that Queries have not, and the other way round."""

    prefix: str
    request_type: "Request.RequestType"


COMMAND: Final = Kind(COMMANDS, Request.Command)
QUERY: Final = Kind(QUERIES, Request.Query)
KIND_OF_REQUEST: Final = {Request.Command: COMMAND, Request.Query: QUERY}
KIND_OF_SUBSCRIBE: Final = {Subscribe.Commands: COMMAND, Subscribe.Queries: QUERY}


def request_publication(request: Request, reply: str) -> Publication:
    """A request that has passed `check_request` and has an id."""
    topic = KIND_OF_REQUEST[request.RequestTypeData].prefix + request.Channel
    return Publication(topic, request.Body, reply, to_headers(request, REQUEST_FIELDS))


def publication_request(publication: Publication, kind: Kind, name_of: NameOf) -> Request:
    """What responders get of a publication."""
    request = Request(
        RequestTypeData=kind.request_type,
        Channel=publication.topic.removeprefix(kind.prefix),
        Body=publication.payload,
        ReplyChannel=publication.reply or NOBODY,
    )
    if publication.headers:
        from_headers(publication.headers, request, REQUEST_FIELDS)
    if not request.RequestID:
        request.RequestID = name_of(publication)
    return request


def response_publication(response: Response) -> Publication:
    """An answer that has passed `check_response`."""
    return Publication(response.ReplyChannel, response.Body, "", to_headers(response, RESPONSE_FIELDS))


def publication_response(publication: Publication, request: Request, now: float) -> Response:
    """The response to the client that asked. Without a status, as from NATS clients, it is a success."""
    response = Response(Executed=True, Body=publication.payload)
    if publication.headers:
        from_headers(publication.headers, response, RESPONSE_FIELDS)
    response.RequestID = request.RequestID
    if not response.Timestamp:
        response.Timestamp = nanoseconds(now)
    if request.RequestTypeData == Request.Command:
        for field in ("Body", "Metadata", "CacheHit"):
            response.ClearField(field)
    return response


def nanoseconds(now: float) -> int:
    """Unix time as KubeMQ's clients read it."""
    return int(now * 1e6) * 1000


def names_found(names: Iterable[str], search: str) -> list[str]:
    """The names that have this text in them; a `*` in it stands for anything."""
    parts = search.split("*")
    return [name for name in names if _found(name, parts)]


def _found(name: str, parts: list[str]) -> bool:
    at = 0
    for part in parts:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True
