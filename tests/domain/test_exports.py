"""Whatever is approved and public goes out, whatever ceases to be comes back, in whichever order things happen."""

import asyncio
from typing import Any

import httpx

from domain.loops.approval_expiry import ApprovalExpiry
from tests.support.acts import CONTENT, SHA256, Flow, approved, call, decide, dispatched, processed, started, submit
from tests.support.platform import Domain

COG = {"role": "cog", "zone": "silver", "name": "x/cog.tif", "media_type": "image/tiff", "size_bytes": 1}


async def made(domain: Domain, label: str = "1", source: str = "dem", content: bytes = CONTENT) -> str:
    """A processed version with a file; returns the asset's id."""
    await submit(domain, version_label=label, source=f"uploads/{source}.tif")
    flow = await started(domain)
    assert (await flow.commit(artifacts=[flow.own(COG, content)])).json()["state"] == "completed"
    [(asset_id,)] = domain.rows("select asset_id from app.assets")
    return str(asset_id)


async def clear(domain: Domain, asset_id: str, level: str) -> httpx.Response:
    return await change(domain, asset_id, "clearance", clearance_level=level, reason="because")


async def change(domain: Domain, asset_id: str, what: str, **body: Any) -> httpx.Response:
    answer = await call(domain, "reviewer", "POST", f"/assets/{asset_id}/{what}", body, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text
    return answer


def inputs(domain: Domain, flow: Flow) -> dict[str, Any]:
    [(given,)] = domain.rows("select inputs from app.runs where run_id = %s", flow.run_id)
    return dict(given)


def workflows(domain: Domain, flows: list[Flow]) -> list[str]:
    names = [domain.rows("select workflow_id from app.runs where run_id = %s", flow.run_id)[0][0] for flow in flows]
    return sorted(names)


async def export(domain: Domain, flow: Flow) -> httpx.Response:
    """What a worker reports of an export that it made."""
    given = inputs(domain, flow)
    copies = [
        artifact | {"zone": "external", "name": f"{given['destination']}/{artifact['role']}"}
        for artifact in given["artifacts"]
    ]
    outputs = {"external_blob_path": given["destination"], "adf_run_id": None}
    return await flow.commit(outputs, artifacts=copies)


async def exported(domain: Domain) -> str:
    """The one export that is due, made; returns its destination."""
    flow = await started(domain)
    assert (await export(domain, flow)).is_success
    return str(inputs(domain, flow)["destination"])


def addresses(domain: Domain) -> list[tuple[int, int, str | None]]:
    return domain.rows(
        "select ordinal, revision, external_blob_path from app.artifacts where asset_id is not null order by 1, 2"
    )


async def test_approving_with_clearance_public_queues_an_export(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    assert addresses(domain) == [(0, 1, None)]  # none before the export's commit
    destination = await exported(domain)
    assert destination.startswith(f"{asset_id}/0-r1/")
    assert addresses(domain) == [(0, 1, f"{destination}/cog")]
    listed = (await call(domain, "reviewer", "GET", f"/assets/{asset_id}/versions/0/artifacts")).json()["artifacts"]
    assert [(artifact["role"], artifact["external_blob_path"]) for artifact in listed] == [
        ("cog", f"{destination}/cog")
    ]
    assert domain.rows("select is_internal, platform_id from app.requests where operation = 'run'") == [(True, None)]
    assert domain.rows("select count(*) from app.requests where not is_internal") == [(1,)]


async def test_raising_the_clearance_after_approval_queues_an_export(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="ouo")
    assert await dispatched(domain) == []
    await clear(domain, asset_id, "public")
    assert workflows(domain, await dispatched(domain)) == ["adf_export"]


async def test_public_clearance_queues_its_export_only_once_approved(domain: Domain) -> None:
    asset_id = await made(domain)
    await clear(domain, asset_id, "public")
    assert await dispatched(domain) == []
    await decide(domain, asset_id, 0, "approve", clearance_level="ouo")
    assert workflows(domain, await dispatched(domain)) == ["adf_export"]


async def test_repeated_public_clearance_queues_no_second_export(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    await clear(domain, asset_id, "public")
    await change(domain, asset_id, "exposure", exposure="all_versions")
    assert len(await dispatched(domain)) == 1


async def test_a_downgrade_withdraws_in_its_own_transaction(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    destination = await exported(domain)
    await clear(domain, asset_id, "ouo")
    assert addresses(domain) == [(0, 1, None)]
    [flow] = await dispatched(domain)
    assert workflows(domain, [flow]) == ["withdraw_external"]
    assert inputs(domain, flow) == {"external_blob_path": destination}
    trail = "select kind from app.events where kind like 'export.%%' order by event_id"
    assert domain.rows(trail) == [("export.queued",), ("export.withdrawn",)]


async def test_unpublishing_or_deleting_withdraws_all_copies(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    await exported(domain)
    await decide(domain, asset_id, 0, "unpublish")
    assert addresses(domain) == [(0, 1, None)]
    path = f"/assets/{asset_id}?reason=unwanted"
    assert (await call(domain, "reviewer", "DELETE", path, headers={"If-Match": "*"})).status_code == 204
    assert workflows(domain, await dispatched(domain)) == ["withdraw_external"]


async def test_an_export_that_is_under_way_at_a_downgrade_publishes_nothing(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    flow = await started(domain)
    await clear(domain, asset_id, "uncleared")
    assert (await export(domain, flow)).status_code == 409
    assert (await flow.beat()).json() == {"stop": True}
    assert addresses(domain) == [(0, 1, None)]
    [withdrawal] = await dispatched(domain)
    assert inputs(domain, withdrawal) == {"external_blob_path": inputs(domain, flow)["destination"]}


async def test_asset_made_public_again_is_exported_to_another_place(domain: Domain) -> None:
    """The withdrawal of the first may run whenever it likes."""
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    first = await exported(domain)
    await clear(domain, asset_id, "ouo")
    await clear(domain, asset_id, "public")
    flows = await dispatched(domain)
    assert workflows(domain, flows) == ["adf_export", "withdraw_external"]
    again = next(flow for flow in flows if "destination" in inputs(domain, flow))
    assert inputs(domain, again)["destination"] != first
    await again.start()
    await export(domain, again)
    assert addresses(domain)[0][2] == f"{inputs(domain, again)['destination']}/cog"


async def test_a_revision_that_is_approved_again_is_exported_again(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    first = await exported(domain)
    await decide(domain, asset_id, 0, "unpublish")
    assert workflows(domain, await dispatched(domain)) == ["withdraw_external"]
    await decide(domain, asset_id, 0, "approve")
    again = await exported(domain)
    assert again != first
    assert addresses(domain) == [(0, 1, f"{again}/cog")]


async def test_an_export_that_was_withdrawn_publishes_nothing_when_it_is_run_again(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    flow = await started(domain)
    await export(domain, flow)
    await clear(domain, asset_id, "ouo")
    await dispatched(domain)
    assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", {"scope": "all"})).is_success
    again = await started(domain)
    assert (await export(domain, again)).is_success
    assert addresses(domain) == [(0, 1, None)]


async def test_a_later_revision_takes_the_place_of_the_one_before(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    await exported(domain)
    await made(domain, source="better", content=b"y")
    assert addresses(domain)[0][2] is not None  # what is staged changes nothing
    await decide(domain, asset_id, 0, "approve", revision=2)
    flows = await dispatched(domain)
    assert workflows(domain, flows) == ["adf_export", "withdraw_external"]
    later = next(flow for flow in flows if "destination" in inputs(domain, flow))
    await later.start()
    await export(domain, later)
    assert [(revision, path is not None) for _, revision, path in addresses(domain)] == [(1, False), (2, True)]


async def test_exposure_decides_which_versions_are_exported(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    await exported(domain)
    await made(domain, "2")
    await decide(domain, asset_id, 1, "approve")
    assert workflows(domain, await dispatched(domain)) == ["adf_export", "withdraw_external"]  # `latest` moved
    await change(domain, asset_id, "exposure", exposure="all_versions")
    assert workflows(domain, await dispatched(domain)) == ["adf_export"]
    await change(domain, asset_id, "exposure", exposure="latest_only")
    assert workflows(domain, await dispatched(domain)) == ["withdraw_external"]
    await decide(domain, asset_id, 1, "unpublish")
    assert workflows(domain, await dispatched(domain)) == ["adf_export", "withdraw_external"]  # and back


async def test_downgrade_wins_over_a_racing_commit_of_an_export(domain: Domain) -> None:
    """Whichever comes first, in twenty rounds of both at once."""
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    outcomes = set()
    for _ in range(20):
        flow = next(flow for flow in await dispatched(domain) if "destination" in inputs(domain, flow))
        await flow.start()
        answer, _ = await asyncio.gather(export(domain, flow), clear(domain, asset_id, "ouo"))
        outcomes.add(answer.status_code)
        assert addresses(domain) == [(0, 1, None)]
        await clear(domain, asset_id, "public")
    assert outcomes <= {200, 409}
    withdrawn = "select count(*) from app.exports where withdrawn_at is not null and withdrawal_id is not null"
    assert domain.rows(withdrawn) == [(20,)]


async def test_racing_changes_leave_one_export_or_none(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    for last in ("public", "ouo"):
        await asyncio.gather(*(clear(domain, asset_id, level) for level in ["ouo", "public"] * 5))
        await clear(domain, asset_id, last)
        live = domain.rows("select count(*) from app.exports where withdrawn_at is null")
        assert live == [(1 if last == "public" else 0,)]
    unfinished = (
        "select count(*) from app.exports join app.requests using (request_id)"
        " where withdrawn_at is not null and status <> 'cancelled'"
    )
    assert domain.rows(unfinished) == [(0,)]


async def test_copies_outside_of_the_destination_get_no_address(domain: Domain) -> None:
    asset_id = await made(domain)
    await decide(domain, asset_id, 0, "approve", clearance_level="public")
    flow = await started(domain)
    stray = COG | {"sha256": SHA256, "zone": "external", "name": "elsewhere/cog.tif"}
    assert (await flow.commit({}, artifacts=[stray])).json()["state"] == "failed"
    assert addresses(domain) == [(0, 1, None)]


async def test_result_of_an_internal_run_that_is_no_export_is_not_judged(domain: Domain) -> None:
    order = {"workflow_id": "echo_test", "inputs": {}}
    assert (await call(domain, "operator", "POST", "/runs", order)).is_success
    flow = await started(domain)
    assert (await flow.commit({"adf_run_id": {"not": "a name"}})).is_success


async def test_a_version_without_files_exports_nothing(domain: Domain) -> None:
    asset_id = await approved(domain, clearance_level="public")
    assert await dispatched(domain) == []
    assert domain.rows("select count(*) from app.exports") == [(0,)]
    assert await processed(domain, version_label="2") == asset_id


async def test_ended_approval_withdraws_its_copies(domain: Domain) -> None:
    """Nobody orders it: the service itself queues the withdrawal, and the export of the version that shows instead."""
    for label in ("1", "2"):
        asset_id = await made(domain, label=label, source=label)
        ordinal = int(label) - 1
        await decide(domain, asset_id, ordinal, "approve", clearance_level="public")
        for flow in await dispatched(domain):  # the second's export, and the withdrawal of the first: the latest shows
            await flow.start()
            assert (await (export(domain, flow) if "artifacts" in inputs(domain, flow) else flow.commit({}))).is_success
    for table, column in (("approvals", "expires_at"), ("revisions", "approved_until")):
        domain.rows(f"update app.{table} set {column} = now() - interval '1 s' where ordinal = 1 returning 1")  # noqa: S608
    endings = ApprovalExpiry(domain.service, 1)
    assert await endings.sweep() == 1
    assert domain.rows("select served_revision from app.asset_versions order by ordinal") == [(1,), (None,)]
    assert addresses(domain) == [(0, 1, None), (1, 1, None)]
    assert workflows(domain, await dispatched(domain)) == ["adf_export", "withdraw_external"]
    asked = "select distinct actor from app.events where kind in ('export.queued', 'export.withdrawn')"
    assert ("cairn-domain",) in domain.rows(asked)
    assert domain.rows("select count(*) from app.requests where client_id is null and is_internal") == [(2,)]
