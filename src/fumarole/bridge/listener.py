"""Sockets that listen: one for each address of an endpoint. What they accept goes to a function."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fumarole.bridge.endpoints import ListenAddress
from fumarole.bridge.errors import CannotBridgeError

ACCEPTS: Final = 100
"""Connections that are accepted in one turn of the loop."""
BACKLOG: Final = 1_024
RETRY_SECONDS: Final = 1.0
"""Seconds to wait when nothing can be accepted, most likely because there are no descriptors left."""
KEEP_ALIVE: Final = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
"""Seconds and probes: also peers that know no heartbeats are found dead."""


class Listener:
    """`open`, then `accepted(socket)` is called for each connection until `close`."""

    def __init__(self, accepted: Callable[[socket.socket], None], failed: Callable[[str], None]) -> None:
        self._accepted = accepted
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._file: Path | None = None
        self._closed = False

    def open(self, endpoint: str, addresses: list[ListenAddress]) -> str:
        """The endpoint as it became, with its port. Raises CannotBridgeError."""
        try:
            for address in addresses:
                self._listen(address)
        except OSError as error:
            self.close()
            raise CannotBridgeError(f"cannot listen on {endpoint}: {error.strerror or error}") from None
        self._accept_again()
        return _endpoint(self._sockets[0])

    def _listen(self, address: ListenAddress) -> None:
        listener = socket.socket(address.family, socket.SOCK_STREAM)
        self._sockets.append(listener)
        listener.setblocking(False)
        place = address.address
        if isinstance(place, str):
            if not place.startswith("\0"):
                _remove_old_socket(Path(place))
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address.family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if not place[1] and len(self._sockets) > 1:
                place = (place[0], self._sockets[0].getsockname()[1])
        listener.bind(place)
        if isinstance(place, str) and not place.startswith("\0"):
            self._file = Path(place)
        listener.listen(BACKLOG)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._failed(f"no connection can be accepted: {error.strerror}")
                for each in self._sockets:
                    self._loop.remove_reader(each)
                self._loop.call_later(RETRY_SECONDS, self._accept_again)
                return
            accepted.setblocking(False)
            if accepted.family != socket.AF_UNIX:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in KEEP_ALIVE.items():
                    accepted.setsockopt(socket.IPPROTO_TCP, option, value)
            self._accepted(accepted)

    def _accept_again(self) -> None:
        if not self._closed:
            for listener in self._sockets:
                self._loop.add_reader(listener, self._accept, listener)

    def close(self) -> None:
        """Stops listening. Accepted connections stay."""
        self._closed = True
        for listener in self._sockets:
            if listener.fileno() >= 0:
                self._loop.remove_reader(listener)
            listener.close()
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _remove_old_socket(path: Path) -> None:
    """A file that an earlier process left behind, without a listener."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def _endpoint(listener: socket.socket) -> str:
    """The endpoint in ZeroMQ's form."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        path = name.decode() if isinstance(name, bytes) else name
        return f"ipc://@{path[1:]}" if path.startswith("\0") else f"ipc://{path}"
    return f"tcp://[{name[0]}]:{name[1]}" if listener.family == socket.AF_INET6 else f"tcp://{name[0]}:{name[1]}"
