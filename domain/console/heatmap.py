"""The heat map of retries: a row for each node, a column for each span of time. Pure: statistics in, cells out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.contracts.statistics import Statistics

HEATS = 4
MOST_ROWS = 40


@dataclass(frozen=True)
class HeatCell:
    """How often in one span. Its heat, from 0 to 4, grows with the logarithm: a hundred retries must not hide ten."""

    at: datetime
    retries: int
    heat: int


@dataclass(frozen=True)
class HeatRow:
    workflow_id: str
    node_id: str
    retries: int
    cells: Sequence[HeatCell]


@dataclass(frozen=True)
class Heatmap:
    """The nodes with the most retries first, and the moments at which the columns begin."""

    columns: Sequence[datetime]
    rows: Sequence[HeatRow]


def heatmap(shown: Statistics) -> Heatmap:
    """The heat map of the statistics' window."""
    width = timedelta(seconds=shown.retries.cell_seconds)
    counts = {(cell.workflow_id, cell.node_id, cell.at): cell.retries for cell in shown.retries.cells}
    if not counts:
        return Heatmap((), ())
    last = max(at for _, _, at in counts)
    last += width * max(0, (shown.until - last) // width)
    first = min(at for _, _, at in counts)
    columns = [first + width * place for place in range((last - first) // width + 1)]
    most = max(counts.values())
    rows = [
        HeatRow(*node, sum(count for place, count in counts.items() if place[:2] == node), [
            HeatCell(at, retries := counts.get((*node, at), 0), heat(retries, most)) for at in columns
        ])
        for node in {place[:2] for place in counts}
    ]  # fmt: skip
    rows.sort(key=lambda row: (-row.retries, row.workflow_id, row.node_id))
    return Heatmap(columns, rows[:MOST_ROWS])


def heat(retries: int, most: int) -> int:
    """From 0 for none to 4 for the most."""
    return 0 if not retries else max(1, math.ceil(HEATS * math.log1p(retries) / math.log1p(most)))
