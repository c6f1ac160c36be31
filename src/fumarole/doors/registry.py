"""The doors that a broker can have. A door is one object here, and everything else about it is derived.

From a door's name come its key in the configuration (`doors.nats`, and the table `[nats]` where it has settings), its
variable (`FUMAROLE_NATS`), its flag (`--nats`), its checks, its line in `serve --help`, and its row in the documents.
No door's module is imported before the door opens: what it needs may not be installed.

    ECHO = Door("echo", "Echo", 7007, "Listen for echo clients here.", EchoDoor)
    registry.add(ECHO)          from here on `fumarole serve --echo 127.0.0.1:7007` opens it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fumarole.exchange.namespaces import DEFAULT, KUBEMQ

if TYPE_CHECKING:
    import ssl

    from fumarole.doors.logins import Logins
    from fumarole.doors.placement import Placement
    from fumarole.exchange.node import Node
    from fumarole.exchange.permissions import User
    from fumarole.fastpath.hot_path import HotPath
    from fumarole.sessions.stream import StreamSession


class Listener(Protocol):
    """A door that is open, or about to be."""

    address: tuple[str, int]
    scheme: str

    async def open(self, host: str, port: int, placement: Placement | None = None) -> None: ...
    def sessions(self) -> Iterator[tuple[StreamSession, str]]: ...
    def cut_off(self) -> None: ...
    def close_entrance(self) -> None: ...
    def send_away(self, most: int) -> None: ...
    async def renew(self, tls: ssl.SSLContext | None, logins: Logins | None, users: Mapping[str, User]) -> None: ...
    async def drain(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts of the broker that a door gets when it opens."""

    node: Node
    hot_path: HotPath
    settings: Any
    """The door's settings, of its own type."""
    tls: ssl.SSLContext | None = None
    logins: Logins | None = None
    """None where authentication is off."""
    handshake_first: bool = False
    """At a door where the server speaks first: TLS begins before that."""
    settings_of: Callable[[str], Any] = lambda name: DOORS[name].settings()
    """The settings of another door, by its name."""
    cookies: Any = None
    """Makes the cookies of browsers (server/cookies.py); None where authentication is off."""
    opened: Sequence[Listener] = ()
    """The doors of this node that are open, this one included once it is."""


@dataclass(frozen=True, slots=True)
class NoSettings:
    """The settings of a door that has none except its addresses."""


@dataclass(frozen=True, slots=True)
class Door:
    """One protocol that clients may speak."""

    name: str
    title: str
    port: int
    help: str
    make: Callable[[Wiring], Listener]
    settings: type[Any] = NoSettings
    """A dataclass: the table `[name]` of the configuration. A field `namespace` is checked as a namespace's name."""
    page: str = ""
    """Its page of documentation."""
    extra: str = ""
    """The extra of the distribution that it needs (core/packages.py); empty: the base install."""
    alpn: tuple[str, ...] = ()
    """The protocols that are offered in the TLS handshake (ALPN); empty: none."""
    keeps_namespace: bool = False
    """No connection of this door keeps its namespace alive, so the broker does."""


@dataclass(frozen=True, slots=True)
class MsgPackSettings:
    """Settings of the MsgPack door."""

    namespace: str = DEFAULT
    """The namespace of clients without credentials."""


@dataclass(frozen=True, slots=True)
class KubemqSettings:
    """Settings of the KubeMQ door."""

    namespace: str = KUBEMQ
    """The namespace of clients whose token names no other (K2)."""


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """Settings of the MQTT door."""

    namespace: str = DEFAULT
    """The namespace of clients whose user has no other (Q2)."""
    max_qos: int = 2
    """The greatest QoS that is granted."""
    max_keep_alive: float | None = None
    """Seconds that a client of version 5 may ask for at most; None: any, and none at all."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Settings of the web door."""

    origins: tuple[str, ...] = ()
    """Origins of foreign pages that may use it: `https://plots.example.org`."""
    hosts: tuple[str, ...] = ()
    """Names by which requests may call it where there are no users, besides localhost."""
    off: tuple[str, ...] = ()
    """Parts that are off: some of console, metrics, monitoring, openapi, nats, mqtt."""
    metrics_open: bool = False
    """`/metrics` needs no user."""
    cookie_life: float = 12 * 3600.0
    """Seconds for which a browser's cookie is good."""
    streams_per_user: int = 1_000
    """Streams of events that one user, or without users one address, may have open."""


def _nats(wiring: Wiring) -> Listener:
    from fumarole.doors.nats import NatsDoor

    door = NatsDoor(wiring.node, wiring.hot_path.nats_reader, wiring.tls, wiring.logins)
    door.greets = not wiring.handshake_first
    return door


def _msgpack(wiring: Wiring) -> Listener:
    from fumarole.doors.msgpack import MsgPackDoor

    namespace = wiring.settings.namespace
    return MsgPackDoor(wiring.node, wiring.hot_path.msgpack_reader, namespace, wiring.tls, wiring.logins)


def _kubemq(wiring: Wiring) -> Listener:
    from fumarole.doors.kubemq import KubemqDoor

    return KubemqDoor(wiring.node, wiring.settings.namespace, wiring.tls, wiring.logins)


def _mqtt(wiring: Wiring) -> Listener:
    from fumarole.doors.mqtt import MqttDoor
    from fumarole.sessions.mqtt import Terms

    settings = wiring.settings
    terms = Terms(settings.namespace, settings.max_qos, settings.max_keep_alive)
    return MqttDoor(wiring.node, wiring.hot_path.mqtt_reader, terms, wiring.tls, wiring.logins)


def _http(wiring: Wiring) -> Listener:
    from fumarole.doors.http import HttpDoor

    return HttpDoor(wiring)


DOORS: dict[str, Door] = {}


def add(door: Door) -> None:
    """Makes a door known. Before the configuration is loaded, which asks once which doors there are."""
    DOORS[door.name] = door


add(
    Door(
        name="nats",
        title="NATS",
        port=4222,
        help="Listen for NATS clients here; may be repeated. Port 0 is any free one.",
        make=_nats,
        page="docs/reference/nats.md",
    )
)
add(
    Door(
        name="msgpack",
        title="MsgPack",
        port=4444,
        help="Listen for producers and subscribers that speak MsgPack here; may be repeated.",
        make=_msgpack,
        settings=MsgPackSettings,
        page="docs/reference/metadata.md",
    )
)
add(
    Door(
        name="kubemq",
        title="KubeMQ",
        port=50000,
        help="Listen for KubeMQ clients (gRPC) here; may be repeated.",
        make=_kubemq,
        settings=KubemqSettings,
        page="docs/reference/kubemq.md",
        extra="kubemq",
        alpn=("h2",),
        keeps_namespace=True,
    )
)
add(
    Door(
        name="mqtt",
        title="MQTT",
        port=1883,
        help="Listen for MQTT clients, 3.1.1 and 5.0, here; may be repeated.",
        make=_mqtt,
        settings=MqttSettings,
        page="docs/reference/mqtt.md",
    )
)
add(
    Door(
        name="http",
        title="Web",
        port=8222,
        help="Listen for HTTP and WebSocket clients here; may be repeated.",
        make=_http,
        settings=HttpSettings,
        page="docs/reference/http.md",
    )
)
