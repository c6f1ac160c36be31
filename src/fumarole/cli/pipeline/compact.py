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
    target: Annotated[int, typer.Option(min=1, metavar="MIB", help="About how large files are to be.")] = 128,
    settled: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Only hours that ended so long ago: recorders may still add to others."),
    ] = "10 minutes",
    grace: Annotated[
        str, typer.Option(metavar="DURATION", help="How long replaced files stay, for those who read them.")
    ] = "1 hour",
    publish: Publish = None,
) -> None:
    """Make few large files of many small ones, beside readers and recorders."""
    need("pipeline", "pyspark")
    run_compaction(archive, namespace, target, settled, grace, publish)


def run_compaction(
    archive: str, namespace: str, target: int, settled: str, grace: str, publish: Form | None = None
) -> None:
    """Says what became of which files, and which could not be read."""
    from fumarole.cli.pipeline.spark import told
    from fumarole.pipeline.archive.places import open_root
    from fumarole.pipeline.jobs.compacting import DamagedError, compact, sweep
    from fumarole.pipeline.times import duration

    with told():
        root = open_root(archive)
        files = made = 0
        damaged: DamagedError | None = None
        try:
            for step in compact(root, namespace, target=target << 20, settled=duration(settled)):
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
    """Says what changed."""
    from fumarole.pipeline.archive.as_delta import publish

    changed = publish(root, namespace)
    what = f"{changed.added:,} files added, {changed.removed:,} removed"
    say(f"published as a Delta table at {root.uri(namespace)}: {what}")
