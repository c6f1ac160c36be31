"""What the demonstration shows: a live screen on a terminal, a line a second elsewhere, and a summary at the end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fumarole.demo.desktop import open_page
from fumarole.demo.sensors import CALM, alarming

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fumarole.demo.demo import Scene

REFRESH = 0.25
BARS = "▁▂▃▄▅▆▇█"
DEFAULT_PORT = ":4222"
FIXED_ROWS = 17
"""Rows of the screen that are not readings."""


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars, the highest full, the lowest (or zero) nearly empty."""
    last = list(values)[-width:]
    if not last:
        return ""
    lowest, highest = min(last), max(last)
    span = (highest - lowest) or 1.0
    return "".join(BARS[round((value - lowest) / span * (len(BARS) - 1))] for value in last)


def bars(values: Sequence[float], width: int) -> str:
    """The same for rates: nothing is nearly empty, the highest of all is full."""
    last = list(values)[-width:]
    highest = max(values, default=0.0) or 1.0
    return "".join(BARS[round(value / highest * (len(BARS) - 1))] for value in last)


async def show(scene: Scene, stopping: asyncio.Event) -> None:
    """Until it is time to stop."""
    console = Console()
    if console.is_terminal and not console.is_dumb_terminal:
        if scene.web and scene.opens_browser:
            await asyncio.to_thread(open_page, scene.web)
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not stopping.is_set():
                live.update(picture(scene, console.width, console.height), refresh=True)
                await _pause(stopping, REFRESH)
    else:
        if scene.web:
            print(f"broker: {scene.url}, console: {scene.web}", flush=True)  # noqa: T201
        while not stopping.is_set():
            await _pause(stopping, 1.0)
            print(status_line(scene), flush=True)  # noqa: T201


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()


def status_line(scene: Scene) -> str:
    """`sensors 2,000/s, consumer 2,000/s, …`"""
    line = ", ".join(f"{flow.name} {flow.rate():,.0f}/s" for flow in scene.flows())
    return line if scene.cluster is None else f"{line} ({', '.join(scene.cluster.states())})"


def picture(scene: Scene, width: int, height: int) -> RenderableType:
    """The whole screen, for a terminal of this size."""
    what = f"  a broker on {scene.url}"
    if scene.cluster is not None:
        what = f"  {', '.join(scene.cluster.states())}: kill one and see"
    if scene.web:
        what += f"   console: {scene.web}"
    title = Text.assemble(("Fumarole", "bold"), what, ("   Ctrl-C ends it", "dim"))
    rows = max(height - FIXED_ROWS, 3)
    return Group(title, "", flows(scene, width), counts(scene), "", readings(scene, width, rows), "", hints(scene))


def flows(scene: Scene, width: int) -> RenderableType:
    """How much each part sends and receives."""
    table = Table(box=None, header_style="dim", pad_edge=False, expand=True)
    table.add_column("", style="cyan", no_wrap=True)
    table.add_column("", style="dim", no_wrap=True)
    table.add_column("messages/s", justify="right", style="bold", no_wrap=True)
    table.add_column("in all", justify="right", no_wrap=True)
    table.add_column("", style="green", no_wrap=True, ratio=1)
    for flow in scene.flows():
        line = bars(flow.rates(), max(width - 66, 8))
        what = f"publish on {len(scene.readings)} topics" if flow is scene.published else flow.what
        table.add_row(flow.name, what, f"{flow.rate():,.0f}", f"{flow.total:,}", line)
    return table


def counts(scene: Scene) -> RenderableType:
    """What the broker itself says; in a cluster, the one that the sensors are connected to."""
    if not scene.broker:
        return Text("")
    dropped = sum(scene.broker["dropped"].values())
    who = "broker" if scene.cluster is None else f"{scene.broker['node']}, where the sensors are"
    text = f"{who}: {scene.broker['received']:,} received, {scene.broker['delivered']:,} delivered, "
    return Text.assemble((text, "dim"), (f"{dropped:,} dropped", "red" if dropped else "dim"), no_wrap=True)


def readings(scene: Scene, width: int, rows: int) -> RenderableType:
    """The latest of each sensor, as many as fit."""
    table = Table(box=None, header_style="dim", pad_edge=False, expand=True)
    table.add_column("latest readings", style="cyan", no_wrap=True)
    table.add_column("°C", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, ratio=1)
    known = [topic for topic in CALM if topic in scene.readings]
    others = sorted(scene.readings.keys() - CALM.keys())
    for topic in [*known, *others][:rows]:
        values = scene.readings[topic]
        hot = alarming(topic, values[-1])
        style = "bold red" if hot else ""
        line = Text(sparkline(values, max(width - 52, 8)), style="red" if hot else "yellow")
        table.add_row(Text(topic, style=style or "cyan"), Text(f"{values[-1]:.1f}", style=style), line)
    return table


def hints(scene: Scene) -> RenderableType:
    """What to try elsewhere."""
    program = program_name()
    servers = "" if scene.url.endswith(DEFAULT_PORT) else f" --servers {scene.url}"
    look = "stats --watch" if scene.cluster is None else "cluster status"
    commands = ("sub 'volcanoes.usa.>'", """sub --where "Status = 'erupting'\"""", look, "pub volcanoes.usa.atka 99.9")
    tries = [f"{program} {command}{servers}" for command in commands]
    if scene.cluster is not None and (victim := scene.cluster.victim()) is not None:
        tries[-1] = f"kill -9 {victim}"
    lines = [Text("Try in another terminal", style="dim")]
    lines += [Text(f"  {each}", style="bold", no_wrap=True, overflow="crop") for each in tries]
    return Group(*lines)


def program_name() -> str:
    """How this program can be called: by its name, if that finds it."""
    started = Path(sys.argv[0])
    found = shutil.which("fumarole")
    if found is not None and Path(found).resolve() == started.resolve():
        return "fumarole"
    if started.name != "fumarole":
        return "fumarole"
    with contextlib.suppress(ValueError):
        return str(started.resolve().relative_to(Path.cwd()))
    return str(started)


def closing_summary(scene: Scene) -> None:
    """What became of it all."""
    first, second = (flow.total for flow in scene.members)
    lines = (
        f"published by the sensors    {scene.published.total:>12,}",
        f"received by the consumer    {scene.consumer.total:>12,}",
        f"received by the group       {first + second:>12,}  ({first:,} + {second:,})",
    )
    print("\n".join(lines), flush=True)  # noqa: T201
