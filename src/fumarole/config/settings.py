"""Everything that can be set, as types: what the rest of the program reads, and what `configuration` fills in.

A setting is one field here: from it come its key in the file, its variable, its flag, its check and its default. What
there is to set about doors is derived from their registry (`doors/registry.py`): a field of `Doors` for each, and a
table in `Settings` for each that has settings of its own. Defaults are what an empty file gives.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec import Struct, defstruct

from fumarole.config.values import (
    Address,
    AmqpAddress,
    AmqpName,
    BrokerAddresses,
    Bytes,
    Collector,
    Endpoint,
    FilePath,
    Grace,
    LineSize,
    ListenAddress,
    NamespaceName,
    NodeName,
    PasswordHash,
    PatternText,
    Qos,
    QueryDepth,
    Secret,
    Size,
    Text,
    TokenDigest,
    UserKey,
    Workers,
)
from fumarole.core.limits import MIB, Limits, NamespaceQuotas, Quotas
from fumarole.core.topic import Grammar
from fumarole.doors.registry import DOORS, HttpSettings, NoSettings
from fumarole.exchange.namespaces import DEFAULT, NamespaceRules


class DoorAddresses(Struct, frozen=True, kw_only=True):
    """Where each protocol listens."""

    def of(self, door: str) -> tuple[Address, ...]:
        """The listening addresses of the door of this name. Empty: it is closed."""
        addresses: tuple[Address, ...] = getattr(self, door)
        return addresses

    def addresses(self) -> Iterator[tuple[str, Address]]:
        """The names of the open doors, each with its listening addresses."""
        for door in self.__struct_fields__:
            for address in self.of(door):
                yield door, address


Doors = defstruct(
    "Doors",
    [(each.name, tuple[ListenAddress, ...], (Address("127.0.0.1", each.port),)) for each in DOORS.values()],
    bases=(DoorAddresses,),
    frozen=True,
    kw_only=True,
)
"""One field for each door. The defaults are the standard ports; they apply when no door is named."""


def only(**named: tuple[Address, ...]) -> DoorAddresses:
    """These doors are open, and no others."""
    return cast(DoorAddresses, Doors(**{**dict.fromkeys(DOORS, ()), **named}))


StandardDoors = defstruct("StandardDoors", [], bases=(Doors,), frozen=True, kw_only=True)
"""The defaults when no door is named: a broker opens those of them whose packages are installed."""


class Tls(Struct, frozen=True, kw_only=True):
    """The server's certificate, and the requirements for clients' certificates."""

    certificate: FilePath
    key: FilePath
    client_authority: FilePath | None = None
    client_certificates: Literal["none", "optional", "required"] = "none"
    handshake_first: bool = False
    """At the NATS door: TLS begins with the connection, and INFO comes over it."""


class Links(Struct, frozen=True, kw_only=True):
    """How the nodes of a cluster prove themselves to each other, and when a silent one is gone."""

    name: Text = "fumarole"
    """The name of the cluster; nodes of another cluster are refused."""
    secret_file: FilePath | None = None
    """Its first line is the secret that every node knows."""
    certificate: FilePath | None = None
    """With the two below: nodes show each other certificates, and links are encrypted."""
    key: FilePath | None = None
    authority: FilePath | None = None
    silence: float = 2.0
    """Seconds of silence after which a node is gone (C4)."""
    address: ListenAddress | None = None
    """The address at which other nodes reach this one, if it is not the listening one."""
    outbox: Size = 16 * MIB
    """Bytes that wait for one other node; then the oldest messages are dropped."""


class Log(Struct, frozen=True, kw_only=True):
    """The level and the form of the log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Traces(Struct, frozen=True, kw_only=True):
    """Where the spans of sampled messages go (O3)."""

    endpoint: Collector | None = None
    """A collector that takes OTLP over HTTP; None: no spans are made."""
    service: Text = "fumarole"
    """The name of the service in each span."""
    headers_file: FilePath | None = None
    """Lines `Name: value` that go with each request, for collectors that want a key."""
    authority: FilePath | None = None
    """Whose signature the certificate of an `https` collector needs; None: one that the system knows."""


class PermissionSettings(Struct, frozen=True, kw_only=True):
    """Patterns. Without `allow` everything is allowed; with an empty one, nothing. `deny` goes before `allow`."""

    allow: tuple[PatternText, ...] | None = None
    deny: tuple[PatternText, ...] = ()


