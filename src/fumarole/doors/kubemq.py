"""The KubeMQ door: KubeMQ's gRPC service (sessions/kubemq_connection.py), over HTTP/2 (protocols/grpc.py).

HTTP/2 is loaded with the first connection: it takes 1.1 MiB, and 12 ms once. A broker that starts makes sure before
that it is installed (core/packages.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from fumarole.doors.flushing import flush
from fumarole.doors.logins import Logins
from fumarole.doors.pump import Pump
from fumarole.doors.stream import StreamDoor
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.sessions.kubemq import KubemqService
from fumarole.sessions.stream import RemoteAddress

if TYPE_CHECKING:
    from fumarole.sessions.kubemq_connection import KubemqConnection, Surroundings


class KubemqDoor(StreamDoor):
    """Where KubeMQ clients come in. TLS, where it is on, begins at once."""

    scheme = "kubemq"

    def __init__(self, node: Node, namespace: str, tls: ssl.SSLContext | None, logins: Logins | None) -> None:
        super().__init__(node, None, tls, logins)
        self._service = KubemqService(node, namespace, _new_id, time.time())

    @cached_property
    def _surroundings(self) -> Surroundings:
        from fumarole.sessions.kubemq_connection import Surroundings

        return Surroundings(self._service, self._user_of, self._later, time.time, Counter())

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> KubemqConnection:
        from fumarole.sessions.kubemq_connection import KubemqConnection

        return KubemqConnection(self._node, remote, now, pump, self._surroundings)

    def refusal(self, text: str) -> bytes:  # noqa: ARG002
        """Nothing: before HTTP/2 has begun there is no place for a reason."""
        return b""

    async def drain(self, seconds: float) -> None:
        """No new connections; what waits for receivers leaves; every call is ended, then every connection."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        if self._server is not None:
            self._server.close()
        for connection in self._connections():
            connection.drain()
        flush(self._node.ready)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)
        await super().drain(max(deadline - loop.time(), 0.0))

    async def renew(self, tls: ssl.SSLContext | None, logins: Logins | None, users: Mapping[str, User]) -> None:
        """The configuration was loaded again (A7). Connections with a call of a user whose rules have changed or ended
        are closed: here each call brings its token."""
        await super().renew(tls, logins, users)
        for connection in self._connections():
            if not connection.may_go_on(users):
                connection.close()
        flush(self._node.ready)

    def _connections(self) -> list[KubemqConnection]:
        return [cast("KubemqConnection", pump.session) for pump in self._pumps]

    def _user_of(self, token: str, address: str) -> User | None:
        return None if self._logins is None else self._logins.by_token(token, address)

    def _later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        def go_on() -> None:
            call()
            flush(self._node.ready)

        return asyncio.get_running_loop().call_later(seconds, go_on).cancel


def _new_id() -> str:
    return uuid.uuid4().hex
