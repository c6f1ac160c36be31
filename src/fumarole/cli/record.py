"""`fumarole record`: record messages into an archive of Parquet files."""

from __future__ import annotations

import secrets
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from fumarole.cli.command import command
from fumarole.cli.options import Access
from fumarole.cli.pipeline.options import Archive, Declared, declarations
from fumarole.cli.query_mistakes import query_mistakes
from fumarole.cli.terminal import YELLOW, abandon_stdout, count_text, fail, finite, paint, printable, run, say
from fumarole.core.packages import need

if TYPE_CHECKING:
    import asyncio

    from fumarole.pipeline.archive.places import Root
    from fumarole.pipeline.archive.seals import Seal
    from fumarole.pipeline.recorder.recorder import Options, Recorder

PLAIN_INTERVAL = 10.0
LIVE_INTERVAL = 0.25
RATE_SECONDS = 3.0
"""The seconds over which a rate is measured, because messages come in bursts."""
MIB = 1 << 20


@command(
    "record",
    panel="Archive",
    examples="""
        fumarole record --archive archive
        fumarole record --archive archive --topic 'volcanoes.>' --roll-seconds 10
        fumarole record --archive s3://bucket/archive --where "Region = 'usa'" --name tokyo-1
    """,
)
def record(
    *,
    archive: Archive,
    topic: Annotated[str, typer.Option(metavar="PATTERN", help="The pattern of the topics to record.")] = ">",
    where: Annotated[
        str, typer.Option(metavar="QUERY", help="Only readings of the producers that this query selects.")
    ] = "",
    group: Annotated[
        str, typer.Option("--group", "-g", metavar="NAME", help="Recorders of one group share the messages.")
    ] = "recorder",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of this recorder. Left out: the name of the machine.")
    ] = None,
    roll_bytes: Annotated[
        int, typer.Option(min=1_024, help="A file is sealed when it has so many bytes,")
    ] = 33_554_432,
    roll_seconds: Annotated[
        float, typer.Option(callback=finite, min=0.1, help="or so many seconds after its first message.")
    ] = 30.0,
    payloads: Declared = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object on stdout for each file that is sealed.")
    ] = False,
    access: Access,
) -> None:
    """Record messages into an archive of Parquet files."""
    need("pipeline")
    from fumarole.pipeline.recorder.recorder import Options
    from fumarole.pipeline.recorder.writer import Rolling

    options = Options(topic, where, group, name, Rolling(roll_bytes, roll_seconds), declarations(payloads))
    run(record_messages(access, archive, options, as_json))


async def record_messages(access: Access, archive: str, options: Options, as_json: bool) -> None:
    """Records until SIGTERM or Ctrl-C, then seals the captured messages and ends with 0."""
    import asyncio

    import msgspec

    from fumarole.client import ClientError
    from fumarole.pipeline.archive.places import open_root

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    unsaid: OSError | None = None

    def on_seal(seal: Seal) -> None:
        nonlocal unsaid
        if as_json and unsaid is None:
            try:
                sys.stdout.write(msgspec.json.encode(seal).decode() + "\n")
                sys.stdout.flush()
            except OSError as error:
                unsaid = error
                loop.call_soon_threadsafe(stop.set)  # the archive works: seal the captured messages before the end

    root = open_root(archive)
    try:
        with query_mistakes():
            await _record(access, root, options, on_seal, stop)
    except ClientError:
        raise  # also errors of the client that are an OSError: they are no fault of the archive
    except OSError as error:
        fail(f"{root.name}: {error.strerror or error}; what was not sealed is lost")
    if unsaid is None:
        return
    abandon_stdout()
    if not isinstance(unsaid, BrokenPipeError):  # the reader of the pipe has closed it
        fail(f"stdout: {unsaid.strerror or unsaid}; what was captured is in {root.name}, and recording has ended")


async def _record(
    access: Access, root: Root, options: Options, on_seal: Callable[[Seal], None], stop: asyncio.Event
) -> None:
    import asyncio

    from fumarole.pipeline.recorder.recorder import Recorder

    async with (
        access.connect(f"record {secrets.token_hex(8)}") as client,
        Recorder.open(client, root, options, on_seal) as recorder,
    ):
        with _screen() as screen:
            showing = asyncio.create_task(_show(recorder, screen))
            try:
                await recorder.run(stop, lambda: _say_begin(recorder, options, root.name))
            finally:
                showing.cancel()
        _say_end(recorder)


def _say_begin(recorder: Recorder, options: Options, archive: str) -> None:
    recovered = recorder.recovered
    if recovered.sealed:
        say(f"sealed {count_text(len(recovered.sealed), 'file')} that an earlier recorder had finished")
    if recovered.removed:
        say(f"removed {count_text(len(recovered.removed), 'file')} that an earlier recorder had not finished")
    what = "everything" if options.topic == ">" else options.topic
    what = f"{what}{f' where {options.where}' if options.where else ''}"
    say(f"{recorder.name} records {what} into {archive}, in group {options.group}; Ctrl-C ends")


def _say_end(recorder: Recorder) -> None:
    progress = recorder.progress
    said = f"{count_text(progress.confirmed, 'message')} in {count_text(progress.files, 'file')}"
    say(f"{said}, {progress.size / MIB:,.1f} MiB")
    if progress.unfit:
        say(paint(f"{count_text(progress.unfit, 'message')} did not fit its declaration", YELLOW, sys.stderr))
    if recorder.missed:
        say(paint(f"{count_text(recorder.missed, 'message')} lost", YELLOW, sys.stderr))


class Screen(Protocol):
    """Shows the state of a recorder: a live line on a terminal, else lines in a log."""

    interval: float

    def show(self, recorder: Recorder, rate: float) -> None: ...


async def _show(recorder: Recorder, screen: Screen) -> None:
    import asyncio

    samples = deque([(time.monotonic(), 0)])
    while True:
        await asyncio.sleep(screen.interval)
        samples.append((time.monotonic(), recorder.progress.captured))
        while samples[-1][0] - samples[0][0] > RATE_SECONDS and len(samples) > 2:
            samples.popleft()
        (begin, before), (end, after) = samples[0], samples[-1]
        screen.show(recorder, (after - before) / (end - begin))


def line(recorder: Recorder, rate: float) -> str:
    """The state in one line."""
    progress = recorder.progress
    text = (
        f"{rate:,.0f} messages/s, {recorder.backlog:,} waiting, "
        f"{progress.confirmed:,} on disk in {count_text(progress.files, 'file')} ({progress.size / MIB:,.1f} MiB), "
        f"{recorder.dropped + progress.lost:,} dropped"
    )
    return f"{text}; NOTHING CAN BE WRITTEN: {printable(progress.fault)}" if progress.fault else text


class PlainLines:
    """For logs: a line every few seconds, and at once when writing begins to fail or works again."""

    interval = 1.0

    def __init__(self) -> None:
        self._next = time.monotonic() + PLAIN_INTERVAL
        self._fault = ""

    def show(self, recorder: Recorder, rate: float) -> None:
        fault = recorder.progress.fault
        if fault != self._fault or time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_INTERVAL
            self._fault = fault
            say(line(recorder, rate))


@contextmanager
def _screen() -> Iterator[Screen]:
    if not sys.stderr.isatty():
        yield PlainLines()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        class LiveLine:
            interval = LIVE_INTERVAL

            def show(self, recorder: Recorder, rate: float) -> None:
                faulty = bool(recorder.progress.fault)
                live.update(Text(line(recorder, rate), style="red" if faulty else ""), refresh=True)

        yield LiveLine()
