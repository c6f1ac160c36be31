"""`fumarole pipeline server`: start, show and stop the warm session."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import SparkOptions
from fumarole.cli.pipeline.warm import (
    NoSessionError,
    Place,
    connect,
    open_session,
    runtime_folder,
    sessions,
    stop_sessions,
)
from fumarole.cli.progress import waiting
from fumarole.cli.terminal import count_text, duration_text, fail, say


class Action(StrEnum):
    """The action on the warm session."""

    START = "start"
    STATUS = "status"
    STOP = "stop"


@command(
    "pipeline server",
    panel="Jobs",
    examples="""
        fumarole pipeline server start
        fumarole pipeline server status
        fumarole pipeline server stop
    """,
)
def server(
    action: Annotated[Action, typer.Argument(help="start, status or stop.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="status: a JSON object on stdout for each session.")] = False,
    spark_options: SparkOptions,
) -> None:
    """Start, show or stop the warm Spark session, in which commands need no start of Spark."""
    try:
        match action:
            case Action.START:
                _start(spark_options)
            case Action.STATUS:
                _show_status(as_json)
            case Action.STOP:
                say(f"{count_text(stop_sessions(runtime_folder()), 'session')} stopped")
    except NoSessionError as error:
        fail(f"the warm session: {error}")


def _start(spark_options: SparkOptions) -> None:
    from fumarole.cli.pipeline.spark import told
    from fumarole.pipeline.jobs.spark import check_java, check_master

    with told():
        check_master(spark_options.master)
        check_java()
    place = Place(spark_options.master, spark_options.conf or [])
    running = connect(place)
    if running is not None:
        running.close()
        say("it is running already")
        return
    with waiting("starting Spark"), open_session(place):
        pass
    say("started")


def _show_status(as_json: bool) -> None:
    found = sessions(runtime_folder())
    for each in found:
        if as_json:
            sys.stdout.write(json.dumps(each) + "\n")
            continue
        if each["ending"]:
            sys.stdout.write(f"process {each.get('pid', '?')}: ending\n")
            continue
        idle = "at work" if each["running"] else f"idle for {duration_text(each['idle'])}"
        if each.get("starting"):
            idle = "starting Spark"
        sys.stdout.write(
            f"process {each['pid']}, Java {each['java']}, for {duration_text(each['seconds'])}: "
            f"{count_text(each['commands'], 'command')}, {idle}\n"
        )
    if not found and not as_json:
        say("no session is running")
