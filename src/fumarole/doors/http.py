"""The web door: HTTP/1.1, server-sent events, WebSocket, metrics and the console on one listener (H1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from fumarole.doors.flushing import flush
from fumarole.doors.pump import Pump
from fumarole.doors.registry import Wiring
from fumarole.doors.slices import SliceRunner
from fumarole.doors.stream import MakeReader, StreamDoor
from fumarole.doors.websocket import WebSocketReader
from fumarole.exchange.node import Node
from fumarole.exchange.permissions import User
from fumarole.exchange.slices import Slices
from fumarole.protocols import http
from fumarole.sessions.http import api, pages
from fumarole.sessions.http.service import HttpService, Page
from fumarole.sessions.http.session import HttpSession
from fumarole.sessions.mqtt import MqttSession, Terms
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.reader import Reader
from fumarole.sessions.stream import RemoteAddress, StreamSession

MakeSession = Callable[[Node, RemoteAddress, float, Pump], Any]
"""A session of another protocol for a connection."""
MOMENT: Final = 0.0001
"""Seconds of the loop that answers in pieces take at a time (H1)."""
CONSOLE: Final = "console"
STARTED: Final = time.time()
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
STATM: Final = Path("/proc/self/statm")
OPEN_FILES: Final = "/proc/self/fd"


class HttpDoor(StreamDoor):
    """Where clients of HTTP and WebSocket come in. TLS, where it is on, begins at once."""

    scheme = "http"

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring.node, wiring.hot_path.http_reader, wiring.tls, wiring.logins)
        self._opened = wiring.opened
        settings, node = wiring.settings, wiring.node
        self._hot_path = wiring.hot_path
        if wiring.tls is not None:
            self.scheme = "https"
        mqtt = wiring.settings_of("mqtt")
        terms = Terms(mqtt.namespace, mqtt.max_qos, mqtt.max_keep_alive)
        slices = Slices()
        SliceRunner(node, slices, MOMENT)
        files = {} if CONSOLE in settings.off else console_pages()
        self._date = 0, ""
        self._used = time.monotonic(), 0.0, 0.0
        """When the processor time of the process was last looked at, how much that was, and the percent of a core."""
        self.service = HttpService(
            node=node,
            settings=settings,
            router=api.router(files, node.version, settings.off, metrics_open=settings.metrics_open),
            slices=slices,
            wall=time.time,
            date=self._now,
            new_id=partial(secrets.token_hex, 11),
            later=_later,
            flush=self._policies.flushing.flush,
            cookies=wiring.cookies,
            pages=files,
            boot=secrets.token_hex(4),
            connections=self._connections,
            process=self._process,
            unready=self._unready,
            upgrades={
                "nats": partial(self._speak, NatsSession, wiring.hot_path.nats_reader),
                "mqtt": partial(self._speak, partial(MqttSession, terms=terms), wiring.hot_path.mqtt_reader),
            },
            cut_off=self._cut_off,
            line_reader=wiring.hot_path.line_reader,
            doors=lambda: {each.scheme: each.address[1] for each in self._opened},
        )
        if wiring.logins is not None:
            self.service.known = wiring.logins.known

    def session(self, remote: RemoteAddress, now: float, pump: Pump) -> HttpSession:
        return HttpSession(self.service, remote, now, pump)

    def _speak(self, make: MakeSession, make_reader: MakeReader | None, web: HttpSession, user: User | None) -> None:
        """The connection of this session speaks another protocol from here on, in frames."""
        pump: Pump = web.outbox.owner
        pump.write_now(web.outbox.take())
        rest = web.handed_over()
        remote = web.remote._replace(over_web=True)
        session = make(self._node, remote, web.now, pump)
        if isinstance(session, NatsSession):
            session.vouched_for = user
        inner: Reader = session if make_reader is None else make_reader(session)
        reader = WebSocketReader(self._hot_path.websocket_frames(), session, inner, pump.write_if_free)
        pump.begin(session, reader, framing=reader)
        if rest:
            reader.receive_data(rest)

    def inform(self, lame_duck: bool = False) -> None:
        """Tells NATS clients where else they may go, or, streams too, that they should go there now."""
        for pump in list(self._pumps):
            session: Any = pump.session
            if isinstance(session, NatsSession):
                session.inform(lame_duck)
            elif lame_duck and isinstance(session, HttpSession) and session.stream is not None:
                session.stream.bye(self._node.reachable_web)
        flush(self._node.ready)

    def refusal(self, text: str) -> bytes:
        return http.problem(503, text, keep_alive=False)

    def _send_away(self, session: Any) -> None:
        """A stream of events is told where to go, and an answer that is under way is given (A7)."""
        if isinstance(session, MqttSession):
            session.send_away()
        elif isinstance(session, HttpSession):
            session.send_away(self._node.reachable_web)
        else:
            session.close()

    def _now(self) -> str:
        seconds = int(time.time())
        if seconds != self._date[0]:
            self._date = seconds, http_date(seconds)
        return self._date[1]

    def _process(self) -> dict[str, float]:
        """The process's figures from the system."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        found: dict[str, float] = {"cpu": used.ru_utime + used.ru_stime, "started": STARTED}
        with contextlib.suppress(OSError):
            found["memory"] = int(STATM.read_text().split()[1]) * resource.getpagesize()
            found["files"] = len(os.listdir(OPEN_FILES))  # noqa: PTH208 - names are enough
        found |= {"cores": len(os.sched_getaffinity(0)), "cpu_percent": self._busy(found["cpu"])}
        logins = self._logins
        if logins is not None:
            found |= {"failed_logins": logins.failed, "refused_logins": logins.refused}
        return found

    def _busy(self, used: float) -> float:
        """Percent of one core that the process has used since it was last asked, a second ago or longer."""
        now, (since, before, percent) = time.monotonic(), self._used
        if now - since >= 1.0:
            percent = round(100 * (used - before) / (now - since), 1)
            self._used = now, used, percent
        return percent

    def _unready(self) -> Iterator[str]:
        """Why this node should get no clients yet, or no more."""
        if self._server is None or not self._server.is_serving():
            yield "the node drains"
        yield from self._node.unready()

    def _connections(self) -> Iterator[dict[str, Any]]:
        for door in list(self._opened):
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


def http_date(seconds: int) -> str:
    """`Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110). `email.utils` has the same, and brings half a MiB of modules."""
    year, month, day, hour, minute, second, weekday, *_ = time.gmtime(seconds)
    date = f"{DAYS[weekday]}, {day:02} {MONTHS[month - 1]} {year:04}"
    return f"{date} {hour:02}:{minute:02}:{second:02} GMT"


def console_pages() -> dict[str, Page]:
    """The files of `src/fumarole/console` by the path at which they are served; `index.html` is at `/`."""
    found = dict(_files(Path(__file__).parents[1] / CONSOLE, "/"))
    index = found.get("/index.html")
    return found if index is None else {**found, "/": index}


def _files(folder: Path, path: str) -> Iterator[tuple[str, Page]]:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        if each.is_dir():
            if not each.name.startswith(("_", ".")):
                yield from _files(each, f"{path}{each.name}/")
        elif each.suffix in pages.KINDS:
            yield path + each.name, pages.page(each.suffix, each.read_bytes())
