"""Commands that look at a broker and what it knows: `stats`, `producers`, `producer forget`, `query explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.access import DEFAULT_SERVERS, Access, Servers, TlsAuthority, TlsCertificate, TlsKey
from fumarole.cli.terminal import finite, run


def stats(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, with rates, until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option(callback=finite, min=0.1, metavar="SECONDS", help="Between two looks.")
    ] = 1.0,
    consumers: Annotated[bool, typer.Option("--consumers", "-c", help="Also the consumers that lost most.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per look, for scripts.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Show what the broker counts in your namespace."""
    from fumarole.cli.stats import show_counters

    access = Access(servers, tls_authority, tls_certificate, tls_key)
    run(show_counters(access, interval if watch else None, consumers, as_json), interrupted=0)


def producers(
    where: Annotated[str, typer.Option(metavar="QUERY", help="Those that this query selects. Left out: all.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per producer, for scripts.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Show producers: what they say about themselves, and their last readings."""
    from fumarole.cli.readings import show_producers

    run(show_producers(Access(servers, tls_authority, tls_certificate, tls_key), where, as_json))


def forget(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Which one: a UUID.")],
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Forget a producer and what it said about itself."""
    from fumarole.cli import readings

    run(readings.forget(Access(servers, tls_authority, tls_certificate, tls_key), identity))


def explain(query: Annotated[str, typer.Argument(help="Such as: Kind = 'temperature' and Room like '4%'")]) -> None:
    """Show how a query is understood, and the keys it depends on. No broker is needed."""
    from fumarole.cli.readings import explained

    typer.echo(explained(query))
