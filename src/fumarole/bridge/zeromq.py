"""The ZeroMQ side: a ROUTER socket without libzmq, whose peers are bounded in everything (L2).

Each connection has a `zmtp.ServerProtocol`, which decodes messages, and an outbox, which never makes the bridge wait.
What one peer may take is bounded: the size and the parts of a message that is not whole yet, the messages and bytes
that wait for it, the time of its handshake, and the time until the others get their turn. Messages that are not whole
yet share one bound over all peers: above it the oldest of the large ones is given up, with its connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from fumarole.bridge.endpoints import check_reach, listen_addresses
from fumarole.bridge.errors import CannotBridgeError
from fumarole.bridge.listener import Listener
from fumarole.bridge.peer_connection import Connection
from fumarole.bridge.zmtp import Mechanism, MessageLimits, NullMechanism, ServerProtocol
from fumarole.core.limits import KIB, MIB

log = logging.getLogger(__name__)

LINGER_SECONDS: Final = 0.5
"""Seconds for outboxes to empty at the end."""
LONG_TURN: Final = 0.01
"""Seconds that peers' messages may take in one turn of the loop."""
TICK_SECONDS: Final = 0.5
TELL_SECONDS: Final = 60.0
"""Between two lines about peers that were cut off."""
REST: Final = 64 * KIB
"""Bytes of a part beside the payload: properties and headers."""
TOPIC: Final = 256
"""Bytes that a topic may have in a bind."""
MOST_PARTS: Final = 65_536
MOST_HELD: Final = 32 * MIB
"""Bytes of all messages that are not whole yet."""
SMALL: Final = 64 * KIB
"""A message that is not whole yet and takes less is never given up for the others."""
MOST_CONNECTIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """The endpoint for clients, and their limits."""

    endpoint: str
    payload: int = 1 * MIB
    waiting: int = 1_000
    """Messages that wait for one slow client."""
    curve_key: Path | None = None
    """The bridge's own key pair; with it, every client must know its public half."""
    curve_clients: Path | None = None
    """A folder with the public keys of allowed clients; None: every client that knows the bridge's key."""
    insecure: bool = False
    """Other machines may come without CURVE (A1)."""


Receive = Callable[[bytes, list[bytes]], None]


