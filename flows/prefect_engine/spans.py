"""Spans of runs, where somebody has set OpenTelemetry up; elsewhere they cost nothing."""

from contextlib import AbstractContextManager, nullcontext

from opentelemetry import trace


def current_span(span: trace.Span | None) -> AbstractContextManager[object]:
    """Make this the span that others begin in, if anybody records it. What is raised is told of by Prefect's engine."""
    if span is None or not span.is_recording():
        return nullcontext()
    return trace.use_span(span, record_exception=False, set_status_on_exception=False)
