"""Upgrades to WebSocket: the protocols that are spoken inside (H6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fumarole.protocols import http, websocket
from fumarole.sessions.http.call import Call

NATS: Final = "nats"
MQTT: Final = "mqtt"
WANTED: Final = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", websocket.VERSION)]
NOT_HERE: Final = "{} over WebSocket is not offered here"


def is_upgrade(call: Call) -> bool:
    """Does the client want to speak WebSocket?"""
    return call.head.fields.get("upgrade", "").lower() == "websocket"


def to(protocol: str) -> Callable[[Call], None]:
    """A call that makes the connection one of this protocol."""

    def handle(call: Call) -> None:
        begin = call.service.upgrades.get(protocol)
        if begin is None:
            call.problem(501, NOT_HERE.format(protocol.upper()))
            return
        said = websocket.accept(call.head, protocol)
        if isinstance(said, str):
            version = call.head.fields.get("sec-websocket-version")
            if is_upgrade(call) and version == websocket.VERSION:  # it wants to, and says it wrongly
                call.problem(400, said)
            else:
                call.problem(426, said, WANTED)
            return
        if protocol == MQTT and ("Sec-WebSocket-Protocol", MQTT) not in said:
            call.problem(400, "MQTT is spoken with Sec-WebSocket-Protocol: mqtt")
            return
        call.session.outbox.push(http.response(101, said, None))
        begin(call.session, call.user)

    return handle
