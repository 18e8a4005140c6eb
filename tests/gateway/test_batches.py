"""Batches: each submission judged on its own, nothing made twice, order kept where it matters."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import psycopg
import pytest

from domain.repositories.precedents import BATCH
from domain.rules.keys import batch_mark, common, item_key
from gateway.blueprints import batches
from gateway.blueprints.batches import Batch, BatchItem, asset_words, key_of
from gateway.blueprints.platform import Accepted, accept
from tests.gateway.world import BODY, call
from tests.support.cluster import TestCluster
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


async def test_each_submission_of_a_batch_is_judged_on_its_own(platform: Platform) -> None:
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


async def test_repeated_batch_makes_nothing_new(platform: Platform) -> None:
    items = [item(number) for number in range(20)]
    first, again = (await send(platform, items, "whole")).json(), (await send(platform, items, "whole")).json()
    assert (first["accepted"], again["accepted"], again["duplicates"]) == (20, 0, 20)
    assert [one["request_id"] for one in first["results"]] == [one["request_id"] for one in again["results"]]
    assert count(platform) == 20


@pytest.mark.parametrize("other", ["longer", "shorter", "in another order", "another body", "own keys"])
async def test_other_batch_under_the_same_key_is_refused_as_a_whole(platform: Platform, other: str) -> None:
    items = [item(0, data_type="audio"), item(1), item(2), item(3)]
    assert (await send(platform, items, "whole")).json()["accepted"] == 3
    changed = {
        "longer": [*items, item(4)],
        "shorter": items[:3],
        "in another order": [*items[1:], items[0]],
        "another body": [item(0), *items[1:]],
        "own keys": [one | {"idempotency_key": f"own {number}"} for number, one in enumerate([*items[1:], item(5)])],
    }[other]
    answer = await send(platform, changed, "whole")
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency-key-reused")
    assert "another batch" in answer.json()["detail"]
    assert count(platform) == 3
    assert (await send(platform, changed, "another key")).status_code == 207  # the control
    assert (await send(platform, items, "whole")).json()["duplicates"] == 3


async def test_two_batches_at_once_under_one_key_are_never_mixed(platform: Platform) -> None:
    one, other = ([item(first + number) for number in range(12)] for first in (0, 100))
    answers = await asyncio.gather(send(platform, one, "raced"), send(platform, other, "raced"))
    assert sorted(answer.status_code for answer in answers) == [207, 422]
    assert count(platform) == 12
    [(marks,)] = platform.domain.rows("select count(distinct left(idempotency_key, 140)) from app.requests")
    assert marks == 1


async def test_batch_without_an_accepted_submission_leaves_its_key_free(platform: Platform) -> None:
    """As with a single submission: what was refused has used no key."""
    assert (await send(platform, [item(0, data_type="audio")], "free")).json()["refused"] == 1
    assert (await send(platform, [item(0)], "free")).json()["accepted"] == 1


def test_marks_of_a_batch_key_are_found_by_index(cluster: TestCluster) -> None:
    """In a fresh database: one that was used may know of its tables what speaks for another index."""
    mark = batch_mark("whole", {})
    values = {"platform_id": "ddh", "first": common(mark), "length": len(mark)}
    with cluster.database() as fresh, psycopg.connect(fresh.url()) as connection:
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(line for (line,) in connection.execute(f"explain {BATCH}".encode(), values))
    [condition] = [line for line in plan.splitlines() if "Index Cond" in line]
    assert "uq_requests_idempotency_key" in plan
    assert "idempotency_key >=" in condition
    assert "idempotency_key <" in condition


async def test_no_client_can_send_the_key_of_a_batchs_submission(platform: Platform) -> None:
    await send(platform, [item(0)], "whole")
    [(key,)] = platform.domain.rows("select idempotency_key from app.requests")
    assert key == item_key(batch_mark("whole", Batch.model_validate({"submissions": [item(0)]}).model_dump()), 0)
    for sent in (
        await call(platform, "ddh-dev", "POST", "/api/platform/submit", json=BODY, headers={"Idempotency-Key": key}),
        await send(platform, [item(1)], key),
        await send(platform, [item(1) | {"idempotency_key": key}]),
        await send(platform, [item(1) | {"idempotency_key": "a\0"}]),
    ):
        assert (sent.status_code, sent.json()["code"]) == (422, "malformed-request"), sent.text
    assert count(platform) == 1


async def test_internal_error_at_one_submission_leaves_the_others_of_its_batch(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(body: dict[str, Any], *others: Any) -> Accepted:
        if body["resource_id"] == "r1":
            raise RecursionError("deeper than any parser goes")
        return await accept(body, *others)

    monkeypatch.setattr(batches, "accept", failing)
    answer = await send(platform, [item(0), item(1), item(2)])
    assert answer.status_code == 207
    assert [one["status_code"] for one in answer.json()["results"]] == [202, 503, 202]
    assert answer.json()["results"][1]["problem"]["code"] == "core-failed"
    assert count(platform) == 2


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


async def test_versions_of_one_asset_are_submitted_in_their_order(platform: Platform) -> None:
    items = [item(number % 5, version_id=f"v{number // 5}") for number in range(40)]
    told = (await send(platform, items)).json()
    assert [one["status_code"] for one in told["results"]] == [202] * 5 + [409] * 35
    assert {one["problem"]["blocking_version"] for one in told["results"][5:]} == {"v0"}


async def test_batch_of_more_than_a_thousand_is_refused(platform: Platform) -> None:
    bad = {"submission": {"a": 1}}
    assert (await send(platform, [bad] * 1000)).json()["refused"] == 1000
    waits = await send(platform, [bad])
    assert (waits.status_code, waits.json()["code"]) == (429, "too-many-calls")  # a thousand were paid for at once
    assert int(waits.headers["retry-after"]) > 0
    async with platform.as_("arcgis-dev") as other:
        answer = await other.post("/api/gateway/submit/batch", json={"submissions": [bad] * 1001})
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed-request")


async def test_concurrent_batches_are_each_charged_to_the_rate(platform: Platform) -> None:
    """None passes on what another has already spent, however long the database lets both wait."""
    bad = {"submission": {"a": 1}}
    answers = await asyncio.gather(*(send(platform, [bad] * 1000) for _ in range(6)))
    assert Counter(answer.status_code for answer in answers) == {207: 1, 429: 5}


async def test_batches_of_one_platform_share_its_places(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_batch_by_a_client_that_is_no_partner_is_refused(platform: Platform, client_id: str | None) -> None:
    answer = await call(platform, client_id, "POST", "/api/gateway/submit/batch", json={"submissions": [item(0)]})
    assert answer.status_code == (401 if client_id is None else 403)


def test_key_of_an_item_follows_from_its_batch_and_place() -> None:
    plain, own = BatchItem(submission={}), BatchItem(submission={}, idempotency_key="mine")
    assert [key_of(plain, "b", 3), key_of(own, "b", 3), key_of(plain, None, 3)] == ["bi3", "mine", None]


def test_submissions_take_turns_by_asset_alone() -> None:
    from domain.contracts.platforms import PlatformRow

    row = PlatformRow(platform_id="x", required_refs=["a"], optional_refs=["b"], version_ref="v")
    assert asset_words({"a": 1, "v": "1"}, row) == asset_words({"v": "2", "a": "1"}, row)
    assert asset_words({"a": 1}, row) != asset_words({"a": 1, "b": 1}, row)
    assert asset_words({"a": {"$ne": 1}}, row) != asset_words({}, row)
