"""No file does harm: hundreds of damaged and hostile ones through real tries. CAIRN_HOSTILE_FILES is how many mutants.

Short form: 300 mutants through validation; what is taken, and every tenth, through the making of a COG and once more
through validation. With CAIRN_HOSTILE_FILES: that many, everything through both, twice.
"""

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flows.handlers.raster import tiff_directories
from tests.support import hostile, hostile_attacks
from tests.support.hostile import Sample
from tests.support.hostile_tries import Fate, fate_of
from tests.support.zygotes import Zygote

FULL = int(os.environ.get("CAIRN_HOSTILE_FILES", "0"))
MUTANTS = max(300, FULL)
LONGEST_SECONDS, LARGEST_MB = 10.0, 512.0
URL = "http://127.0.0.1:9/x"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zones")


@pytest.fixture(scope="module")
def corpus(root: Path) -> list[Sample]:
    secret = root / "bronze/other/secret.tif"
    return [*hostile.honest(), *hostile_attacks.attacks(secret, URL), *hostile.mutants(MUTANTS)]


@pytest.fixture(scope="module")
def validated(zygote: Zygote, corpus: list[Sample], root: Path) -> list[Fate]:
    return fates(corpus, "hostile.validate", root)


def fates(samples: Iterable[Sample], handler: str, root: Path) -> list[Fate]:
    with ThreadPoolExecutor(os.cpu_count()) as several:
        return list(several.map(lambda sample: fate_of(sample, handler, root), samples))


def test_mutants_are_the_same_each_time_and_most_look_like_tiffs() -> None:
    first, second = list(hostile.mutants(MUTANTS)), list(hostile.mutants(MUTANTS))
    assert first == second
    past = sum(mutant.content[:4] in tiff_directories.FORMS for mutant in first)
    print(f"\nmutants past the magic number: {past} of {len(first)}")  # noqa: T201
    assert past >= 0.3 * len(first)


def test_every_file_gets_an_orderly_verdict_in_time_and_memory(validated: list[Fate], zygote: Zygote) -> None:
    check("validate", validated)
    assert zygote.lives()


def test_every_honest_raster_passes_validation(validated: list[Fate], corpus: list[Sample]) -> None:
    honest = {sample.name for sample in corpus if sample.honest}
    assert len(honest) >= 15
    assert [fate for fate in validated if fate.name in honest and fate.verdict != "taken"] == []


def test_repeated_validation_of_a_raster_gives_the_same_verdict(
    validated: list[Fate], corpus: list[Sample], root: Path
) -> None:
    before = {fate.name: (fate.verdict, fate.words) for fate in validated}
    again = fates(some(corpus, validated), "hostile.validate", root)
    assert [fate for fate in again if (fate.verdict, fate.words) != before[fate.name]] == []


def test_products_of_hostile_rasters_are_made_or_refused_orderly(
    validated: list[Fate], corpus: list[Sample], root: Path, zygote: Zygote
) -> None:
    made = fates(some(corpus, validated), "hostile.create_cog", root)
    check("create_cog", made)
    refused = {fate.name for fate in validated if fate.verdict == "refused"}
    assert [fate for fate in made if fate.name in refused and fate.verdict != "refused"] == []
    assert zygote.lives()


def some(corpus: list[Sample], validated: list[Fate]) -> list[Sample]:
    """All files in the full form; else every third that is taken, and every tenth of the others."""
    if FULL:
        return corpus
    taken = {fate.name for fate in validated if fate.verdict == "taken"}
    return [*[one for one in corpus if one.name in taken][::3], *[one for one in corpus if one.name not in taken][::10]]


def check(what: str, found: list[Fate]) -> None:
    """Print the figures and hold them against the limits."""
    slowest, busiest = max(fate.seconds for fate in found), max(fate.cpu_seconds for fate in found)
    largest = max(fate.peak_mb for fate in found)
    verdicts = dict(Counter(fate.verdict for fate in found))
    print(f"\n{what}: n = {len(found)}, {verdicts}, at most {slowest:.2f} s, {busiest:.2f} s of CPU, {largest:.0f} MB")  # noqa: T201
    assert [fate for fate in found if not fate.is_orderly] == []
    # By processor time, so that a busy machine fails nobody; what only waits is caught by the try's timeout.
    assert [fate for fate in found if fate.cpu_seconds > LONGEST_SECONDS] == []
    assert [fate for fate in found if fate.peak_mb > LARGEST_MB or not fate.peak_mb] == []
