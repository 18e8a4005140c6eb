"""Folds what coverage.py measured of each file into one line for each room. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

DEEPEST = 2  # flows/compiler is a room, what lies in it is its own matter


@dataclass
class Covered:
    """How much of something the tests passed through."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_taken: int = 0

    def add(self, summary: Mapping[str, int]) -> None:
        """Count one more file, in coverage.py's own words."""
        self.lines += summary["num_statements"]
        self.lines_run += summary["covered_lines"]
        self.branches += summary["num_branches"]
        self.branches_taken += summary["covered_branches"]


def room_of(file: str) -> str:
    """The folder of a file, two deep at most: a module directly in `flows/` is of `flows`."""
    return "/".join(PurePosixPath(file).parts[:-1][:DEEPEST])


def by_room(report: Mapping[str, Any]) -> dict[str, Covered]:
    """What `coverage json` tells of files, by room."""
    found: dict[str, Covered] = defaultdict(Covered)
    for file, told in report["files"].items():
        found[room_of(file)].add(told["summary"])
    return dict(sorted(found.items()))


def table(rooms: Mapping[str, Covered]) -> Iterator[str]:
    """Lines to print: of each room how many lines and branches there are, and which part of them was run."""
    total = Covered()
    yield f"{'room':<28}{'lines':>8}{'run':>8}{'branches':>11}{'taken':>8}"
    for room, covered in rooms.items():
        yield _row(room, covered)
        for name, number in vars(covered).items():
            setattr(total, name, getattr(total, name) + number)
    yield _row("all", total)


def _row(name: str, covered: Covered) -> str:
    run, taken = _share(covered.lines_run, covered.lines), _share(covered.branches_taken, covered.branches)
    return f"{name:<28}{covered.lines:>8,}{run:>8}{covered.branches:>11,}{taken:>8}"


def _share(part: int, whole: int) -> str:
    """Rounded down: only all of it is 100 %."""
    return f"{100 * part // whole} %" if whole else "-"
