"""Every bound of the broker (L2), with its default. Each is a setting of the same name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

KIB = 1024
MIB = 1024 * KIB

DEEPEST_QUERY = 100
"""Queries are compared, hashed and evaluated recursively: deeper ones could exhaust the interpreter's stack."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most that may be held of each. None: the default of the namespace; for a user and a connection, no limit."""

    connections: int | None = None
    """Connections at a time."""
    consumers: int | None = None
    """Subscriptions, queries included."""
    standing_cost: int | None = None
    """The cost of all standing queries together, in simple tests (`core/query/cost.py`)."""
    producers: int | None = None
    """Producers that are known."""
    metadata_bytes: int | None = None
    """Metadata of all producers together, counted as `limits.metadata_bytes` counts."""
    retained_bytes: int | None = None
    """Retained messages, topics and headers included."""
    last_bytes: int | None = None
    """Last messages, topics and headers included."""
    messages_per_second: int | None = None
    """Messages published in a second. None, also by default: turns keep the loop fair, not rates."""
    bytes_per_second: int | None = None
    """The same in bytes of payloads and headers."""

    def or_else(self, defaults: Quotas) -> Quotas:
        """The same quotas, with these as defaults."""
        named = [field.name for field in fields(self)]
        return Quotas(**{name: _first(getattr(self, name), getattr(defaults, name)) for name in named})


def _first(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


@dataclass(frozen=True, slots=True)
class NamespaceQuotas(Quotas):
    """The same with the defaults of a namespace: no namespace takes the machine."""

    connections: int | None = 50_000
    consumers: int | None = 1_000_000
    standing_cost: int | None = 20_000_000
    producers: int | None = 1_000_000
    metadata_bytes: int | None = 128 * MIB
    retained_bytes: int | None = 64 * MIB
    last_bytes: int | None = 64 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one broker. Sizes are bytes, times are seconds, the rest are counts."""

    control_line: int = 4 * KIB
    """The longest protocol line, its line end not counted. Bounds topics, patterns, groups and reply topics too."""
    payload: int = 1 * MIB
    """The largest payload, headers included."""
    connections: int = 65_536
    """Open connections, all doors together."""
    connections_per_address: int = 20_000
    """Open connections from one network address."""
    consumers_per_connection: int = 65_536
    """Subscriptions that one connection may hold."""
    outbox: int = 4 * MIB
    """Bytes that wait for one slow connection before its namespace's overflow policy decides (D6)."""
    handshake: float = 2.0
    """From accept to a complete CONNECT."""
    tls_handshake: float = 3.0
    """The same where the connection begins with a TLS handshake."""
    idle: float = 60.0
    """Silence after which a peer gets a ping; after two unanswered pings it is disconnected."""
    drain: float = 8.0
    """The time for outboxes to empty when the broker stops."""
    metadata_keys: int = 64
    """Metadata keys of one producer."""
    metadata_bytes: int = 8 * KIB
    """Metadata of one producer, keys and values together; a number or truth value counts as 8."""
    msgpack_value: int = 256 * KIB
    """The longest MsgPack value."""
    msgpack_depth: int = 8
    """Arrays and maps inside each other in a MsgPack value."""
    query_length: int = 16 * KIB
    """The longest query."""
    query_depth: int = 64
    """Parentheses and NOTs of a query inside each other. `DEEPEST_QUERY` at most."""
    query_tests: int = 500
    """Tests in one query."""
    query_values: int = 1_000
    """Values in one IN list."""
    query_pattern: int = 1 * KIB
    """The longest pattern after LIKE or MATCHES."""
    query_regexes: int = 8
    """MATCHES tests in one query. Each takes up to 256 KiB of memory."""
    query_cost: int = 1_000_000
    """What one evaluation of a query may cost where texts are long, in simple tests (`core/query/cost.py`)."""
    view_keys: int = 16
    """Keys of one view (`select KEY, …`)."""
    standing_cost: int = 4_000_000
    """The cost of the standing queries of one connection together, in simple tests (`core/query/cost.py`)."""
    namespaces: int = 10_000
    """Namespaces at a time, those that clients named included."""
    memory: int | None = None
    """Bytes that the process may use before new producers, queries, namespaces and retained messages are refused
    (A10). None: three quarters of what the machine, or the container, has."""
    quota: NamespaceQuotas = NamespaceQuotas()
    """The quota of a namespace that has none of its own."""


DEFAULTS: Final = Limits()
