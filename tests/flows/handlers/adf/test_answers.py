"""What Data Factory's words and codes mean."""

from typing import Any

import pytest

from flows.handlers.adf.answers import (
    Busy,
    FactoryRefused,
    PipelineCancelled,
    PipelineFailed,
    Stage,
    ended_badly,
    ours,
    refusal,
    stage,
    wait_seconds,
)
from flows.handlers.errors import HandlerError, InvalidInput


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Queued", Stage.UNDER_WAY),
        ("InProgress", Stage.UNDER_WAY),
        ("Canceling", Stage.UNDER_WAY),
        ("Cancelling", Stage.UNDER_WAY),
        ("Succeeded", Stage.SUCCEEDED),
        ("Failed", Stage.FAILED),
        ("Cancelled", Stage.CANCELLED),
        ("Canceled", Stage.CANCELLED),
        ("Pausing", Stage.UNDER_WAY),
        (None, Stage.UNDER_WAY),
    ],
)
def test_status_words(status: str | None, expected: Stage) -> None:
    assert stage({"status": status}) is expected


@pytest.mark.parametrize(
    ("status", "expected", "retryable"),
    [
        (400, InvalidInput, False),
        (401, FactoryRefused, False),
        (403, FactoryRefused, False),
        (404, FactoryRefused, False),
        (408, Busy, True),
        (409, FactoryRefused, False),
        (429, Busy, True),
        (500, Busy, True),
        (503, Busy, True),
    ],
)
@pytest.mark.parametrize("body", [{"error": {"code": "Code", "message": "Why."}}, {"error": "x"}, [], None, "<html>"])
def test_http_codes(status: int, expected: type[HandlerError], retryable: bool, body: Any) -> None:
    error = refusal(status, body, None)
    assert type(error) is expected
    assert error.retryable is retryable
    assert ("Code: Why." if isinstance(body, dict) and isinstance(body["error"], dict) else str(status)) in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"), [(None, None), ("", None), ("7", 7), ("-1", 0), ("9999", 300), ("Fri, 31 Dec", None)]
)
def test_how_long_we_are_asked_to_wait(header: str | None, seconds: float | None) -> None:
    assert wait_seconds(header) == seconds


def test_a_failed_pipeline_may_be_run_again_and_a_cancelled_one_not() -> None:
    failed = ended_badly({"status": "Failed", "runId": "r", "message": "line\n" * 1000})
    assert isinstance(failed, PipelineFailed)
    assert failed.retryable
    assert len(str(failed)) < 600
    cancelled = ended_badly({"status": "Cancelled", "runId": "r"})
    assert isinstance(cancelled, PipelineCancelled)
    assert not cancelled.retryable


def test_a_run_is_ours_by_its_destination_unless_it_came_to_nothing() -> None:
    def run(run_id: str, destination: Any, status: str = "InProgress", start: str = "2026-01-01") -> dict[str, Any]:
        return {"runId": run_id, "parameters": {"destination": destination}, "status": status, "runStart": start}

    others = [
        run("a", "other"),
        run("b", None),
        {"runId": "c"},
        run("d", "mine", "Failed"),
        run("e", "mine", "Cancelled"),
    ]
    assert ours([*others], "mine") is None
    assert ours([*others, run("f", "mine"), run("g", "mine", "Succeeded", "2026-01-02")], "mine") == "g"
