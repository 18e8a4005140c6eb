"""No vector file does harm: seeded mutants of all six formats through real tries. CAIRN_HOSTILE_FILES is how many.

Short form: 60 mutants, each validated and converted, and some of them twice. With CAIRN_HOSTILE_FILES: that many, all
of them twice.
"""

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import hostile_vectors
from tests.support.hostile import Sample
from tests.support.hostile_tries import Fate, fate_of
from tests.support.zygotes import Zygote

FULL = int(os.environ.get("CAIRN_HOSTILE_FILES", "0"))
MUTANTS = max(60, FULL)
LONGEST_SECONDS, LARGEST_MB = 10.0, 512.0


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zones")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    whole = list(hostile_vectors.honest(tmp_path_factory.mktemp("honest")))
    return [*whole, *hostile_vectors.mutants(MUTANTS, whole)]


@pytest.fixture(scope="module")
def converted(zygote: Zygote, corpus: list[Sample], root: Path) -> list[Fate]:
    return fates(corpus, "hostile.vector_convert", root)


def fates(samples: Iterable[Sample], handler: str, root: Path) -> list[Fate]:
    """As many tries at once as there are processors."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return list(threads.map(lambda one: fate_of(one, handler, root, {"source_crs": "EPSG:4326"}), samples))


def test_corpus_of_one_seed_is_always_the_same(corpus: list[Sample], tmp_path: Path) -> None:
    again = list(hostile_vectors.honest(tmp_path))
    assert [one.name for one in [*again, *hostile_vectors.mutants(MUTANTS, again)]] == [one.name for one in corpus]
    assert [*again, *hostile_vectors.mutants(MUTANTS, again)] == corpus
    assert {one.ending for one in corpus if not one.honest} == {f".{ending}" for ending in hostile_vectors.ENDINGS}


def test_every_file_gets_an_orderly_verdict_in_time_and_memory(converted: list[Fate], zygote: Zygote) -> None:
    check("convert", converted)
    assert zygote.lives()


def test_honest_vector_files_pass_and_some_mutants_do_not(converted: list[Fate], corpus: list[Sample]) -> None:
    honest = {sample.name for sample in corpus if sample.honest}
    assert len(honest) == 2 * len(hostile_vectors.ENDINGS)
    assert [fate for fate in converted if fate.name in honest and fate.verdict != "taken"] == []
    assert {fate.verdict for fate in converted if fate.name not in honest} == {"taken", "refused"}


def test_validation_is_orderly_and_refuses_no_file_that_converts(
    converted: list[Fate], corpus: list[Sample], root: Path, zygote: Zygote
) -> None:
    validated = fates(corpus, "hostile.vector_validate", root)
    check("validate", validated)
    taken = {fate.name for fate in converted if fate.verdict == "taken"}
    honest = {sample.name for sample in corpus if sample.honest}
    assert [fate for fate in validated if fate.name in taken & honest and fate.verdict != "taken"] == []
    assert zygote.lives()


def test_flatgeobuf_with_negative_value_lengths_is_refused(zygote: Zygote, corpus: list[Sample], root: Path) -> None:
    """Two mutants of FlatGeobuf of which GDAL makes columns whose values have less than no bytes."""
    honest = [sample for sample in corpus if sample.honest]
    known = {12: "438-put_extreme-areas-fgb", 14: "042-put_extreme-areas-fgb"}
    found = [one for seed in known for one in hostile_vectors.mutants(439, honest, seed) if one.name == known[seed]]
    assert len(found) == len(known)
    assert {fate.verdict for fate in fates(found, "hostile.vector_convert", root)} == {"refused"}


def test_repeated_conversion_of_a_vector_file_gives_the_same_verdict(
    converted: list[Fate], corpus: list[Sample], root: Path
) -> None:
    before = {fate.name: (fate.verdict, fate.words) for fate in converted}
    again = fates(corpus if FULL else corpus[::4], "hostile.vector_convert", root)
    assert [fate for fate in again if (fate.verdict, fate.words) != before[fate.name]] == []


def check(what: str, found: list[Fate]) -> None:
    """Print the figures and hold them against the limits."""
    verdicts = dict(Counter(fate.verdict for fate in found))
    busiest, largest = max(fate.cpu_seconds for fate in found), max(fate.peak_mb for fate in found)
    print(f"\n{what}: n = {len(found)}, {verdicts}, at most {busiest:.2f} s of CPU, {largest:.0f} MB")  # noqa: T201
    assert [fate for fate in found if not fate.is_orderly] == []
    # By processor time, so that a busy machine fails nobody; what only waits is caught by the try's timeout.
    assert [fate for fate in found if fate.cpu_seconds > LONGEST_SECONDS] == []
    assert [fate for fate in found if fate.peak_mb > LARGEST_MB or not fate.peak_mb] == []
