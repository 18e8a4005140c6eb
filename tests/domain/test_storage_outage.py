"""Storage is away for a moment, or has lost a file: decisions are refused whole, and pages are readable all the same.

What Azure's store raises once it has tried for long enough is raised here by the folder's: an account that is busy on
demand cannot be had.
"""

from pathlib import Path

import pytest

from domain.loops.approval_expiry import ApprovalExpiry
from flows.handlers.errors import HandlerError, Transient
from flows.storage import LocalStore
from tests.support.acts import call, decide, started, submit
from tests.support.platform import Domain
from tests.support.tiled import hydrated, tiled

TROUBLES = [Transient("It is busy: ServerBusy."), HandlerError("It does not know us."), PermissionError("secret/path")]
STANDS = """
    select v.served_revision, v.lock_version, r.approval, (select count(*) from app.approvals),
        (select count(*) from app.audit where action = 'approve')
    from app.asset_versions v join app.revisions r using (asset_id, ordinal)
"""


def fail_with(monkeypatch: pytest.MonkeyPatch, trouble: Exception) -> None:
    def fails(*_: object) -> bytes:
        raise trouble

    for reads in ("stamp", "chunks", "read_bytes"):
        monkeypatch.setattr(LocalStore, reads, fails)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: type(trouble).__name__)
async def test_approval_during_a_storage_outage_is_refused_and_succeeds_later(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    asset_id = await tiled(domain, tmp_path, tiles=3)
    before = domain.rows(STANDS)
    with monkeypatch.context() as away:
        fail_with(away, trouble)
        refused = await decide(domain, asset_id, 0, "approve")
    assert (refused.status_code, refused.json()["code"]) == (503, "storage-unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    assert "secret" not in refused.text
    assert (domain.rows(STANDS), hydrated(domain, asset_id)) == (before, [])
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    assert len(hydrated(domain, asset_id)) == 3


async def test_approval_of_a_lost_staged_file_is_refused_as_not_in_storage(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, tiles=3)
    [(name,)] = domain.rows("select name from app.artifacts where role = 'stac_items'")
    domain.service.zones.silver.delete(name)
    before = domain.rows(STANDS)
    refused = await decide(domain, asset_id, 0, "approve")
    assert (refused.status_code, refused.json()["code"]) == (409, "not-in-storage")
    assert domain.rows(STANDS) == before


async def test_approval_that_ends_during_a_storage_outage_is_ended_later(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its collection is described anew, from words that lie in storage."""
    for ordinal in (0, 1):
        label = str(ordinal)
        asset_id = await tiled(domain, tmp_path, tiles=3, title="Alps", version_label=label, source=f"up/{label}.tif")
        assert (await decide(domain, asset_id, ordinal, "approve")).status_code == 200
    domain.rows("update app.approvals set expires_at = now() - interval '1 s' where ordinal = 1 returning 1")
    domain.rows("update app.revisions set approved_until = now() - interval '1 s' where ordinal = 1 returning 1")
    endings = ApprovalExpiry(domain.service, 1)
    with monkeypatch.context() as away:
        fail_with(away, TROUBLES[0])
        assert await endings.sweep() == 0
    assert await endings.sweep() == 1


async def test_reading_items_during_a_storage_outage_is_refused_in_the_same_words(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.beat({"node_id": "make_cog", "state": "running", "items_total": 6})

    def fails(*_: object) -> list[str]:
        raise TROUBLES[0]

    monkeypatch.setattr(LocalStore, "names", fails)
    refused = await call(domain, "reviewer", "GET", f"/runs/{flow.run_id}/nodes/make_cog/items")
    assert (refused.status_code, refused.json()["code"]) == (503, "storage-unavailable")
