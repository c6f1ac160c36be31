"""The consumers of a cluster, as one node knows them (C1).

`Own` counts the consumers of this node. Those that are alike (namespace, pattern, group, query, permissions) are one
entry with a number, and it is entries that are replicated: always with the number as it is now, never as a difference,
so that hearing of the same entry twice, in the snapshot and as a change, does no harm in any order. Each member of a
keyed group is an entry of its own, with its seat: all nodes have to tell them apart (F8).

`Others` holds what one peer has said of its own. Each of its entries is a consumer of the exchange here, which stands
for all those there; what it gets goes through the peer's courier, once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice

from fumarole.cluster.identity import shown
from fumarole.core.errors import FumaroleError, NamespaceError
from fumarole.core.limits import DEEPEST_QUERY, Limits
from fumarole.core.query.parse import parse
from fumarole.core.query.tree import show
from fumarole.core.topic import parse_wildcards
from fumarole.exchange.consumer import Consumer, Outlet
from fumarole.exchange.exchange import BEFORE_GROUP, Exchange
from fumarole.exchange.groups import seat_hash
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.permissions import Permissions
from fumarole.protocols.cluster_protocol import MOST_ALIKE, Entry

Key = tuple[str, str, str] | tuple[str, str, str, str, tuple[str, ...] | None, tuple[str, ...], int]
"""Namespace, pattern, group; and, where there is any of it, query, what it may see, what it may not, its seat."""


class Own:
    """The consumers of this node, counted."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self.consumers = 0

    def __iter__(self) -> Iterator[Entry]:
        """All entries; those that come or go meanwhile may be among them or not."""
        for key in list(self._counts):
            count = self._counts.get(key)
            if count:
                yield _entry(key, count)

    def change(self, exchange: Exchange, consumer: Consumer, by: int) -> Entry:
        """One came or went. The entry as it is now."""
        key = _key(exchange, consumer)
        count = self._counts.get(key, 0) + by
        if count:
            self._counts[key] = count
        else:
            del self._counts[key]
        self.consumers += by
        return _entry(key, count)


def _key(exchange: Exchange, consumer: Consumer) -> Key:
    if consumer.standing is None and consumer.sees is None and not consumer.seat:
        return exchange.name, consumer.pattern, consumer.group
    query = "" if consumer.standing is None else show(consumer.standing.query)
    sees = consumer.sees or Permissions()
    return exchange.name, consumer.pattern, consumer.group, query, sees.allow, sees.deny, consumer.seat


def _entry(key: Key, count: int) -> Entry:
    return Entry(*key[:3], min(count, MOST_ALIKE), *key[3:])


def _key_of(entry: Entry) -> Key:
    if not entry.query and entry.allow is None and not entry.deny and not entry.seat:
        return entry.namespace, entry.pattern, entry.group
    return entry.namespace, entry.pattern, entry.group, entry.query, entry.allow, entry.deny, entry.seat


def _key_of_message(courier: Consumer, group: str) -> bytes:
    """Of one that is for this group and no other."""
    return courier.key + BEFORE_GROUP + group.encode() if group else b""


