"""`fumarole bench`: a load of publishers and consumers, each in a process of its own, and its figures."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access, AsJsonObject
from fumarole.cli.terminal import FAILED, finite, run

if TYPE_CHECKING:
    import asyncio

    from fumarole.cli.progress import Progress

LATENCY_MESSAGES = 2_000
LATENCY_SECONDS = 2.0
Report = dict[str, Any]


@command(
    "bench",
    panel="Observation",
    examples="""
        fumarole bench
        fumarole bench --publishers 2 --consumers 3 --size 16 --duration 10
        fumarole bench --rate 10000 --json
    """,
)
def bench(
    *,
    publishers: Annotated[
        int, typer.Option("--publishers", "-p", min=0, metavar="N", help="Number of publishers.")
    ] = 1,
    consumers: Annotated[int, typer.Option("--consumers", "-c", min=0, metavar="N", help="Number of consumers.")] = 1,
    size: Annotated[int, typer.Option("--size", "-s", min=0, metavar="BYTES", help="Bytes of a payload.")] = 128,
    topics: Annotated[int, typer.Option("--topics", "-t", min=1, metavar="N", help="Different topics.")] = 100,
    duration: Annotated[
        float, typer.Option("--duration", "-d", callback=finite, min=0.1, metavar="SECONDS", help="How long.")
    ] = 5.0,
    rate: Annotated[
        float | None,
        typer.Option(callback=finite, min=1, metavar="N", help="Messages a second of each publisher, at most."),
    ] = None,
    group: Annotated[
        str, typer.Option("--group", "-g", metavar="NAME", help="The consumers form a group and share the messages.")
    ] = "",
    latency: Annotated[bool, typer.Option(help="Also measure the time from publisher to consumer.")] = True,
    as_json: AsJsonObject = False,
    access: Access,
) -> None:
    """Measure a broker with a load of publishers and consumers."""
    run(measure(access, Load(publishers, consumers, size, topics, duration, rate, group), latency, as_json))


@dataclass(frozen=True, slots=True)
class Load:
    """The load: publishers, consumers, sizes, rates."""

    publishers: int
    consumers: int
    size: int
    topics: int
    duration: float
    rate: float | None
    group: str


async def measure(access: Access, load: Load, with_latency: bool, as_json: bool) -> None:
    """Runs the load, and prints the figures."""
    prefix = f"bench.{secrets.token_hex(4)}"
    async with access.connect("bench"):
        pass  # without a broker, one error is better than one from each worker
    result = await _throughput(access, load, prefix)
    if with_latency:
        result["latency_microseconds"] = await _latency(access, load.size, f"{prefix}.latency")
    if as_json:
        print(json.dumps(result))  # noqa: T201
    else:
        _print(result)


class Worker:
    """A process that publishes or consumes, and reports in lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def tell(self, line: str) -> None:
        """Sends the next command."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def report(self) -> Report:
        """Its next report. A worker that has ended wrote the reason on stderr."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise typer.Exit(FAILED)
        report: Report = json.loads(line)
        return report

    async def end(self) -> None:
        """Ends it at once."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def _workers(plans: list[Report]) -> AsyncIterator[list[Worker]]:
    """Workers that are connected and wait to begin. At the end of the block they are ended, also after an error."""
    import asyncio

    pipe = asyncio.subprocess.PIPE
    workers: list[Worker] = []
    try:
        for plan in plans:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fumarole.cli.bench_worker", stdin=pipe, stdout=pipe
            )
            workers.append(Worker(process))
            # Not as an argument: there may be a password in it.
            workers[-1].tell(json.dumps(plan))
        for worker in workers:
            await worker.report()
        yield workers
    finally:
        await asyncio.gather(*(worker.end() for worker in workers))


async def _throughput(access: Access, load: Load, prefix: str) -> Report:
    import asyncio

    from fumarole.cli.progress import Progress

    plan: Report = {**asdict(load), "access": access.as_texts(), "prefix": prefix}
    consume, publish = {**plan, "role": "consumer"}, {**plan, "role": "publisher"}
    async with _workers([consume] * load.consumers + [publish] * load.publishers) as workers:
        consumers, publishers = workers[: load.consumers], workers[load.consumers :]
        with Progress("measuring", load.duration) as progress:
            for worker in workers:
                worker.tell("go")
            clock = asyncio.create_task(_show(progress, load.duration))
            sent = [await worker.report() for worker in publishers]
            clock.cancel()
        for worker in consumers:
            worker.tell("stop")
        received = [await worker.report() for worker in consumers]
    expected = sum(each["count"] for each in sent) * (1 if load.group else load.consumers) if load.consumers else 0
    arrived = sum(each["count"] for each in received)
    return {
        "size": load.size,
        "topics": load.topics,
        "publishers": _side(sent, load.size),
        "consumers": _side(received, load.size),
        "lost": expected - arrived,
        "lost_share": round((expected - arrived) / expected, 6) if expected else 0.0,
    }


def _side(reports: list[Report], size: int) -> Report:
    rates = [each["count"] / each["seconds"] if each["seconds"] else 0.0 for each in reports]
    return {
        "count": len(reports),
        "messages": sum(each["count"] for each in reports),
        "rate": round(sum(rates)),
        "bytes_rate": round(sum(rates) * size),
        "rates": [round(rate) for rate in rates],
    }


async def _show(progress: Progress, duration: float) -> None:
    import asyncio

    begin = time.monotonic()
    while True:
        progress.show(min(time.monotonic() - begin, duration))
        await asyncio.sleep(0.1)


async def _latency(access: Access, size: int, topic: str) -> dict[str, float]:
    """The time from `publish` to the consumer, one message at a time: microseconds by percentile."""
    taken: list[float] = []
    payload = bytes(size)
    async with (
        access.connect("bench") as publisher,
        access.connect("bench") as consumer,
        consumer.subscribe(topic) as messages,
    ):
        end = time.perf_counter() + LATENCY_SECONDS
        while len(taken) < LATENCY_MESSAGES and (begin := time.perf_counter()) < end:
            await publisher.publish(topic, payload)
            await anext(messages)
            taken.append((time.perf_counter() - begin) * 1e6)
    taken.sort()
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(taken[min(int(len(taken) * share), len(taken) - 1)], 1) for name, share in shares.items()}


def _print(result: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("", "processes", "messages", "messages/s", "MB/s"):
        table.add_column(name, justify="right" if name else "left")
    for side in ("publishers", "consumers"):
        each = result[side]
        numbers = (each["count"], each["messages"], each["rate"])
        table.add_row(side, *(f"{number:,}" for number in numbers), f"{each['bytes_rate'] / 1e6:,.1f}")
    console = Console()
    console.print(f"{result['size']} bytes, {result['topics']:,} topics", style="bold")
    console.print(table)
    if result["lost"]:
        console.print(f"lost to full outboxes: {result['lost']:,} ({result['lost_share']:.1%})", style="yellow")
    if latency := result.get("latency_microseconds"):
        texts = (f"{name} {value:,.0f}" for name, value in latency.items())
        console.print(f"latency, one message at a time, µs: {', '.join(texts)}")
