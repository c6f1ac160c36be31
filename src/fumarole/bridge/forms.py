"""The two forms of a message towards ZeroMQ: MsgPack, and Erlang's own. A client gets the one that it uses.

A message says by its first bytes which form it has. A client that only listens has said nothing yet, and gets MsgPack
unless it asks for the other with `form`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fumarole.bridge import erlang_messages, messages


class Form(NamedTuple):
    """One form."""

    name: str
    unpack: Callable[[bytes], tuple[bytes, dict[str, Any], dict[Any, Any]]]
    """Payload, properties and headers of a message. Raises MalformedError."""
    from_amqp: Callable[[bytes, bytes], bytes]
    """The message of a property list and a body. Raises MalformedError where the form has no words for it."""
    pack: Callable[[bytes, str], bytes]
    """A message of the bridge's own: a payload and its content type."""


MSGPACK: Final = Form(
    "msgpack",
    messages.unpack,
    messages.from_amqp,
    lambda payload, content_type: messages.pack(payload, {"content_type": content_type}, {}),
)
ERLANG: Final = Form(
    "erlang", erlang_messages.unpack_record, erlang_messages.record_from_amqp, erlang_messages.pack_record
)
FORMS: Final = {form.name: form for form in (MSGPACK, ERLANG)}


def form_of(part: bytes) -> Form:
    """The form that a message has."""
    return ERLANG if erlang_messages.is_erlang(part) else MSGPACK
