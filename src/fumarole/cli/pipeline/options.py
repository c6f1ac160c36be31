"""Commands of the data pipeline: `record`, and `pipeline replay` and `verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.access import DEFAULT_SERVERS, Access, Servers, TlsAuthority, TlsCertificate, TlsKey
from fumarole.cli.terminal import MISUSED, fail, finite, run

Archive = Annotated[str, typer.Option("--archive", metavar="DIR", help="A folder, or a URI such as s3://bucket/path.")]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Which namespace of the archive.")]


def record(
    archive: Archive,
    topic: Annotated[str, typer.Option(metavar="PATTERN", help="What to record.")] = ">",
    where: Annotated[
        str, typer.Option(metavar="QUERY", help="Only readings of the producers that this query selects.")
    ] = "",
    group: Annotated[
        str, typer.Option("--group", "-g", metavar="NAME", help="Recorders of one group share the messages.")
    ] = "recorder",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What this recorder is called. Left out: as the machine.")
    ] = None,
    roll_bytes: Annotated[
        int, typer.Option(min=1_024, help="A file is finished when it has so many bytes.")
    ] = 33_554_432,
    roll_seconds: Annotated[
        float, typer.Option(callback=finite, min=0.1, help="Or so many seconds after its first message.")
    ] = 30.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object on stdout for each file that is sealed.")
    ] = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Record messages into an archive of Parquet files."""
    need_pipeline()
    from fumarole.cli.record import record_messages
    from fumarole.pipeline.recorder.recorder import Options
    from fumarole.pipeline.recorder.writer import Rolling

    options = Options(topic, where, group, name, Rolling(roll_bytes, roll_seconds))
    access = Access(servers, tls_authority, tls_certificate, tls_key)
    run(record_messages(access, archive, options, as_json))


def replay(
    archive: Archive,
    speed: Annotated[
        float, typer.Option(callback=finite, min=0.0, help="So many times as fast as it was; 0: as fast as possible.")
    ] = 1.0,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From here on: 2026-11-15T22:00, UTC unless it says otherwise.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this.")] = None,
    topic: Annotated[str, typer.Option(metavar="PATTERN", help="Only messages on topics of this pattern.")] = ">",
    namespace: Namespace = "default",
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Publish what was recorded again, as far apart as it was."""
    need_pipeline()
    from fumarole.cli.pipeline.replay import replay_archive
    from fumarole.pipeline.errors import TimeError
    from fumarole.pipeline.replay import Range
    from fumarole.pipeline.times import between

    try:
        wanted = Range(*between(since, until), topic)
    except TimeError as error:
        fail(str(error), MISUSED)
    run(replay_archive(Access(servers, tls_authority, tls_certificate, tls_key), archive, namespace, wanted, speed))


def verify(
    archive: Archive,
    namespace: Namespace = "default",
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move files that are damaged or foreign to `_aside`.")
    ] = False,
) -> None:
    """Read all of an archive, and check that it has everything it says it has, and no holes."""
    need_pipeline()
    from fumarole.cli.pipeline.verify import verify_archive

    verify_archive(archive, namespace, set_aside)


def need_pipeline(*packages: str) -> None:
    """Ends the command where packages of the pipeline are not installed, these or those that all of it needs."""
    try:
        from fumarole.pipeline import need

        need(*packages)
    except ImportError as error:
        fail(str(error), MISUSED)
