"""Which hot path this process has: the compiled one where it was built, else the pure one that it is a copy of."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fumarole.exchange.exchange import PURE, Parts

if TYPE_CHECKING:
    from fumarole.sessions.mqtt import MqttSession
    from fumarole.sessions.msgpack import MsgPackSession
    from fumarole.sessions.nats import NatsSession
    from fumarole.sessions.reader import LinkFallback, Reader


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts that exchanges are made of, and the readers before sessions and lanes (sessions/reader.py; None: none).

    And what lets a node that is killed hang up at once (heir.pyx), where there is such a thing.
    """

    name: str
    parts: Parts
    nats_reader: Callable[[NatsSession], Reader] | None = None
    msgpack_reader: Callable[[MsgPackSession], Reader] | None = None
    link_reader: Callable[[LinkFallback], Reader] | None = None
    appoint_heir: Callable[[], int] | None = None
    mqtt_reader: Callable[[MqttSession], Reader] | None = None


PLAIN = Engine("plain Python", PURE)


def compiled() -> Engine | None:
    """The compiled engine, or None where it was not built."""
    try:
        from fumarole.fastpath import heir, index, link, msgpack, nats, outbox, plans
    except ImportError:
        return None
    parts = Parts(
        index=index.Index,
        consumer=outbox.Consumer,
        counters=outbox.Counters,
        group=plans.Group,
        outbox=outbox.Outbox,
        plan=plans.Plan,
        plans=plans.Plans,
    )
    return Engine("compiled", parts, nats.NatsReader, msgpack.MsgPackReader, link.LinkReader, heir.appoint)


def best() -> Engine:
    """The compiled engine if it is there and FUMAROLE_PURE is not set."""
    return PLAIN if os.environ.get("FUMAROLE_PURE") else compiled() or PLAIN
