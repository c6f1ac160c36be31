"""`fumarole pipeline demo`: the whole pipeline, from broker to report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.terminal import finite
from fumarole.core.packages import need


@command(
    "pipeline demo",
    panel="Jobs",
    examples="""
        fumarole pipeline demo --folder /tmp/volcanoes --seconds 120
    """,
)
def demo(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="The folder for all files; new or empty.")] = Path(
        "pipeline"
    ),
    seconds: Annotated[
        float, typer.Option(callback=finite, min=5, metavar="SECONDS", help="The time for which the stations publish.")
    ] = 60.0,
    rate: Annotated[float, typer.Option(callback=finite, min=1, metavar="N", help="Readings a second.")] = 2000.0,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="The port of the broker; 0 is any free port.")
    ] = 0,
) -> None:
    """Run the whole pipeline: broker, simulated stations, recorders, the standing job, and a report."""
    need("pipeline", "pyspark", "matplotlib")
    from fumarole.cli.pipeline.spark import told
    from fumarole.demo.pipeline import demonstrate
    from fumarole.pipeline.jobs.spark import check_java

    with told():
        check_java()
        demonstrate(folder, seconds, rate, port)
