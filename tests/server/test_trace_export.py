"""Spans on their way to a collector that speaks OTLP/HTTP: h11 hears the requests, OpenTelemetry's messages read them (O3)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import h11
import pytest
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from fumarole.config.settings import Settings, Traces, only
from fumarole.config.values import Address
from fumarole.core import headers
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.tracer import Tracer
from fumarole.server.broker import Broker
from fumarole.server.trace_export import TraceExport
from tests.core.test_tracing import GOOD, SPAN, TRACE
from tests.exchange.test_tracer import hpub, tracer

EVERY = 0.02


class Collector:
    """Takes requests, and answers with the next of its statuses, or else with 200."""

    def __init__(self) -> None:
        self.requests: list[h11.Request] = []
        self.taken: list[ExportTraceServiceRequest] = []
        """What the answer 200 was given for."""
        self.statuses: list[int] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, body = h11.Connection(h11.SERVER), b""
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                self.requests.append(event)
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                raise AssertionError(event)
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            self.taken.append(ExportTraceServiceRequest.FromString(body))
        said = connection.send(h11.Response(status_code=status, headers=[("Content-Length", "0")]))
        writer.write((said or b"") + (connection.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        writer.close()

    def spans(self) -> list[SpanMessage]:
        return [
            span
            for request in self.taken
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def settings(self, scheme: str = "http", **more: Path) -> Traces:
        return Traces(endpoint=f"{scheme}://127.0.0.1:{self.port}/v1/traces", service="volcanoes", **more)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    await collector.open()
    yield collector
    await collector.close()


def publish(to: Tracer, count: int = 1) -> None:
    exchange = Exchange("default")
    exchange.tracer = to
    for _ in range(count):
        exchange.publish_to("a", b"", headers=headers.build([("traceparent", GOOD)]))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the server under test has no event of its own
            await asyncio.sleep(0.005)


async def test_a_message_at_a_broker_becomes_spans_at_a_collector(collector: Collector, tmp_path: Path) -> None:
    address = (Address("127.0.0.1", 0),)
    broker = Broker(Settings(data=tmp_path, node="n1", doors=only(nats=address), traces=collector.settings()))
    await broker.start()
    reader, writer = await asyncio.open_connection(*broker.doors[0].address)
    writer.write(
        b'CONNECT {"headers": true, "verbose": false}\r\nSUB > 1\r\n' + hpub("volcanoes.usa", GOOD) + b"PING\r\n"
    )
    await reader.readuntil(b"PONG\r\n")
    writer.close()
    await broker.stop(0.1)  # what still waits is sent before the process ends
    deliver, publish = collector.spans()
    assert (publish.name, publish.kind) == ("publish", SpanMessage.SPAN_KIND_CONSUMER)
    assert (deliver.name, deliver.kind) == ("deliver", SpanMessage.SPAN_KIND_PRODUCER)
    assert (publish.trace_id.hex(), publish.parent_span_id.hex()) == (TRACE, SPAN)
    assert deliver.parent_span_id == publish.span_id
    assert 1.7e18 < publish.start_time_unix_nano <= deliver.start_time_unix_nano <= publish.end_time_unix_nano
    resource = {each.key: each.value.string_value for each in collector.taken[0].resource_spans[0].resource.attributes}
    assert resource == {"service.name": "volcanoes", "service.instance.id": "n1"}
    (request,) = collector.requests
    assert (request.method, request.target) == (b"POST", b"/v1/traces")
    assert (b"content-type", b"application/x-protobuf") in list(request.headers)


async def test_without_a_collector_nobody_makes_spans(tmp_path: Path) -> None:
    broker = Broker(Settings(data=tmp_path, doors=only()))
    assert broker.node.namespaces.tracer is None
    assert broker.node.namespaces.join("lab").tracer is None


async def test_many_spans_are_several_requests(collector: Collector) -> None:
    waiting = tracer(most=2_000)
    publish(waiting, 1_200)
    export = TraceExport(collector.settings(), waiting, EVERY)
    export.start()
    await until(lambda: waiting.exported == 1_200)
    await export.close()
    assert len(collector.requests) == 3
    assert len({span.span_id for span in collector.spans()}) == 1_200


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_collector_with_too_much_to_do_is_asked_again(status: int, collector: Collector) -> None:
    waiting = tracer()
    publish(waiting)
    collector.statuses = [status, status]
    export = TraceExport(collector.settings(), waiting, EVERY)
    export.start()
    await until(lambda: waiting.exported)
    await export.close()
    assert (len(collector.requests), len(collector.spans()), waiting.dropped) == (3, 1, 0)


async def test_a_collector_that_does_not_want_them_is_not_asked_again(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = tracer()
    collector.statuses = [400]
    export = TraceExport(collector.settings(), waiting, EVERY)
    export.start()
    publish(waiting)
    await until(lambda: waiting.dropped)
    publish(waiting)
    await until(lambda: waiting.exported)
    await export.close()
    assert (len(collector.requests), waiting.dropped, waiting.exported) == (2, 1, 1)
    assert caplog.messages == ["spans dropped, because the collector answered 400"]


async def test_a_collector_that_is_away_gets_them_when_it_is_back(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    await collector.close()
    waiting = tracer(most=5)
    publish(waiting, 8)
    export = TraceExport(collector.settings(), waiting, EVERY)
    export.start()
    await until(lambda: caplog.messages)
    await collector.open()
    await until(lambda: waiting.exported)
    await export.close()
    assert (waiting.exported, waiting.dropped) == (5, 3)
    assert caplog.messages[0].startswith("spans wait, because the collector does not take them: ")


async def test_what_is_no_collector_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    waiting = tracer()
    publish(waiting)
    port = server.sockets[0].getsockname()[1]
    export = TraceExport(Traces(endpoint=f"http://127.0.0.1:{port}/v1/traces"), waiting, EVERY)
    export.start()
    await until(lambda: caplog.messages)
    await export.close()
    server.close()
    assert waiting.exported == 0


async def test_a_key_and_a_certificate(collector: Collector, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "fields").write_text("Authorization: Bearer s3cret\n\nX-Scope-OrgID: lab\n")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    await collector.close()
    await collector.open(context)
    waiting = tracer()
    publish(waiting)
    stranger = TraceExport(collector.settings("https"), waiting, EVERY)
    stranger.start()
    await until(lambda: caplog.messages)  # it has no certificate that this machine trusts
    await stranger.close()
    assert collector.requests == []
    publish(waiting)
    settings = collector.settings("https", authority=tmp_path / "ca.pem", headers_file=tmp_path / "fields")
    export = TraceExport(settings, waiting, EVERY)
    export.start()
    await until(lambda: waiting.exported)
    await export.close()
    fields = dict(collector.requests[0].headers)
    assert (fields[b"authorization"], fields[b"x-scope-orgid"]) == (b"Bearer s3cret", b"lab")
    assert not any("s3cret" in message for message in caplog.messages)


async def test_spans_that_leave_this_machine_in_the_clear_are_said_to(caplog: pytest.LogCaptureFixture) -> None:
    export = TraceExport(Traces(endpoint="http://collector.example:4318/v1/traces"), tracer(), 60.0)
    export.start()
    await export.close()
    assert "without encryption" in caplog.text
