"""The three outcomes, for every combination of what a header can say."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from flows.handlers.raster.verdict import HeaderFacts, judge

Laws = dict[str, Callable[[HeaderFacts], bool]]
GOOD = HeaderFacts(
    dtypes=("uint16",), block_width=512, block_height=512, epsg=32633, names_crs=True, crs_given=False, is_placed=True,
    control_points=0, is_north_up=True, is_on_earth=True, nodata=0.0, has_own_mask=False,
)  # fmt: skip
CHOICES: dict[str, list[Any]] = {
    "dtypes": [("uint16",), ("float64",), ("complex64",)],
    "block_height": [512, 1024, 1025],
    "epsg": [32633, None],
    "names_crs": [True, False],
    "crs_given": [True, False],
    "is_placed": [True, False],
    "control_points": [0, 2, 3],
    "is_north_up": [True, False],
    "is_on_earth": [True, False],
    "nodata": [0.0, 0.5, None],
    "has_own_mask": [True, False],
}
# The law, written once more and without the order in which the code asks.
REJECTED: Laws = {
    "unsupported-pixels": lambda f: "complex64" in f.dtypes,
    "not-placed": lambda f: not f.is_placed and f.control_points < 3,
    "no-crs": lambda f: not f.names_crs and not f.crs_given,
    "crs-without-code": lambda f: f.names_crs and f.epsg is None,
    "off-earth": lambda f: (
        not f.is_on_earth
        and (f.is_placed or f.control_points >= 3)
        and ((f.names_crs and f.epsg is not None) or (not f.names_crs and f.crs_given))
    ),
}
REPAIRED: Laws = {
    "no-nodata": lambda f: not f.has_own_mask and (f.nodata is None or (f.nodata == 0.5 and f.dtypes != ("float64",))),
    "slow-blocks": lambda f: max(f.block_width, f.block_height) > 1024,
    "control-points": lambda f: not f.is_placed,
    "not-north-up": lambda f: f.is_placed and not f.is_north_up,
    "over-wide-pixels": lambda f: "float64" in f.dtypes,
}


def test_every_combination_of_facts_has_the_verdict_of_the_law() -> None:
    seen = set()
    for values in product(*CHOICES.values()):
        facts = replace(GOOD, **dict(zip(CHOICES, values, strict=True)))
        verdict = judge(facts)
        rejected = {code for code, holds in REJECTED.items() if holds(facts)}
        repaired = {code for code, holds in REPAIRED.items() if holds(facts)}
        assert {finding.code for finding in verdict.findings} == (rejected or repaired), facts
        assert verdict.outcome == ("reject" if rejected else "warn_and_fix" if repaired else "green"), facts
        assert (verdict.refusal() is None) == (not rejected)
        seen |= {finding.code for finding in verdict.findings}
    assert seen == REJECTED.keys() | REPAIRED.keys()


def test_every_finding_says_what_is_wrong_and_what_is_done() -> None:
    for changes in (
        {"dtypes": ("complex64",)},
        {"names_crs": False, "epsg": None},
        {"nodata": None},
        {"is_north_up": False},
    ):
        for finding in judge(replace(GOOD, **changes)).findings:
            assert len(finding.wrong) > 10
            assert finding.remedy.endswith(".")
            assert finding.sentence() == f"{finding.wrong} {finding.remedy}"


def test_refusal_names_all_its_reasons_at_once() -> None:
    refusal = judge(replace(GOOD, dtypes=("complex64",), is_placed=False, names_crs=False, epsg=None)).refusal()
    assert refusal is not None
    for words in ("complex64", "not placed on the ground", "names no CRS"):
        assert words in refusal


@pytest.mark.parametrize(
    ("dtype", "outcome"), [("uint8", "green"), ("int8", "green"), ("float32", "green"), ("float64", "warn_and_fix")]
)
def test_pixels_wider_than_measurements_need_are_mentioned(dtype: str, outcome: str) -> None:
    assert judge(replace(GOOD, dtypes=(dtype,))).outcome == outcome