class Others:
    """The consumers of one peer, in the exchanges of this node."""

    def __init__(
        self, namespaces: Namespaces, limits: Limits, outlet: Outlet, warn: Callable[..., None] = lambda *_: None
    ) -> None:
        self._namespaces = namespaces
        self._limits = _opened(limits)
        self._outlet = outlet
        self._warn = warn
        self._entries: dict[Key, Consumer] = {}
        self._groups: dict[tuple[str, str], dict[Key, Consumer]] = {}
        """The same, by namespace and group."""
        self._couriers: dict[str, Consumer] = {}
        self._permissions: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], Permissions] = {}
        self.consumers = 0

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> dict[Key, int]:
        """What is known, for comparing."""
        return {key: consumer.count for key, consumer in self._entries.items()}

    def couriers(self) -> Iterator[tuple[str, Consumer]]:
        """By namespace."""
        return iter(self._couriers.items())

    def members(self, namespace: str, group: str) -> Collection[Consumer]:
        """Those of a group."""
        return self._groups.get((namespace, group), {}).values()

    def apply(self, entry: Entry) -> None:
        """The peer has so many of these now. Another namespace than may be here, or nonsense, is left out."""
        key = _key_of(entry)
        consumer = self._entries.get(key)
        if consumer is not None:
            self.consumers += entry.count - consumer.count
            if entry.count == 0:
                self._remove(key, consumer)
            elif entry.count != consumer.count and consumer.group:
                self._exchange(key).recount(consumer, entry.count)
            else:
                consumer.count = entry.count
        elif entry.count > 0:
            self._add(key, entry)

    def clear(self) -> bool:
        """Forgets some. True: none is left."""
        for key in list(islice(self._entries, AT_ONCE)):
            self._remove(key, self._entries[key])
        if not self._entries:
            self.consumers = 0
        return not self._entries

    def _add(self, key: Key, entry: Entry) -> None:
        try:
            pattern = parse_wildcards(entry.pattern)  # its characters were looked at where the client is
            query = parse(entry.query, self._limits) if entry.query else None
            sees = self._sees(entry)
            exchange = self._namespaces.get(entry.namespace)
            if exchange is None:
                exchange = self._namespaces.open(entry.namespace)
        except NamespaceError:
            return  # no client can publish there on this node
        except FumaroleError as error:
            self._warn(
                "a consumer of node %s makes no sense here, and gets nothing that is published here: %s",
                shown(self._outlet.label),
                shown(str(error), REASON),
            )
            return
        courier = self._courier(exchange)
        consumer = exchange.consumer(
            self._outlet, entry.pattern, entry.group, _key_of_message(courier, entry.group), sees
        )
        consumer.count = entry.count
        consumer.courier = courier
        consumer.seat, consumer.seat_hash = entry.seat, seat_hash(self._outlet.label, entry.seat)
        exchange.subscribe(consumer, query, pattern=pattern)
        self._entries[key] = consumer
        if entry.group:
            self._groups.setdefault((entry.namespace, entry.group), {})[key] = consumer
        self.consumers += entry.count

    def _remove(self, key: Key, consumer: Consumer) -> None:
        exchange = self._exchange(key)
        del self._entries[key]
        if consumer.group:
            members = self._groups[key[0], consumer.group]
            del members[key]
            if not members:
                del self._groups[key[0], consumer.group]
        exchange.unsubscribe(consumer)
        self._namespaces.release(exchange)

    def _exchange(self, key: Key) -> Exchange:
        exchange = self._namespaces.get(key[0])
        assert exchange is not None  # it does not end while it has a consumer
        return exchange

    def _courier(self, exchange: Exchange) -> Consumer:
        courier = self._couriers.get(exchange.name)
        if courier is None:
            courier = exchange.consumer(self._outlet, "", "", exchange.name.encode())
            self._couriers[exchange.name] = courier
        return courier

    def _sees(self, entry: Entry) -> Permissions | None:
        if entry.allow is None and not entry.deny:
            return None
        rules = entry.allow, entry.deny
        if rules not in self._permissions:
            self._permissions[rules] = Permissions(*rules)
        return self._permissions[rules]


def _opened(limits: Limits) -> Limits:
    """For a query that a peer tells of.

    It kept to the limits where its client is, as the client wrote it. Its canonical form may have more tests, longer
    lists and one pair of parentheses more; and limits are changed one node after the other. So only what a query costs
    is bounded here, by its length and its depth.
    """
    longest = GROWTH * limits.query_length
    return Limits(
        query_length=longest,
        query_depth=DEEPEST_QUERY + 1,
        query_tests=longest,
        query_values=longest,
        query_pattern=longest,
        query_regexes=longest,
        query_cost=GROWTH * limits.query_cost,
    )


GROWTH = 8
"""No canonical form is so many times as long as what was written: `a>1e19` becomes `a > 10000000000000000000`, and the
key of a BETWEEN stands there twice."""
REASON = 128
"""Characters of what is wrong with an entry: some are the peer's."""
AT_ONCE = 5_000
"""Entries of a peer that is gone: more of them are forgotten a part at a time, so that others are not held up."""
