"""Options that commands share: servers and TLS, the form of the output, headers, groups."""

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

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, for scripts.")]
AsJsonObject = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
Raw = Annotated[bool, typer.Option("--raw", help="Payloads only, as they are.")]
Group = Annotated[str, typer.Option("--group", "-g", metavar="NAME", help="Share the messages with this group.")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME:VALUE", help="A header; may be repeated.")
]


@dataclass(frozen=True, slots=True)
class Access:
    """The servers, and the TLS files for their certificates and the client's own."""

    servers: Annotated[
        str,
        typer.Option(
            envvar="FUMAROLE_SERVERS",
            metavar="URL,…",
            help="Brokers, tried in turn: nats://[USER:PASSWORD@|TOKEN@]HOST:PORT, or tls://…",
            rich_help_panel=PANEL,
        ),
    ] = DEFAULT_SERVERS
    tls_authority: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The authority that signs the servers' certificates.", rich_help_panel=PANEL),
    ] = None
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This client's certificate.", rich_help_panel=PANEL)
    ] = None
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.", rich_help_panel=PANEL)] = None

    def as_texts(self) -> list[str | None]:
        """The options as texts, for another process."""
        files = (self.tls_authority, self.tls_certificate, self.tls_key)
        return [self.servers, *(None if file is None else str(file) for file in files)]

    @classmethod
    def from_texts(cls, texts: list[str | None]) -> Access:
        """The options from the result of `as_texts`."""
        servers, *files = texts
        assert servers is not None
        return cls(servers, *(None if file is None else Path(file) for file in files))

    def connect(self, name: str, **options: Any) -> Opening[Client]:
        """A client of `fumarole.connect`, which prints its notices on stderr."""
        import sys

        from fumarole.client import ServerAddressError, connect

        def notice(notice: Notice) -> None:
            say(paint(printable(str(notice)), DIM, sys.stderr))

        try:
            return connect(self.servers, name=f"fumarole {name}", tls=self._tls(), **{"on_notice": notice, **options})
        except ServerAddressError as error:
            fail(str(error), MISUSED)

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_authority is None and self.tls_certificate is None:
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.tls_authority)
            if self.tls_certificate is not None:
                context.load_cert_chain(self.tls_certificate, self.tls_key)
        except OSError as error:
            fail(f"TLS authority, certificate or key not usable: {error.strerror or error}", MISUSED)
        return context


def header_pairs(texts: list[str] | None) -> list[tuple[str, str]]:
    """`Unit: celsius` as a name and a value."""
    from fumarole.core import headers

    pairs = []
    for text in texts or []:
        name, colon, value = (part.strip() for part in text.partition(":"))
        try:
            headers.build([(name, value)] if colon else [("", "")])
        except ValueError:
            fail(f"{text!r} is not a header; expected NAME:VALUE, UTF-8, no space in the name and no line end", MISUSED)
        pairs.append((name, value))
    return pairs
