"""Options that the pipeline's commands share: which part of an archive, what becomes of a table, where Spark runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fumarole.pipeline.jobs.batch import Part

Archive = Annotated[str, typer.Option("--archive", metavar="DIR", help="A folder, or a URI such as s3://bucket/path.")]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="Which namespace of the archive.")]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="The length of a window: 30s, 1m, 1 hour.")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which messages of an archive."""

    archive: Archive
    namespace: Namespace = "default"
    topic: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only messages on these topics.")] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="Only of producers whose metadata, at that time, was like this."),
    ] = None
    since: Annotated[str | None, typer.Option(metavar="TIME", help="From then on. ISO 8601; UTC if it says none.")] = (
        None
    )
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then.")] = None

    @property
    def part(self) -> Part:
        from fumarole.pipeline.jobs.batch import Part

        return Part(self.archive, self.namespace, self.topic, self.where, self.since, self.until)


@dataclass(frozen=True, slots=True)
class Shown:
    """What becomes of a table."""

    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the table there, as Parquet. Left out: show it.")
    ] = None
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Rows to show.")] = 40
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on stdout for each row.")] = False


@dataclass(frozen=True, slots=True)
class Engine:
    """Where and how Spark runs."""

    master: Annotated[
        str,
        typer.Option(metavar="URL", rich_help_panel="Spark", help="Where Spark runs: local[*], spark://HOST:PORT, …"),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", rich_help_panel="Spark", help="A setting of Spark. May be repeated."),
    ] = None
