"""Makes spans of sampled messages (O3): one when a node takes a message in, one for each node that it is forwarded to,
and one for each entity that it is delivered to.

    publish  (taken in; child of the publisher's span)
    ├── forward  to node-2
    ├── deliver  to connection 7
    └── deliver  to a member of the group `analysts`

    deliver  on node-2 (child of the publisher's span too: the message keeps the header that it came with)

A node without `[traces]` has no tracer. A node with one looks at messages that have headers, and at no others. Any
client may mark its messages as sampled, so the spans that wait and the deliveries shown of one message are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from fumarole.core.publication import Publication
from fumarole.core.tracing import Span, TraceContext, sampled
from fumarole.exchange.consumer import Consumer, NodeOutlet, hand_over

MOST_WAITING: Final = 4_096
"""Spans that wait to be exported; more are dropped and counted."""
MOST_SHOWN: Final = 64
"""Deliveries of one message that become spans."""
SHOWN_BYTES: Final = 128
"""Of a topic, a group or a label."""
SPAN_BYTES: Final = 8

Attributes = tuple[tuple[str, str | int], ...]


class Tracer:
    """The spans of a node that wait to be exported. Time and chance come in as functions."""

    def __init__(
        self, node: str, now: Callable[[], int], chance: Callable[[int], bytes], most: int = MOST_WAITING
    ) -> None:
        self.node = node
        self.now = now
        """Nanoseconds since 1970."""
        self.waiting: list[Span] = []
        self.dropped = 0
        """Spans for which there was no room, or that the collector refused."""
        self.exported = 0
        self._chance = chance
        self._most = most

    def begin(self, namespace: str, publication: Publication) -> Trace | None:
        """A client has published this. None: it is not sampled."""
        context = sampled(publication.headers) if publication.headers else None
        return None if context is None else Trace(self, namespace, publication, context, self.new_span())

    def arrived(self, namespace: str, publication: Publication) -> Trace | None:
        """Another node has forwarded this. None: it is not sampled."""
        context = sampled(publication.headers) if publication.headers else None
        return None if context is None else Trace(self, namespace, publication, context, context.span)

    def new_span(self) -> bytes:
        while True:
            span = self._chance(SPAN_BYTES)
            if any(span):
                return span

    def add(self, span: Span) -> None:
        if len(self.waiting) < self._most:
            self.waiting.append(span)
        else:
            self.dropped += 1

    def take(self, most: int) -> list[Span]:
        """The spans that have waited longest."""
        taken = self.waiting[:most]
        del self.waiting[:most]
        return taken


class Trace:
    """One sampled message on its way through the exchange."""

    def __init__(
        self, tracer: Tracer, namespace: str, publication: Publication, context: TraceContext, parent: bytes
    ) -> None:
        self._tracer = tracer
        self._context = context
        self._parent = parent
        """Of forwards and deliveries."""
        self._began = tracer.now()
        self._shown = 0
        self._about: Attributes = (
            ("messaging.system", "fumarole"),
            ("messaging.destination.name", publication.topic[:SHOWN_BYTES]),
            ("messaging.message.body.size", len(publication.payload)),
            ("fumarole.namespace", namespace),
        )

    def hand_over(self, consumer: Consumer, publication: Publication) -> None:
        """`consumer.hand_over`, with a span."""
        self._shown += 1
        if self._shown > MOST_SHOWN:
            hand_over(consumer, publication)
            return
        began, dropped = self._tracer.now(), consumer.dropped
        hand_over(consumer, publication)
        to: Attributes = (("fumarole.consumer", consumer.outlet.label[:SHOWN_BYTES]),)
        if consumer.group:
            to += (("messaging.consumer.group.name", consumer.group[:SHOWN_BYTES]),)
        if consumer.dropped > dropped:
            to += (("fumarole.dropped", consumer.dropped - dropped),)
        self._add("deliver", began, to)

    def forward(self, courier: Consumer, key: bytes, publication: Publication) -> None:
        """`NodeOutlet.forward`, with a span."""
        began = self._tracer.now()
        cast(NodeOutlet, courier.outlet).forward(courier, key, publication)
        self._add("forward", began, (("fumarole.to_node", courier.outlet.label[:SHOWN_BYTES]),))

    def end(self, reached: int) -> None:
        """It was handed to so many entities and nodes."""
        tracer, context = self._tracer, self._context
        more: Attributes = (("messaging.operation.name", "publish"), ("fumarole.reached", reached))
        tracer.add(
            Span(
                name="publish",
                is_taken_in=True,
                trace=context.trace,
                span=self._parent,
                parent=context.span,
                began=self._began,
                ended=max(self._began, tracer.now()),
                attributes=self._about + more,
            )
        )

    def _add(self, name: str, began: int, more: Attributes) -> None:
        tracer = self._tracer
        attributes = (*self._about, ("messaging.operation.name", name), *more)
        ended = max(began, tracer.now())
        tracer.add(Span(name, False, self._context.trace, tracer.new_span(), self._parent, began, ended, attributes))
