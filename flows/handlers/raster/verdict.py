"""What becomes of a raster by its header: refused, taken with repairs, or taken as it is. Pure: facts in, words out.

Every finding says what is wrong and what is done about it, in sentences for whoever sent the file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from flows.handlers.raster import grid

Outcome = Literal["reject", "warn_and_fix", "green"]
LEAST_CONTROL_POINTS = 3


class FileFinding(BaseModel):
    """One thing about the file that its sender should know."""

    code: str
    severity: Literal["reject", "fix"]
    wrong: str
    remedy: str

    def sentence(self) -> str:
        return f"{self.wrong} {self.remedy}"


@dataclass(frozen=True)
class HeaderFacts:
    """What the header says, as far as the verdict depends on it."""

    dtypes: tuple[str, ...]
    block_width: int
    block_height: int
    epsg: int | None
    names_crs: bool
    crs_given: bool
    is_placed: bool
    control_points: int
    is_north_up: bool
    is_on_earth: bool
    nodata: float | None
    has_own_mask: bool


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    findings: Sequence[FileFinding]

    def refusal(self) -> str | None:
        """Why the file is refused, or None."""
        reasons = [finding.sentence() for finding in self.findings if finding.severity == "reject"]
        return " ".join(reasons) or None


def judge(facts: HeaderFacts) -> Verdict:
    """The verdict. One reason to refuse is enough, and what would be repaired is then of no interest."""
    rejected = list(_reasons_to_refuse(facts))
    if rejected:
        return Verdict("reject", rejected)
    repaired = list(_repairs(facts))
    return Verdict("warn_and_fix" if repaired else "green", repaired)


def unsupported_pixels(dtypes: Sequence[str]) -> FileFinding | None:
    """Why pixels of these types cannot be taken, if so."""
    unknown = sorted(set(dtypes) - grid.PIXEL_TYPES)
    if not unknown:
        return None
    return _reject(
        "unsupported-pixels", f"It holds {unknown[0]} pixels.", f"Supported are {', '.join(sorted(grid.PIXEL_TYPES))}."
    )


def _reasons_to_refuse(facts: HeaderFacts) -> Iterator[FileFinding]:
    if unsupported := unsupported_pixels(facts.dtypes):
        yield unsupported
    if not facts.is_placed and facts.control_points < LEAST_CONTROL_POINTS:
        yield _reject(
            "not-placed",
            "It is not placed on the ground: it has neither an origin and pixel size "
            f"nor {LEAST_CONTROL_POINTS} ground control points.",
            "Georeference it and send it again.",
        )
    if not facts.names_crs and not facts.crs_given:
        yield _reject("no-crs", "It names no CRS.", "Write one into the file, or state it as `source_crs`.")
    elif facts.names_crs and facts.epsg is None:
        yield _reject(
            "crs-without-code", "Its CRS has no EPSG code.", "Reproject it to one that has, and send it again."
        )
    elif not facts.is_on_earth and (facts.is_placed or facts.control_points >= LEAST_CONTROL_POINTS):
        code = f" of EPSG:{facts.epsg}" if facts.epsg else ""
        yield _reject(
            "off-earth", f"Its coordinates do not fit its CRS{code}: they lie outside of the Earth.", "Check its CRS."
        )


def _repairs(facts: HeaderFacts) -> Iterator[FileFinding]:
    if grid.usable_nodata(facts.nodata, facts.dtypes[0]) is None and not facts.has_own_mask:
        yield _fix(
            "no-nodata",
            "It names no nodata value that its pixels can hold:",
            "the product gets a mask where reprojection leaves gaps.",
        )
    if max(facts.block_height, facts.block_width) > grid.BLOCK_PIXELS * 2:
        yield _fix(
            "slow-blocks",
            f"Its blocks of {facts.block_width} x {facts.block_height} pixels are slow to read:",
            "the product is tiled anew.",
        )
    if not facts.is_placed:
        yield _fix(
            "control-points",
            f"It is placed by {facts.control_points} ground control points only:",
            "the product is bent to fit them.",
        )
    elif not facts.is_north_up:
        yield _fix("not-north-up", "Its rows do not run from north to south:", "the product is turned north-up.")
    if "float64" in facts.dtypes:
        yield _fix(
            "over-wide-pixels",
            "Its pixels are float64, twice as wide as measurements need:",
            "the product keeps every digit; send float32 for half the size.",
        )


def _reject(code: str, wrong: str, remedy: str) -> FileFinding:
    return FileFinding(code=code, severity="reject", wrong=wrong, remedy=remedy)


def _fix(code: str, wrong: str, remedy: str) -> FileFinding:
    return FileFinding(code=code, severity="fix", wrong=wrong, remedy=remedy)
