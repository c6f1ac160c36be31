"""Publications as the NATS door says them, and readings as NATS clients say them (M8)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fumarole.core import headers
from fumarole.core.publication import Publication
from fumarole.core.query.tree import Value
from fumarole.exchange.permissions import User
from fumarole.exchange.readings import (
    Reading,
    ReadingError,
    check_identity,
    check_metadata,
    reading_block,
    reading_value,
)
from fumarole.protocols import nats

EMPTY = "$EMPTY"
"""How this door writes the empty topic (T9)."""
FORM = object()
"""Marks what this door has made of a publication: what stands before and after the sid, with headers and without."""
LONGEST_IN_JSON = 16
"""No metadata is so many times as long in JSON as it counts for: a letter can be written as `\\u0061`, and as much may
be taken back as is new."""
VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
GO_MADE_TRANSIENT = 1, 38
"""The first version of Go's client that stays connected when it has too many subscriptions."""
USER_INFO = "$SYS.REQ.USER.INFO"
"""Where a NATS client asks for its user and permissions."""


def survives_too_many_consumers(options: Mapping[str, Any]) -> bool:
    """Does a client with these options of CONNECT stay connected on nats-server's own words for it? Go's does, and
    reports an error of its own for them. All others close for good."""
    version = VERSION.match(str(options.get("version")))
    return options.get("lang") == "go" and version is not None and (*map(int, version.groups()),) >= GO_MADE_TRANSIENT


def form_of(publication: Publication) -> tuple[object, bytes, bytes, bytes, bytes]:
    topic, reply = (publication.topic or EMPTY).encode(), publication.reply.encode()
    plain_before, plain_after = nats.message_around_sid(topic, publication.payload, reply)
    block = block_of(publication)
    if not block:
        return FORM, plain_before, plain_after, plain_before, plain_after
    before, after = nats.message_around_sid(topic, publication.payload, reply, block)
    return FORM, before, after, plain_before, plain_after


def block_of(publication: Publication) -> bytes:
    """Its headers here."""
    block = publication.headers or reading_block(publication.reading)
    return block if publication.age is None else headers.added(block, "Last", f"{publication.age:g}")  # F3


def last_value(publication: Publication, sid: bytes, takes_headers: bool) -> bytes:
    """The frame of a message that goes to one client only: it has no form that others share."""
    block = block_of(publication) if takes_headers else b""
    return nats.message((publication.topic or EMPTY).encode(), sid, publication.payload, b"", block)


def reading_of(publication: Publication, metadata_bytes: int) -> Reading:
    """The reading that a message with a `Producer` is; `Metadata` may bring a JSON object.

    The message may be large, and most of it concerns the client only: nothing is parsed that cannot be right.
    """
    block = publication.headers
    said = headers.last(block, "Metadata")
    metadata = {} if said is None else metadata_said(said, metadata_bytes)
    return Reading(check_identity(headers.last(block, "Producer")), metadata, reading_value(publication.payload))


def metadata_said(said: str, metadata_bytes: int) -> Mapping[str, Value | None]:
    """What the header `Metadata` brings, in a namespace where a producer has so many bytes. Raises ReadingError."""
    longest = LONGEST_IN_JSON * metadata_bytes
    if len(said) > longest:
        raise ReadingError(f"the header `Metadata` is longer than {longest} characters")
    try:
        metadata = json.loads(said)
    except (ValueError, RecursionError):
        raise ReadingError("the header `Metadata` is not JSON") from None
    return check_metadata(metadata)


def user_info(info: dict[str, Any], namespace: str, user: User | None) -> dict[str, Any]:
    """The answer to `USER_INFO` in the form of nats-server. Its account is the namespace here."""
    rules = {"publish": user.publish, "subscribe": user.subscribe} if user is not None else {}
    permissions = {
        action: {"allow": [">"] if each.allow is None else list(each.allow), "deny": list(each.deny)}
        for action, each in rules.items()
        if each is not None
    }
    server = {"name": info["server_name"], "host": info["host"], "id": info["server_id"], "ver": info["version"]}
    data: dict[str, Any] = {"user": "" if user is None else user.name, "account": namespace}
    if permissions:
        data["permissions"] = permissions
    return {"server": {**server, "jetstream": False}, "data": data}
