"""What a page of the console costs while 10,000 producers send 50,000 readings a second: in the browser, in the broker.

`python bench/console.py` is the load; `python bench/run.py console` measures. Chromium is driven by playwright-core, as
in the tests. The page shows a query that selects all producers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.effort import Effort
from bench.figures import Figure, within
from bench.servers import COMPILED, CannotMeasureError, Server, fumarole, settle
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "console"
SCRIPT = "load.mjs"
PRODUCERS = 10_000
ROWS = 50_000
RATE = 50_000
SECONDS = 20
CALM_SECONDS = 10
AT_ONCE = 500
"""Readings in one write."""
CLAIM = f"The console beside {PRODUCERS:,} producers and {RATE:,} readings a second"
REGIONS = ("italy", "hawaii", "iceland")


def measure(effort: Effort) -> Iterator[Figure]:
    if not (BUILD / "node_modules").exists() or shutil.which("node") is None:
        raise CannotMeasureError("the console's tests need node and playwright-core: make setup-test")
    web = free_port()
    with fumarole(COMPILED, "--http", f"127.0.0.1:{web}") as server:
        producers, seconds = effort.share(PRODUCERS), max(5, effort.share(SECONDS))
        with _load(server, producers, RATE) as sent:
            effort.tell("without a page")
            calm = _busy(server, CALM_SECONDS)
            effort.tell("with a page")
            before = server.processor_seconds(), time.monotonic()
            page = _page(web, seconds)
            watched = (server.processor_seconds() - before[0]) / (time.monotonic() - before[1])
            reached = sent()
        note = f"{reached:,.0f} readings a second were sent; without the page the broker took {calm:.0%} of a core."
        of_core = "% of a core"
        yield within(30, CLAIM, "the browser, all its processes", 100 * page["browser"], of_core, note)
        yield within(5, CLAIM, "the broker, more than without the page", 100 * max(0.0, watched - calm), of_core)
        yield within(1.1, CLAIM, "the page's memory at the end, to that at the beginning", page["growth"], "times")
    rows = effort.share(ROWS)
    with fumarole(COMPILED, "--http", f"127.0.0.1:{web}") as server, _load(server, rows, 0):
        effort.tell(f"{rows:,} rows")
        page = _page(web, 0)
        claim = f"A set of {rows:,} producers on the page"
        yield within(10.0, claim, "until all are listed", page["listed"], "s")
        yield within(100, claim, "19 of 20 frames while it scrolls come within", 1000 * page["frame"], "ms")


def _busy(server: Server, seconds: float) -> float:
    """Cores that the broker takes."""
    begin = server.processor_seconds(), time.monotonic()
    time.sleep(seconds)
    return (server.processor_seconds() - begin[0]) / (time.monotonic() - begin[1])


def _page(web: int, seconds: int) -> dict[str, float]:
    for name in (SCRIPT, "page.mjs"):
        shutil.copy(ROOT / "tests" / "integration" / "console" / name, BUILD)
    command = ["node", str(BUILD / SCRIPT), f"http://127.0.0.1:{web}", str(ROOT / "build"), str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise CannotMeasureError(f"the page could not be used: {run.stderr[-500:]}")
    found: dict[str, float] = json.loads(run.stdout)
    return found


@contextmanager
def _load(server: Server, producers: int, rate: int) -> Iterator[Callable[[], float]]:
    """Producers that are described, and send; what is yielded tells how many readings were sent in a second."""
    command = [sys.executable, __file__, str(server.port), str(producers), str(rate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdout.readline()

        def sent() -> float:
            assert load.stdin is not None
            assert load.stdout is not None
            load.stdin.close()
            return float(load.stdout.readline())

        try:
            yield sent
        finally:
            load.terminate()


def identity(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def send(port: int, producers: int, rate: int) -> None:
    """The load: descriptions first, then readings until stdin ends. Prints a line after each."""
    connection = Server("load", 0, port).connect()
    for begin in range(0, producers, AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, producers))
        connection.sendall(b"".join(_reading(number, described=True) for number in some))
        settle(connection)
    sys.stdout.write("described\n")
    sys.stdout.flush()
    if not rate:
        sys.stdin.read()
        return
    import select

    readings = [_reading(number) for number in range(producers)]
    batches = [b"".join(readings[begin : begin + AT_ONCE]) for begin in range(0, producers, AT_ONCE)]
    started, sent = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        due = (time.monotonic() - started) * rate
        if sent > due:
            time.sleep((sent - due) / rate)
        connection.sendall(batches[sent // AT_ONCE % len(batches)])
        sent += AT_ONCE
    sys.stdout.write(f"{sent / (time.monotonic() - started)}\n")


def _reading(number: int, *, described: bool = False) -> bytes:
    headers = f"NATS/1.0\r\nProducer: {identity(number)}\r\n"
    if described:
        metadata = {"Region": REGIONS[number % 3], "Kind": "so2" if number % 2 else "tilt", "Floor": number % 40}
        headers += f"Metadata: {json.dumps(metadata)}\r\n"
    block, value = f"{headers}\r\n".encode(), b"%d.5" % (number % 90)
    return b"HPUB volcanoes.%d %d %d\r\n%b%b\r\n" % (number, len(block), len(block) + len(value), block, value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("producers", type=int)
    parser.add_argument("rate", type=int)
    given = parser.parse_args()
    send(given.port, given.producers, given.rate)
