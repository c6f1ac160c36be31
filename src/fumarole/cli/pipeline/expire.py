"""`fumarole pipeline expire`: delete old messages of an archive."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Namespace
from fumarole.cli.terminal import count_text, say
from fumarole.core.packages import need


@command(
    "pipeline expire",
    panel="Archive",
    examples="""
        fumarole pipeline expire --archive archive --keep 'raw 30 days'
        fumarole pipeline expire --archive archive --out tables --keep 'raw 30 days' --yes
    """,
)
def expire(
    archive: Archive,
    keep: Annotated[str, typer.Option(metavar="RULE", help="The time for which messages are kept: 'raw 30 days'.")],
    namespace: Namespace = "default",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="The output of a standing job: only messages that it has taken in are deleted."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete. Left out: list what would be deleted.")] = False,
) -> None:
    """Delete messages of an archive that are older than --keep, by the recorder's time."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.spark import told
    from fumarole.pipeline.archive.places import open_root
    from fumarole.pipeline.jobs.expiring import expire as expired
    from fumarole.pipeline.jobs.expiring import kept
    from fumarole.pipeline.jobs.log import JobError, Log

    with told():
        length = kept(keep)
        if length is None:
            say("nothing is deleted: messages are kept for ever")
            return
        taken = None
        if out is not None:
            log = Log(out)
            if log.job() is None:
                raise JobError(f"there is no output of a job at {out}")
            taken = log.state().taken
        done = expired(open_root(archive), length, namespace, taken, delete=yes)
        became = "deleted" if yes else "would be deleted; --yes deletes"
        say(f"{count_text(done.files, 'file')}, {count_text(done.rows, 'message')}, {done.bytes:,} bytes: {became}")
        if done.waiting:
            say(f"{count_text(done.waiting, 'file')} more: damaged, or not taken in by the standing job yet")
