"""The ZeroMQ side: one ROUTER socket, read in batches, written to without ever waiting.

ZeroMQ's file descriptor says only that something may have changed, and says it once: after every send there may be
something to receive of which no further sign comes. So a look follows every burst of sends, as well as every sign.

ROUTER drops what it cannot deliver in silence; with ROUTER_MANDATORY it says so, and drops are counted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import zmq
import zmq.auth
from zmq.auth.asyncio import AsyncioAuthenticator

from fumarole.bridge.endpoints import check_reach, listen_addresses
from fumarole.bridge.errors import CannotBridgeError
from fumarole.core.limits import MIB

log = logging.getLogger(__name__)

BATCH: Final = 200
"""Messages that are read before others on this loop get their turn."""
HANDSHAKE_MS: Final = 2_000
HEARTBEAT_MS: Final = 10_000
LINGER_MS: Final = 500
REST: Final = 64 * 1024
"""Bytes of a part beside the payload: properties and headers."""


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """Where clients come in, and what they may do."""

    endpoint: str
    payload: int = 1 * MIB
    waiting: int = 1_000
    """Messages that wait for one slow client, or of one quick one."""
    curve_key: Path | None = None
    """The bridge's own key pair; with it, everybody must know its public half."""
    curve_clients: Path | None = None
    """A folder with the public keys of those who may come; None: whoever knows the bridge's."""
    insecure: bool = False
    """Other machines may come without CURVE (A1)."""


class Router:
    """`open`, then `receive(client, parts)` is called for each message until `close`."""

    def __init__(self, options: RouterOptions, receive: Callable[[bytes, list[bytes]], None]) -> None:
        self._options = options
        self._receive = receive
        self._context = zmq.Context()
        self._socket: Any = None
        self._authenticator: Any = None
        self._loop = asyncio.get_running_loop()
        self._look_due = False
        self._paused = False
        self._descriptor = -1
        self.endpoint = ""
        self.gone = 0
        """Messages for clients that are not connected any more."""
        self.slow = 0
        """Messages for clients that do not read."""

    def open(self) -> None:
        """Raises CannotBridgeError."""
        options = self._options
        addresses = listen_addresses(options.endpoint)
        warning = check_reach(options.endpoint, addresses, options.curve_key is not None, options.insecure)
        if warning is not None:
            log.warning("%s", warning)
        socket = self._socket = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.MAXMSGSIZE, options.payload + REST)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.SNDHWM, options.waiting)
        socket.setsockopt(zmq.RCVHWM, options.waiting)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 2 * HEARTBEAT_MS)
        if options.curve_key is not None:
            self._secure(socket, options.curve_key)
        try:
            socket.bind(options.endpoint)
        except zmq.ZMQError as error:
            self.close()
            reason = zmq.strerror(error.errno or 0)
            raise CannotBridgeError(f"cannot listen on {options.endpoint}: {reason}") from None
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._descriptor = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._look)
        self._look_soon()

    def _secure(self, socket: Any, key: Path) -> None:
        try:
            public, secret = zmq.auth.load_certificate(key)
        except (OSError, ValueError) as error:
            self.close()
            raise CannotBridgeError(f"{key} has no CURVE key: {error}") from None
        if secret is None:
            self.close()
            raise CannotBridgeError(f"{key} has only a public key; the bridge needs the secret one")
        self._authenticator = AsyncioAuthenticator(self._context)
        self._authenticator.start()
        clients = self._options.curve_clients
        location = zmq.auth.CURVE_ALLOW_ANY if clients is None else str(clients)
        self._authenticator.configure_curve(domain="*", location=location)
        socket.curve_secretkey, socket.curve_publickey, socket.curve_server = secret, public, True

    def send(self, client: bytes, *parts: bytes) -> bool:
        """False: it could not be delivered, and is counted."""
        try:
            self._socket.send_multipart((client, *parts), zmq.NOBLOCK)
        except zmq.Again:
            self.slow += 1
            return False
        except zmq.ZMQError:
            self.gone += 1
            return False
        finally:
            self._look_soon()
        return True

    def pause(self) -> None:
        """No more is read until `resume`: ZeroMQ then makes the clients wait."""
        self._paused = True

    def resume(self) -> None:
        """Reads again."""
        self._paused = False
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._look_due:
            self._look_due = True
            self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._look_due = False
        self._look()

    def _look(self) -> None:
        receive, handle = self._socket.recv_multipart, self._receive
        for _ in range(BATCH):
            if self._paused or self._socket.closed:
                return
            try:
                client, *parts = receive(zmq.NOBLOCK)
            except zmq.ZMQError:
                return
            handle(client, parts)
        self._look_soon()

    def close(self) -> None:
        """What waits for clients gets half a second to leave."""
        if self._socket is not None and not self._socket.closed:
            if self._descriptor >= 0:
                self._loop.remove_reader(self._descriptor)
            self._socket.close()
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.destroy(linger=LINGER_MS)
