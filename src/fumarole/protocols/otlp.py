"""Spans as OTLP writes them: the body of a POST to a collector's `/v1/traces`, in protobuf.

    ExportTraceServiceRequest            Span
      1 resource_spans                     1 trace_id   2 span_id   4 parent_span_id
        1 resource: 1 attributes           5 name       6 kind
        2 scope_spans                      7 start_time_unix_nano   8 end_time_unix_nano
          1 scope: 1 name, 2 version       9 attributes: 1 key, 2 value (1 text or 3 integer)
          2 spans

Only what is needed to write these. Numbers are the fields' in opentelemetry-proto, whose messages do not change them.
"""

from collections.abc import Iterable
from typing import Final

from fumarole.core.tracing import Span

CONTENT_TYPE: Final = "application/x-protobuf"
PATH: Final = "/v1/traces"
SCOPE: Final = "fumarole"
PRODUCER, CONSUMER = 4, 5
"""Kinds of spans: a message leaves, or comes in."""

Attributes = Iterable[tuple[str, str | int]]


def span_field(span: Span) -> bytes:
    """A span as a field of its scope. Requests are made of these."""
    kind = CONSUMER if span.is_taken_in else PRODUCER
    return _bytes(
        2,
        _bytes(1, span.trace)
        + _bytes(2, span.span)
        + _bytes(4, span.parent)
        + _bytes(5, span.name.encode())
        + _number(6, kind)
        + _fixed64(7, span.began)
        + _fixed64(8, span.ended)
        + _attributes(9, span.attributes),
    )


def request(resource: Attributes, version: str, spans: Iterable[bytes]) -> bytes:
    """The request that brings these spans, each written by `span_field`."""
    scope = _bytes(1, SCOPE.encode()) + _bytes(2, version.encode())
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, _bytes(1, scope) + b"".join(spans)))


def _attributes(field: int, pairs: Attributes) -> bytes:
    return b"".join([_bytes(field, _bytes(1, key.encode()) + _bytes(2, _value(value))) for key, value in pairs])


def _value(value: str | int) -> bytes:
    return _number(3, value) if isinstance(value, int) else _bytes(1, value.encode("utf-8", "replace"))


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + value.to_bytes(8, "little")
