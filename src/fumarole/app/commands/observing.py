"""The command `stats`."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.app.commands.access import DEFAULT_SERVERS, Access, Servers, TlsAuthority, TlsCertificate, TlsKey
from fumarole.app.commands.screen import run


def stats(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, with rates, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two looks.")] = 1.0,
    consumers: Annotated[bool, typer.Option("--consumers", "-c", help="Also the consumers that lost most.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per look, for scripts.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Show what the broker counts in your namespace."""
    from fumarole.app.commands.counting import show_counters

    access = Access(servers, tls_authority, tls_certificate, tls_key)
    run(show_counters(access, interval if watch else None, consumers, as_json), interrupted=0)
