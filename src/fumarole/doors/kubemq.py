"""The KubeMQ door: KubeMQ's gRPC service (sessions/kubemq_connection.py), over HTTP/2 (protocols/grpc.py)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping

from fumarole.doors.flushing import flush
from fumarole.doors.logins import Logins
from fumarole.doors.pump import Pump
from fumarole.doors.stream import StreamDoor
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.sessions.kubemq import KubemqService
from fumarole.sessions.kubemq_connection import KubemqConnection, Surroundings
from fumarole.sessions.stream import RemoteAddress


class KubemqDoor(StreamDoor):
    """Where KubeMQ clients come in. TLS, where it is on, begins at once."""

    scheme = "kubemq"

    def __init__(self, node: Node, namespace: str, tls: ssl.SSLContext | None, logins: Logins | None) -> None:
        super().__init__(node, None, tls, logins)
        service = KubemqService(node, namespace, _new_id, time.time())
        self._surroundings = Surroundings(service, self._user_of, self._later, time.time, Counter())

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> KubemqConnection:
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
        for pump in list(self._pumps):
            if isinstance(pump.session, KubemqConnection):
                pump.session.drain()
        flush(self._node.ready)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)
        await super().drain(max(deadline - loop.time(), 0.0))

    async def renew(self, tls: ssl.SSLContext | None, logins: Logins | None, users: Mapping[str, User]) -> None:
        """The configuration was loaded again (A7). Connections with a call of a user whose rules have changed or ended
        are closed: here each call brings its token."""
        await super().renew(tls, logins, users)
        for pump in list(self._pumps):
            if isinstance(pump.session, KubemqConnection) and not pump.session.may_go_on(users):
                pump.session.close()
        flush(self._node.ready)

    def _user_of(self, token: str, address: str) -> User | None:
        return None if self._logins is None else self._logins.by_token(token, address)

    def _later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        def go_on() -> None:
            call()
            flush(self._node.ready)

        return asyncio.get_running_loop().call_later(seconds, go_on).cancel


def _new_id() -> str:
    return uuid.uuid4().hex
