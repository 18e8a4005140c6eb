"""The graph of a run's nodes and how far each is. Pure: stages in, boxes and lines out; a page draws them."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.contracts.records import Stage
from flows.compiler.layers import Spot, laid_out

BOX_WIDTH, BOX_HEIGHT = 172, 44
GAP_X, GAP_Y, MARGIN = 40, 16, 8
LONGEST_NAME = 21


@dataclass(frozen=True)
class Box:
    """One node, at its upper left corner. `fraction` is how much of it is done."""

    id: str
    name: str
    state: str
    note: str
    fraction: float
    x: int
    y: int
    is_stack: bool


@dataclass(frozen=True)
class RunGraph:
    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[str]


def run_graph(stages: Sequence[Stage]) -> RunGraph:
    """The nodes in columns from left to right. Stages come in an order in which each is behind its dependencies."""
    layout = laid_out({stage.id: stage.dependencies for stage in stages})
    boxes = {stage.id: _box(stage, layout.spots[stage.id]) for stage in stages}
    lines = [_line(boxes[name], boxes[stage.id]) for stage in stages for name in stage.dependencies if name in boxes]
    width = 2 * MARGIN + layout.layers * (BOX_WIDTH + GAP_X) - GAP_X
    return RunGraph(width, 2 * MARGIN + layout.longest * (BOX_HEIGHT + GAP_Y) - GAP_Y, list(boxes.values()), lines)


def _box(stage: Stage, spot: Spot) -> Box:
    x = MARGIN + spot.layer * (BOX_WIDTH + GAP_X)
    y = MARGIN + int(spot.place * (BOX_HEIGHT + GAP_Y))
    name = stage.id if len(stage.id) <= LONGEST_NAME else stage.id[: LONGEST_NAME - 1] + "…"
    return Box(stage.id, name, stage.status, note(stage), progress(stage), x, y, stage.type == "fan_out")


def note(stage: Stage) -> str:
    """Say in a few words how far the node is."""
    if stage.items_total:
        failed = f", {stage.items_failed} failed" if stage.items_failed else ""
        return f"{stage.items_done or 0} of {stage.items_total}{failed}"
    if stage.status == "running" and stage.fraction:
        return f"{stage.fraction:.0%}"
    return stage.status.replace("_", " ")


def progress(stage: Stage) -> float:
    """Return how much of the node is done, from 0 to 1."""
    if stage.status == "completed":
        return 1.0
    if stage.items_total:
        return min(1.0, ((stage.items_done or 0) + (stage.items_failed or 0)) / stage.items_total)
    return min(1.0, max(0.0, stage.fraction or 0.0))


def _line(before: Box, after: Box) -> str:
    """A curve from the right side of one box to the left side of the other."""
    x1, y1 = before.x + BOX_WIDTH, before.y + BOX_HEIGHT // 2
    x2, y2 = after.x, after.y + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
