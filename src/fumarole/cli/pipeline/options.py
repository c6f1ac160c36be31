"""Options that the pipeline's commands share: the part of an archive, the output of a table, where Spark runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.terminal import MISUSED, fail

if TYPE_CHECKING:
    from fumarole.core.payloads import Payloads
    from fumarole.core.rules import Rules
    from fumarole.pipeline.jobs.batch import Part

Archive = Annotated[str, typer.Option("--archive", metavar="DIR", help="A folder, or a URI such as s3://bucket/path.")]
Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="The namespace of the archive.")]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="The length of a window: 30s, 1m, 1 hour.")]


Zone = Annotated[
    str | None,
    typer.Option("--zone", metavar="NAME", help="Days and weeks by the calendar of this zone: Europe/Rome. Else UTC."),
]


class Form(StrEnum):
    """The form in which an archive is published."""

    DELTA = "delta"


Publish = Annotated[
    Form | None,
    typer.Option("--publish", metavar="FORM", help="delta: the archive is a Delta table as well, over the same files."),
]
Declared = Annotated[Path | None, typer.Option("--payloads", metavar="FILE", help="Declarations of payloads, in TOML.")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The messages of an archive that a command reads."""

    archive: Archive
    namespace: Namespace = "default"
    topic: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only messages on these topics.")] = None
    where: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY", help="Only messages of producers whose metadata matched this query at that time."
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only messages from this time on. ISO 8601; UTC without an offset."),
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then.")] = None
    payloads: Declared = None
    field: Annotated[
        str | None, typer.Option(metavar="NAME", help="The declared field that is the value. Left out: as declared.")
    ] = None
    value: Annotated[
        str | None, typer.Option(metavar="TEST", help="Only values that pass this test: '> 80', 'between 1 and 5'.")
    ] = None

    @property
    def part(self) -> Part:
        from fumarole.pipeline.jobs.batch import Part

        return Part(
            *(self.archive, self.namespace, self.topic, self.where, self.since, self.until),
            payloads=declarations(self.payloads),
            value_field=self.field,
            value=self.value,
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a table: shown, written as Parquet, or as JSON."""

    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the table to this folder, as Parquet. Left out: show it.")
    ] = None
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Rows to show.")] = 40
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Order by this column; with a - before it, the largest first.")
    ] = None
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the N largest, by --sort, or by their count.")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on stdout for each row.")] = False


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where and how Spark runs."""

    master: Annotated[
        str,
        typer.Option(metavar="URL", rich_help_panel="Spark", help="Where Spark runs: local[*], spark://HOST:PORT, …"),
    ] = "local[*]"
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", rich_help_panel="Spark", help="A setting of Spark. May be repeated."),
    ] = None


Remote = Annotated[
    str | None,
    typer.Option(metavar="URL", rich_help_panel="Spark", help="Ask a Spark Connect server: sc://HOST:15002."),
]


@dataclass(frozen=True, slots=True)
class RemoteSparkOptions(SparkOptions):
    """The same, for commands that a Spark Connect server may run."""

    remote: Remote = None


@dataclass(frozen=True, slots=True)
class WarmSparkOptions(SparkOptions):
    """The same, for commands that the warm session may run."""

    cold: Annotated[
        bool,
        typer.Option("--cold", rich_help_panel="Spark", help="Start Spark for this command alone; no warm session."),
    ] = False
    remote: Remote = None


def declarations(file: Path | None) -> Payloads:
    """The declarations of a file. A mistake in it ends the command, with its line."""
    from fumarole.config.load import ConfigurationError
    from fumarole.config.payloads import load_payloads
    from fumarole.core.payloads import Payloads

    if file is None:
        return Payloads()
    try:
        found = load_payloads(file)
    except ConfigurationError as error:
        fail(str(error), MISUSED)
    if not found.declared:
        fail(f"{file} declares no payloads; it has no [[payloads]]", MISUSED)
    return found


def rules_file(file: Path) -> Rules:
    """The rules of a file. A mistake in it ends the command, with its line."""
    from fumarole.config.load import ConfigurationError
    from fumarole.config.rules import load_rules

    try:
        found = load_rules(file)
    except ConfigurationError as error:
        fail(str(error), MISUSED)
    if not found.declared:
        fail(f"{file} has no rules; it has no [[rules]]", MISUSED)
    for rule in found.alarms:
        if rule.python is not None:
            _check_function(file, rule.python)
    return found


def _check_function(file: Path, name: str) -> None:
    """A function that is not there ends the command before Spark starts."""
    from fumarole.pipeline.errors import PipelineError
    from fumarole.pipeline.rules.conditions import function

    try:
        function(name)
    except PipelineError as error:
        fail(f"{file}: {error}", MISUSED)
