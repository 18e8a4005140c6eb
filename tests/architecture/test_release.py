"""A version is said in one place, and all that must follow it does: docs/how-to/release.md."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.release import faults

REPOSITORY = Path(__file__).resolve().parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.10.0 — 2026-02-01\n\n### Added\n\n## 1.9.0 — 2026-01-31\n"


def test_version_changelog_images_and_tag_agree() -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    manifest = (REPOSITORY / "deployments/kubernetes/kustomization.yaml").read_text()
    images = re.findall(r'newTag: "([^"]+)"', manifest)
    assert len(images) == 5
    command = ["git", "tag", "--points-at", "HEAD", "v*"]
    told = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert list(faults(version, (REPOSITORY / "CHANGELOG.md").read_text(), images, told.stdout.split())) == []


def test_release_whose_versions_agree_has_no_fault() -> None:
    assert list(faults("1.10.0", CHANGELOG, ["1.10.0"], ["v1.10.0"])) == []
    assert list(faults("1.10.0", CHANGELOG, ["1.10.0"], [])) == []


@pytest.mark.parametrize(
    ("version", "changelog", "images", "tags", "said"),
    [
        ("1.11.0", CHANGELOG, ["1.11.0"], [], "pyproject.toml says 1.11.0, the changelog's newest section 1.10.0"),
        ("1.10.0", CHANGELOG, ["1.9.0", "1.10.0"], [], "names images of ['1.9.0']"),
        ("1.10.0", CHANGELOG, [], ["v1.9.0"], "its tag would be v1.10.0"),
        ("1.10.0", CHANGELOG.replace("## Unreleased\n", ""), [], [], "begin with a section `Unreleased`"),
        ("1.10.0", CHANGELOG.replace("1.9.0", "1.11.0"), [], [], "The newest version comes first"),
        ("1.10.0", CHANGELOG.replace("01-31", "03-01"), [], [], "older than the one below"),
        ("1.10.0", CHANGELOG.replace(" — 2026-01-31", ""), [], [], "these are not: ['1.9.0']"),
        ("1.10.0", "# Changelog\n\n## Unreleased\n", [], [], "newest section None"),
    ],
)
def test_versions_that_do_not_agree_are_reported(
    version: str, changelog: str, images: list[str], tags: list[str], said: str
) -> None:
    (told,) = faults(version, changelog, images, tags)
    assert said in told
