"""`fumarole pipeline verify`: check that an archive is complete and undamaged."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Namespace
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import FAILED, GREEN, RED, count_text, fail, paint, printable, say, trouble_text
from fumarole.core.packages import need


@command(
    "pipeline verify",
    panel="Archive",
    examples="""
        fumarole pipeline verify --archive archive
    """,
)
def verify(
    archive: Archive,
    namespace: Namespace = "default",
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move files that are damaged or foreign to `_aside`.")
    ] = False,
) -> None:
    """Read a whole archive, and check it against its seals: damaged, missing and foreign files, holes."""
    need("pipeline")
    verify_archive(archive, namespace, set_aside)


def verify_archive(archive: str, namespace: str, aside: bool) -> None:
    """Prints a line for each problem, and a summary."""
    from fumarole.core.errors import FumaroleError
    from fumarole.pipeline.archive.seals import sealed
    from fumarole.pipeline.archive.verifying import set_aside, verify

    try:
        files = sealed(archive, namespace)
        with waiting("reading every file"):
            problems = verify(archive, namespace)
        moved = set_aside(archive, namespace, problems) if aside else []
    except FumaroleError as error:
        fail(str(error))
    except OSError as error:
        fail(trouble_text(error))
    for problem in problems:
        typer.echo(f"{problem.fault}\t{printable(str(problem))}")
    for path in moved:
        say(f"set aside: {printable(path)}")
    rows = sum(file.rows for file in files if file.kind == "messages")
    found = f"{count_text(len(files), 'file')}, {count_text(rows, 'message')}"
    if problems:
        say(paint(f"{found}; {count_text(len(problems), 'problem')}", RED, sys.stderr))
        raise typer.Exit(FAILED)
    say(paint(f"{found}; everything is there", GREEN, sys.stderr))
