"""`fumarole pipeline rollup`: statistics of values by windows of time."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.pipeline.options import Chosen, Every, Shown, WarmSparkOptions, Zone
from fumarole.cli.pipeline.warm import in_warm_session
from fumarole.cli.terminal import MISUSED, fail
from fumarole.core.packages import need


@command(
    "pipeline rollup",
    panel="Jobs",
    examples="""
        fumarole pipeline rollup --archive archive --every '1 minute' --topic 'volcanoes.usa.>'
        fumarole pipeline rollup --archive archive --every '1 hour' --out hourly
        fumarole pipeline rollup --archive archive --by Region --every '1 day' --zone Europe/Rome
        fumarole pipeline rollup --archive archive --payloads payloads.toml --field temperature --value '> 20'
    """,
)
@in_warm_session
def rollup(
    chosen: Chosen,
    *,
    every: Every = "1 minute",
    by: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Group by metadata keys, topic, producer, or topic[2] (a word of the topic)."
        ),
    ] = "topic,producer",
    quantiles: Annotated[str, typer.Option(metavar="NUMBERS", help="Quantiles, between 0 and 1.")] = "0.05,0.5,0.95",
    zone: Zone = None,
    shown: Shown,
    spark_options: WarmSparkOptions,
) -> None:
    """Statistics of values by windows of time: count, min, mean, max, standard deviation, quantiles."""
    need("pipeline", "pyspark")
    from fumarole.cli.pipeline.spark import told
    from fumarole.cli.pipeline.table import Table, run_batch
    from fumarole.pipeline.times import duration, zone_of
    from fumarole.pipeline.transforms.grouping import metadata_keys
    from fumarole.pipeline.transforms.rollup import columns as rollup_columns
    from fumarole.pipeline.transforms.rollup import rollup as rolled_up

    part, names, ranks = chosen.part, _names(by), _quantiles(quantiles)
    with told():  # before Spark, whose start takes a while
        duration(every)
        zone = None if zone is None else zone_of(zone)
        keys = metadata_keys(names)
        columns = rollup_columns(names, ranks)
    table = Table(
        "rollup",
        part,
        lambda spark: rolled_up(
            *(part.asked(spark), every, names, ranks, zone), changes=part.changes(spark) if keys else None
        ),
        "start",
        ["start", *names],
        columns=tuple(columns),
        zone=zone,
    )
    run_batch(spark_options, table, shown)


def _names(by: str) -> list[str]:
    return [name.strip() for name in by.split(",") if name.strip()]


def _quantiles(text: str) -> list[float]:
    try:
        found = [float(each) for each in text.split(",") if each.strip()]
    except ValueError:
        found = [-1.0]
    if not all(0 <= each <= 1 for each in found):
        fail(f"--quantiles: {text!r} is no list of numbers between 0 and 1, such as 0.5,0.99", MISUSED)
    return list(dict.fromkeys(found))
