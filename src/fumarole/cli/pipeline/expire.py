"""`fumarole pipeline expire`: delete old messages and rollups, or all data of one producer."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Archive, Namespace
from fumarole.cli.terminal import MISUSED, count_text, fail, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from fumarole.pipeline.archive.places import Root
    from fumarole.pipeline.jobs.log import Log


@command(
    "pipeline expire",
    panel="Archive",
    examples="""
        fumarole pipeline expire --archive archive --keep 'raw 30 days'
        fumarole pipeline expire --archive archive --out tables --keep 'raw 30 days, 1m 1 year, 1h forever' --yes
        fumarole pipeline expire --archive archive --out tables --producer 6f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60 --yes
    """,
)
def expire(
    archive: Archive,
    *,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="RULES", help="The time for which each tier is kept: 'raw 30 days, 1m 1 year, 1h forever'."
        ),
    ] = None,
    producer: Annotated[
        str | None, typer.Option(metavar="UUID", help="Delete all data of this producer, whatever its age.")
    ] = None,
    namespace: Namespace = "default",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="The output of a standing job: its tables too, and only messages that it has taken in are deleted.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete. Left out: list what would be deleted.")] = False,
) -> None:
    """Delete messages and rollups that are older than --keep, or all data of one producer."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.spark import told
    from fumarole.pipeline.archive.places import open_root
    from fumarole.pipeline.jobs.expiring import kept
    from fumarole.pipeline.jobs.log import JobError, Log
    from fumarole.pipeline.jobs.standing import alone

    if (keep is None) == (producer is None):
        fail("give --keep RULES, or --producer UUID", MISUSED)
    with told():
        rules = {} if keep is None else kept(keep)
        log = None if out is None else Log(out)
        if log is not None and log.job() is None:
            raise JobError(f"there is no output of a job at {out}")
        with nullcontext() if out is None or not yes else alone(out):
            root = open_root(archive)
            if producer is None:
                _by_age(root, namespace, log, rules, yes)
            else:
                _of_producer(root, namespace, log, producer, yes)
            if yes and root.exists(namespace, "_delta_log"):
                from fumarole.cli.pipeline.compact import publish_archive

                publish_archive(root, namespace)


def _by_age(root: Root, namespace: str, log: Log | None, rules: Mapping[str, timedelta | None], yes: bool) -> None:
    from fumarole.pipeline.jobs.expiring import RAW
    from fumarole.pipeline.jobs.expiring import expire as expired
    from fumarole.pipeline.jobs.log import JobError
    from fumarole.pipeline.jobs.table_files import expire_tables

    became = _became(yes)
    tiers = [tier for tier in rules if tier != RAW]
    if log is None and tiers:
        raise JobError(f"{tiers[0]} is a table of a standing job; --out says where its output is")
    state = None if log is None else log.state()
    if log is not None and state is not None:
        for table, files in expire_tables(log, state, rules, datetime.now(UTC), delete=yes).items():
            say(f"{table}: {count_text(files, 'file')}: {became}")
    length = rules.get(RAW)
    if length is None:
        say("archive: messages are kept for ever")
        return
    done = expired(root, length, namespace, None if state is None else state.taken, delete=yes)
    counted = f"{count_text(done.files, 'file')}, {count_text(done.rows, 'message')}, {done.bytes:,} bytes"
    say(f"archive: {counted}: {became}")
    if done.waiting:
        say(f"{count_text(done.waiting, 'file')} more: damaged, or not taken in by the standing job yet")


def _of_producer(root: Root, namespace: str, log: Log | None, producer: str, yes: bool) -> None:
    from fumarole.pipeline.jobs.erasing import erase
    from fumarole.pipeline.jobs.table_files import erase_from_tables

    became = _became(yes)
    done = erase(root, producer, namespace, delete=yes)
    counted = f"{count_text(done.messages, 'message')} and {count_text(done.changes, 'change')} of metadata"
    say(f"archive: {counted} in {count_text(done.files, 'file')}: {became}")
    if log is not None:
        for table, rows in erase_from_tables(log, log.state(), producer, delete=yes).items():
            say(f"{table}: {count_text(rows, 'row')}: {became}")


def _became(yes: bool) -> str:
    return "deleted" if yes else "would be deleted; --yes deletes"
