"""Storms of equal submissions on two domain processes: one request, one run, and every answer names that request.

Two rounds of 200 submissions; with CAIRN_CHAOS_RUNS, rounds of 1,000: that many, and 20 at most.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.chaos import Platform, platform
from tests.support.cluster import TestDatabase
from tests.support.platform import submission

pytestmark = pytest.mark.chaos
FULL = int(os.environ.get("CAIRN_CHAOS_RUNS", "0"))
ROUNDS = min(20, FULL) if FULL else 2
CALLERS = 1000 if FULL else 200
PATIENCE_SECONDS = 90.0
ARCGIS: dict[str, Any] = {"platform_id": "arcgis", "client_id": "arcgis-dev"}


async def test_a_storm_of_equal_submissions_makes_one_request(database: TestDatabase, tmp_path: Path) -> None:
    """Each caller sends the body under an id of its own, as the gateway does when a partner asks again."""
    async with platform(database, tmp_path) as made, gateways(made) as ways:
        statuses: Counter[int] = Counter()
        for number in range(ROUNDS):
            body = {"idempotency_key": f"storm {number}", "refs": _refs(number)}
            answers = await storm(ways, [submission(**body) for _ in range(CALLERS)])
            assert len(_one_id(answers)) == 1
            statuses.update(answer.status_code for answer in answers)
        await made.rest()
        print(f"\n{len(ways)} processes, n = {ROUNDS} rounds of {CALLERS}, answers {dict(statuses)}")  # noqa: T201
        assert _counts(made) == (ROUNDS, ROUNDS)
        assert statuses[202] == ROUNDS


async def test_storm_of_equal_submissions_without_a_key_makes_one_request(
    database: TestDatabase, tmp_path: Path
) -> None:
    async with platform(database, tmp_path) as made, gateways(made) as ways:
        answers = await storm(ways, [submission(refs=_refs(0)) for _ in range(CALLERS)])
        assert len(_one_id(answers)) == 1
        await made.rest()
        assert _counts(made) == (1, 1)


async def test_storm_of_two_partners_with_one_key_never_mixes_them(database: TestDatabase, tmp_path: Path) -> None:
    async with platform(database, tmp_path) as made, gateways(made) as ways:
        for number in range(ROUNDS):
            key = f"shared {number}"
            theirs = ARCGIS | {"refs": {"item_id": f"item-{number}", "layer_index": "0"}}
            bodies = [submission(idempotency_key=key, refs=_refs(number)) for _ in range(CALLERS // 2)]
            others = [submission(idempotency_key=key, **theirs) for _ in range(CALLERS // 2)]
            answers = await storm(ways, [body for pair in zip(bodies, others, strict=True) for body in pair])
            [ours], [foreign] = _one_id(answers[::2]), _one_id(answers[1::2])
            stored = dict(made.rows("select request_id::text, platform_id from app.requests"))
            assert (stored[ours], stored[foreign]) == ("ddh", "arcgis")
        await made.rest()
        print(f"\nn = {ROUNDS} rounds of {CALLERS // 2} and {CALLERS // 2}")  # noqa: T201
        assert _counts(made) == (2 * ROUNDS, 2 * ROUNDS)


@pytest.mark.parametrize("places", ["one asset", "many assets"])
async def test_storm_of_bodies_with_one_key_keeps_the_first(
    database: TestDatabase, tmp_path: Path, places: str
) -> None:
    """Bodies about different assets share no lock but the key's own."""
    async with platform(database, tmp_path) as made, gateways(made) as ways:
        for number in range(ROUNDS):
            bodies = [
                submission(
                    idempotency_key=f"fought over {number}",
                    refs=_refs(number if places == "one asset" else f"{number}-{caller}"),
                    source=f"uploads/{caller}.tif",
                )
                for caller in range(CALLERS // 10)
            ]
            answers = await storm(ways, bodies)
            assert Counter(answer.status_code for answer in answers) == {202: 1, 422: len(bodies) - 1}
            refusals = {answer.json()["code"] for answer in answers if answer.status_code == 422}
            assert refusals == {"idempotency-key-reused"}
        await made.rest()
        assert _counts(made) == (ROUNDS, ROUNDS)


@asynccontextmanager
async def gateways(made: Platform) -> AsyncIterator[Sequence[httpx.AsyncClient]]:
    """A second process, and one client for each of the two, with a connection of its own for every caller."""
    await made.start()
    headers = {"Authorization": "Bearer secret-gateway"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    first, second = (
        httpx.AsyncClient(base_url=process.url, headers=headers, limits=limits, timeout=PATIENCE_SECONDS)
        for process in made.processes
    )
    async with first, second:
        yield first, second


async def storm(ways: Sequence[httpx.AsyncClient], bodies: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """All at once, in turns over the processes; no answer may be the fault of the service."""
    calls = (ways[number % len(ways)].post("/api/v1/submit", json=body) for number, body in enumerate(bodies))
    answers = await asyncio.gather(*calls)
    assert [answer.text for answer in answers if answer.status_code >= 500] == []
    return answers


def _one_id(answers: Sequence[httpx.Response]) -> set[str]:
    assert {answer.status_code for answer in answers} <= {200, 202, 409}
    return {answer.json()["request_id"] for answer in answers}


def _refs(number: object) -> dict[str, str]:
    return {"dataset_id": "storm", "resource_id": f"resource-{number}"}


def _counts(made: Platform) -> tuple[int, int]:
    [(requests, runs)] = made.rows("select (select count(*) from app.requests), (select count(*) from app.runs)")
    return requests, runs
