"""Benchmarks in tests prove what they measure, not how much it is: what only steadies their figures is left out."""

import pytest

from benchmarks import _load, dispatch, workers


@pytest.fixture(autouse=True)
def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time to make thousands of tasks before the first is due, to warm up, or to spread few runs over."""
    monkeypatch.setattr(_load, "LEAD_SECONDS", 0.1)
    monkeypatch.setattr(dispatch, "WARM_UP_SECONDS", 0.5)
    monkeypatch.setattr(dispatch, "RUSH_SECONDS", 1.0)
    monkeypatch.setattr(workers, "ADVANCE_SECONDS", 0.5)
