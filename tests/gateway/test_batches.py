"""Batches: each submission judged on its own, nothing made twice, order kept where it matters."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from gateway.blueprints import batches
from gateway.blueprints.batches import BatchItem, asset_words, key_of
from gateway.blueprints.platform import Accepted, accept
from tests.gateway.world import BODY, call
from tests.support.platform import Platform


async def send(platform: Platform, items: list[dict[str, Any]], key: str | None = None) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"submissions": items}
    return await call(platform, "ddh-dev", "POST", "/api/gateway/submit/batch", json=body, headers=headers)


def item(number: int, **changes: Any) -> dict[str, Any]:
    return {"submission": BODY | {"resource_id": f"r{number}"} | changes}


def count(platform: Platform) -> int:
    [(found,)] = platform.domain.rows("select count(*) from app.requests")
    return int(found)


async def test_each_is_judged_on_its_own(platform: Platform) -> None:
    items = [item(0), item(1, data_type="audio"), item(2, flow_run_id="x"), item(3), item(4, operation="dance")]
    answer = await send(platform, items)
    told = answer.json()
    assert (answer.status_code, told["accepted"], told["duplicates"], told["refused"]) == (207, 2, 0, 3)
    assert [(one["index"], one["status_code"]) for one in told["results"]] == [
        (0, 202), (1, 422), (2, 422), (3, 202), (4, 422)
    ]  # fmt: skip
    assert "'flow_run_id' is not a field" in told["results"][2]["problem"]["detail"]
    status = await call(platform, "ddh-dev", "GET", told["results"][3]["status_url"])
    assert status.json()["identifies"]["resource_id"] == "r3"
    assert count(platform) == 2


async def test_the_same_batch_again_makes_nothing_new(platform: Platform) -> None:
    items = [item(number) for number in range(20)]
    first, again = (await send(platform, items, "whole")).json(), (await send(platform, items, "whole")).json()
    assert (first["accepted"], again["accepted"], again["duplicates"]) == (20, 0, 20)
    assert [one["request_id"] for one in first["results"]] == [one["request_id"] for one in again["results"]]
    other = (await send(platform, [item(0, source="uploads/other.tif"), items[1]], "whole")).json()
    assert [one["status_code"] for one in other["results"]] == [422, 200]
    assert other["results"][0]["problem"]["code"] == "idempotency-key-reused"
    assert count(platform) == 20


async def test_an_items_own_key_holds_across_batches_and_single_calls(platform: Platform) -> None:
    one = await call(
        platform,
        "ddh-dev",
        "POST",
        "/api/platform/submit",
        json=item(7)["submission"],
        headers={"Idempotency-Key": "k7"},
    )
    batch = (await send(platform, [item(1), item(7) | {"idempotency_key": "k7"}])).json()
    assert batch["results"][1]["request_id"] == one.json()["request_id"]
    assert batch["results"][1]["duplicate"] is True


async def test_versions_of_one_asset_are_handed_in_in_their_order(platform: Platform) -> None:
    items = [item(number % 5, version_id=f"v{number // 5}") for number in range(40)]
    told = (await send(platform, items)).json()
    assert [one["status_code"] for one in told["results"]] == [202] * 5 + [409] * 35
    assert {one["problem"]["blocking_version"] for one in told["results"][5:]} == {"v0"}


async def test_a_thousand_fit_and_one_more_does_not(platform: Platform) -> None:
    bad = {"submission": {"a": 1}}
    assert (await send(platform, [bad] * 1000)).json()["refused"] == 1000
    waits = await send(platform, [bad])
    assert (waits.status_code, waits.json()["code"]) == (429, "too-many-calls")  # a thousand were paid for at once
    assert int(waits.headers["retry-after"]) > 0
    async with platform.as_("arcgis-dev") as other:
        answer = await other.post("/api/gateway/submit/batch", json={"submissions": [bad] * 1001})
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed-request")


async def test_batches_side_by_side_are_paid_for_one_by_one(platform: Platform) -> None:
    """None passes on what another has already spent, however long the database lets both wait."""
    bad = {"submission": {"a": 1}}
    answers = await asyncio.gather(*(send(platform, [bad] * 1000) for _ in range(6)))
    assert Counter(answer.status_code for answer in answers) == {207: 1, 429: 5}


async def test_a_platforms_batches_share_the_places_of_one(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most = 0, 0

    async def counted(*asked: Any) -> Accepted:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await accept(*asked)
        finally:
            under_way -= 1

    monkeypatch.setattr(batches, "accept", counted)
    told = await asyncio.gather(*(send(platform, [item(20 * batch + n) for n in range(20)]) for batch in range(3)))
    assert [answer.json()["accepted"] for answer in told] == [20, 20, 20]
    assert most == 8


@pytest.mark.parametrize("client_id", [None, "reviewer", "worker"])
async def test_only_partners_submit_batches(platform: Platform, client_id: str | None) -> None:
    answer = await call(platform, client_id, "POST", "/api/gateway/submit/batch", json={"submissions": [item(0)]})
    assert answer.status_code == (401 if client_id is None else 403)


def test_keys_follow_from_the_batchs_key_and_place() -> None:
    plain, own = BatchItem(submission={}), BatchItem(submission={}, idempotency_key="mine")
    assert [key_of(plain, "b", 3), key_of(own, "b", 3), key_of(plain, None, 3)] == ["b#3", "mine", None]


def test_which_submissions_take_turns_is_told_by_the_asset_alone() -> None:
    from domain.contracts.platforms import PlatformRow

    row = PlatformRow(platform_id="x", required_refs=["a"], optional_refs=["b"], version_ref="v")
    assert asset_words({"a": 1, "v": "1"}, row) == asset_words({"v": "2", "a": "1"}, row)
    assert asset_words({"a": 1}, row) != asset_words({"a": 1, "b": 1}, row)
    assert asset_words({"a": {"$ne": 1}}, row) != asset_words({}, row)
