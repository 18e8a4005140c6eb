"""SIGKILL between all steps of approving, publishing words and unpublishing: a decision is whole or was never made.

The domain, serving and the database are real; what dies is a process that carries the decision out. After each death
the tables, the catalogue and serving's answers are looked at, and the decision is made again. CAIRN_DECISION_KILLS sets
how often each step is hit.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import morecantile
import pytest

from deployments import sample
from domain.failpoints import DECISIONS
from tests.support.acts import decide, keep_words
from tests.support.cluster import TestDatabase
from tests.support.library import SIZE, Library, library
from tests.support.mortal import Mortal, mortal

pytestmark = pytest.mark.chaos
KILLS = int(os.environ.get("CAIRN_DECISION_KILLS", "1"))
PATIENCE_SECONDS = 3.0
PAUSE_SECONDS = 0.05
LON, LAT = sample.lonlat_of(*sample.pick_pixel(1, SIZE))
TILE = morecantile.tms.get("WebMercatorQuad").tile(LON, LAT, 13)
# All that an approval moves, from wherever it is stored. One row.
STATE = """
select v.served_revision, r.approval, r.approved_until,
    (select array_agg(i.id) from pgstac.items i where i.collection = v.asset_id),
    (select count(*) from app.layer_catalog l where l.asset_id = v.asset_id),
    (select count(*) from app.exports e where e.asset_id = v.asset_id and e.withdrawn_at is null),
    (select count(*) from app.approvals a where a.asset_id = v.asset_id and a.withdrawn_at is null),
    (select count(*) from api.served_products p where p.asset_id = v.asset_id)
from app.asset_versions v join app.revisions r using (asset_id, ordinal)
where v.asset_id = %s
"""
# Which revision each of the three that readers ask names.
SHOWN = """
select v.served_revision, array(select i.id from pgstac.items i where i.collection = v.asset_id),
    array(select p.revision from api.served_products p where p.asset_id = v.asset_id)
