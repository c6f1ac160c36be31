"""Which consumers of a namespace lost most messages, for people and scripts (L3)."""

from __future__ import annotations

from heapq import nlargest
from itertools import chain, islice
from typing import Any

from fumarole.exchange.consumer import Consumer, consumer_report
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.quotas import Usage

CONSUMERS_LOOKED_AT = 10_000
"""A report must not block the loop for long."""


def some_consumers(exchange: Exchange) -> list[Consumer]:
    """The consumers of this node without a query. Where there are very many, only a part of them."""
    return [consumer for consumer in islice(exchange.index, CONSUMERS_LOOKED_AT) if consumer.courier is None]


def reported_consumers(exchange: Exchange) -> list[Consumer]:
    """The consumers of this node, those with a query last. Where there are very many, only a part of them."""
    consumers = chain(exchange.index, exchange.producers.consumers())
    return [consumer for consumer in islice(consumers, CONSUMERS_LOOKED_AT) if consumer.courier is None]


def worst_consumers(exchange: Exchange, most: int = 100, of: Usage | None = None) -> dict[str, Any]:
    """Where there are very many consumers, only a part of them is looked at. With `of`, only those of one user."""
    some = reported_consumers(exchange)
    if of is not None:
        some = [each for each in some if each.account is not None and each.account.user is of]
    worst = nlargest(most, some, key=lambda consumer: (consumer.dropped, consumer.accepted))
    return {
        "namespace": exchange.name,
        "consumers": len(exchange) + exchange.producers.asking() - exchange.queried_elsewhere
        if of is None
        else len(some),
        "looked_at": len(some),
        "worst": [consumer_report(consumer) for consumer in worst],
    }


def groups_by_node(exchange: Exchange, own: str) -> dict[str, dict[str, int]]:
    """The members of each group on each node of the cluster, where a bounded part of the consumers has any."""
    groups: dict[str, dict[str, int]] = {}
    everybody = chain(exchange.index, exchange.producers.consumers())
    for consumer in islice(everybody, CONSUMERS_LOOKED_AT):
        if consumer.group:
            node = own if consumer.courier is None else consumer.outlet.label
            members = groups.setdefault(consumer.group, {})
            members[node] = members.get(node, 0) + consumer.count
    return groups
