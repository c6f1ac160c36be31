"""Readers: what the bytes of a connection go to first, and how a compiled reader and a session share them.

The pump gives what it has read to a `Reader`. In plain Python that is the session itself. Where the fast path is built,
a compiled reader stands before the session (fastpath/nats.pyx, fastpath/msgpack.pyx) or before the lane of another node
(fastpath/cluster_protocol.pyx). It handles the usual form of the operations that come by the million. Every other
operation goes to the session or lane behind it, its `Fallback`, which is the definition. So a compiled reader reports
no errors of its own, and every rule has one place.

Which bytes are held where
    The buffer is the pump's, and is valid during `receive_data` only: what is kept is copied. Every byte is held once,
    by the reader or by the fallback. The reader holds an operation that is half received, and what it puts off for a
    later turn; later bytes queue up behind. The fallback holds bytes in two cases only:

    - A login is being verified. All that comes meanwhile goes to the session. When it has acted on that, the reader
      takes back the rest, the beginning of an operation.
    - On the MsgPack door: a value is longer than the reader measures, or the client has not published a reading yet.

    As long as the fallback holds bytes, all that comes goes there too. So bytes stay in order.

Half an operation, there and back
    A client sends a PUB in odd spelling after a usual one, and the network cuts it:

        PUB a 2␍␊hi␍␊pub  b 5␍␊he          then          llo␍␊PING␍␊

    1. The reader publishes `hi`. The next line is in no form that it knows.
    2. It gives the line to the fallback: `receive_data(b"pub  b 5␍␊")`. The fallback keeps it, since the payload is
       missing, and `wanted()` is 7: five bytes and a line end.
    3. Only two bytes are here. The reader takes the line back with `reclaim()` and keeps `pub  b 5␍␊he` itself. The
       operation has 17 bytes. The reader waits for them without asking again: a payload of a megabyte that comes in
       small pieces costs no more than its bytes.
    4. With `llo␍␊` all 17 are here. The fallback gets the line again, wants 7 more, gets them, and publishes.
    5. An operation may change what the reader works with: CONNECT sets `verbose`, `echo` and the namespace, a fault
       closes the session, a login makes the reader wait. So after each one that it handed over, the reader reads all of
       that again (`refresh`).
    6. `PING␍␊` is whole, and the reader answers it, unless a SUB before it is not yet confirmed (C2).

Work
    One operation can mean a message to each of very many consumers, or a look at very many patterns. A connection with
    such operations must not hold up the others (L1). So reader and fallback count their work, and put off what is more
    than `WORK_AT_ONCE`: `unfinished` is true, the pump gives other connections their turn, and then calls `go_on`.

    `spent` is the work of a fallback's last `receive_data` or `go_on`, in messages put into outboxes: each message, a
    fixed amount for each operation, and what the index looked at. The reader adds it to its own count (three times,
    because its unit is a compiled message), so odd operations use up a connection's turn like usual ones.
"""

from __future__ import annotations

from typing import Any, Protocol

from fumarole.exchange.consumer import Consumer
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.node import Node
from fumarole.exchange.outbox import Outbox
from fumarole.exchange.plans import Plans
from fumarole.protocols.stream import Data
from fumarole.sessions.stream import State


class Reader(Protocol):
    """What takes the bytes of a connection: a compiled reader, or the session or lane itself."""

    @property
    def unfinished(self) -> bool:
        """Was a part of the work put off? `go_on` continues with it."""

    def receive_data(self, data: Data) -> None:
        """Bytes from the peer, cut anywhere. They are valid during the call only."""

    def go_on(self) -> None:
        """Continues with what was put off."""


class Fallback(Reader, Protocol):
    """What a compiled reader needs of the session or lane behind it, whatever the wire protocol."""

    node: Node
    outbox: Outbox
    state: State
    heard: bool
    """Has the peer sent anything since this was last cleared? The reader sets it."""
    spent: int
    """The work of the last `receive_data` or `go_on`."""

    def wanted(self) -> int:
        """How many more bytes the operation that it holds half received takes at least; 0 when it holds none."""

    def reclaim(self) -> bytes:
        """Gives those bytes back: what was received and not yet acted upon."""


Place = tuple[Exchange, tuple[str, ...]]
"""What the key of a forwarded message means: the exchange of its namespace, and the groups to serve."""


class PeerLinkFallback(Fallback, Protocol):
    """A lane to another node. Of what it forwards, no client's state is needed, but its key has to be looked up."""

    peer: Any
    """The node at the other end; None until it has proved itself. Its `received` counts messages."""
    plans: Plans | None
    """None: no message has a place on this lane."""

    def find(self, key: bytes) -> Place | None:
        """What a key means; None where this node does not have the namespace."""

    def is_stale(self) -> bool:
        """Is what comes now too old to be delivered?"""

    def count_late(self, found: Place | None) -> None:
        """A message is not delivered."""

    def nearly_full(self, exchange: Exchange, group: str, members: tuple[Consumer, ...]) -> None:
        """The members of a group that are here will soon have no room (G3)."""
