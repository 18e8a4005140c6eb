"""What Data Factory's words and codes mean."""

from typing import Any

import pytest

from flows.handlers.adf.answers import (
    FactoryBusy,
    FactoryRefused,
    FactoryRunState,
    PipelineCancelled,
    PipelineFailed,
    ended_badly,
    newest_run_for,
    refusal,
    stage,
    wait_seconds,
)
from flows.handlers.errors import HandlerError, InvalidInput


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Queued", FactoryRunState.UNDER_WAY),
        ("InProgress", FactoryRunState.UNDER_WAY),
        ("Canceling", FactoryRunState.UNDER_WAY),
        ("Cancelling", FactoryRunState.UNDER_WAY),
        ("Succeeded", FactoryRunState.SUCCEEDED),
        ("Failed", FactoryRunState.FAILED),
        ("Cancelled", FactoryRunState.CANCELLED),
        ("Canceled", FactoryRunState.CANCELLED),
        ("Pausing", FactoryRunState.UNDER_WAY),
        (None, FactoryRunState.UNDER_WAY),
    ],
)
def test_each_pipeline_status_maps_to_its_stage(status: str | None, expected: FactoryRunState) -> None:
    assert stage({"status": status}) is expected


@pytest.mark.parametrize(
    ("status", "expected", "retryable"),
    [
        (400, InvalidInput, False),
        (401, FactoryRefused, False),
        (403, FactoryRefused, False),
        (404, FactoryRefused, False),
        (408, FactoryBusy, True),
        (409, FactoryRefused, False),
        (429, FactoryBusy, True),
        (500, FactoryBusy, True),
        (503, FactoryBusy, True),
    ],
)
@pytest.mark.parametrize("body", [{"error": {"code": "Code", "message": "Why."}}, {"error": "x"}, [], None, "<html>"])
def test_each_http_status_maps_to_its_error(
    status: int, expected: type[HandlerError], retryable: bool, body: Any
) -> None:
    error = refusal(status, body, None)
    assert type(error) is expected
    assert error.retryable is retryable
    assert ("Code: Why." if isinstance(body, dict) and isinstance(body["error"], dict) else str(status)) in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("", None), ("7", 7), ("-1", 0), ("9999", 300), ("Fri, 31 Dec", None)]
)
def test_retry_after_header_gives_the_wait(header: str | None, seconds: float | None) -> None:
    assert wait_seconds(header) == seconds


def test_a_failed_pipeline_may_be_run_again_and_a_cancelled_one_not() -> None:
    failed = ended_badly({"status": "Failed", "runId": "r", "message": "line\n" * 1000})
    assert isinstance(failed, PipelineFailed)
    assert failed.retryable
    assert len(str(failed)) < 600
    cancelled = ended_badly({"status": "Cancelled", "runId": "r"})
    assert isinstance(cancelled, PipelineCancelled)
    assert not cancelled.retryable


def test_pipeline_run_is_found_by_its_destination_unless_it_failed() -> None:
    def run(run_id: str, destination: Any, status: str = "InProgress", start: str = "2026-01-01") -> dict[str, Any]:
        return {"runId": run_id, "parameters": {"destination": destination}, "status": status, "runStart": start}

    others = [
        run("a", "other"),
        run("b", None),
        {"runId": "c"},
        run("d", "mine", "Failed"),
        run("e", "mine", "Cancelled"),
    ]
    assert newest_run_for([*others], "mine") is None
    assert newest_run_for([*others, run("f", "mine"), run("g", "mine", "Succeeded", "2026-01-02")], "mine") == "g"
