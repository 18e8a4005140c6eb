"""A version that waits behind another: the refusal advises all that is open to whoever asks, and nothing else."""

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from domain.security import secret_hash
from tests.support.acts import call, decide, dispatched, processed, started, submit
from tests.support.platform import Domain

ANY_STATE = {"If-Match": "*"}


async def in_flight(domain: Domain, **sent: Any) -> None:
    await submit(domain, **sent)


async def awaiting(domain: Domain, **sent: Any) -> None:
    await processed(domain, **sent)


async def rejected(domain: Domain, **sent: Any) -> None:
    assert (await decide(domain, await processed(domain, **sent), 0, "reject")).status_code == 200


async def failed(domain: Domain, **sent: Any) -> None:
    await submit(domain, **sent)
    await (await started(domain)).fail()


async def cancelled(domain: Domain, **sent: Any) -> None:
    request_id = (await submit(domain, **sent)).json()["request_id"]
    order = {"reason": "the wrong file"}
    assert (await call(domain, "operator", "POST", f"/requests/{request_id}/cancel", order)).status_code == 200


async def half_approved(domain: Domain) -> None:
    """By the lead, whose word is one of two."""
    domain.rows("update app.platforms set approvals_required = 2 where platform_id = 'ddh' returning 1")
    assert (await decide(domain, await processed(domain), 0, "approve", by="lead")).status_code == 200


STATES: dict[str, Callable[..., Awaitable[None]]] = {
    "being processed": in_flight,
    "awaiting its review": awaiting,
    "rejected": rejected,
    "failed": failed,
    "cancelled": cancelled,
}
# Who sent the version in the way, and who is kept out by it. The lead may decide for the platform.
PEOPLE = [("ddh-dev", "ddh-dev"), ("ddh-dev", "lead"), ("lead", "lead"), ("lead", "ddh-dev")]


@pytest.fixture
def people(domain: Domain) -> Domain:
    domain.rows(
        "insert into app.clients (client_id, role, platform_id, scopes, display_name, secret_hash)"
        " values ('lead', 'partner', 'ddh', '{review}', 'The lead', %s) returning 1",
        secret_hash("secret-lead"),
    )
    return domain


async def refused(domain: Domain, asker: str, **place: Any) -> dict[str, Any]:
    answer = await submit(domain, version_label="2", source="uploads/2.tif", client_id=asker, **place)
    assert (answer.status_code, answer.json()["code"]) == (409, "version-blocked"), answer.text
    told: dict[str, Any] = answer.json()
    return told


async def acted(domain: Domain, act: str, asset_id: str, asker: str, refs: dict[str, str]) -> httpx.Response:
    if act == "approve":
        return await decide(domain, asset_id, 0, "approve", by=asker)
    if act == "resubmit":
        return await submit(domain, source="uploads/better.tif", client_id=asker, refs=refs)
    path, more = f"/assets/{asset_id}/versions/0", {"params": {"reason": "in the way"}, "headers": ANY_STATE}
    return await call(domain, asker, "DELETE", path, **more)


@pytest.mark.parametrize(("sender", "asker"), PEOPLE)
async def test_advice_on_a_blocked_version_names_exactly_the_acts_that_succeed(
    people: Domain, sender: str, asker: str
) -> None:
    for state, act in product(STATES, ("approve", "delete", "resubmit")):
        refs = {"dataset_id": state, "resource_id": act}
        await STATES[state](people, client_id=sender, refs=refs)
        told = await refused(people, asker, refs=refs)
        [(asset_id,)] = people.rows("select asset_id from app.assets where refs = %s", Jsonb(refs))
        answer = await acted(people, act, asset_id, asker, refs)
        assert answer.is_success is (act in told["ways"]), (state, act, told["detail"], answer.text)
        assert f"while version '1' is {state}." in told["detail"]
        if answer.is_success and act != "resubmit":
            again = await submit(people, version_label="2", source="uploads/2.tif", client_id=asker, refs=refs)
            assert again.status_code == 202, (state, act, again.text)
        await dispatched(people)  # what is due would be taken for the next one's


AGAIN = "ubmit '1' again under its own label"
ASK = "ask the platform's reviewers to delete it."


@pytest.mark.parametrize(
    ("state", "asker", "advice"),
    [
        (
            "awaiting its review",
            "ddh-dev",
            f"Wait until a reviewer has approved it, s{AGAIN} with what has changed, or {ASK}",
        ),
        ("awaiting its review", "lead", f"Approve it, s{AGAIN} with what has changed, or delete it."),
        ("rejected", "ddh-dev", f"S{AGAIN}, or {ASK}"),
        ("failed", "lead", f"S{AGAIN}, or delete it."),
        (
            "being processed",
            "ddh-dev",
            f"Wait until it has been processed and approved, s{AGAIN} with what has changed, or {ASK}",
        ),
    ],
)
async def test_refusal_of_a_blocked_version_names_its_ways_in_a_sentence(
    people: Domain, state: str, asker: str, advice: str
) -> None:
    await STATES[state](people)
    told = await refused(people, asker)
    assert told["detail"] == f"Version '2' cannot be accepted while version '1' is {state}. {advice}"


async def test_advice_to_a_reviewer_who_approved_already_is_to_wait(people: Domain) -> None:
    await half_approved(people)
    assert (await refused(people, "lead"))["ways"] == ["wait", "resubmit", "delete"]


async def test_advice_to_a_reviewer_whose_approval_ended_is_to_approve_again(people: Domain) -> None:
    await half_approved(people)
    people.rows("update app.approvals set expires_at = now() - interval '1 s' returning 1")
    assert (await refused(people, "lead"))["ways"] == ["approve", "resubmit", "delete"]
