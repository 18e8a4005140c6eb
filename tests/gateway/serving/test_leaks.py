"""Every reader at every door of every kind of asset: nobody gets what is not theirs, everybody gets what is.

What is refused must look, byte for byte, as what was never there. CAIRN_LEAKS=all takes all combinations.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from domain.rules import clearance
from domain.rules.clearance import may_read
from gateway.serving import access, catalog
from gateway.serving.freshness import mark
from gateway.serving.lookup import Product
from gateway.serving.problems import ReaderProblem
from tests.gateway.serving.promise import DOORS, OF_THE_CATALOGUE, ROLES, Asset, allowed, assets, collections_of, items
from tests.support.acts import call, decide
from tests.support.cluster import TestDatabase
from tests.support.library import Library, library

ALL = os.environ.get("CAIRN_LEAKS") == "all"


@pytest.fixture
async def made(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Library]:
    async with library(database, tmp_path) as running:
        yield running


@dataclass
class Visit:
    """One reader who tries all doors: what they were told, and what of it was wrong."""

    role: str
    reader: httpx.AsyncClient
    digest: str
    told: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def doors(self, kind: str, catalogue: Iterable[Asset]) -> None:
        """Ask for version 0 of each asset by its address."""
        for door, path in DOORS[kind].items():
            absent = await self._get(path, "0" * 32)
            for asset in catalogue:
                answer = await self._get(path, asset.asset_id)
                self.told[answer.status_code] += 1
                expected = 200 if self.role in allowed(asset, door) else 404
                if answer.status_code != expected:
                    self._note(door, asset, f"{answer.status_code} instead of {expected}")
                elif expected == 404 and not _alike(answer, absent):
                    self._note(door, asset, "a refusal that tells something")
                if "public" in answer.headers["cache-control"] and not self._may_be_shared(answer, door, asset):
                    self._note(door, asset, "may be kept by caches")

    async def searches(self, catalogue: Iterable[Asset]) -> None:
        """Ask for all items, and for each asset's and each item by name: what is found and counted may be read."""
        everything: set[str] = set()
        for asset in catalogue:
            first, expected = f"{asset.asset_id}-0-r1", items(asset, self.role)
            everything |= expected
            await self._search({"collections": [asset.asset_id]}, expected)
            await self._search({"ids": [first]}, expected & {first})
        await self._search({"limit": 1000}, everything)

    async def _search(self, asked: dict[str, Any], expected: set[str]) -> None:
        answer = self._listed(await self.reader.post("/stac/search", json=asked))
        found = {item["id"] for item in answer["features"]}
        self.told[200 if found else 404] += 1
        if found != expected or answer.get("numberMatched", len(found)) != len(expected):
            self.wrong.append(f"{self.role} finds {found ^ expected} by {asked}")

    async def lists(self, path: str, catalogue: Iterable[Asset]) -> None:
        """Ask for all collections, and how many there are."""
        listed = self._listed(await self.reader.get(path))
        known = {each["id"] for each in listed["collections"]}
        expected = {each.asset_id for each in catalogue if self.role in collections_of(each)}
        if known != expected or listed["numberMatched"] != len(expected):
            self.wrong.append(f"{self.role} lists {listed['numberMatched']} at {path}: {known ^ expected}")

    async def _get(self, path: str, asset_id: str) -> httpx.Response:
        return await self.reader.get(path.format(id=asset_id, digest=self.digest))

    def _listed(self, answer: httpx.Response) -> dict[str, Any]:
        """What a list holds. That there is none is wrong."""
        if answer.status_code == 200:
            return dict(answer.json())
        self.wrong.append(f"{self.role} gets {answer.status_code} for a list")
        return {"features": [], "collections": [], "numberMatched": 0}

    def _may_be_shared(self, answer: httpx.Response, door: str, asset: Asset) -> bool:
        return door not in OF_THE_CATALOGUE and "anybody" in allowed(asset, door) and answer.status_code == 200

    def _note(self, door: str, asset: Asset, fault: str) -> None:
        self.wrong.append(f"{self.role} at {door} of {asset}: {fault}")


def _alike(answer: httpx.Response, absent: httpx.Response) -> bool:
    return (answer.content, answer.headers) == (absent.content, absent.headers)


