"""The web door: HTTP/1.1, server-sent events, WebSocket, metrics and the console on one listener (H1)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from email.utils import formatdate
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Any, Final

from fumarole.doors.flushing import flush
from fumarole.doors.pump import Pump
from fumarole.doors.registry import Wiring
from fumarole.doors.slices import SliceRunner
from fumarole.doors.stream import StreamDoor
from fumarole.exchange.slices import Slices
from fumarole.protocols import http
from fumarole.sessions.http import api, pages
from fumarole.sessions.http.service import HttpService, Page
from fumarole.sessions.http.session import HttpSession
from fumarole.sessions.stream import RemoteAddress, StreamSession

MOMENT: Final = 0.0005
"""Seconds of the loop that answers in pieces take at a time (H1)."""
CONSOLE: Final = "console"


class HttpDoor(StreamDoor):
    """Where clients of HTTP and WebSocket come in. TLS, where it is on, begins at once."""

    scheme = "http"

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring.node, None, wiring.tls, wiring.logins)
        self._opened = wiring.opened
        settings, node = wiring.settings, wiring.node
        if wiring.tls is not None:
            self.scheme = "https"
        slices = Slices()
        SliceRunner(node, slices, MOMENT)
        files = {} if CONSOLE in settings.off else console_pages()
        self._date = 0, ""
        self.service = HttpService(
            node=node,
            settings=settings,
            router=api.router(files, node.version, settings.off),
            slices=slices,
            wall=time.time,
            date=self._now,
            new_id=partial(secrets.token_hex, 11),
            later=_later,
            flush=partial(flush, node.ready),
            cookies=wiring.cookies,
            pages=files,
            boot=secrets.token_hex(4),
            connections=self._connections,
            cut_off=self._cut_off,
            doors=lambda: {each.scheme: each.address[1] for each in self._opened},
        )
        if wiring.logins is not None:
            self.service.known = wiring.logins.known

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> HttpSession:
        return HttpSession(self.service, remote, now, pump)

    def refusal(self, text: str) -> bytes:
        return http.problem(503, text, keep_alive=False)

    async def drain(self, seconds: float) -> None:
        """Streams of events are told where to go, answers that are under way are given (A7)."""
        for pump in self._pumps:
            stream = getattr(pump.session, "stream", None)
            if stream is not None:
                stream.bye(self._node.reachable_web)
        await super().drain(seconds)

    def _now(self) -> str:
        seconds = int(time.time())
        if seconds != self._date[0]:
            self._date = seconds, formatdate(seconds, usegmt=True)
        return self._date[1]

    def _connections(self) -> Iterator[dict[str, Any]]:
        for door in self._opened:
            if isinstance(door, StreamDoor):
                for session, address in door.sessions():
                    yield _connection(door.scheme, address, session)

    def _cut_off(self, number: int) -> bool:
        """Closes the connection of this id, at whichever door of this node it is."""
        for door in self._opened:
            if isinstance(door, StreamDoor):
                for session, _ in door.sessions():
                    if session.client_id == number:
                        session.fail("Connection Closed by an administrator")
                        return True
        return False


def _connection(door: str, address: str, session: StreamSession) -> dict[str, Any]:
    exchange = session.exchange
    return {
        "id": session.client_id,
        "door": door,
        "name": session.label.partition(" ")[2],
        "address": address,
        "namespace": None if exchange is None else exchange.name,
        "consumers": session.consumer_count,
        "waiting_bytes": session.outbox.size,
    }


def _later(seconds: float, call: Any) -> Any:
    return asyncio.get_running_loop().call_later(seconds, call).cancel


def console_pages() -> dict[str, Page]:
    """The files of `src/fumarole/console` by the path at which they are served; `index.html` is at `/`."""
    found = dict(_files(files("fumarole") / CONSOLE, "/"))
    index = found.get("/index.html")
    return found if index is None else {**found, "/": index}


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Page]]:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        if each.is_dir():
            if not each.name.startswith(("_", ".")):
                yield from _files(each, f"{path}{each.name}/")
        elif PurePosixPath(each.name).suffix in pages.KINDS:
            yield path + each.name, pages.page(PurePosixPath(each.name).suffix, each.read_bytes())
