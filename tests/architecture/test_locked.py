"""Images install what deployments/locked names, file by file: known versions, known content, nothing else."""

import re
from pathlib import Path
from platform import python_version

import pytest
from packaging.markers import Marker

from deployments.lock import EXTRAS, LOCKED, NEWEST, closure, is_asked, merged, packages, pinned, read, text
from tests.architecture.test_extras import REPOSITORY, ROOMS

OLD, NEW, OTHER = (f"sha256:{letter * 64}" for letter in "abc")


def test_every_image_has_a_lock() -> None:
    assert {path.stem for path in LOCKED.glob("*.txt")} == set(EXTRAS) == set(ROOMS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_lock_names_every_package_of_its_extra_as_pinned(extra: str) -> None:
    wanted = packages(extra, pinned())
    assert {"hatchling", "pydantic"} <= set(wanted)
    locked = {name: version for name, (version, _) in read(LOCKED / f"{extra}.txt").items()}
    assert locked == wanted, "run `make lock` and commit what it writes"


def test_every_package_that_the_extras_bring_is_pinned() -> None:
    brought = set[str]().union(*map(closure, EXTRAS)) & set(_installed())
    assert brought - set(pinned()) - {"cairn-platform"} == set()


def test_locks_are_of_the_newest_python_of_its_line_whichever_makes_them() -> None:
    """Debian's 3.11.2 needs a package beside that 3.11.3 and newer do not."""
    older = Marker(f'python_full_version <= "{python_version()}"')
    assert is_asked(older, "", python_version())
    assert not is_asked(older, "", NEWEST)


def _installed() -> set[str]:
    from importlib.metadata import distributions

    return {distribution.metadata["Name"].lower().replace("_", "-") for distribution in distributions()}


@pytest.mark.parametrize("path", sorted(LOCKED.glob("*.txt")), ids=lambda path: Path(path).stem)
def test_no_lock_names_an_index(path: Path) -> None:
    assert text(read(path)) == path.read_text()  # so nothing but packages and hashes
    assert "://" not in path.read_text()


@pytest.mark.parametrize(
    "line", ["a==1\n", "a --hash=" + OLD, "a==1 --hash=sha256:12", "--index-url b", "a==1 --hash=" + OLD + " -e ."]
)
def test_lock_line_without_a_package_and_hashes_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(line)
    with pytest.raises(ValueError, match="names no package with its hashes"):
        read(tmp_path / "x.txt")


def test_hashes_of_another_machine_stay_while_the_version_does() -> None:
    before = {"a": ("1", {OTHER}), "b": ("1", {OLD}), "gone": ("1", {OLD})}
    after = merged({"a": "1", "b": "2"}, {"a": NEW, "b": NEW}, before)
    assert after == {"a": ("1", {NEW, OTHER}), "b": ("2", {NEW})}


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "Dockerfile.worker"])
def test_images_install_only_locked_content(dockerfile: str) -> None:
    installs = re.findall(r"^RUN (pip .*)$", (REPOSITORY / dockerfile).read_text(), re.MULTILINE)
    known, own = installs[::2], installs[1::2]
    assert len(known) == len(own) >= 2
    for line in known:
        found = re.fullmatch(r"pip install --no-cache-dir --require-hashes -r deployments/locked/([a-z-]+)\.txt", line)
        assert found, line
        assert found[1] in EXTRAS
    assert set(own) == {"pip install --no-cache-dir --no-deps --no-build-isolation ."}