async def prepared(made: Library, asset: Asset) -> Asset:
    """Such an asset, brought there by the acts that lead there."""
    name = f"{asset.kind}-{asset.clearance}-{asset.state}-{asset.exposure}"
    make = made.raster if asset.kind == "raster" else made.vector
    asset_id = await make(name)
    verbs = {"rejected": ["reject"], "waiting": [], "unpublished": ["approve", "unpublish"]}
    for verb in verbs.get(asset.state, ["approve"]):
        assert (await decide(made.domain, asset_id, 0, verb)).status_code == 200
    if asset.state == "superseded":
        await make(name, "2")
        assert (await decide(made.domain, asset_id, 1, "approve")).status_code == 200
    if asset.state == "resubmitted":
        await made.raster(name, source="up/better.tif")
    for what, body in (
        ("clearance", {"clearance_level": asset.clearance, "reason": "for the test"}),
        ("exposure", {"exposure": asset.exposure}),
    ):
        path = f"/assets/{asset_id}/{what}"
        answer = await call(made.domain, "reviewer", "POST", path, body, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
    return replace(asset, asset_id=asset_id)


async def visited(
    made: Library, kind: str, catalogue: list[Asset], roles: Iterable[str] = tuple(ROLES)
) -> tuple[Counter[int], list[str]]:
    """The readers' visits: how often they were told what, and what was wrong."""
    told: Counter[int] = Counter()
    wrong: list[str] = []
    [digest] = [artifact.sha256[:16] for artifact in made.cog.artifacts if artifact.role == "cog"]
    for role in roles:
        async with made.reader(ROLES[role]) as reader:
            visit = Visit(role, reader, digest)
            await visit.doors(kind, catalogue)
            if kind == "raster":
                await visit.searches(catalogue)
            await visit.lists("/stac/collections" if kind == "raster" else "/vector/collections?limit=1000", catalogue)
        told += visit.told
        wrong += visit.wrong
    return told, wrong


@pytest.mark.parametrize("kind", ["raster", "vector"])
async def test_no_reader_gets_hidden_data_at_any_address(kind: str, made: Library) -> None:
    catalogue = [await prepared(made, asset) for asset in assets(kind, all_of_them=ALL)]
    told, wrong = await visited(made, kind, catalogue)
    cells = sum(told.values())
    print(f"\n{kind}: {cells} cells, {told[200] / cells:.0%} of them 200, {len(wrong)} wrong")  # noqa: T201
    assert wrong == []
    assert cells >= 500
    assert told[200] >= 0.3 * cells


def _telling(*asked: Any) -> bool:
    """The rule, with a refusal of its own."""
    if not may_read(*asked):
        raise ReaderProblem(HTTPStatus.NOT_FOUND, "not-found", "You may not read this.")
    return True


def _shared(request: Request, product: Product, *, parts: Sequence[str], is_public: bool) -> None:
    mark(request, product, parts=parts, is_public=True)


NOT_STAFF = ("anybody", "owner", "stranger")
# Where a fault is built in, which, and what the visits say of it then.
FAULTS: list[tuple[Any, str, Callable[..., Any], str]] = [
    (clearance, "may_read", lambda *_: True, "200 instead of 404"),
    (clearance, "may_see_version", lambda *_: True, "200 instead of 404"),
    (clearance, "may_read", lambda *_: False, "404 instead of 200"),
    (clearance, "may_read", _telling, "a refusal that tells something"),
    (access, "mark", _shared, "may be kept by caches"),
    (catalog, "is_readable", lambda *_: True, "finds"),
    (catalog, "is_readable", lambda *_: True, "lists"),
]


async def test_planted_leaks_are_found(made: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the same visits are content with few assets, and not with any of these faults."""
    few = [("ouo", "approved"), ("uncleared", "waiting"), ("public", "superseded")]
    catalogue = [await prepared(made, Asset("raster", *each, "latest_only")) for each in few]
    assert (await visited(made, "raster", catalogue, NOT_STAFF))[1] == []
    for where, name, fault, said in FAULTS:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fault)
            wrong = (await visited(made, "raster", catalogue, NOT_STAFF))[1]
        assert any(said in each for each in wrong), (name, said, wrong)