class UserSettings(Struct, frozen=True, kw_only=True):
    """A user, with a password, a token or a key."""

    name: Text
    password: PasswordHash | None = None
    token: TokenDigest | None = None
    nkey: UserKey | None = None
    namespace: NamespaceName = DEFAULT
    publish: PermissionSettings = PermissionSettings()
    subscribe: PermissionSettings = PermissionSettings()
    roles: tuple[Literal["admin"], ...] = ()
    """Roles of the user: `admin` may see the state of the node (A4)."""
    quota: Quotas = Quotas()
    """The quota of all connections of the user together (A5)."""


class BridgeSettings(Struct, frozen=True, kw_only=True):
    """A bridge between AMQP and ZeroMQ, which `fumarole bridge` runs (B1–B5)."""

    name: NamespaceName = "bridge"
    amqp: AmqpAddress = Secret("amqp://guest:guest@localhost:5672")
    router: Endpoint = "tcp://127.0.0.1:5555"
    topic_exchange: AmqpName = "amq.topic"
    topics: tuple[AmqpName, ...] = ()
    """Topics that are always bound; if there are any, clients may bind no others (B3)."""
    direct_exchange: AmqpName = "amq.direct"
    direct_queue: AmqpName | None = None
    ttl: float = 60.0
    exchange: NamespaceName | None = None
    """The namespace that the topic exchange is joined with."""
    servers: BrokerAddresses = Secret("nats://127.0.0.1:4222")
    curve_key: FilePath | None = None
    curve_clients: FilePath | None = None
    payload: Size = 1 * MIB
    waiting: int = 1_000
    topics_per_client: int = 1_024
    routes: int = 1_000_000


class BrokerSettings(Struct, frozen=True, kw_only=True):
    """One broker's settings, but for those of its doors."""

    if TYPE_CHECKING:
        doors: DoorAddresses = DoorAddresses()

    data: FilePath = Path("fumarole-data")
    allowed_namespaces: tuple[NamespaceName, ...] | None = None
    """None: the first use of a namespace creates it (N3)."""
    grammar: Grammar = Grammar.STRICT
    """The grammar of namespaces without one of their own (T1, T2)."""
    limits: Limits = Limits()
    tls: Tls | None = None
    node: NodeName | None = None
    """The name of this node; None: one is made up."""
    cluster: ListenAddress | None = None
    """The listening address for other nodes; None: there is no cluster."""
    peer: tuple[ListenAddress, ...] = ()
    """Nodes to join; one is enough."""
    workers: Workers = 1
    """Processes that share the doors; 0: one for each core."""
    links: Links = Links()
    log: Log = Log()
    traces: Traces = Traces()
    namespaces: Mapping[NamespaceName, NamespaceRules] = {}
    users: tuple[UserSettings, ...] | None = None
    """None: authentication is off. Empty: it is on, and no client gets in."""
    bridges: tuple[BridgeSettings, ...] = ()

    def door(self, name: str) -> Any:
        """The settings of the door of this name, of the door's own type."""
        return getattr(self, name, None) or DOORS[name].settings()


WITH_SETTINGS: Final = [each for each in DOORS.values() if each.settings is not NoSettings]
"""Doors that have a table of their own."""

if TYPE_CHECKING:
    Settings = BrokerSettings
else:
    Settings = defstruct(
        "Settings",
        [("doors", Doors, StandardDoors()), *((each.name, each.settings, each.settings()) for each in WITH_SETTINGS)],
        bases=(BrokerSettings,),
        frozen=True,
        kw_only=True,
    )


BYTES_OF_QUOTAS: Final = dict.fromkeys(("metadata_bytes", "retained_bytes", "last_bytes", "bytes_per_second"), Bytes)
DOOR_KINDS: Final[Mapping[str, object]] = {"namespace": NamespaceName, "max_qos": Qos}
"""The kinds of those settings of doors that are more than a number or a time."""

FIELD_KINDS: Final[Mapping[type, Mapping[str, object]]] = {
    Limits: {
        "control_line": LineSize,
        "payload": Size,
        "outbox": Size,
        "metadata_bytes": Size,
        "msgpack_value": Size,
        "query_length": Size,
        "query_depth": QueryDepth,
        "query_pattern": Size,
        "memory": Bytes,
    },
    Quotas: BYTES_OF_QUOTAS,
    NamespaceQuotas: BYTES_OF_QUOTAS,
    NamespaceRules: {"outbox": Size, "presence_grace": Grace},
    **{
        each.settings: {name: kind for name, kind in DOOR_KINDS.items() if hasattr(each.settings, name)}
        for each in WITH_SETTINGS
    },
    HttpSettings: {
        "origins": tuple[Text, ...],
        "hosts": tuple[Text, ...],
        "off": tuple[Literal["console", "metrics", "monitoring", "openapi", "nats", "mqtt"], ...],
    },
}
"""Classes of the inner layers know no kinds. These are their sizes; other integers are counts, floats are seconds."""
