"""The exchange of one namespace: its consumers, and which of them get a publication."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, cast

from fumarole.core.publication import FORGOTTEN, PRIVATE, Publication, finds, inbox_of
from fumarole.core.query.index import StandingQuery
from fumarole.core.query.message import Message
from fumarole.core.query.tree import Query
from fumarole.core.topic import Grammar, Pattern, check_topic, literal_prefix, parse_pattern, parse_wildcards, split
from fumarole.core.values import ONLINE
from fumarole.exchange import forgotten
from fumarole.exchange.conflation import Conflation
from fumarole.exchange.consumer import Consumer, NodeOutlet, Outlet, hand_over
from fumarole.exchange.filters import Filters
from fumarole.exchange.fresh_state import FreshState
from fumarole.exchange.gathering import Asking, Gathering, Last
from fumarole.exchange.groups import Group, seat_hash
from fumarole.exchange.last_values import ENTRY_BYTES
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.parts import PURE, Parts
from fumarole.exchange.permissions import Permissions
from fumarole.exchange.plans import Plan, Plans, reaches_nobody
from fumarole.exchange.presence import Speaking
from fumarole.exchange.producer import Producer
from fumarole.exchange.producers import Producers
from fumarole.exchange.quotas import Account, QuotaError
from fumarole.exchange.readings import leave_out_online
from fumarole.exchange.recipients import Recipients
from fumarole.exchange.tracer import Tracer
from fumarole.exchange.views import PATTERN as VIEW_PATTERN
from fumarole.exchange.views import LiveView

SHARED_PLANS_KEPT = 4_096
OWN = "own"
"""In place of permissions: the server's own."""
BEFORE_GROUP = b"\x01"
"""In the key of a forwarded message, before each group that its node is to serve; no group name has it."""

NearlyFull = Callable[["Exchange", str, tuple[Consumer, ...]], None]
"""Called with a group and its members of this node, when the member just chosen has little room left."""
ConsumerChanged = Callable[["Exchange", Consumer, int], None]
"""A consumer of this node came (1) or is about to go (-1)."""


