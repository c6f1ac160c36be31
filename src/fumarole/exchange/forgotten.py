"""What consumers of `_FORGOTTEN` get when a producer is forgotten (M7), and which of them may receive it (A3)."""

from __future__ import annotations

import json

from fumarole.core import headers
from fumarole.core.publication import FORGOTTEN, Publication
from fumarole.exchange.groups import Group
from fumarole.exchange.plans import Plan
from fumarole.exchange.presence import said_by_producer
from fumarole.exchange.producer import Producer
from fumarole.exchange.readings import reading_topic
from fumarole.exchange.recipients import Entities, Recipients


def message(producer: Producer) -> Publication:
    """A message like a reading of the producer. Its metadata deletes each key that the producer has."""
    deleted = json.dumps(dict.fromkeys(said_by_producer(producer.metadata)))
    latest = producer.latest()[0]
    pairs = [("Producer", producer.identity), ("Metadata", deleted)]
    if latest != reading_topic(producer.identity):
        pairs.append(("Topic", latest))
    return Publication(FORGOTTEN, producer.identity.encode(), "", headers.build(pairs))


def shown(plan: Plan, publication: Publication, groups: dict[str, Group]) -> Entities | None:
    """The entities of the plan that may receive the forgotten producer (A3). None: all of them may."""
    consumers = [*plan.consumers, *[member for _, members, _ in plan.groups for member in members]]
    if all(consumer.sees is None for consumer in consumers):
        return None
    own = reading_topic(publication.payload.decode("utf-8", "replace"))
    latest = headers.last(publication.headers, "Topic") or own
    recipients = Recipients(groups)
    recipients.couriers.update(dict.fromkeys(plan.couriers))
    for consumer in consumers:
        if consumer.sees is None or consumer.sees.shows(own, latest):
            if consumer.group:
                recipients.shared.setdefault(consumer.group, []).append(consumer)
            else:
                recipients.alone.append(consumer)
    return recipients.plan()
