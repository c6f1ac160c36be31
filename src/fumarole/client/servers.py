"""Where brokers are, as people write it.

nats://127.0.0.1:4222                  the scheme and the port may be left out: 127.0.0.1
nats://user:password@broker.example    credentials, percent-encoded where they have `@`, `:` or `/`
nats://token@broker.example            a token
tls://broker.example                   TLS, or nothing
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
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