class Exchange:
    """Consumers by pattern. `publish` hands a message to each entity of its plan once (D1, D2)."""

    def __init__(
        self,
        name: str,
        grammar: Grammar = Grammar.STRICT,
        overflow: Overflow = Overflow.DROP_OLDEST,
        outbox_limit: int = 1 << 22,
        parts: Parts = PURE,
        producers: Producers | None = None,
        fresh: FreshState | None = None,
    ) -> None:
        self.name = name
        self.grammar = grammar
        self.overflow = overflow
        self.outbox_limit = outbox_limit
        self.reserve = outbox_limit // 4
        """Bytes for messages under way from other nodes while these learn that a group here has no more room."""
        self.connections = 0
        self.is_alive = True
        """Until the namespace ends."""
        self.counters = parts.counters()
        self.producers = Producers() if producers is None else producers
        self.producers.publish_forgotten = self._publish_forgotten
        self.usage = self.producers.usage
        """What the namespace holds, of its quota (A5)."""
        fresh = FreshState() if fresh is None else fresh
        self.clock, self.timers, self.slices = fresh.clock, fresh.timers, fresh.slices
        self.retained = fresh.retained
        self.last_values = fresh.last_values
        """Of every topic; None: the namespace keeps none (F2)."""
        self._last_payers = fresh.last_payers
        self.gatherings: dict[Gathering, None] = {}
        """Of consumers that have not got all their last values yet."""
        self.ask: Callable[[Asking], None] | None = None
        """Asks the other nodes for their last values; None when the node is not clustered."""
        self.tracer: Tracer | None = None
        """Makes spans of sampled messages (O3); None: `[traces]` is not set."""
        self._parts = parts
        self.index = parts.index()
        self._groups: dict[str, Group] = {}
        self.nobody = parts.plan()
        """The plan of every topic that no entity matches."""
        self.shared: dict[Any, Plan] = {}
        """Topics that the same patterns match share a plan, by their levels of the index; in an inbox, those of that
        inbox."""
        self._changes = 0
        """Since the shared plans were last forgotten."""
        self._plans: dict[Permissions | str | None, Plans] = {}
        self.consumer_changed: ConsumerChanged | None = None
        """Replicates every consumer of this node; None when the node is not clustered."""
        self.elsewhere = 0
        """Entries of the index that stand for consumers of other nodes."""
        self.queried_elsewhere = 0
        """The same with a query."""

    def __len__(self) -> int:
        """Consumers of this node, those with a query not counted."""
        return len(self.index) - self.elsewhere

    def keeps(self) -> bool:
        """Has it retained messages or last values?"""
        return not self.retained.is_empty() or bool(self.last_values)

    def is_used_elsewhere(self) -> bool:
        """Has another node consumers here?"""
        return bool(self.elsewhere or self.queried_elsewhere)

    def consumer(
        self,
        outlet: Outlet,
        pattern: str,
        group: str,
        key: bytes,
        sees: Permissions | None = None,
        account: Account | None = None,
    ) -> Consumer:
        """A new subscription, not yet in force."""
        consumer = self._parts.consumer(outlet, pattern, group, key, sees)
        consumer.account = account
        return consumer

    def subscribe(
        self,
        consumer: Consumer,
        query: Query | None = None,
        *,
        pattern: Pattern | None = None,
        last: Last = Last.NONE,
        every: float | None = None,
        asks_nodes: bool = True,
    ) -> None:
        """From here on the consumer gets what is published (D5), with a query only from the producers it selects.

        Which these are, `producers.when_whole` says. `pattern` is the consumer's, if it was parsed already. With `last`
        `send_last` has to be called as well (F3); without `asks_nodes` it gets what this node has. With `every` it gets
        at most one message of a topic in so many seconds (F4). Raises QuotaError, and then nothing has changed.
        """
        if pattern is None:
            pattern = parse_pattern(consumer.pattern, self.grammar)
        self._take_in(consumer, pattern, query)
        if every is not None and consumer.courier is None:
            consumer.stage = consumer.conflation = Conflation(self, consumer, every, self._parts)
        gathering: Gathering | None = None
        if last is not Last.NONE and not consumer.group and self._has_any(last):
            gathering = consumer.stage = Gathering(self, consumer, pattern, query, last)
            self.gatherings[gathering] = None
        if consumer.group:
            group = self._groups.get(consumer.group)
            if group is None:
                group = self._groups[consumer.group] = self._parts.group(consumer.group)
            group.size += 1
            if group.seats is not None and consumer.courier is None:
                consumer.seat = group.seats.take()
                consumer.seat_hash = seat_hash(self.clock.node, consumer.seat)
        if query is not None:
            self.queried_elsewhere += consumer.courier is not None
        else:
            is_new = self.index.add(pattern, consumer)
            if consumer.courier is not None:
                self.elsewhere += 1
            self._age()
            if is_new and self._plans:
                prefix = literal_prefix(pattern)
                for plans in self._plans.values():
                    plans.touch(prefix)
        if self.consumer_changed is not None and consumer.courier is None:
            self.consumer_changed(self, consumer, 1)
        if gathering is not None and asks_nodes and self.ask is not None:
            self.ask(gathering)

    def _has_any(self, last: Last) -> bool:
        """May there be any such value, here or on another node? What comes from now on is a live message."""
        return last is not Last.RETAINED or not self.retained.is_empty() or self.ask is not None

    def _take_in(self, consumer: Consumer, pattern: Pattern, query: Query | None) -> None:
        """Counts the consumer, and puts it on its query. Raises QuotaError, and then nothing has changed."""
        account = consumer.account
        if account is not None:
            account.take("consumers")
        if query is not None:
            try:
                self.producers.subscribe(consumer, pattern, query)
            except QuotaError:
                if account is not None:
                    account.give_back("consumers")
                raise

    def send_last(self, consumer: Consumer, done: Callable[[], None] = lambda: None) -> None:
        """The subscription of this consumer is confirmed: now it gets its last values, if it has asked for them (F3).

        `done` is called when it has all of them.
        """
        if isinstance(consumer.stage, Gathering):
            consumer.stage.begin(done)
        else:
            done()

    def subscribe_view(
        self, live: LiveView, sees: Permissions | None = None, account: Account | None = None, key: bytes = b""
    ) -> Consumer:
        """From here on the view is kept up to date (F7); `LiveView.begin` goes on. Ends by `unsubscribe`.

        Other nodes need not know: each has the metadata of all producers. Raises QuotaError.
        """
        consumer = self.consumer(live, VIEW_PATTERN, "", key, sees, account)
        self._take_in(consumer, (VIEW_PATTERN,), live.view.query)
        assert consumer.standing is not None
        self.producers.views.setdefault(consumer.standing, {})[live] = None
        return consumer

    def _end_view(self, consumer: Consumer, live: LiveView) -> None:
        assert consumer.standing is not None
        views = self.producers.views[consumer.standing]
        del views[live]
        if not views:
            del self.producers.views[consumer.standing]
        self.producers.unsubscribe(consumer)

    def unsubscribe(self, consumer: Consumer) -> None:
        """From here on the consumer gets nothing. Unsubscribing twice is harmless."""
        if consumer.stage is not None:
            consumer.stage.end()
        if consumer.conflation is not None:
            consumer.conflation.end()
        if consumer.standing is not None and isinstance(consumer.outlet, LiveView):
            self._end_view(consumer, consumer.outlet)
        elif consumer.standing is not None:
            if self.consumer_changed is not None and consumer.courier is None:
                self.consumer_changed(self, consumer, -1)
            self.producers.unsubscribe(consumer)
            self.queried_elsewhere -= consumer.courier is not None
        elif self.index.remove(parse_wildcards(consumer.pattern), consumer):
            if consumer.courier is not None:
                self.elsewhere -= 1
            elif self.consumer_changed is not None:
                self.consumer_changed(self, consumer, -1)
            self._age()
        else:
            return
        if consumer.account is not None:
            consumer.account.give_back("consumers")
        if consumer.group:
            group = self._groups[consumer.group]
            group.size -= 1
            if group.seats is not None and consumer.courier is None:
                group.seats.give_back(consumer.seat)
            if not group.size:
                del self._groups[consumer.group]  # G5

    def recount(self, consumer: Consumer, count: int) -> None:
        """The consumer stands for so many now. Plans are made anew, since the choice is balanced by that."""
        if consumer.standing is not None:
            consumer.count = count
            self.producers.generation += 1
        else:
            self.unsubscribe(consumer)
            consumer.count = count
            self.subscribe(consumer, pattern=parse_wildcards(consumer.pattern))

    def show(self, consumer: Consumer, sees: Permissions | None) -> None:
        """The user's rules have changed: this is what a consumer without a query may be shown from here on."""
        consumer.sees = sees
        pattern = parse_wildcards(consumer.pattern)
        self.index.remove(pattern, consumer)
        self.index.add(pattern, consumer)
        self._age()
        for plans in self._plans.values():
            plans.touch(literal_prefix(pattern))

    def govern(self, overflow: Overflow, outbox_limit: int) -> None:
        """The namespace's rules have changed. Its grammar stays (A7)."""
        self.overflow = overflow
        self.outbox_limit = outbox_limit
        self.reserve = outbox_limit // 4

    def plans(self, permissions: Permissions | None = None) -> Plans:
        """The plans for publishers with these permissions."""
        plans = self._plans.get(permissions)
        if plans is None:
            plans = self._plans[permissions] = self._parts.plans(self, permissions)
        return plans

    def own_plans(self) -> Plans:
        """The plans for the server itself and other nodes, which publish on reserved topics too (T9)."""
        plans = self._plans.get(OWN)
        if plans is None:
            plans = self._plans[OWN] = self._parts.plans(self, None, True)
        return plans

    def plan(self, topic: str) -> Plan:
        """Makes the plan of a topic. `plans` keeps it."""
        levels = self.index.match(split(topic))
        if not levels:
            return self.nobody
        inbox = inbox_of(topic)
        key: Any = levels[0] if len(levels) == 1 else tuple(levels)
        key = (inbox, key) if inbox else key
        plan = None if topic.startswith(PRIVATE) else self.shared.get(key)
        if plan is None or not self.renew(plan):
            plan = self._parts.plan((), (), tuple(levels))
            plan.inbox = inbox
            self._fill(plan, topic)
            if plan.topic is None:
                if len(self.shared) >= SHARED_PLANS_KEPT:
                    self.shared.clear()
                self.shared[key] = plan
        return plan

    def renew(self, plan: Plan) -> bool:
        """Makes a plan valid again after a consumer came or went. False: `plan` has to make a new one."""
        version = self.index.version
        if plan.version != version:
            self.index.looked_at += len(plan.levels)
            if any(level.version > plan.version for level in plan.levels):
                return self._fill(plan, plan.topic)
            plan.version = version
        return True

    def publish_reading(
        self,
        publication: Publication,
        plans: Plans,
        now: float,
        origin: Outlet | None = None,
        account: Account | None = None,
        speaking: Speaking | None = None,
    ) -> int:
        """Publishes a reading: merges its metadata, sends diffs, then forwards it under the new sets (M5).

        Returns how many entities got it. `speaking` is of the connection, if that puts the producer online (F5). Raises
        TopicError, Denied, ReadingError or QuotaError, and then nothing has happened.
        """
        topic = publication.topic.encode()
        plans.find(topic)
        if publication.retain:
            self.retained.check_room(publication, account)
        if ONLINE in publication.reading.metadata:
            self.producers.left_out += 1
            leave_out_online(publication)
        producer = self.producers.hear(publication.reading, now, publication.topic, account, speaking)
        return self.publish(self.plan_for_message(publication, producer, topic, plans), publication, origin, account)

    def plan_for(self, producer: Producer, topic: bytes, plans: Plans) -> Plan:
        """The plan for what this producer publishes on a topic: consumers by pattern, and consumers by query.

        It is kept with the producer, which mostly publishes on one topic, until either may have changed.
        """
        plan = plans.find(topic)
        if self.producers.filling:
            self.producers.settle(producer)
        if not producer.standings:
            return plan
        made_from = (plan, plan.filled, topic, self.producers.generation)
        if producer.plan is None or producer.plan[0] != made_from:
            producer.plan = made_from, self._joined_with_subscribed(plan, producer, topic.decode())
        made: Plan = producer.plan[1]
        return made

    def plan_for_message(self, publication: Publication, producer: Producer, topic: bytes, plans: Plans) -> Plan:
        """The same for one message: without consumers whose query has a test that it does not pass (F6)."""
        plan = self.plan_for(producer, topic, plans)
        filters = plan.filters
        if filters is None:
            return plan
        self.index.looked_at += filters.work(len(publication.payload))
        return filters.plan_of(Message(publication, producer.metadata, filters.reads))

    def _joined_with_subscribed(self, plan: Plan, producer: Producer, topic: str) -> Plan:
        filtered: dict[StandingQuery, list[Consumer]] = {}
        others: list[Consumer] = []
        for consumer in self.producers.subscribed(producer, topic):
            standing = consumer.standing
            assert standing is not None
            (others if standing.asks is None else filtered.setdefault(standing, [])).append(consumer)
        joined = self._joined(plan, others, topic)
        if filtered:
            base = joined
            joined = self._parts.plan(base.consumers, base.groups, (), base.couriers)
            join = partial(self._joined, base, topic=topic)
            joined.filters = Filters(filtered, self.producers.queries, join, self._parts)
        return joined

    def _joined(self, plan: Plan, consumers: Iterable[Consumer], topic: str) -> Plan:
        """A plan of the consumers of this one and of these, without those that may not see the topic."""
        recipients = Recipients(self._groups, plan)
        recipients.add(consumers, topic)
        return self._parts.plan(*recipients.plan())

    def end(self) -> None:
        """The namespace ends. Plans and their exchange refer to each other; this breaks the cycle."""
        self.is_alive = False
        self.producers.publish_forgotten = None
        self._plans.clear()
        self.shared.clear()

    def publish(
        self, plan: Plan, publication: Publication, origin: Outlet | None = None, account: Account | None = None
    ) -> int:
        """Hands the message to every entity of the plan. Returns how many there were. Never waits (D6)."""
        routed = 0
        if publication.retain:
            self.retained.check_room(publication, account)
        trace = None if self.tracer is None else self.tracer.begin(self.name, publication)
        give = hand_over if trace is None else trace.hand_over
        if self.last_values is not None and self._last_payers.has_room(
            publication.topic, ENTRY_BYTES + len(publication.topic) + publication.size(), account
        ):
            self.last_values.put(publication)
        for consumer in plan.consumers:
            outlet = consumer.outlet
            if outlet is not origin or outlet.echo:
                give(consumer, publication)
                routed += 1
        far = {courier: courier.key for courier in plan.couriers} if plan.couriers else {}
        if plan.groups:
            weight = publication.weight()
            for group, members, _ in plan.groups:
                member = group.choose(members, weight, origin, publication)
                if member is None:
                    continue
                courier = member.courier
                if courier is None:
                    give(member, publication)
                    routed += 1
                else:  # G2: that node serves the group; one copy is enough for all that it is to do (C3)
                    served = far.get(courier)
                    far[courier] = member.key if served is None else served + BEFORE_GROUP + group.name.encode()
        for courier, key in far.items():
            forward = cast(NodeOutlet, courier.outlet).forward if trace is None else trace.forward
            forward(courier, key, publication)
        if publication.retain:  # after it was forwarded: so it is known on no node before it is live there (F3)
            self.retained.keep(publication, account)
        if trace is not None:
            trace.end(routed + len(far))
        if not routed and not far:
            self.count_unheard(publication.size())
            return 0
        counters = self.counters
        counters.received += 1
        counters.received_bytes += publication.size()
        counters.routed += routed
        counters.forwarded += len(far)
        return routed + len(far)

    def publish_to(self, topic: str, payload: bytes = b"", reply: str = "", headers: bytes = b"") -> int:
        """Publishes one message, with no connection and no permissions. Returns how many entities got it.

        Raises TopicError.
        """
        check_topic(topic, self.grammar)
        return self.publish(self.plans().find(topic.encode()), Publication(topic, payload, reply, headers))

    def say(self, plan: Plan, publication: Publication) -> None:
        """Publishes a message of the node itself. It does not count as received, and as delivered only if it may be
        dropped."""
        counters = self.counters
        routed = counters.routed
        self.publish(plan, publication)
        counters.received -= 1
        counters.received_bytes -= publication.size()
        if publication.vital:
            counters.routed = routed

    def deliver(
        self, plan: Plan, publication: Publication, groups: Collection[str], nearly_full: NearlyFull = lambda *_: None
    ) -> int:
        """Hands a message that another node forwarded to consumers of this node: those without a group, and one member
        of each of these groups, for which that node has chosen this one (G2). It goes to no other node (C3).

        Returns how many got it. `nearly_full` is called for groups whose members here will soon have no room (G3).
        """
        routed = 0
        trace = None if self.tracer is None else self.tracer.arrived(self.name, publication)
        give = hand_over if trace is None else trace.hand_over
        if publication.topic == FORGOTTEN:
            plan = self._shown_forgotten(plan, publication)
        for consumer in plan.consumers:
            give(consumer, publication)
            routed += 1
        if groups:
            weight = publication.weight()
            for group, _, here in plan.groups:
                if here and group.name in groups:
                    member = group.choose(here, weight, None, publication)
                    if member is not None:
                        if not group.is_keyed and not member.outlet.has_room(weight + self.reserve):
                            nearly_full(self, group.name, here)
                        give(member, publication)
                        routed += 1
        self.counters.routed += routed
        if not routed:
            self.counters.strayed += 1
        return routed

    def _publish_forgotten(self, producer: Producer) -> None:
        """A producer was forgotten (M7): consumers of `_FORGOTTEN` get a message like a reading."""
        plan = self.plan(FORGOTTEN)
        if not reaches_nobody(plan):
            publication = forgotten.message(producer)
            self.say(self._shown_forgotten(plan, publication), publication)

    def _shown_forgotten(self, plan: Plan, publication: Publication) -> Plan:
        return self._parts.plan(*shown) if (shown := forgotten.shown(plan, publication, self._groups)) else plan

    def count_unheard(self, size: int) -> None:
        """A publication of this size reached no entity (D3)."""
        counters = self.counters
        counters.received += 1
        counters.received_bytes += size
        counters.unheard += 1

    def _fill(self, plan: Plan, topic: str | None) -> bool:
        """Puts the consumers at its levels of the index into the plan. False: they depend on a topic, which is None."""
        recipients = Recipients(self._groups)
        is_private = topic is not None and topic.startswith(PRIVATE)
        plan.topic = topic if is_private else None
        for level in plan.levels:
            consumers = level.values or ()
            self.index.looked_at += len(consumers)
            if is_private or plan.inbox:
                hidden = topic if is_private and topic is not None else plan.inbox
                consumers = [consumer for consumer in consumers if finds(consumer.pattern, hidden)]
            if recipients.add(consumers, topic):
                if topic is None:
                    return False
                plan.topic = topic
        plan.consumers, plan.groups = recipients.entities(), recipients.shares()
        plan.couriers = tuple(recipients.couriers)
        plan.version = plan.filled = self.index.version
        return True

    def _age(self) -> None:
        """A consumer came or went. Plans must not refer to those that have left for ever."""
        self._changes += 1
        if self._changes >= len(self.shared):
            self._changes = 0
            self.shared.clear()
        for plans in self._plans.values():
            plans.age()

    def quota_report(self) -> dict[str, Any]:
        """What is held of the namespace's quotas, and how often each was refused (A5)."""
        found = self.usage.report()
        if self.last_values is not None:  # they count by themselves: the compiled path keeps most of them
            found["held"]["last_bytes"]["used"] = self.last_values.bytes
            if self.last_values.refused:
                found["refused"]["last_bytes"] = self.last_values.refused
        return found

    def report(self) -> dict[str, Any]:
        """For people and scripts."""
        return {
            "namespace": self.name,
            "connections": self.connections,
            "consumers": len(self),
            "producers": len(self.producers),
            "left_out": self.producers.left_out,
            **self.counters.report(),
        }
