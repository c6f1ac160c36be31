"""Addresses of brokers, as people write them.

nats://127.0.0.1:4222                  the scheme and the port may be left out: 127.0.0.1
nats://user:password@broker.example    credentials, percent-encoded where they have `@`, `:` or `/`
nats://token@broker.example            a token
tls://broker.example                   TLS, or nothing
"""

import contextlib
import ipaddress
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

from fumarole.client.errors import ServerAddressError

DEFAULT_PORT = 4222
DEFAULT_SERVER = f"nats://127.0.0.1:{DEFAULT_PORT}"
SCHEMES = ("nats", "tls")


@dataclass(frozen=True, slots=True)
class Server:
    """One address of a broker, with the credentials written into it, if any."""

    host: str
    port: int = DEFAULT_PORT
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    certified: str = ""
    """The name in its certificate, where that is not the host."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


def parse_servers(servers: str | Iterable[str]) -> list[Server]:
    """The servers of a list, or of one text with commas. Raises ServerAddressError."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    parsed = [parse_server(text.strip()) for text in texts if text.strip()]
    if not parsed:
        raise ServerAddressError(f"no server is named; expected something like {DEFAULT_SERVER}")
    return parsed


def parse_server(text: str) -> Server:
    """One server. Its credentials are never repeated in an error."""
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as a lookup does, which checks the length of each label
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in SCHEMES or not host or port == 0 or parts.path.strip("/") or parts.query or parts.fragment:
        shown = text.rpartition("@")[2]
        raise ServerAddressError(
            f"{shown!r} is not the address of a server; expected nats://HOST:PORT or tls://HOST:PORT"
        )
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    tls = parts.scheme == "tls"
    if user is not None and password is None:
        return Server(host, port or DEFAULT_PORT, tls, token=user)
    return Server(host, port or DEFAULT_PORT, tls, user=user, password=password)


class Servers:
    """The servers of a client: the given ones, and after them those that a cluster has announced.

    A node of a cluster announces the addresses of the others. Each announcement replaces the one before.
    """

    def __init__(self, given: list[Server]) -> None:
        self._given = given
        self._told: list[Server] = []

    def __len__(self) -> int:
        return len(self._given) + len(self._told)

    def in_turn(self, last: Server | None) -> list[Server]:
        """All of them in the order of attempts: the one that was connected last comes last."""
        known = [*self._given, *self._told]
        first = known.index(last) + 1 if last in known else 0
        return known[first:] + known[:first]

    def learn(self, teller: Server, addresses: object) -> None:
        """Takes the `connect_urls` of a server. An empty list is ignored: it may have lost its peers briefly."""
        if not isinstance(addresses, list) or not addresses:
            return
        places = {(each.host, each.port) for each in self._given}
        told = [teller, *(_neighbour(teller, place) for place in _places(addresses))]
        told = [each for each in dict.fromkeys(told) if (each.host, each.port) not in places]
        new = [each for each in told if each not in self._told]
        random.shuffle(new)  # the clients of a node that stops do not all go to the same one
        self._told = [each for each in self._told if each in told] + new


def _places(addresses: list[object]) -> Iterator[tuple[str, int]]:
    for address in addresses:
        with contextlib.suppress(ServerAddressError):
            server = parse_server(address if isinstance(address, str) else "")
            yield server.host, server.port


def _neighbour(teller: Server, place: tuple[str, int]) -> Server:
    """Another server of a cluster: one login for all, and one authority, whose certificates are seldom for numbers."""
    host, port = place
    name = teller.certified or teller.host
    return replace(teller, host=host, port=port, certified=name if _is_number(host) and not _is_number(name) else "")


def _is_number(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False