class Router:
    """`open`, then `receive(client, parts)` is called for each message until `close`."""

    def __init__(
        self,
        options: RouterOptions,
        receive: Receive,
        left: Callable[[bytes], None] = lambda _: None,
        most_topics: int = 1_024,
    ) -> None:
        """`left(client)` is called when a client is not connected any more."""
        part = options.payload + REST
        self.limits = MessageLimits(part, part + TOPIC * (most_topics + 4), max(MOST_PARTS, most_topics + 4))
        self.options = options
        self.waiting = options.waiting
        self.receive = receive
        self._left = left
        self.paused = False
        self.endpoint = ""
        self.gone = 0
        """Messages for clients that are not connected any more."""
        self.slow = 0
        """Messages for clients that do not read."""
        self.cut = 0
        """Connections that were ended because of what the peer sent, or did not send."""
        self.loop = asyncio.get_running_loop()
        self._mechanism: Callable[[], Mechanism] = NullMechanism
        self._listener = Listener(self._accepted, self._tell)
        self._connections: set[Connection] = set()
        self._accepting: set[asyncio.Task[object]] = set()
        self._clients: dict[bytes, Connection] = {}
        self._numbers = count(1)
        self._written: list[Connection] = []
        """Connections with bytes to send."""
        self._turns: deque[Connection] = deque()
        """Connections with events to handle, in the order of their turns."""
        self._turn_end = 0.0
        """When the loop must look up; 0: nothing was handled since it last did."""
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None
        self._told = float("-inf")

    def open(self) -> None:
        """Raises CannotBridgeError."""
        options = self.options
        addresses = listen_addresses(options.endpoint)
        warning = check_reach(options.endpoint, addresses, options.curve_key is not None, options.insecure)
        if warning is not None:
            log.warning("%s", warning)
        if options.curve_key is not None:
            self._mechanism = _curve(options.curve_key, options.curve_clients)
        self.endpoint = self._listener.open(options.endpoint, addresses)
        self._tick()

    # Connections come and go.

    def _accepted(self, accepted: socket.socket) -> None:
        if len(self._connections) + len(self._accepting) >= MOST_CONNECTIONS:
            self.cut += 1
            self._tell(f"a ZeroMQ peer was refused: there are {MOST_CONNECTIONS} connections")
            accepted.close()
            return
        task = self.loop.create_task(self._connect(accepted))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        protocol = ServerProtocol(self.limits, self._mechanism())
        try:
            await self.loop.connect_accepted_socket(lambda: Connection(self, protocol), accepted)
        except OSError:
            accepted.close()

    def connected(self, connection: Connection) -> None:
        """A new connection, of a peer that has sent nothing yet."""
        self._connections.add(connection)

    def opened(self, connection: Connection, identity: bytes) -> bool:
        """The peer has shaken hands. False: another one has its identity."""
        identity = identity or b"\0" + next(self._numbers).to_bytes(8, "big")
        if identity in self._clients:
            return False
        connection.identity = identity
        self._clients[identity] = connection
        return True

    def disconnected(self, connection: Connection) -> None:
        """It is over."""
        self._connections.discard(connection)
        if self._clients.get(connection.identity) is connection:
            del self._clients[connection.identity]
            self._left(connection.identity)
        self.hold(connection, 0)

    def cut_off(self, connection: Connection, reason: str) -> None:
        """The peer is at fault."""
        self.cut += 1
        self._tell(f"a ZeroMQ peer at {connection.peer} was cut off: {reason}")

    @property
    def connections(self) -> int:
        """Peers that are connected, also those that have not shaken hands yet."""
        return len(self._connections)

    def _tell(self, text: str) -> None:
        """The first in a minute (O2)."""
        now = time.monotonic()
        if now - self._told >= TELL_SECONDS:
            self._told = now
            log.warning("%s", text)

    def hold(self, connection: Connection, size: int) -> None:
        """The connection's message that is not whole yet takes so much memory now."""
        self._held += size - connection.held
        connection.held = size
        if self._held > max(MOST_HELD, 2 * self.limits.message):
            large = (each for each in self._connections if each.held > SMALL and not each.ended)
            oldest = min(large, key=lambda each: each.held_since, default=None)
            if oldest is not None:
                oldest.fail("too many messages are under way that do not end, and this one is the oldest")

    # Towards the clients.

    def send(self, client: bytes, *parts: bytes) -> bool:
        """False: it could not be delivered, and is counted."""
        connection = self._clients.get(client)
        if connection is None:
            self.gone += 1
            return False
        if not connection.put(parts):
            self.slow += 1
            return False
        return True

    def flush_soon(self, connection: Connection) -> None:
        """At the end of this turn of the loop."""
        if not self._written:
            self.loop.call_soon(self._flush)
        self._written.append(connection)

    def _flush(self) -> None:
        written, self._written = self._written, []
        for connection in written:
            connection.flush()

    # Reading.

    def pause(self) -> None:
        """No more is read until `resume`: the clients then have to wait."""
        self.paused = True

    def resume(self) -> None:
        """Reads again."""
        self.paused = False
        self._begin_turn()

    def turn_is_over(self) -> bool:
        """True when enough is handled for this turn of the loop. The bound of a turn is for all peers together (A6)."""
        if not self._turn_end:
            self._begin_turn()
        return self.paused or time.monotonic() >= self._turn_end

    def wait_for_turn(self, connection: Connection) -> None:
        """More of it is handled when the others have had their turn, and no more read until then."""
        self._turns.append(connection)
        self._begin_turn()

    def _begin_turn(self) -> None:
        if not self._turn_end:
            self._turn_end = time.monotonic() + LONG_TURN
            self.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_end = 0.0
        turns = self._turns
        if turns and not self.paused:
            self._begin_turn()
            for _ in range(len(turns)):
                turns.popleft().go_on()
                if self.turn_is_over():
                    break

    def _tick(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.tick(now)
        self._timer = self.loop.call_later(TICK_SECONDS, self._tick)

    async def close(self) -> None:
        """Messages that wait for clients have half a second to leave."""
        self._listener.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._accepting:
            task.cancel()
        deadline = time.monotonic() + LINGER_SECONDS
        while any(each.waiting for each in self._connections) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        while self._connections:  # noqa: ASYNC110 - they end in the next turn of the loop
            await asyncio.sleep(0)


def _curve(key: Path, clients: Path | None) -> Callable[[], Mechanism]:
    """Raises CannotBridgeError."""
    from fumarole.bridge.keys import decode_key, read_key_pair, read_public_keys

    try:
        from fumarole.bridge.curve import CurveKeys, CurveMechanism
    except ModuleNotFoundError as error:
        raise CannotBridgeError(f"CURVE needs {error.name}, which is not installed: pip install pynacl") from None
    public, secret = map(decode_key, read_key_pair(key))
    keys = CurveKeys(public, secret, None if clients is None else read_public_keys(clients))
    return lambda: CurveMechanism(keys)
