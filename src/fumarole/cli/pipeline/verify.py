"""What `pipeline verify` does."""

from __future__ import annotations

import sys

import typer

from fumarole.cli.progress import waiting
from fumarole.cli.terminal import FAILED, GREEN, RED, count_text, fail, paint, printable, say, trouble_text
from fumarole.core.errors import FumaroleError
from fumarole.pipeline.archive.seals import sealed
from fumarole.pipeline.archive.verifying import set_aside, verify


def verify_archive(archive: str, namespace: str, aside: bool) -> None:
    """Says what is wrong, a line each, and how much there is."""
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
