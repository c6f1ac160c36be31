"""The operations of the bridge's clients, as multipart messages, and its answers (B1).

    bind, direct-name, topic…                       routes that expire; an empty direct name is none
    unbind, direct-name, topic…                     ends them at once
    send, exchange, key, message                    publishes
    call, id, exchange, key, message, options       publishes, and gathers replies; options {"replies", "timeout"}
    flush, id                                       answered with `done` when all that came before is in force
    status, id                                      answered with one `reply` in JSON, and `done`
    form, name                                      messages to this client are written so: msgpack, or erlang

`parse` gives one of these, or raises MalformedError with a sentence for the sender.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack

from fumarole.bridge.erlang_messages import is_erlang, unpack_options
from fumarole.bridge.errors import MalformedError
from fumarole.bridge.fields import SHORT
from fumarole.bridge.forms import FORMS, MSGPACK, Form, form_of

MSG: Final = b"msg"
REPLY: Final = b"reply"
DONE: Final = b"done"
ERROR: Final = b"error"

AWAY: Final = "the AMQP broker is away; try again later"
"""The answer while the broker cannot be reached."""
BEHIND: Final = "the AMQP broker takes no messages just now; try again later"
"""The answer while the broker is there and reads nothing, for instance because it is short of memory or disk."""
LONGEST_CALL: Final = 3600.0
"""Seconds that a call may wait."""
MOST_REPLIES: Final = 1_000_000
DEFAULT_TIMEOUT: Final = 5.0


class Bind(NamedTuple):
    direct: str
    topics: list[str]


class Unbind(NamedTuple):
    direct: str
    topics: list[str]


class Send(NamedTuple):
    exchange: str
    key: str
    payload: bytes
    properties: dict[str, Any]
    headers: dict[Any, Any]
    form: Form = MSGPACK
    """In which the client wrote it."""


@dataclass(frozen=True, slots=True)
class Call:
    identity: bytes
    send: Send
    replies: int | None
    """None: all that come in time."""
    timeout: float


class Flush(NamedTuple):
    identity: bytes


class Status(NamedTuple):
    identity: bytes


class Choose(NamedTuple):
    form: Form


Operation = Bind | Unbind | Send | Call | Flush | Status | Choose


def parse(parts: Sequence[bytes], most_topics: int) -> Operation:
    """The operation that these parts are."""
    if not parts:
        raise MalformedError(f"an empty message; the first part is one of {', '.join(NAMES)}")
    known = _OPERATIONS.get(bytes(parts[0]))
    if known is None:
        raise MalformedError(f"unknown operation {bytes(parts[0][:40])!r}; there are {', '.join(NAMES)}")
    return known(parts, most_topics)


def _bind(parts: Sequence[bytes], most_topics: int) -> Bind:
    return Bind(*_keys("bind", parts, most_topics))


def _unbind(parts: Sequence[bytes], most_topics: int) -> Unbind:
    return Unbind(*_keys("unbind", parts, most_topics))


def _keys(verb: str, parts: Sequence[bytes], most: int) -> tuple[str, list[str]]:
    if len(parts) < 2:
        raise MalformedError(f"{verb} has a direct name, which may be empty, and topics: {verb}, name, topic…")
    if len(parts) - 2 > most:
        raise MalformedError(f"{verb} has {len(parts) - 2} topics; at most {most} are allowed")
    return text(parts[1], "the direct name"), [text(part, "a topic") for part in parts[2:]]


def _send(parts: Sequence[bytes], _: int) -> Send:
    if len(parts) != 4:
        raise MalformedError(f"send has four parts, not {len(parts)}: send, exchange, key, message")
    return _message(parts[1], parts[2], parts[3])


def _call(parts: Sequence[bytes], _: int) -> Call:
    if len(parts) != 6:
        raise MalformedError(f"call has six parts, not {len(parts)}: call, id, exchange, key, message, options")
    replies, timeout = _options(parts[5])
    send = _message(parts[2], parts[3], parts[4])
    return Call(identity(parts), send, replies, timeout)


def _message(exchange: bytes, key: bytes, message: bytes) -> Send:
    form = form_of(message)
    return Send(text(exchange, "the exchange"), text(key, "the key"), *form.unpack(message), form)


def _options(part: bytes) -> tuple[int | None, float]:
    try:
        options = unpack_options(part) if is_erlang(part) else msgpack.unpackb(part) if part else {}
    except (ValueError, TypeError, msgpack.UnpackException):
        options = None
    if type(options) is not dict or not options.keys() <= {"replies", "timeout"}:
        raise MalformedError("the options of a call are a MsgPack map with replies and timeout, or empty")
    replies, timeout = options.get("replies"), options.get("timeout", DEFAULT_TIMEOUT)
    if replies is not None and (type(replies) is not int or not 1 <= replies <= MOST_REPLIES):
        raise MalformedError(f"replies is a whole number from 1 to {MOST_REPLIES}, or nil for all that come in time")
    if type(timeout) not in (int, float) or not math.isfinite(timeout) or not 0 < timeout <= LONGEST_CALL:
        raise MalformedError(f"timeout is seconds above 0, at most {LONGEST_CALL:g}")
    return replies, float(timeout)


def identity(parts: Sequence[bytes]) -> bytes:
    """The id of a call, for errors about it too."""
    if len(parts) < 2 or not 0 < len(parts[1]) <= SHORT:
        raise MalformedError(f"{bytes(parts[0]).decode()} has an id of 1 to {SHORT} bytes as its second part")
    return bytes(parts[1])


def _flush(parts: Sequence[bytes], _: int) -> Flush:
    return Flush(identity(parts))


def _status(parts: Sequence[bytes], _: int) -> Status:
    return Status(identity(parts))


def _form(parts: Sequence[bytes], _: int) -> Choose:
    name = bytes(parts[1]) if len(parts) == 2 else b""
    form = next((form for form in FORMS.values() if form.name.encode() == name), None)
    if form is None:
        raise MalformedError(f"form has the name of a form: {' or '.join(FORMS)}")
    return Choose(form)


def text(part: bytes, what: str) -> str:
    """A name or key: UTF-8, within AMQP's length."""
    if len(part) > SHORT:
        raise MalformedError(f"{what} has {len(part)} bytes; AMQP takes at most {SHORT}")
    try:
        return bytes(part).decode()
    except UnicodeDecodeError:
        raise MalformedError(f"{what} is not UTF-8") from None


_OPERATIONS: Final[dict[bytes, Callable[[Sequence[bytes], int], Operation]]] = {
    b"bind": _bind,
    b"unbind": _unbind,
    b"send": _send,
    b"call": _call,
    b"flush": _flush,
    b"status": _status,
    b"form": _form,
}
NAMES: Final = [name.decode() for name in _OPERATIONS]
