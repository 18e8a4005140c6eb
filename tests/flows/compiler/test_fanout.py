"""Aggregations, one by one."""

from typing import Any

import pytest

from flows.compiler import FanIn, FanOut
from flows.compiler.fanout import CannotAggregate, Expansion, aggregate
from tests.flows.compiler.support import BOOM

OUTPUTS = [{"n": 1, "l": [1], "flag": True, "t": "x"}, {"n": 2.5, "m": 1, "l": [2, 3], "k": []}]


def expansion(outputs: list[Any]) -> Expansion:
    made = Expansion(FanOut([], "all"), "each", len(outputs) + 1, keys={len(outputs): "broken"})
    made.succeeded = dict(reversed(list(enumerate(outputs))))
    made.failed = {len(outputs): BOOM}
    return made


@pytest.mark.parametrize(
    ("aggregation", "field", "result"),
    [
        ("collect", None, {"results": OUTPUTS, "count": 2}),
        ("concat", None, {"results": [1, 2, 3], "count": 3}),
        ("concat", "l", {"results": [1, 2, 3], "count": 3}),
        ("sum", None, {"total": 4.5, "count": 2}),
        ("sum", "n", {"total": 3.5, "count": 2}),
        ("first", None, {"result": OUTPUTS[0], "count": 2}),
        ("last", None, {"result": OUTPUTS[1], "count": 2}),
    ],
)
def test_each_aggregation_gives_its_result(aggregation: Any, field: str | None, result: dict[str, Any]) -> None:
    told = {"succeeded": 2, "failed": [{"key": "broken", "index": 2, "error": "boom"}]}
    assert aggregate(FanIn("each", aggregation, field), expansion(OUTPUTS)) == result | told


@pytest.mark.parametrize(
    ("aggregation", "result"),
    [("collect", []), ("concat", []), ("sum", 0), ("first", None), ("last", None)],
)
def test_each_aggregation_of_no_items_is_empty(aggregation: Any, result: Any) -> None:
    output = aggregate(FanIn("each", aggregation), expansion([]))
    assert output["count"] == 0
    assert next(iter(output.values())) == result


def test_aggregation_skips_outputs_of_another_type() -> None:
    assert aggregate(FanIn("each", "sum"), expansion([1, 2, "x", True]))["total"] == 3
    assert aggregate(FanIn("each", "concat"), expansion([[1], 2, [3]]))["results"] == [1, 3]


@pytest.mark.parametrize(
    ("aggregation", "output"),
    [("sum", {"x": "1"}), ("sum", {"x": True}), ("sum", {}), ("sum", 5), ("concat", {"x": 1})],
)
def test_aggregating_a_missing_field_fails(aggregation: Any, output: Any) -> None:
    with pytest.raises(CannotAggregate, match="in field 'x' of every output"):
        aggregate(FanIn("each", aggregation, "x"), expansion([output]))


@pytest.mark.parametrize(
    ("tolerated", "percent", "failures", "count", "fine"),
    [
        (0, False, 0, 0, True),
        (0, False, 1, 9, False),
        (2, False, 2, 2, True),
        (5, True, 1, 20, True),
        (5, True, 1, 19, False),
        (0, True, 0, 5, True),
        (2.5, True, 1, 40, True),
        (2.5, True, 1, 39, False),
    ],
)
def test_fan_out_tolerates_failures_up_to_its_limit(
    tolerated: float, percent: bool, failures: int, count: int, fine: bool
) -> None:
    fan_out = FanOut([], "all", tolerated=tolerated, tolerated_is_percent=percent)
    assert fan_out.tolerates(failures, count) is fine


def test_unknown_aggregation_is_refused() -> None:
    nobody: Any = "nobody"
    with pytest.raises(AssertionError):
        aggregate(FanIn("each", nobody), expansion([]))
