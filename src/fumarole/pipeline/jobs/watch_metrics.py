"""How the live job goes, for others: in Prometheus' form over HTTP, and as messages on `_PIPELINE.metrics`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from fumarole.client import ClientError, connect

if TYPE_CHECKING:
    from fumarole.pipeline.jobs.watching import Progress

TOPIC: Final = "_PIPELINE.metrics"
COUNTERS: Final = {
    "rows": "Rows of the live source that were taken",
    "batches": "Batches that were done",
    "raised": "Alarms that were raised",
    "cleared": "Alarms that were cleared",
    "muted": "Alarms over the limit of their rule, not published",
    "late": "Readings older than the newest of their producer",
    "restarts": "Times the query was begun again",
}
GAUGES: Final = {
    "rate": ("rows_per_second", "Rows a second in the last batch"),
    "seconds": ("batch_seconds", "Seconds that the last batch took"),
    "lag": ("lag_seconds", "Seconds from what was heard last until it was done"),
    "producers": ("producers", "Producers that are remembered"),
    "state_bytes": ("state_bytes", "Bytes of what is remembered"),
}


def message(progress: Progress) -> str:
    """As JSON."""
    names = [*COUNTERS, *GAUGES]
    said: dict[str, Any] = {name: getattr(progress, name) for name in names}
    until = progress.heard_until
    return json.dumps({**said, "open": progress.open, "heard_until": until and until.isoformat()})


def text(progress: Progress) -> str:
    """In Prometheus' form."""
    lines = []
    for name, help_text in COUNTERS.items():
        metric = f"fumarole_pipeline_{name}_total"
        lines += [f"# HELP {metric} {help_text}.", f"# TYPE {metric} counter", f"{metric} {getattr(progress, name)}"]
    for name, (shown, help_text) in GAUGES.items():
        value = getattr(progress, name)
        if value is not None:
            metric = f"fumarole_pipeline_{shown}"
            lines += [f"# HELP {metric} {help_text}.", f"# TYPE {metric} gauge", f"{metric} {value}"]
    metric = "fumarole_pipeline_open_alarms"
    lines += [f"# HELP {metric} Alarms that are open, by rule.", f"# TYPE {metric} gauge"]
    lines += [f'{metric}{{rule="{rule}"}} {count}' for rule, count in progress.open.items()]
    return "\n".join(lines) + "\n"


@contextmanager
def served(progress: Progress, host: str, port: int) -> Iterator[int]:
    """At `/metrics`, on this port or any free one, which is given. Raises OSError."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = text(progress).encode() if found else b"there is /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="fumarole metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class Publisher:
    """`publish` from any thread: the newest is sent, as soon as there is a connection."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._newest: str | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="fumarole metrics publisher", daemon=True)

    @contextmanager
    def started(self) -> Iterator[Publisher]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stopping = True
            self._wake()
            self._thread.join(2.0)

    def publish(self, said: str) -> None:
        self._newest = said
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None and self._news is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._news.set)

    def _run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        while not self._stopping:
            with contextlib.suppress(ClientError, OSError):
                async with connect(self._servers, name="fumarole watch metrics") as client:
                    while not self._stopping:
                        await self._news.wait()
                        self._news.clear()
                        said, self._newest = self._newest, None
                        if said is not None:
                            await client.publish(TOPIC, said)
                            await client.flush()
            if not self._stopping:
                await asyncio.sleep(1.0)
