"""Where a run's nodes stand in its picture. Pure: stages in, boxes and lines out; a page draws them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from domain.contracts.records import Stage

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
class Picture:
    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[str]


def picture(stages: Sequence[Stage]) -> Picture:
    """The nodes in columns from left to right, each behind all that it depends on."""
    columns = _columns(stages)
    tallest = max((len(column) for column in columns), default=0)
    boxes: dict[str, Box] = {}
    for number, column in enumerate(columns):
        indent = (tallest - len(column)) * (BOX_HEIGHT + GAP_Y) // 2
        for place, stage in enumerate(column):
            x = MARGIN + number * (BOX_WIDTH + GAP_X)
            boxes[stage.id] = _box(stage, x, MARGIN + indent + place * (BOX_HEIGHT + GAP_Y))
    lines = [_line(boxes[name], boxes[stage.id]) for stage in stages for name in stage.dependencies if name in boxes]
    width = 2 * MARGIN + len(columns) * (BOX_WIDTH + GAP_X) - GAP_X
    return Picture(width, 2 * MARGIN + tallest * (BOX_HEIGHT + GAP_Y) - GAP_Y, list(boxes.values()), lines)


def _columns(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Stages come in an order in which each is behind its dependencies."""
    column: dict[str, int] = {}
    grouped: dict[int, list[Stage]] = defaultdict(list)
    for stage in stages:
        column[stage.id] = 1 + max((column.get(name, -1) for name in stage.dependencies), default=-1)
        grouped[column[stage.id]].append(stage)
    return [grouped[number] for number in sorted(grouped)]


def _box(stage: Stage, x: int, y: int) -> Box:
    name = stage.id if len(stage.id) <= LONGEST_NAME else stage.id[: LONGEST_NAME - 1] + "…"
    return Box(stage.id, name, stage.status, note(stage), progress(stage), x, y, stage.type == "fan_out")


def note(stage: Stage) -> str:
    """How far it is, in a few words."""
    if stage.items_total:
        failed = f", {stage.items_failed} failed" if stage.items_failed else ""
        return f"{stage.items_done or 0} of {stage.items_total}{failed}"
    if stage.status == "running" and stage.fraction:
        return f"{stage.fraction:.0%}"
    return stage.status.replace("_", " ")


def progress(stage: Stage) -> float:
    """How much of it is done, from 0 to 1."""
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
