"""The command `bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.access import DEFAULT_SERVERS, Access, Servers, TlsAuthority, TlsCertificate, TlsKey
from fumarole.cli.terminal import finite, run


def bench(
    publishers: Annotated[int, typer.Option("--publishers", "-p", min=0, metavar="N", help="How many publish.")] = 1,
    consumers: Annotated[
        int, typer.Option("--consumers", "-c", min=0, metavar="N", help="How many receive it all.")
    ] = 1,
    size: Annotated[int, typer.Option("--size", "-s", min=0, metavar="BYTES", help="Of a payload.")] = 128,
    topics: Annotated[int, typer.Option("--topics", "-t", min=1, metavar="N", help="Different topics.")] = 100,
    duration: Annotated[
        float, typer.Option("--duration", "-d", callback=finite, min=0.1, metavar="SECONDS", help="How long.")
    ] = 5.0,
    rate: Annotated[
        float | None, typer.Option(callback=finite, min=1, metavar="N", help="Each publisher at most so many a second.")
    ] = None,
    group: Annotated[str, typer.Option("--group", "-g", metavar="NAME", help="The consumers share, as a group.")] = "",
    latency: Annotated[bool, typer.Option(help="Also measure the time from publisher to consumer.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Measure a broker with a load of publishers and consumers."""
    from fumarole.cli.bench import Load, measure

    access = Access(servers, tls_authority, tls_certificate, tls_key)
    run(measure(access, Load(publishers, consumers, size, topics, duration, rate, group), latency, as_json))
