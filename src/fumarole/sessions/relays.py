"""Answers that go on: what `$FUM.where`, `$FUM.view` and `$FUM.last` publish after the first answer.

A relay publishes on a topic of its own, made for one request. The topic is a secret: no wildcard finds it. Only the
client that asked knows it, and clients to which it passed the topic on. The relay ends when the topic has no subscriber
any more. Until the first one it waits for ten seconds.
"""

from __future__ import annotations

import json
import secrets
from itertools import chain
from typing import Any

from fumarole.core import headers
from fumarole.core.publication import PRIVATE, Publication
from fumarole.exchange.consumer import Consumer
from fumarole.exchange.groups import has_room
from fumarole.exchange.plans import reaches_nobody
from fumarole.exchange.readings import reading_block
from fumarole.exchange.views import LiveView
from fumarole.sessions.service_request import Asker, Request, RequestError, Say

FIRST_LISTENER = 10.0
"""Seconds in which the first client must subscribe to the topic of a relay."""


class RelayTopic:
    """The topic of a relay. Each counts against the connection that asked for it.

    Raises RequestError where the connection has too many.
    """

    def __init__(self, request: Request) -> None:
        self._node = request.node
        self._exchange = request.exchange
        self._plans = request.exchange.own_plans()
        self._client = request.client
        self.name = PRIVATE + secrets.token_hex(16)
        most = request.node.limits.consumers_per_connection
        if self._node.relays_of[self._client] >= most:
            raise RequestError(
                f"this connection has {most} such topics, and may have no more until one of them has ended"
            )

    def begin(self, relay: Relay | ViewRelay) -> None:
        """From now on the relay is ticked."""
        self._node.relays.append(relay)
        self._node.relays_of[self._client] += 1

    def end(self, consumer: Consumer | None) -> None:
        if consumer is not None:
            self._exchange.unsubscribe(consumer)
        self._node.relays_of[self._client] -= 1
        if not self._node.relays_of[self._client]:
            del self._node.relays_of[self._client]

    def has_subscriber(self, suffix: str = "") -> bool:
        return not reaches_nobody(self._plans.find(f"{self.name}{suffix}".encode()))

    def has_room(self, weight: int) -> bool:
        """Has a subscriber room for so much? Without a subscriber: no."""
        plan = self._plans.find(self.name.encode())
        subscribers = chain(plan.consumers, plan.couriers, *[members for _, members, _ in plan.groups])
        return any(has_room(subscriber, weight) for subscriber in subscribers)

    def say(self, what: dict[str, Any], suffix: str = "", *, vital: bool = False) -> bool:
        """False: there is no subscriber."""
        topic = self.name + suffix
        plan = self._plans.find(topic.encode())
        if reaches_nobody(plan):
            return False
        publication = Publication(topic, json.dumps(what).encode())
        publication.vital = vital
        self._exchange.say(plan, publication)
        return True


class ViewRelay:
    """Publishes the changes of a view (F7)."""

    def __init__(self, request: Request) -> None:
        self._topic = RelayTopic(request)
        self.topic = self._topic.name
        self.client = request.client
        self._exchange = request.exchange
        self._end = request.now + FIRST_LISTENER
        self._live: LiveView | None = None
        self._consumer: Consumer | None = None

    def begin(self, live: LiveView, consumer: Consumer, say: Say) -> None:
        self._live, self._consumer = live, consumer
        self._topic.begin(self)
        live.begin(consumer, lambda content: say({"topic": self.topic, **content}))

    def say(self, change: dict[str, Any]) -> bool:
        """False: there is no subscriber yet."""
        return self._topic.say(change, vital=True)

    def tick(self, now: float) -> bool:
        """Time passes. False: there is no subscriber any more, and the relay has ended."""
        assert self._live is not None
        assert self._consumer is not None
        if not self._exchange.producers.is_whole(self._consumer):
            self._end = now + FIRST_LISTENER
        elif self._topic.has_subscriber():
            self._end = 0.0
            self._live.flush()
        elif now > self._end:
            self.finish()
            return False
        return True

    def finish(self) -> None:
        self._topic.end(self._consumer)


