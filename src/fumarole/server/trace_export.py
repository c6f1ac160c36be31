"""Sends the spans of a node to a collector, over OTLP/HTTP (O3).

Once a second the spans that wait go out in requests of some hundreds, each on a connection of its own. A collector that
is away, or has too much to do, is asked again later, at most a minute apart. Meanwhile spans wait in the tracer, which
drops those that find no room. Nothing waits for a collector, neither a message nor a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import Final
from urllib.parse import urlsplit

from fumarole import __version__
from fumarole.config.consistency import header_lines
from fumarole.config.settings import Traces
from fumarole.doors.log_limiter import LogLimiter
from fumarole.exchange.tracer import Tracer
from fumarole.protocols import otlp
from fumarole.server.reach import is_local

log = logging.getLogger(__name__)

EVERY: Final = 1.0
"""Seconds between two looks at the spans that wait."""
SPANS_OF_A_REQUEST: Final = 512
ENCODED_AT_ONCE: Final = 20
"""Spans; the loop has other work to do in between."""
TIMEOUT: Final = 10.0
MOST_PAUSE: Final = 60.0
MOST_ANSWER: Final = 64 * 1024
TRY_LATER: Final = frozenset({429, 502, 503, 504})
"""Statuses after which OTLP asks for another try."""


class CollectorError(Exception):
    """The collector has not taken the spans, and may later."""


class TraceExport:
    """`start`, then `close`: the last spans go out then, if the collector takes them at once."""

    def __init__(self, settings: Traces, tracer: Tracer, every: float = EVERY) -> None:
        assert settings.endpoint is not None
        self._url = urlsplit(settings.endpoint)
        self._tracer = tracer
        self._every = every
        self._fields = [] if settings.headers_file is None else header_lines(settings.headers_file)
        self._ssl = ssl.create_default_context(cafile=settings.authority) if self._url.scheme == "https" else None
        self._resource = (("service.name", settings.service), ("service.instance.id", tracer.node))
        self._limited = LogLimiter(log)
        self._task: asyncio.Task[None] | None = None
        self._encoded: list[bytes] = []
        """The spans of a request that is under way or to be repeated."""

    def start(self) -> None:
        host = self._url.hostname or ""
        if self._ssl is None and not is_local(host):
            log.warning("spans go to %s without encryption: an https address of the collector is better", host)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with contextlib.suppress(CollectorError):
                async with asyncio.timeout(self._every):
                    await self._send_all()

    async def _run(self) -> None:
        pause = self._every
        while True:
            await asyncio.sleep(pause)
            try:
                await self._send_all()
                pause = self._every
            except CollectorError as error:
                self._limited("spans wait, because the collector does not take them: %s", error)
                pause = min(2 * pause, MOST_PAUSE)

    async def _send_all(self) -> None:
        """Every span that waits. Raises CollectorError."""
        while self._tracer.waiting or self._encoded:
            if not self._encoded:
                spans = self._tracer.take(SPANS_OF_A_REQUEST)
                for at in range(0, len(spans), ENCODED_AT_ONCE):
                    self._encoded += map(otlp.span_field, spans[at : at + ENCODED_AT_ONCE])
                    await asyncio.sleep(0)
            await self._send()

    async def _send(self) -> None:
        """One request. Raises CollectorError where it may be repeated."""
        body = otlp.request(self._resource, __version__, self._encoded)
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await self._post(body)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise CollectorError(str(error) or type(error).__name__) from None
        if status in TRY_LATER:
            raise CollectorError(f"it answered {status}")
        count, self._encoded = len(self._encoded), []
        if 200 <= status < 300:
            self._tracer.exported += count
        else:
            self._tracer.dropped += count
            self._limited("spans dropped, because the collector answered %d", status)

    async def _post(self, body: bytes) -> int:
        """The status of the answer."""
        url = self._url
        host, port = url.hostname or "", url.port or (443 if self._ssl else 80)
        reader, writer = await asyncio.open_connection(host, port, ssl=self._ssl, limit=MOST_ANSWER)
        try:
            path = url.path + (f"?{url.query}" if url.query else "")
            fields = [
                ("Host", url.netloc),
                ("Content-Type", otlp.CONTENT_TYPE),
                ("Content-Length", str(len(body))),
                ("User-Agent", f"fumarole/{__version__}"),
                ("Connection", "close"),
                *self._fields,
            ]
            head = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
            writer.write("\r\n".join([*head, "", ""]).encode() + body)
            await writer.drain()
            first = await reader.readuntil(b"\r\n")
            version, _, rest = first.partition(b" ")
            status = rest[:3]
            if not version.startswith(b"HTTP/1.") or not status.isdigit() or len(status) != 3:
                raise ValueError("it does not speak HTTP/1.1")
            await reader.read(MOST_ANSWER)
            return int(status)
        finally:
            writer.close()
