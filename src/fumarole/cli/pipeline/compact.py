"""`fumarole pipeline compact`: few large files in place of many small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Form, Namespace, Publish
from fumarole.cli.terminal import count_text, printable, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from fumarole.pipeline.archive.places import Root


@command(
    "pipeline compact",
    panel="Archive",
    examples="""
        fumarole pipeline compact --archive archive
        fumarole pipeline compact --archive archive --publish delta
    """,
)
def compact(
    archive: Archive,
    namespace: Namespace = "default",
    target: Annotated[int, typer.Option(min=1, metavar="MIB", help="The target size of files.")] = 128,
    settled: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Compact only hours that ended so long ago: recorders may still write to later ones.",
        ),
    ] = "10 minutes",
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="The time for which replaced files stay, for running readers.")
    ] = "1 hour",
    days_after: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Quiet hours become one file for the day when the day ended so long ago."
        ),
    ] = "2 days",
    publish: Publish = None,
) -> None:
    """Join many small files into few large ones, while readers and recorders run."""
    need("pipeline", "pyspark")
    run_compaction(archive, namespace, target, settled, grace, days_after, publish)


def run_compaction(
    archive: str,
    namespace: str,
    target: int,
    settled: str,
    grace: str,
    days_after: str,
    publish: Form | None = None,
) -> None:
    """Prints the result for each group of files, and the files that could not be read."""
    from fumarole.cli.pipeline.spark import told
    from fumarole.pipeline.archive.places import open_root
    from fumarole.pipeline.jobs.compacting import DamagedError, compact, sweep
    from fumarole.pipeline.times import duration

    with told():
        root = open_root(archive)
        files = made = 0
        damaged: DamagedError | None = None
        try:
            ended, days = duration(settled), duration(days_after)
            for step in compact(root, namespace, target=target << 20, settled=ended, days_after=days):
                became = f"{step.before:,} bytes, now {step.after:,}"
                say(f"{printable(step.path)}: {count_text(step.rows, 'row')} of {step.files:,} files, {became}")
                files, made = files + step.files, made + 1
        except DamagedError as error:
            damaged = error
        if publish is not None:  # before files are deleted, so that the table names none that is not there
            publish_archive(root, namespace)
        swept = sweep(root, namespace, grace=duration(grace))
        say(f"{files:,} files became {made:,}; {swept:,} that were replaced before have been deleted")
        if damaged is not None:
            raise damaged


def publish_archive(root: Root, namespace: str) -> None:
    """Prints the change of the table."""
    from fumarole.pipeline.archive.as_delta import publish

    changed = publish(root, namespace)
    what = f"{changed.added:,} files added, {changed.removed:,} removed"
    say(f"published as a Delta table at {root.uri(namespace)}: {what}")
