"""Spans in protobuf, read back by the messages that OpenTelemetry publishes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from fumarole.core.tracing import Span
from fumarole.protocols import otlp
from tests.random_examples import examples

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
time = st.integers(0, 2**63 - 1)
attributes = st.lists(st.tuples(text, st.one_of(text, st.integers(0, 2**63 - 1))), max_size=5).map(tuple)
span = st.builds(
    Span,
    name=text,
    is_taken_in=st.booleans(),
    trace=st.binary(min_size=16, max_size=16),
    span=st.binary(min_size=8, max_size=8),
    parent=st.binary(min_size=8, max_size=8),
    began=time,
    ended=time,
    attributes=attributes,
)


def pairs(fields: list[KeyValue]) -> list[tuple[str, str | int]]:
    return [(each.key, getattr(each.value, str(each.value.WhichOneof("value")))) for each in fields]


@examples(200)
@given(st.lists(span, max_size=5), attributes)
def test_a_request_says_what_the_spans_are(spans: list[Span], resource: tuple[tuple[str, str | int], ...]) -> None:
    request = ExportTraceServiceRequest.FromString(otlp.request(resource, "1.2", map(otlp.span_field, spans)))
    (of_resource,) = request.resource_spans
    (of_scope,) = of_resource.scope_spans
    assert pairs(list(of_resource.resource.attributes)) == list(resource)
    assert (of_scope.scope.name, of_scope.scope.version) == ("fumarole", "1.2")
    assert [
        Span(
            name=each.name,
            is_taken_in=each.kind == each.SPAN_KIND_CONSUMER,
            trace=each.trace_id,
            span=each.span_id,
            parent=each.parent_span_id,
            began=each.start_time_unix_nano,
            ended=each.end_time_unix_nano,
            attributes=tuple(pairs(list(each.attributes))),
        )
        for each in of_scope.spans
    ] == spans
    assert all(each.kind in (each.SPAN_KIND_CONSUMER, each.SPAN_KIND_PRODUCER) for each in of_scope.spans)
