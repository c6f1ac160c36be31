"""How commands reach a broker: the options they share, and the client made from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.terminal import DIM, MISUSED, fail, paint, printable, say

if TYPE_CHECKING:
    import ssl

    from fumarole.client import Client, Notice
    from fumarole.client.opening import Opening

PANEL = "Connection"
DEFAULT_SERVERS = "nats://127.0.0.1:4222"

Servers = Annotated[
    str,
    typer.Option(
        envvar="FUMAROLE_SERVERS",
        metavar="URL,…",
        help="Brokers, tried in turn: nats://[USER:PASSWORD@|TOKEN@]HOST:PORT, or tls://…",
        rich_help_panel=PANEL,
    ),
]
TlsAuthority = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Trust servers that this authority signed.", rich_help_panel=PANEL)
]
TlsCertificate = Annotated[
    Path | None, typer.Option(metavar="FILE", help="This client's certificate.", rich_help_panel=PANEL)
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.", rich_help_panel=PANEL)]


@dataclass(frozen=True, slots=True)
class Access:
    """Which brokers, and what proves that they are the right ones and we are we."""

    servers: str
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def as_texts(self) -> list[str | None]:
        """For another process."""
        files = (self.authority, self.certificate, self.key)
        return [self.servers, *(None if file is None else str(file) for file in files)]

    @classmethod
    def from_texts(cls, texts: list[str | None]) -> Access:
        """What `as_texts` gave."""
        servers, *files = texts
        assert servers is not None
        return cls(servers, *(None if file is None else Path(file) for file in files))

    def connect(self, name: str, **options: Any) -> Opening[Client]:
        """A client as `fumarole.connect` makes it; what happens to its connection is said on stderr."""
        import sys

        from fumarole.client import ServerAddressError, connect

        def notice(notice: Notice) -> None:
            say(paint(printable(str(notice)), DIM, sys.stderr))

        try:
            return connect(self.servers, name=f"fumarole {name}", tls=self._tls(), **{"on_notice": notice, **options})
        except ServerAddressError as error:
            fail(str(error), MISUSED)

    def _tls(self) -> ssl.SSLContext | None:
        if self.authority is None and self.certificate is None:
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.authority)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            fail(f"TLS authority, certificate or key not usable: {error.strerror or error}", MISUSED)
        return context
