"""What a run may hand in at its end is reckoned at its start: whatever planning lets through fits."""

from typing import Any

import pytest

from domain.rules.outcomes import MOST_ARTIFACTS, artifacts_fault
from domain.rules.publication import item_id
from flows.handlers import examples
from flows.handlers.errors import InvalidInput
from flows.handlers.raster.declarations import BandStatistics
from flows.handlers.raster.limits import MAX_BANDS
from flows.handlers.raster.tiling import MOST_TILES
from flows.memory.large_values import result_fault

NO_CONTEXT: Any = None
MOST = 10_000
LONG_NUMBER = -1.2345678901234567e-100


def greetings(n: int, message: str) -> dict[str, Any]:
    """All that `hello_world` returns for this, by its handlers."""
    plan = examples.hello_plan(examples.HelloPlanParams(n=n, message=message), NO_CONTEXT)
    hellos = [(pair.first, None) for pair in plan.tasks]
    replies = [(pair.second, pair.first) for pair in plan.tasks]

    def said(speaker: int, reply_to: int | None) -> examples.HelloResult:
        params = examples.HelloParams(n=speaker, reply_to=reply_to, message=message)
        return examples.hello_world(params, NO_CONTEXT)

    summary = examples.HelloSummaryParams(
        started_at=plan.started_at,
        requested=n,
        hellos=[said(*each) for each in hellos],
        replies=[said(*each) for each in replies],
    )
    return examples.hello_summary(summary, NO_CONTEXT).model_dump()


@pytest.mark.parametrize("message", ["Hello", "", "Grüß Gott"])
def test_as_many_greetings_as_the_form_allows_can_be_returned(message: str) -> None:
    assert result_fault(greetings(MOST, message)) is None


@pytest.mark.parametrize("message", ["x" * 200, "é" * 40, "\U0001f600" * 20])
def test_greetings_that_are_more_than_a_run_returns_are_refused_before_the_first(message: str) -> None:
    """And one fewer than the refused ones fits: nothing is refused that could be returned."""
    with pytest.raises(InvalidInput, match="a run returns at most 1,000,000"):
        greetings(MOST, message)
    few, many = 1, MOST
    while many - few > 1:
        middle = (few + many) // 2
        try:
            assert result_fault(greetings(middle, message)) is None
            few = middle
        except InvalidInput:
            many = middle
    assert few > 100


def test_result_of_a_raster_in_as_many_tiles_as_are_made_can_be_returned() -> None:
    band = BandStatistics(
        dtype="float64", nodata=LONG_NUMBER, minimum=LONG_NUMBER, maximum=LONG_NUMBER, mean=LONG_NUMBER,
        stddev=LONG_NUMBER, valid_percent=LONG_NUMBER, percentile_2=LONG_NUMBER, percentile_98=LONG_NUMBER,
        scale=LONG_NUMBER, offset=LONG_NUMBER, unit="m" * 50, description="x" * 200,
    )  # fmt: skip
    whole = item_id("a" * 32, 99_999, 9_999)
    outputs = {
        "collection_id": "a" * 32,
        "item_ids": [f"{whole}-{number}_{number}" for number in range(100_000, 100_000 + MOST_TILES)],
        "bands": [band.model_dump()] * MAX_BANDS,
        "tile_count": MOST_TILES,
        "validation": {"color_interp": ["undefined"] * MAX_BANDS, "warnings": ["x" * 300] * 50},
    }
    assert result_fault(outputs) is None
    assert result_fault(outputs | {"twice": outputs}) is not None


def test_more_artifacts_than_a_run_hands_in_are_told() -> None:
    assert artifacts_fault(MOST_ARTIFACTS) is None
    assert "leaves 50,001 artifacts; at most 50,000" in (artifacts_fault(MOST_ARTIFACTS + 1) or "")
