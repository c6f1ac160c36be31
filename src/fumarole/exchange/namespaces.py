"""Namespaces: each has exactly one exchange, and nothing crosses between two (N1–N3)."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from fumarole.core.errors import NamespaceError
from fumarole.core.limits import Limits, Quotas
from fumarole.core.topic import Grammar
from fumarole.exchange.exchange import ConsumerChanged, Exchange
from fumarole.exchange.fresh_state import FreshState
from fumarole.exchange.gathering import Asking
from fumarole.exchange.hybrid_clock import HybridClock
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.parts import PURE, Parts
from fumarole.exchange.presence import GRACE
from fumarole.exchange.producers import Producers
from fumarole.exchange.quotas import QuotaError, Usage, Watermark
from fumarole.exchange.retained import Kept, Retained
from fumarole.exchange.slices import Slices
from fumarole.exchange.timers import Timers
from fumarole.exchange.tracer import Tracer

DEFAULT = "default"
Described = Callable[[Exchange, str, Collection[str]], None]
"""This producer has said something new of itself, with these keys."""
Came = Callable[[Exchange, Collection[str], bool], None]
"""These producers are online here now, or not any more."""
Forgotten = Callable[[Exchange, str, bool], None]
"""This one is about to be forgotten; is it for its silence?"""
Moved = Callable[[Exchange, str, bool], None]
"""A reading of this one is on another topic than the one before; is it described as well?"""
KUBEMQ = "kubemq"
"""Where KubeMQ clients are unless they say otherwise (K2)."""
Keeps = Literal["retained", "all"]
_DEFAULTS = Limits()
_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """What the configuration may say of a namespace."""

    grammar: Grammar = Grammar.STRICT
    overflow: Overflow = Overflow.DROP_OLDEST
    outbox: int | None = None
    """Bytes; None: the broker's own limit."""
    producer_ttl: float | None = None
    """Seconds without a reading after which a producer is forgotten (M7); None: never."""
    presence_grace: float = GRACE
    """Seconds for which a producer stays online after its last connection has gone (F5)."""
    last: Keeps = "retained"
    """Which messages are kept for consumers that ask for `last`: the retained, or of every topic the last (F2)."""
    quota: Quotas = field(default_factory=Quotas)
    """What it may hold (A5), where that is not `limits.quota`."""


def default_rules(namespace: str, grammar: Grammar = Grammar.STRICT) -> NamespaceRules:
    """The rules of a namespace of which the configuration says nothing; `grammar` is that of most."""
    return NamespaceRules(grammar=Grammar.CHANNEL if namespace == KUBEMQ else grammar)


def check_name(name: str) -> None:
    """N1."""
    if not _NAME.fullmatch(name):
        raise NamespaceError("a namespace is 1 to 63 letters, digits and hyphens, with no hyphen at the ends")


def namespace_of(name: str) -> str:
    """N3: the namespace that a client without authentication chooses by a user name or token that it gives."""
    return name if _NAME.fullmatch(name) else DEFAULT


