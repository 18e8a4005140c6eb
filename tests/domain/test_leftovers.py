"""What requests leave when they fail, are lost or end well: it goes when nobody needs it any more, and not before."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from domain.errors import StorageUnavailable
from domain.loops.leftover_collector import LeftoverCollector
from domain.rules.leftovers import Retention
from domain.services.operations import leftovers
from domain.services.operations.leftovers import Collected
from flows.handlers.vector.load import table_name
from flows.storage import LocalStore
from tests.support.acts import call, decide, dispatched, started, submit
from tests.support.azurite import Azurite
from tests.support.cluster import TestDatabase
from tests.support.ended import ALL_OVER, alone, collecting, committed, leases_end, swept, working
from tests.support.planting import Worker, at_work
from tests.support.platform import Domain, running_domain

WHY = {"reason": "because"}
TABLES = "select count(*) from pg_tables where schemaname = 'geo' and starts_with(tablename, 'v_')"


@pytest.fixture(params=["local", "azure"])
async def stored(
    request: pytest.FixtureRequest, shared_database: TestDatabase, tmp_path: Path
) -> AsyncIterator[Domain]:
    """The domain with zones of each kind."""
    changes: dict[str, Any] = {}
    if request.param == "azure":
        azurite: Azurite = request.getfixturevalue("azurite")
        prefix = f"l{uuid4().hex[:12]}-"
        azurite.zones(prefix)
        account = {"account_url": azurite.url, "container_prefix": prefix, "ca_file": azurite.ca_file}
        changes = {"storage_root": None} | {f"storage_{name}": value for name, value in account.items()}
    async with running_domain(shared_database, tmp_path, quota_cache_seconds=0, **changes) as running:
        yield running


async def _fails(worker: Worker) -> None:
    assert (await worker.flow.fail()).is_success


async def _is_cancelled(worker: Worker) -> None:
    answer = await call(worker.flow.domain, "operator", "POST", f"/runs/{worker.flow.run_id}/cancel", WHY)
    assert answer.is_success


async def _is_lost(worker: Worker) -> None:
    """And so is each attempt after it, until the run is parked."""
    domain = worker.flow.domain
    assert (await worker.flow.fail("lost")).is_success
    while flows := await dispatched(domain):
        again = await at_work(flows[0], worker.folder)
        again.remembers()
        again.fetches()
        assert (await again.flow.fail("lost")).is_success


async def _loses_its_version(worker: Worker) -> None:
    [(asset_id,)] = worker.flow.domain.rows("select asset_id from app.requests")
    path = f"/assets/{asset_id}/versions/0?reason=because"
    answer = await call(worker.flow.domain, "reviewer", "DELETE", path, headers={"If-Match": "*"})
    assert answer.is_success, answer.text


async def _hands_in_anothers(worker: Worker) -> None:
    cog = {"role": "cog", "zone": "silver", "name": "assets/x/0-r1/a1/cog.tif", "media_type": "image/tiff"}
    answer = await worker.flow.commit({}, artifacts=[cog | {"sha256": "0" * 64, "size_bytes": 1}])
    assert answer.json()["state"] == "failed"


ENDS = (_fails, _is_cancelled, _is_lost, _loses_its_version, _hands_in_anothers)


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ends.__name__[1:])
async def test_request_that_failed_or_was_cancelled_leaves_no_file_and_no_table(
    domain: Domain, tmp_path: Path, ends: Any
) -> None:
    worker = await working(domain, tmp_path)
    worker.plants(killed=ends is _fails)
    assert alone(domain) == [], "who is at work may make all of it"
    await ends(worker)
    found = alone(domain)
    assert {each.split("/")[0].split(":")[0][:6] for each in found} >= {"silver", "bronze", "runs", "geo.v_"}
    assert any(".partial-" in each for each in found)
    done = await swept(domain)
    assert alone(domain) == []
    assert (done.files, done.tables, done.bytes > 0) == (len(found) - 1, 1, True)
    assert domain.rows("select collected_at is not null from app.requests") == [(True,)]
    [(told,)] = domain.rows("select details from app.events where kind = 'request.collected'")
    assert told == vars(done)
    assert await swept(domain) == Collected(), "and nothing is looked at again"
    for zone in ("silver", "runs"):
        store = getattr(domain.service.zones, zone)
        assert isinstance(store, LocalStore)
        assert not list(store.root.iterdir()), "no empty folders either"


async def test_files_of_a_lost_attempt_go_once_another_has_committed(stored: Domain, tmp_path: Path) -> None:
    """Of a run that was tried twice stays what was committed, and what it remembers; the layer is served as before."""
    lost = await working(stored, tmp_path)
    lost.plants()
    assert (await lost.flow.fail("lost")).is_success
    [flow] = await dispatched(stored)
    worker = await at_work(flow, tmp_path)
    product = worker.plants()
    await committed(worker, product)
    [(asset_id,)] = stored.rows("select asset_id from app.assets")
    assert (await decide(stored, asset_id, 0, "approve")).is_success
    zones, counted = stored.service.zones, f"select count(*) from geo.{table_name(product.product)}"  # noqa: S608
    before = stored.rows(counted)
    found = alone(stored)
    assert any(lost.prefix in each for each in found)
    done = await swept(stored)
    assert alone(stored) == []
    assert (done.tables, done.files) == (1, len(found) - 1)
    assert [one.name for one in zones.of_service("silver").listed()] == [worker.product]
    assert zones.runs.names(f"{flow.run_id}/m1/ledger/_nodes")
    assert [one.name for one in zones.of_service("bronze").listed()] == ["uploads/fields.geojson"]
    assert stored.rows(counted) == before == [(120,)]
    assert stored.rows("select product from api.served_products join geo.layers using (table_name)") == [
        (worker.product,)
    ]


async def test_fetched_source_that_the_result_names_stays(domain: Domain, tmp_path: Path) -> None:
    worker = await working(domain, tmp_path)
    worker.fetches()
    [kept] = [one.name for one in domain.service.zones.of_service("bronze").listed()]
    assert (await worker.flow.commit({"validation": {"sha256": "f" * 64, "source": kept}})).json()[
        "state"
    ] == "completed"
    await swept(domain)
    assert [one.name for one in domain.service.zones.of_service("bronze").listed()] == [kept]


async def test_files_stay_while_a_run_or_a_rerun_may_need_them(domain: Domain, tmp_path: Path) -> None:
    """Within the time in which it may be rerun; while its flow run may write; while another run of it is at work."""
    worker = await working(domain, tmp_path)
    worker.plants()
    before = len(alone(domain))
    everything = sorted(one.name for one in domain.service.zones.of_service("silver").listed())
    assert await swept(domain) == Collected(), "it is at work"
    await worker.flow.fail()
    assert await swept(domain, Retention(0, 3600)) == Collected(), "it may be rerun"
    domain.rows("update app.attempts set disposed_at = null returning 1")
    assert await LeftoverCollector(collecting(domain), 1).sweep() == Collected(), "its flow run may not be over"
    answer = await call(domain, "operator", "POST", f"/runs/{worker.flow.run_id}/rerun", {"scope": "failed"})
    assert answer.status_code == 202, answer.text
    assert await swept(domain) == Collected(), "it is to be done again"
    assert sorted(one.name for one in domain.service.zones.of_service("silver").listed()) == everything
    assert before == 0


async def test_run_beside_a_failed_one_keeps_what_both_have_made(domain: Domain, tmp_path: Path) -> None:
    assert (await submit(domain, operation="ingest_staged")).status_code == 202
    [flow] = await dispatched(domain)
    worker = await at_work(flow, tmp_path)
    worker.fetches()
    domain.rows("update app.requests set status = 'failed', finished_at = now() - interval '30 days' returning 1")
    assert await swept(domain) == Collected()
    assert domain.rows("select collecting_at from app.requests") == [(None,)]


async def test_collected_request_is_rerun_from_the_beginning_or_not_at_all(domain: Domain, tmp_path: Path) -> None:
    worker = await working(domain, tmp_path)
    worker.plants()
    await worker.flow.fail()
    await swept(domain)
    path = f"/runs/{worker.flow.run_id}/rerun"
    refused = await call(domain, "operator", "POST", path, {"scope": "failed"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not-rerunnable")
    assert "has been removed. Rerun the run with scope `all`" in refused.json()["detail"]
    retried = await worker.flow.start(run_count=2)
    assert retried.status_code == 409
    assert "Rerun the run with scope `all`" in retried.json()["detail"]
    assert (await call(domain, "operator", "POST", path, {"scope": "all"})).status_code == 202
    [flow] = await dispatched(domain)
    again = await at_work(flow, tmp_path)
    assert (again.order["memory"], again.order["facts"]["attempt"]) == (2, 2)
    await committed(again, again.plants())
    await swept(domain)
    assert alone(domain) == []
    assert [one.name for one in domain.service.zones.of_service("silver").listed()] == [again.product]


async def test_files_of_a_rerun_stay_while_what_was_before_is_still_being_removed(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rerun begins after it was decided and before the first file is gone; runs of a plan share a folder."""
    monkeypatch.setattr(leftovers, "FILES_AT_ONCE", 1)
    assert (await submit(domain, operation="ingest_staged")).status_code == 202
    [flow] = await dispatched(domain)
    first = await at_work(flow, tmp_path)
    first.fetches()
    await first.flow.fail("lost")
    [flow] = await dispatched(domain)
    second = await at_work(flow, tmp_path)
    second.fetches()
    await second.flow.fail()
    domain.rows(ALL_OVER)
    [(request_id,)] = domain.rows("select request_id from app.requests")
    begun = await collecting(domain)._begin(request_id)
    assert begun is not None
    order = {"scope": "all"}
    assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", order)).status_code == 202
    [flow] = await dispatched(domain)
    again = await at_work(flow, tmp_path)
    again.plants()
    made = sorted(one.name for one in domain.service.zones.of_service("silver").listed())
    assert made
    while collecting(domain)._remove_some(begun.making):
        pass
    await collecting(domain)._end(begun, Collected())
    assert sorted(one.name for one in domain.service.zones.of_service("silver").listed()) == made
    assert domain.service.zones.runs.names(f"{flow.run_id}/m2/ledger/_nodes")
    assert not domain.service.zones.runs.names(f"{first.prefix}/parts")
    assert domain.rows("select collecting_at, collected_at from app.requests") == [(None, None)]
    assert domain.rows("select first_attempt from app.runs where sequence < 3") == [(3,), (3,)]


