"""The bridge itself: operations of ZeroMQ clients become routes, bindings, messages and calls on the AMQP side.

ROUTER ── operations ──▶ Bridge ── bindings, messages ──▶ AMQP broker
   ◀── msg, reply, done, error ──   ◀── deliveries ──────────
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from yarl import URL

from fumarole.bridge import operations
from fumarole.bridge.amqp import REPLIES, AmqpOptions, AmqpSide, with_reply
from fumarole.bridge.calls import Caller, Calls
from fumarole.bridge.errors import BridgeRefusedError, MalformedError
from fumarole.bridge.fields import decode_properties
from fumarole.bridge.forms import MSGPACK, Form
from fumarole.bridge.messages import check_properties, to_amqp
from fumarole.bridge.operations import BEHIND, DONE, ERROR, MSG, REPLY, Bind, Call, Choose, Flush, Send, Status, Unbind
from fumarole.bridge.patterns import covers
from fumarole.bridge.xmq_routes import DIRECT, TOPIC, Routes
from fumarole.bridge.zeromq import Router, RouterOptions
from fumarole.fastpath import hot_path

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = 1.0
"""Seconds for which a broker may accept nothing before messages of clients are refused."""
MOST_FLUSHES: Final = 1_000
"""Flushes of one client under way."""
ROUTES_SHOWN: Final = 1_000
"""In one status."""


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """One bridge."""

    name: str
    amqp: str
    router: RouterOptions
    topic_exchange: str = "amq.topic"
    direct_exchange: str = "amq.direct"
    direct_queue: str = ""
    topics: tuple[str, ...] = ()
    """Topics that are always bound; if there are any, clients may bind no others (B3)."""
    ttl: float = 60.0
    topics_per_client: int = 1_024
    routes: int = 1_000_000
    """The limit for all clients together."""


@dataclass(slots=True)
class Counts:
    """Counters for `status`."""

    operations: Counter[str] = field(default_factory=Counter)
    received: int = 0
    """Messages from AMQP."""
    delivered: int = 0
    """To clients."""
    published: int = 0
    """To AMQP."""
    refused: int = 0
    """Operations answered with an error."""
    no_route: int = 0
    unreadable: int = 0
    """Messages from AMQP with unreadable properties."""
    too_large: int = 0
    late_replies: int = 0


class Bridge:
    """`start`, then it works until `stop`."""

    def __init__(self, options: BridgeOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.counts = Counts()
        self.routes = Routes(clock, hot_path.best().parts.index)
        self.calls = Calls()
        self.listeners: list[Callable[[str, bytes, bytes], None]] = []
        """Told of every message to the topic exchange: key, property list, body."""
        self.more_status: dict[str, Callable[[], Any]] = {}
        """Further parts of `report`."""
        self._always = set(options.topics)
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._flushes: dict[bytes, set[asyncio.Task[None]]] = {}
        """Under way, by client."""
        self._call_timer: asyncio.TimerHandle | None = None
        self._pausing: asyncio.Task[None] | None = None
        """Lasts until the broker has caught up, which may be long after the pause."""
        self._forms: dict[bytes, Form] = {}
        """The forms of clients that do not use MsgPack, while they are connected."""
        self.router = Router(options.router, self._receive, self._left, options.topics_per_client)
        unique = secrets.token_hex(8)
        amqp_options = AmqpOptions(
            url=options.amqp,
            name=options.name,
            topic_exchange=options.topic_exchange,
            direct_exchange=options.direct_exchange,
            direct_queue=options.direct_queue or f"fumarole.{options.name}.direct.{unique}",
            topic_queue=f"fumarole.{options.name}.topic.{unique}",
            reply_queue=f"fumarole.{options.name}.replies.{unique}",
        )
        self.amqp = AmqpSide(amqp_options, self._wanted, self._deliver, self._broker_changed)

    def start(self) -> None:
        """Opens the ROUTER; the broker may come later (B5). Raises CannotBridgeError."""
        self.router.open()
        log.info("bridge %s open on %s", self.options.name, self.router.endpoint)
        self._tasks = [asyncio.create_task(self.amqp.run()), asyncio.create_task(self._sweep())]

    async def work(self) -> None:
        """Runs until cancelled. An unexpected error ends the bridge, because a part of it no longer works."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """Leaves nothing behind in the broker: its queues are exclusive, and go with the connection."""
        tasks = [*self._tasks, *chain.from_iterable(self._flushes.values())]
        if self._pausing is not None:
            tasks.append(self._pausing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._call_timer is not None:
            self._call_timer.cancel()
        await self.router.close()

    def listen(self, listener: Callable[[str, bytes, bytes], None], topics: Sequence[str]) -> None:
        """From now on the listener gets the messages of the topic exchange: these topics, or the configured ones."""
        self.listeners.append(listener)
        self._always |= set(topics)
        self.amqp.rebind()

    # From ZeroMQ.

    def _receive(self, client: bytes, parts: list[bytes]) -> None:
        identity: bytes | None = None
        try:
            operation = operations.parse(parts, self.options.topics_per_client)
            identity = getattr(operation, "identity", None)
            handler = self._HANDLERS[type(operation)]
            handler(self, client, operation)
        except (MalformedError, BridgeRefusedError) as error:
            if identity is None and len(parts) > 1 and parts[0] in (b"call", b"flush", b"status"):
                identity = parts[1]
            self._refuse(client, str(error), identity)

    def _refuse(self, client: bytes, text: str, identity: bytes | None = None) -> None:
        self.counts.refused += 1
        self.router.send(client, ERROR, text.encode(), *(() if identity is None else (identity,)))

    def _left(self, client: bytes) -> None:
        self._forms.pop(client, None)

    def _use(self, client: bytes, form: Form) -> None:
        """From now on the client gets messages in this form."""
        if form is not MSGPACK:
            self._forms[client] = form
        elif self._forms:
            self._forms.pop(client, None)

    def _choose(self, client: bytes, choose: Choose) -> None:
        self.counts.operations["form"] += 1
        self._use(client, choose.form)

    def _bind(self, client: bytes, bind: Bind) -> None:
        keys = [(DIRECT, bind.direct)] if bind.direct else []
        keys += [(TOPIC, topic) for topic in dict.fromkeys(bind.topics)]
        for topic in bind.topics:
            if self.options.topics and not any(covers(wide, topic) for wide in self.options.topics):
                allowed = ", ".join(self.options.topics)[:200]
                raise MalformedError(f"topic {topic[:80]!r} is not within what this bridge offers: {allowed}")
        new = [key for key in keys if not self.routes.holds(*key, client)]
        if self.routes.held(client) + len(new) > self.options.topics_per_client + 1:
            raise MalformedError(f"a client may have {self.options.topics_per_client} topics")
        if len(self.routes) + len(new) > self.options.routes:
            raise BridgeRefusedError(f"the bridge has its {self.options.routes} routes")
        self.counts.operations["bind"] += 1
        expires = self._clock() + self.options.ttl
        changed = False
        for kind, key in keys:
            changed |= (self.routes.add_direct if kind == DIRECT else self.routes.add_topic)(key, client, expires)
        if changed:
            self.amqp.rebind()

    def _unbind(self, client: bytes, unbind: Unbind) -> None:
        self.counts.operations["unbind"] += 1
        if unbind.direct:
            self.routes.remove_direct(unbind.direct, client)
        for topic in unbind.topics:
            self.routes.remove_topic(topic, client)
        self.amqp.rebind()

    def _send(self, client: bytes, send: Send) -> None:
        self._check_size(send)
        self.counts.operations["send"] += 1
        self._use(client, send.form)
        property_list = to_amqp(send.properties, send.headers, self.amqp.user)
        self._make_room()
        self.amqp.publish(client, send, property_list, lambda refusal: self._sent(client, refusal))

    def _sent(self, client: bytes, refusal: str | None) -> None:
        if refusal is None:
            self.counts.published += 1
        else:
            self._refuse(client, refusal)

    def _check_size(self, send: Send) -> None:
        if len(send.payload) > self.options.router.payload:
            raise MalformedError(
                f"the payload has {len(send.payload)} bytes; {self.options.router.payload} are allowed"
            )

    def _make_room(self) -> None:
        """The clients wait a little for a broker that is behind, by not being read; then they are refused."""
        if self.amqp.full:
            if self._pausing is not None:
                # No client is read during a pause, so it is over, and there is still no room.
                raise BridgeRefusedError(BEHIND)
            self.router.pause()
            self._pausing = asyncio.create_task(self._pause())

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS):
                await self.amqp.room()
        self.router.resume()
        await self.amqp.room()
        self._pausing = None

    def _call(self, client: bytes, call: Call) -> None:
        self._check_size(call.send)
        self.counts.operations["call"] += 1
        self._use(client, call.send.form)
        check_properties(call.send.properties, call.send.headers, self.amqp.user)
        correlation = secrets.token_hex(12)
        message_id = call.send.properties.get("message_id") or correlation
        property_list = with_reply(call.send, self.amqp.options.reply_queue, correlation, message_id)
        caller = Caller(client, call.identity, call.send.form)
        self.calls.open(correlation, caller, call.replies, self._clock() + call.timeout)

        def sent(refusal: str | None) -> None:
            if refusal is None:
                self.counts.published += 1
            elif self.calls.close(correlation) is not None:
                self._refuse(client, refusal, call.identity)

        try:
            self.amqp.publish(client, call.send, property_list, sent, str(message_id))
        except BridgeRefusedError:
            self.calls.close(correlation)
            raise
        self._time_calls()

    def _time_calls(self) -> None:
        due = self.calls.next_due()
        if self._call_timer is not None:
            self._call_timer.cancel()
            self._call_timer = None
        if due is not None:
            delay = max(0.0, due - self._clock())
            self._call_timer = asyncio.get_running_loop().call_later(delay, self._end_calls)

    def _end_calls(self) -> None:
        for caller in self.calls.sweep(self._clock()):
            self.router.send(caller.client, DONE, caller.identity)
        self._call_timer = None
        self._time_calls()

    def _flush(self, client: bytes, flush: Flush) -> None:
        under_way = self._flushes.get(client, set())
        if len(under_way) >= MOST_FLUSHES:
            raise BridgeRefusedError(f"{MOST_FLUSHES} flushes of yours are under way; wait for one to end")
        self.counts.operations["flush"] += 1

        async def settle() -> None:
            refusal = None
            try:
                await self.amqp.settled(client)
            except BridgeRefusedError as error:
                refusal = str(error)
            # It is over before the client gets the answer, so the client may flush again at once.
            under_way.discard(task)
            if not under_way:
                del self._flushes[client]
            if refusal is None:
                self.router.send(client, DONE, flush.identity)
            else:
                self._refuse(client, refusal, flush.identity)

        task = asyncio.create_task(settle())
        under_way.add(task)
        self._flushes[client] = under_way

    def _status(self, client: bytes, status: Status) -> None:
        self.counts.operations["status"] += 1
        form = self._forms.get(client, MSGPACK)
        message = form.pack(json.dumps(self.report()).encode(), "application/json")
        self.router.send(client, REPLY, status.identity, message)
        self.router.send(client, DONE, status.identity)

    _HANDLERS: Final[dict[type, Callable[..., None]]] = {
        Bind: _bind,
        Unbind: _unbind,
        Send: _send,
        Call: _call,
        Flush: _flush,
        Status: _status,
        Choose: _choose,
    }

    # From AMQP.

    def _wanted(self, kind: str) -> set[str]:
        return self._always.union(self.routes.keys(kind)) if kind == TOPIC else set(self.routes.keys(kind))

    def _deliver(self, kind: str, key: str, property_list: bytes, body: bytes) -> None:
        self.counts.received += 1
        if len(body) > self.options.router.payload:
            self.counts.too_large += 1
            return
        if kind == REPLIES:
            self._reply(property_list, body)
            return
        clients = self.routes.get_topic(key) if kind == TOPIC else self.routes.get_direct(key)
        if kind == TOPIC:
            for listener in self.listeners:
                listener(key, property_list, body)
        if not clients:
            self.counts.no_route += 1
            return
        encoded = key.encode()
        made: dict[str, bytes | None] = {}
        for client in clients:
            form = self._forms.get(client, MSGPACK)
            if form.name not in made:
                made[form.name] = self._written(form, property_list, body)
            message = made[form.name]
            if message is not None and self.router.send(client, MSG, encoded, message):
                self.counts.delivered += 1

    def _written(self, form: Form, property_list: bytes, body: bytes) -> bytes | None:
        """The message in a form; None: it cannot be read, or the form has no words for it, and that is counted."""
        try:
            return form.from_amqp(property_list, body)
        except MalformedError:
            self.counts.unreadable += 1
            return None

    def _reply(self, property_list: bytes, body: bytes) -> None:
        try:
            correlation = decode_properties(property_list)[0].get("correlation_id")
        except MalformedError:
            self.counts.unreadable += 1
            return
        known = self.calls.reply(correlation) if isinstance(correlation, str) else None
        if known is None:
            self.counts.late_replies += 1
            return
        caller, last = known
        message = self._written(caller.form, property_list, body)
        if message is not None and self.router.send(caller.client, REPLY, caller.identity, message):
            self.counts.delivered += 1
        if last:
            self.router.send(caller.client, DONE, caller.identity)

    def _broker_changed(self, ready: bool) -> None:
        if ready:
            self.amqp.rebind()

    # By the clock.

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self.options.ttl / 4))
            if self.routes.sweep():
                self.amqp.rebind()

    def report(self) -> dict[str, Any]:
        """The answer for `fumarole bridge status`. It has no secrets."""
        counts, now = self.counts, self._clock()
        shown: list[dict[str, Any]] = []
        for route in self.routes:
            if len(shown) == ROUTES_SHOWN:
                break
            if route.expires > now:
                client = route.destination.hex()
                shown.append(
                    {"kind": route.kind, "key": route.key, "client": client, "seconds": round(route.expires - now, 1)}
                )
        return {
            "name": self.options.name,
            "broker": {
                "address": str(URL(self.options.amqp).with_user(None).with_password(None)),
                "state": "connected" if self.amqp.ready else "away",
            },
            "router": self.router.endpoint,
            "connections": {"open": self.router.connections, "cut_off": self.router.cut},
            "ttl": self.options.ttl,
            "routes": {"count": len(self.routes), "shown": shown},
            "bindings": {kind: sorted(islice(keys, ROUTES_SHOWN)) for kind, keys in self.amqp.bindings.items()},
            "calls": len(self.calls),
            "received": counts.received,
            "delivered": counts.delivered,
            "published": counts.published,
            "operations": dict(counts.operations),
            "refused": counts.refused,
            "dropped": {
                "no route": counts.no_route,
                "too large": counts.too_large,
                "unreadable": counts.unreadable + self.amqp.deliveries.left_out,
                "client gone": self.router.gone,
                "client slow": self.router.slow,
                "late reply": counts.late_replies,
                "broker lost": self.amqp.lost,
            },
            **{name: tell() for name, tell in self.more_status.items()},
        }
