"""A door of a test: what a client sends comes back. Everything about it is in this file."""

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fumarole.doors.logins import Logins
from fumarole.doors.placement import Placement
from fumarole.doors.registry import Door, Wiring, add
from fumarole.exchange.permissions import User
from fumarole.sessions.stream import StreamSession


@dataclass(frozen=True, slots=True)
class ToySettings:
    namespace: str = "default"
    times: int = 1


class ToyDoor:
    scheme = "toy"

    def __init__(self, wiring: Wiring) -> None:
        self._times = wiring.settings.times

    async def open(self, host: str, port: int, placement: Placement | None = None) -> None:
        self._server = await asyncio.start_server(self._echo, host, port)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline() * self._times)
        writer.close()

    def sessions(self) -> Iterator[tuple[StreamSession, str]]:
        return iter(())  # a client says one line, and needs none

    def cut_off(self) -> None:
        self._server.close()

    def close_entrance(self) -> None:
        self._server.close()

    def send_away(self, most: int) -> None:
        """Each client is gone by itself."""

    async def renew(self, tls: ssl.SSLContext | None, logins: Logins | None, users: Mapping[str, User]) -> None:
        """There is nothing to renew."""

    async def drain(self, seconds: float) -> None:
        self._server.close()


add(Door("toy", "Toy", 7007, "Listen for toy clients here.", ToyDoor, ToySettings, "docs/reference/nats.md"))
