"""Which hot path this process has: the compiled one where it was built, else the pure one that it is a copy of."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fumarole.exchange.parts import PURE, Parts
from fumarole.protocols.websocket import FrameReader, Frames

if TYPE_CHECKING:
    from fumarole.core.limits import Limits
    from fumarole.exchange.exchange import Exchange
    from fumarole.exchange.plans import Plans
    from fumarole.sessions.http.session import HttpSession
    from fumarole.sessions.http.topics import LineReader
    from fumarole.sessions.mqtt import MqttSession
    from fumarole.sessions.msgpack import MsgPackSession
    from fumarole.sessions.nats import NatsSession
    from fumarole.sessions.reader import PeerLinkFallback, Reader


@dataclass(frozen=True, slots=True)
class HotPath:
    """The parts that exchanges are made of, and the readers before sessions and lanes (sessions/reader.py; None: none).

    And what lets a node that is killed hang up at once (heir.pyx), where there is such a thing.
    """

    name: str
    parts: Parts
    nats_reader: Callable[[NatsSession], Reader] | None = None
    msgpack_reader: Callable[[MsgPackSession], Reader] | None = None
    peer_link_reader: Callable[[PeerLinkFallback], Reader] | None = None
    appoint_heir: Callable[[], int] | None = None
    mqtt_reader: Callable[[MqttSession], Reader] | None = None
    websocket_frames: Callable[[], FrameReader] = Frames
    http_reader: Callable[[HttpSession], Reader] | None = None
    line_reader: Callable[[Exchange, Plans, Limits], LineReader] | None = None


PLAIN = HotPath("plain Python", PURE)


def compiled() -> HotPath | None:
    """The compiled hot_path, or None where it was not built."""
    try:
        from fumarole.fastpath import (
            cluster_protocol,
            conflation,
            heir,
            http,
            index,
            json_paths,
            last_values,
            mqtt,
            msgpack,
            nats,
            outbox,
            pieces,
            plans,
            websocket,
        )
    except ImportError:
        return None
    parts = Parts(
        index=index.Index,
        consumer=outbox.Consumer,
        counters=outbox.Counters,
        cuts=pieces.Cuts,
        group=plans.Group,
        held=conflation.Held,
        last_values=last_values.LastValues,
        outbox=outbox.Outbox,
        pieces=pieces.Pieces,
        plan=plans.Plan,
        plans=plans.Plans,
        reads=json_paths.reads_of,
        send_retained=mqtt.send_retained,
    )
    return HotPath(
        "compiled",
        parts,
        nats.NatsReader,
        msgpack.MsgPackReader,
        cluster_protocol.PeerLinkReader,
        heir.appoint,
        mqtt.MqttReader,
        websocket_frames=websocket.Frames,
        http_reader=http.HttpReader,
        line_reader=http.LineReader,
    )


def best() -> HotPath:
    """The compiled hot_path if it is there and FUMAROLE_PURE is not set."""
    return PLAIN if os.environ.get("FUMAROLE_PURE") else compiled() or PLAIN