class Namespaces:
    """A namespace comes to be with its first connection and, unless it was configured, goes when its last connection
    and its last producer are gone."""

    def __init__(
        self,
        limits: Limits = _DEFAULTS,
        rules: Mapping[str, NamespaceRules] | None = None,
        allowed: frozenset[str] | None = None,
        parts: Parts = PURE,
        are_kept: bool = True,
        clock: HybridClock | None = None,
        grammar: Grammar = Grammar.STRICT,
    ) -> None:
        self._grammar = grammar
        self._limits = limits
        self._rules = dict(rules or {})
        self._allowed = allowed
        self._parts = parts
        self._are_kept = are_kept
        """Is the metadata of producers written to disk?"""
        self.memory = Watermark()
        """Is memory short (A10)?"""
        self.refused = 0
        """Namespaces that were one too many."""
        self.slices = Slices()
        """What takes long in any of them."""
        self.timers = Timers()
        """What is to be done later in any of them."""
        self.clock = HybridClock() if clock is None else clock
        self._consumer_changed: ConsumerChanged | None = None
        self._described: Described | None = None
        self._forgotten: Forgotten | None = None
        self._came: Came | None = None
        self._moved: Moved | None = None
        self._retains: Callable[[Exchange, Kept], None] | None = None
        self._ask: Callable[[Asking], None] | None = None
        self.tracer: Tracer | None = None
        """Makes spans of sampled messages in all of them (O3); None: `[traces]` is not set."""
        self._exchanges: dict[str, Exchange] = {}
        for name in {DEFAULT, *self._rules}:
            self._exchanges[name] = self._make(name)

    def renew(self, limits: Limits, rules: Mapping[str, NamespaceRules], allowed: frozenset[str] | None) -> None:
        """The configuration was loaded again (A7). Namespaces that are no longer allowed refuse new connections."""
        self._limits, self._rules, self._allowed = limits, dict(rules), allowed
        for name in self._rules:
            if name not in self._exchanges:
                self._exchanges[name] = self._make(name)
        for exchange in list(self):
            own = self._rules.get(exchange.name) or default_rules(exchange.name, self._grammar)
            exchange.govern(own.overflow, limits.outbox if own.outbox is None else own.outbox)
            exchange.producers.ttl = own.producer_ttl
            exchange.producers.presence.grace = own.presence_grace
            exchange.usage.quotas = own.quota.or_else(limits.quota)
            if exchange.last_values is not None:
                exchange.last_values.limit(exchange.usage.quotas.last_bytes)
            self.release(exchange)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges.values())

    @property
    def configured(self) -> frozenset[str]:
        """Those that are always there."""
        return frozenset({DEFAULT, *self._rules})

    def get(self, name: str) -> Exchange | None:
        """The exchange of a namespace, if it is there."""
        return self._exchanges.get(name)

    def replicate(
        self,
        consumer_changed: ConsumerChanged,
        described: Described,
        forgotten: Forgotten,
        came: Came | None = None,
        moved: Moved | None = None,
    ) -> None:
        """From now on the cluster knows of every consumer that comes and goes and of what every producer says of
        itself, in every namespace."""
        self._consumer_changed, self._described, self._forgotten = consumer_changed, described, forgotten
        self._came, self._moved = came, moved
        for exchange in self:
            self._let_replicate(exchange)

    def share(self, retains: Callable[[Exchange, Kept], None], ask: Callable[[Asking], None]) -> None:
        """From now on other nodes know what is retained here, and are asked for the last values that they have."""
        self._retains, self._ask = retains, ask
        for exchange in self:
            self._let_replicate(exchange)

    def trace(self, tracer: Tracer) -> None:
        """From now on sampled messages become spans (O3). Before any client is let in."""
        self.tracer = tracer
        for exchange in self:
            exchange.tracer = tracer

    def _let_replicate(self, exchange: Exchange) -> None:
        exchange.consumer_changed = self._consumer_changed
        exchange.ask = self._ask
        if self._retains is not None:
            exchange.retained.changed = partial(self._retains, exchange)
        if self._described is not None:
            exchange.producers.changed = partial(self._described, exchange)
        if self._came is not None:
            exchange.producers.presence.changed = partial(self._came, exchange)
        if self._forgotten is not None:
            exchange.producers.forgotten = partial(self._forgotten, exchange)
        if self._moved is not None and exchange.producers.moved is None:
            exchange.producers.moved = partial(self._moved, exchange)
            exchange.producers.guarded += 1

    def join(self, name: str) -> Exchange:
        """The exchange that a new connection belongs to. Raises NamespaceError or QuotaError."""
        exchange = self.open(name)
        exchange.connections += 1
        return exchange

    def leave(self, exchange: Exchange) -> None:
        """A connection of this exchange is gone, and its consumers with it."""
        exchange.connections -= 1
        self.release(exchange)

    def open(self, name: str) -> Exchange:
        """The exchange of a namespace that may have no connection, only producers.

        Raises NamespaceError, or QuotaError where it would be one too many.
        """
        check_name(name)
        if self._allowed is not None and name not in self._allowed and name != DEFAULT:
            raise NamespaceError("this namespace is not one of the allowed ones")
        exchange = self._exchanges.get(name)
        if exchange is None:
            self._check_another()
            exchange = self._exchanges[name] = self._make(name)
        return exchange

    def _check_another(self) -> None:
        """May there be one more? Raises QuotaError."""
        self.memory.check("namespaces")
        if len(self._exchanges) >= self._limits.namespaces:
            self.refused += 1
            raise QuotaError(f"there are {len(self._exchanges)} namespaces already, as many as may be")

    def release(self, exchange: Exchange) -> None:
        """Ends the namespace, unless it was configured, or connections or producers (M7) are there, or it has ended."""
        if self._exchanges.get(exchange.name) is not exchange:
            return
        # Producers that are unsaved and not there are still to be forgotten on disk.
        unsaved = exchange.producers.unsaved or exchange.retained.unsaved
        used = exchange.connections or exchange.producers or unsaved or exchange.is_used_elsewhere() or exchange.keeps()
        if not used and exchange.name != DEFAULT and exchange.name not in self._rules:
            del self._exchanges[exchange.name]
            exchange.end()

    def _make(self, name: str) -> Exchange:
        rules = self._rules.get(name) or default_rules(name, self._grammar)
        limits = self._limits
        outbox = limits.outbox if rules.outbox is None else rules.outbox
        quota = rules.quota.or_else(limits.quota)
        usage = Usage(f"namespace {name}", quota, self.memory)
        producers = Producers(
            limits.metadata_keys,
            limits.metadata_bytes,
            rules.producer_ttl,
            self._are_kept,
            self.slices,
            usage,
            self.timers,
            rules.presence_grace,
        )
        fresh = FreshState(
            self.clock,
            self.timers,
            self.slices,
            Retained(self.clock, usage, self._are_kept),
            self._parts.last_values(self.clock, quota.last_bytes) if rules.last == "all" else None,
        )
        exchange = Exchange(name, rules.grammar, rules.overflow, outbox, self._parts, producers, fresh)
        exchange.tracer = self.tracer
        self._let_replicate(exchange)
        return exchange
