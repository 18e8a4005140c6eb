"""The heat map of retries: its columns end now, its rows begin with the worst, its heat is by the logarithm."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.console.heatmap import heat, heatmap
from domain.contracts.statistics import RetryCell, RetryHeatmap, Statistics

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def shown(*cells: tuple[str, int, int]) -> Statistics:
    """Statistics with these retries: of a node, so many hours ago, so many."""
    begun = NOW.replace(minute=0)
    found = [
        RetryCell(workflow_id="w", node_id=node, at=begun - ago * HOUR, retries=retries) for node, ago, retries in cells
    ]
    told: dict[str, Any] = {"until": NOW, "retries": RetryHeatmap(cell_seconds=3600, cells=found)}
    return Statistics.model_construct(**told)


def test_columns_go_from_the_first_retry_until_now_and_rows_from_the_most() -> None:
    drawn = heatmap(shown(("a", 5, 2), ("b", 3, 10), ("a", 3, 1)))
    assert [at.hour for at in drawn.columns] == [7, 8, 9, 10, 11, 12]
    assert [(row.node_id, row.retries) for row in drawn.rows] == [("b", 10), ("a", 3)]
    assert [cell.retries for cell in drawn.rows[1].cells] == [2, 0, 1, 0, 0, 0]


def test_nothing_tried_again_is_no_map() -> None:
    assert heatmap(shown()).rows == ()


@pytest.mark.parametrize(("retries", "warmth"), [(0, 0), (1, 1), (10, 2), (100, 3), (1000, 4)])
def test_heat_grows_with_the_logarithm(retries: int, warmth: int) -> None:
    assert heat(retries, 1000) == warmth