from app.asset_versions v where v.asset_id = %s
"""
WORDS = """
select l.content ->> 'title', i.content #>> '{properties,title}', c.content ->> 'title'
from app.layer_catalog l join pgstac.items i on i.collection = l.asset_id join pgstac.collections c on c.id = l.asset_id
where l.asset_id = %s
"""


@dataclass
class Ground:
    """One asset that is approved and unpublished over and over, and the process that dies at it."""

    made: Library
    doomed: Mortal
    asset_id: str
    kills: int = 0

    @property
    def served(self) -> tuple[Any, ...]:
        return 1, "approved", None, [f"{self.asset_id}-0-r1"], 1, 1, 1, 1

    @property
    def waiting(self) -> tuple[Any, ...]:
        return None, "pending_review", None, None, 0, 0, 0, 0

    def kill(self, place: str, path: str, body: dict[str, Any], client_id: str = "reviewer") -> None:
        assert self.doomed.order(place, client_id, path, body) == signal.SIGKILL, f"nothing died at {place}"
        self.kills += 1

    def decision(self, verb: str, revision: int = 1) -> tuple[str, dict[str, Any]]:
        body = {"approve": {"clearance_level": "public"}, "unpublish": {"reason": "on purpose"}}[verb]
        return f"/assets/{self.asset_id}/versions/0/{verb}", {"revision": revision, **body}

    async def decide(self, verb: str) -> None:
        body = {"clearance_level": "public"} if verb == "approve" else {}
        answer = await decide(self.made.domain, self.asset_id, 0, verb, **body)
        assert answer.status_code == 200, answer.text

    async def expect(self, state: tuple[Any, ...], place: str) -> None:
        """Everything agrees on the state: what is stored at once, what is served within a moment."""
        assert self.made.domain.rows(STATE, self.asset_id) == [state], place
        await self._answered([200 if state == self.served else 404] * 2, 1, place)

    async def shows(self, revision: int, place: str) -> None:
        """Of two revisions this one is served, and nothing of the other is left or there yet."""
        named = (revision, [f"{self.asset_id}-0-r{revision}"], [revision])
        assert self.made.domain.rows(SHOWN, self.asset_id) == [named], place
        await self._answered([200, 200], revision, place)
        await self._answered([404, 200], 3 - revision, place)

    async def _answered(self, wanted: list[int], revision: int, place: str) -> None:
        """Item and tile are answered so, as soon as serving has heard."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (told := await self._answers(revision)) != wanted:
            if time.monotonic() > give_up:
                pytest.fail(f"{place}: item and tile are answered with {told}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _answers(self, revision: int) -> list[int]:
        """What anybody gets: the revision's item, and a tile."""
        item = f"/stac/collections/{self.asset_id}/items/{self.asset_id}-0-r{revision}"
        tile = f"/tiles/{self.asset_id}/WebMercatorQuad/{TILE.z}/{TILE.x}/{TILE.y}.png"
        async with self.made.reader(None) as anybody:
            return [(await anybody.get(path)).status_code for path in (item, tile)]

    async def keep_words(self, title: str) -> None:
        answer = await keep_words(self.made.domain, self.asset_id, {"title": title})
        assert answer.status_code == 200, answer.text


def places(verb: str) -> Iterable[tuple[str, bool]]:
    """Each place so often, and whether the decision is made by then."""
    for place in DECISIONS:
        if place.startswith(f"{verb}."):
            yield from [(place, place.endswith("after-commit"))] * KILLS


@pytest.fixture
async def ground(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Ground]:
    """A raster that was processed and waits, with words about its layer."""
    async with library(database, tmp_path) as made:
        with mortal(database.url("cairn_app"), tmp_path) as doomed:
            ground = Ground(made, doomed, await made.raster("chaos"))
            await ground.keep_words("Before")
            yield ground
            print(f"\n{ground.kills} kills, {KILLS} at each place")  # noqa: T201


@pytest.mark.parametrize(("verb", "back"), [("approve", "unpublish"), ("unpublish", "approve")])
async def test_a_decision_is_whole_or_was_never_made(verb: str, back: str, ground: Ground) -> None:
    states = {"approve": ground.served, "unpublish": ground.waiting}
    if verb == "unpublish":
        await ground.decide(back)
    for place, is_made in places(verb):
        ground.kill(place, *ground.decision(verb))
        await ground.expect(states[verb if is_made else back], place)
        if is_made:
            await ground.decide(back)
    await ground.decide(verb)
    await ground.expect(states[verb], f"{verb} in the end")


async def test_a_replacement_is_whole_or_was_never_made(ground: Ground) -> None:
    """The approval of another revision: the one before leaves in the same moment, and not before it."""
    await ground.decide("approve")
    await ground.made.raster("chaos", source="up/better.tif")
    for place, is_made in places("approve"):
        if not is_made:
            ground.kill(place, *ground.decision("approve", revision=2))
            await ground.shows(1, place)
    ground.kill("approve.after-commit", *ground.decision("approve", revision=2))
    await ground.shows(2, "replaced in the end")


async def test_metadata_is_published_everywhere_or_nowhere(ground: Ground) -> None:
    """The layer catalogue, the item and the collection say one thing."""
    await ground.decide("approve")
    shown = "Before"
    for number, (place, is_made) in enumerate(places("publish")):
        title = f"Title {number}"
        body = {"asset_id": ground.asset_id, "metadata": {"title": title}}
        ground.kill(place, "/commands/metadata.publish", body, client_id="operator")
        shown = title if is_made else shown
        assert ground.made.domain.rows(WORDS, ground.asset_id) == [(shown,) * 3], place
    await ground.expect(ground.served, "words published in the end")


async def test_check_finds_a_planted_half_made_decision(ground: Ground) -> None:
    """A control: what the checks are for, done on purpose."""
    await ground.decide("approve")
    await ground.expect(ground.served, "approved")
    ground.made.domain.rows("delete from pgstac.items where collection = %s returning 1", ground.asset_id)
    with pytest.raises(AssertionError):
        await ground.expect(ground.served, "tiles without an item")
    assert ground.doomed.order("approve.decided", "reviewer", "/assets/none/versions/0/approve", {}) == 0
