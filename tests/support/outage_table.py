"""What outages came to: a line for each when it is over, and the table of all of them when the tests are."""

from dataclasses import astuple, dataclass

HEAD = ("outage", "n", "fenced", "parked", "tries spent", "told after s")


@dataclass(frozen=True)
class Row:
    """One outage. `fenced` and `parked` count what was healthy, `tries` what handlers and attempts were charged."""

    what: str
    n: int
    fenced: int
    parked: int
    tries: int
    told_after: float | None = None  # until readiness said so; None where it is none of a probe's business

    @property
    def cells(self) -> tuple[str, ...]:
        *counted, told_after = astuple(self)
        return (*map(str, counted), "-" if told_after is None else f"{told_after:.1f}")


ROWS: list[Row] = []


def note(row: Row) -> None:
    """Keep it for the table, and say it now: who waits sees that something goes on."""
    ROWS.append(row)
    told = ", ".join(f"{name} {cell}" for name, cell in zip(HEAD[1:], row.cells[1:], strict=True))
    print(f"\n{row.what}: {told}", flush=True)  # noqa: T201


def table() -> list[str]:
    """All of them, in columns."""
    lines = [HEAD, *(row.cells for row in ROWS)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