DIFFS = ".diff"
"""After the topic of a `Relay`: where changes of the set are published."""


class Relay:
    """The outlet of `$FUM.where`: publishes readings and changes of the set as JSON."""

    def __init__(self, request: Request) -> None:
        self._topic = RelayTopic(request)
        self.topic = self.label = self._topic.name
        self.client = request.client
        self.echo = True
        self._exchange = request.exchange
        self._consumer: Consumer | None = None
        self._end = request.now + FIRST_LISTENER
        self._has_sent_last = False
        self._untold: dict[str, bool] = {}
        """Changes that were not published yet, for want of a subscriber: is this producer in the set now?"""

    def begin(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._topic.begin(self)

    def introduction(self) -> dict[str, Any]:
        """The answer to the request, once the set is whole. Every later change is published on `diffs`."""
        assert self._consumer is not None
        members = list(self._exchange.producers.members(self._consumer))
        return {"topic": self.topic, "diffs": self.topic + DIFFS, "New": members, "Del": []}

    def has_room(self, weight: int) -> bool:
        """Without a subscriber there is none, so other members of the group are chosen (G3). As JSON a reading is
        longer than its weight: the reserve is for that."""
        return self._topic.has_room(weight + self._exchange.reserve)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        self._tell()
        reading, counters = publication.reading, self._exchange.counters
        said = {"id": reading.producer, "metadata": dict(reading.metadata), "value": reading.value}
        if publication.age is not None:
            said["age"] = publication.age
        counters.routed -= 1  # the subscribers of the topic get it, and are counted
        if not self._topic.say({**said, "topic": publication.topic}):
            consumer.dropped += 1
            counters.unheard += 1

    def tell(self, _consumer: Consumer, new: tuple[str, ...], gone: tuple[str, ...]) -> None:
        for ids, is_member in ((gone, False), (new, True)):
            for each in ids:
                if self._untold.get(each, is_member) is not is_member:
                    del self._untold[each]
                else:
                    self._untold[each] = is_member
        self._tell()

    def _tell(self) -> None:
        """The answer had the set. Its changes since then wait for the first subscriber."""
        if self._untold and self._topic.has_subscriber(DIFFS):
            told, self._untold = self._untold, {}
            new = [each for each, is_member in told.items() if is_member]
            self._topic.say({"New": new, "Del": [each for each in told if not told[each]]}, DIFFS, vital=True)

    def tick(self, now: float) -> bool:
        """Time passes. False: there is no subscriber any more, and the relay has ended."""
        if self._consumer is not None and not self._exchange.producers.is_whole(self._consumer):
            self._end = now + FIRST_LISTENER  # the request is not answered yet, so no client knows the topic
        elif self._topic.has_subscriber() or self._topic.has_subscriber(DIFFS):
            self._end = 0.0
            self._tell()
            self._send_last()
        elif now > self._end:
            self.finish()
            return False
        return True

    def _send_last(self) -> None:
        """Last values wait for the first subscriber too."""
        if self._consumer is not None and not self._has_sent_last:
            self._has_sent_last = True
            self._exchange.send_last(self._consumer)

    def finish(self) -> None:
        self._topic.end(self._consumer)


class LastAnswer:
    """The outlet of `$FUM.last`."""

    echo = False
    label = "$FUM.last"

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._values = 0

    def has_room(self, weight: int) -> bool:
        return self._asker.has_room(weight)

    def accept(self, consumer: Consumer, publication: Publication) -> None:
        consumer.accepted += 1
        block = publication.headers or reading_block(publication.reading)
        block = headers.added(headers.added(block, "Topic", publication.topic), "Last", f"{publication.age or 0.0:g}")
        self._asker.hear(Publication("", publication.payload, "", block))
        self._values += 1

    def end(self) -> None:
        """All values were sent."""
        self._asker.hear(Publication("", b"", "", headers.build([("Values", str(self._values))], status="204")))