async def test_leftovers_that_one_process_could_not_remove_are_removed_by_another(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between two files, or the storage is away: others are in no way of it, and a lease later it is done."""
    broken, sound = await working(domain, tmp_path), None
    broken.plants()
    await broken.flow.fail()
    sound = await working(domain, tmp_path, refs={"dataset_id": "d", "resource_id": "other"})
    sound.plants()
    await sound.flow.fail()
    removed = LocalStore.remove

    def remove(store: LocalStore, listed: Any) -> None:
        if any(broken.prefix in one.name for one in listed):
            raise StorageUnavailable("away", retry_after_seconds=5)
        removed(store, listed)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "remove", remove)
        await swept(domain)
    found = alone(domain)
    assert any(broken.prefix in each for each in found)
    assert not any(sound.prefix in each for each in found)
    refused = await call(domain, "operator", "POST", f"/runs/{broken.flow.run_id}/rerun", {"scope": "failed"})
    assert refused.status_code == 409
    assert await swept(domain) == Collected(), "the lease is not over"
    leases_end(domain)
    await swept(domain)
    assert alone(domain) == []


async def test_tables_of_a_deleted_version_go_and_its_files_stay(domain: Domain, tmp_path: Path) -> None:
    worker = await working(domain, tmp_path)
    product = worker.plants()
    await committed(worker, product)
    await swept(domain)
    assert domain.rows(TABLES) == [(1,)]
    await _loses_its_version(worker)
    assert (await swept(domain)).tables == 1, "nobody is at it: no lease is waited for"
    assert domain.rows(TABLES) == [(0,)]
    assert domain.service.zones.silver.size_bytes(product.product) is not None


async def test_deletion_while_leftovers_are_being_removed_is_not_lost(domain: Domain, tmp_path: Path) -> None:
    """Whoever was at it knew of less that may go: its end is none, and the next look takes the rest."""
    worker = await working(domain, tmp_path)
    await committed(worker, worker.plants())
    domain.rows(ALL_OVER)
    [(request_id,)] = domain.rows("select request_id from app.requests")
    begun = await collecting(domain)._begin(request_id)
    assert begun is not None
    await _loses_its_version(worker)
    while collecting(domain)._remove_some(begun.making):
        pass
    await collecting(domain)._end(begun, Collected())
    assert (await swept(domain)).tables == 1
    assert domain.rows(TABLES) == [(0,)]


async def test_discarded_scratch_leaves_nothing(domain: Domain, tmp_path: Path) -> None:
    order = {"workflow_id": "vector_ingest", "inputs": {"source": "uploads/fields.geojson"}}
    assert (await call(domain, "operator", "POST", "/runs", order)).status_code == 202
    [flow] = await dispatched(domain)
    worker = await at_work(flow, tmp_path)
    await committed(worker, worker.plants())
    await swept(domain)
    assert alone(domain) == []
    [(asset_id,)] = domain.rows("select asset_id from app.assets")
    path = f"/assets/{asset_id}?reason=because"
    assert (await call(domain, "operator", "DELETE", path, headers={"If-Match": "*"})).is_success
    await swept(domain)
    zones = domain.service.zones
    assert [*zones.of_service("silver").listed(), *zones.of_service("runs").listed()] == []
    assert domain.rows(TABLES) == [(0,)]


async def test_copies_of_an_export_that_failed_go_and_those_that_are_out_stay(domain: Domain, tmp_path: Path) -> None:
    zones, cog = domain.service.zones, {"role": "cog", "zone": "silver", "name": "cog.tif", "media_type": "image/tiff"}
    kept = ""
    for name in ("fails", "works"):
        await submit(domain, refs={"dataset_id": "d", "resource_id": name}, source=f"uploads/{name}.tif")
        flow = await started(domain)
        assert (await flow.commit(artifacts=[flow.own(cog | {"size_bytes": 1})])).json()["state"] == "completed"
        [(asset_id,)] = domain.rows(
            "select asset_id from app.requests where asset_id is not null order by created_at desc limit 1"
        )
        assert (await decide(domain, asset_id, 0, "approve", clearance_level="public")).is_success
        export = await started(domain)
        [(given,)] = domain.rows("select inputs from app.runs where run_id = %s", export.run_id)
        copy = given["artifacts"][0] | {"zone": "external", "name": f"{given['destination']}/cog.tif"}
        zones.external.write_bytes(copy["name"], b"x")
        if name == "fails":
            assert (await export.fail()).is_success
        else:
            assert (await export.commit({"external_blob_path": given["destination"]}, artifacts=[copy])).is_success
            kept = copy["name"]
    assert len(alone(domain)) == 1
    await swept(domain)
    assert alone(domain) == []
    assert [one.name for one in zones.of_service("external").listed()] == [kept]
