"""Whether the version, the changelog's sections, the images' tags and git's tags agree. Pure."""

import re
from collections.abc import Iterator, Sequence
from datetime import date

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
RELEASED = re.compile(r"(\d+)\.(\d+)\.(\d+) — (\d{4}-\d{2}-\d{2})")


def releases(changelog: str) -> list[tuple[tuple[int, ...], date]]:
    """Each released version with its day, as the changelog has them in order."""
    found = (RELEASED.fullmatch(name) for name in SECTION.findall(changelog))
    return [(tuple(map(int, one.groups()[:3])), date.fromisoformat(one[4])) for one in found if one]


def faults(version: str, changelog: str, images: Sequence[str], tags: Sequence[str]) -> Iterator[str]:
    """What does not agree, in sentences. `images` are tags that manifests name, `tags` those of the commit at hand."""
    names = SECTION.findall(changelog)
    if names[:1] != ["Unreleased"]:
        yield "The changelog must begin with a section `Unreleased`."
    if wrong := [name for name in names[1:] if not RELEASED.fullmatch(name)]:
        yield f"Sections are called `1.2.3 — 2026-01-31`; these are not: {wrong}."
    known = releases(changelog)
    if known != sorted(known, key=lambda one: one[0], reverse=True) or len({number for number, _ in known}) < len(
        known
    ):
        yield "The newest version comes first in the changelog, and each once."
    if [day for _, day in known] != sorted((day for _, day in known), reverse=True):
        yield "No version in the changelog may be older than the one below it."
    newest = ".".join(map(str, known[0][0])) if known else None
    if newest != version:
        yield f"pyproject.toml says {version}, the changelog's newest section {newest}."
    if others := sorted(set(images) - {version}):
        yield f"deployments/kubernetes names images of {others}, not of {version}."
    if strangers := [tag for tag in tags if tag != f"v{version}"]:
        yield f"This commit is tagged {strangers}, but its version is {version}: its tag would be v{version}."
