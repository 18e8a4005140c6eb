"""What is published is what its run committed: files are compared before, outside every transaction, however large."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import Database
from domain.loops.approval_expiry import ApprovalExpiry
from domain.services.publication.file_checks import Committed, FileChecks
from flows.storage import LocalStore
from tests.support.acts import call, decide, keep_words, started, submit
from tests.support.clock import eventually
from tests.support.platform import Domain
from tests.support.tiled import hydrated, tiled

STANDS = """
    select v.served_revision, v.lock_version, r.approval, (select count(*) from app.approvals),
        (select count(*) from pgstac.items), (select count(*) from app.audit where action = 'approve')
    from app.asset_versions v join app.revisions r using (asset_id, ordinal)
"""
WAYS: dict[str, Callable[[Path], object]] = {
    "other content": lambda path: path.write_bytes(bytes(reversed(path.read_bytes() + b"!"))[:-1] + b"?"),
    "less": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "more": lambda path: path.write_bytes(path.read_bytes() + b"!"),
    "nothing": lambda path: path.write_bytes(b""),
}


def file_of(domain: Domain, role: str) -> Path:
    [(name,), *_] = domain.rows("select name from app.artifacts where role = %s order by name", role)
    store = domain.service.zones.silver
    assert isinstance(store, LocalStore)
    return store.root / str(name)


async def version(domain: Domain, storage: Path, ordinal: int) -> str:
    """The asset with one version more that awaits a decision."""
    label = str(ordinal)
    return await tiled(domain, storage, 2, title="Alps", version_label=label, source=f"up/{label}.tif")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", ["tile", "stac_items", "stac_collection"])
async def test_file_that_was_swapped_after_commit_is_not_published(
    domain: Domain, tmp_path: Path, role: str, way: str
) -> None:
    asset_id = await tiled(domain, tmp_path, 2, title="Alps")
    file, before = file_of(domain, role), domain.rows(STANDS)
    honest = file.read_bytes()
    WAYS[way](file)
    refused = await decide(domain, asset_id, 0, "approve")
    assert (refused.status_code, refused.json()["code"]) == (409, "content-differs")
    assert file.name not in refused.text
    assert domain.rows(STANDS) == before
    file.write_bytes(honest)
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    assert len(hydrated(domain, asset_id)) == 2


async def test_link_to_another_tenants_file_is_not_published_even_if_it_holds_the_same(
    domain: Domain, tmp_path: Path
) -> None:
    asset_id = await tiled(domain, tmp_path, 2)
    file = file_of(domain, "tile")
    theirs = file.parents[3] / "theirs.tif"
    theirs.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(theirs)
    refused = await decide(domain, asset_id, 0, "approve")
    assert (refused.status_code, refused.json()["code"]) == (409, "not-in-storage")


async def test_vote_that_does_not_publish_reads_no_file(domain: Domain, tmp_path: Path) -> None:
    asset_id = await tiled(domain, tmp_path, 2)
    domain.rows("update app.platforms set approvals_required = 2 where platform_id = 'ddh' returning 1")
    file_of(domain, "tile").unlink()
    assert (await decide(domain, asset_id, 0, "approve")).json()["approvals"] == 1
    assert (await decide(domain, asset_id, 0, "approve", by="admin")).json()["code"] == "not-in-storage"


async def test_metadata_file_of_another_version_that_was_swapped_is_not_shown_and_blocks_nothing(
    domain: Domain, tmp_path: Path
) -> None:
    """To unpublish must always be possible. The collection has its usual words then."""
    asset_id = await version(domain, tmp_path, 0)
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    await version(domain, tmp_path, 1)
    assert (await decide(domain, asset_id, 1, "approve")).status_code == 200
    title = "select content ->> 'title' from pgstac.collections"
    assert domain.rows(title) == [("Alps",)]
    file_of(domain, "stac_collection").write_text('{"title": "Evil"}')  # of version 0, which is the newest soon
    assert (await decide(domain, asset_id, 1, "unpublish")).status_code == 200
    [(shown,)] = domain.rows(title)
    assert "elevation" in shown


@pytest.fixture
async def looks(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is read of the silver zone, and how many transactions are open meanwhile: but for those of loops."""
    loops, held = asyncio.all_tasks() - {asyncio.current_task()}, list[asyncio.Task[Any] | None]()
    seen: list[tuple[str, int]] = []
    transaction = Database.transaction

    @asynccontextmanager
    async def noted(database: Database, unit: str = "") -> AsyncIterator[AsyncSession]:
        async with transaction(database, unit) as session:
            held.append(asyncio.current_task())
            try:
                yield session
            finally:
                held.remove(asyncio.current_task())

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def reads(store: LocalStore, *given: Any) -> Any:
            if store.root.name == "silver":
                seen.append((name, len([task for task in held if task not in loops])))
            return original(store, *given)

        return reads

    monkeypatch.setattr(Database, "transaction", noted)
    for name in ("stamp", "size_bytes", "chunks", "read_bytes", "read_range", "readable_path"):
        monkeypatch.setattr(LocalStore, name, watched(name, getattr(LocalStore, name)))
    return seen


async def test_no_connection_is_held_while_files_are_read(
    domain: Domain, tmp_path: Path, looks: list[tuple[str, int]]
) -> None:
    """By whatever decides: people, commands, and approvals that end."""
    asset_id = await version(domain, tmp_path, 0)
    await _reads(looks, decide(domain, asset_id, 0, "approve"))
    await version(domain, tmp_path, 1)
    await _reads(looks, decide(domain, asset_id, 1, "approve"))
    assert (await keep_words(domain, asset_id, {"title": "Alps", "description": "High"})).status_code == 200
    for command in ("metadata.publish", "asset.reindex", "metadata.unpublish"):
        await _reads(looks, call(domain, "operator", "POST", f"/commands/{command}", {"asset_id": asset_id}))
    await _reads(looks, decide(domain, asset_id, 1, "unpublish"))
    await _reads(looks, decide(domain, asset_id, 1, "approve"))
    for table, column in (("approvals", "expires_at"), ("revisions", "approved_until")):
        ended = f"update app.{table} set {column} = now() - interval '1 s' where ordinal = 1 returning 1"  # noqa: S608
        assert domain.rows(ended)
    looks.clear()
    assert await ApprovalExpiry(domain.service, 1).sweep() == 1
    assert looks
    assert {held for _, held in looks} == {0}


async def _reads(looks: list[tuple[str, int]], act: Any) -> None:
    looks.clear()
    answer = await act
    assert answer.status_code == 200, answer.text
    assert looks
    assert {held for _, held in looks} == {0}, answer.request.url


@pytest.fixture
def gate(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Event, list[str]]]:
    """A large product, written long ago: its second half comes once the gate is open. Nobody waits long for it."""
    opened, begun, original = Event(), list[str](), LocalStore.chunks

    def slow(store: LocalStore, name: str) -> Iterator[bytes]:
        if name.endswith("large.tif"):
            begun.append(name)
            yield (store.root / name).read_bytes()[:3]
            opened.wait(60)
            yield (store.root / name).read_bytes()[3:]
        else:
            yield from original(store, name)

    monkeypatch.setattr(LocalStore, "chunks", slow)
    monkeypatch.setattr(LocalStore, "stamp", lambda *_: "long ago")
    monkeypatch.setattr(domain.service.file_checks, "_wait_seconds", 0.2)
    yield opened, begun
    opened.set()


async def with_product(domain: Domain, name: str, **changes: Any) -> str:
    await submit(domain, **changes)
    flow = await started(domain)
    about = {"role": "cog", "zone": "silver", "name": name, "media_type": "image/tiff"}
    assert (await flow.commit(artifacts=[flow.own(about, b"content")])).json()["state"] == "completed"
    [(asset_id,)] = domain.rows("select asset_id from app.artifacts where name like %s", f"%{name}")
    return str(asset_id)


async def test_large_file_is_read_behind_the_answer_and_only_once(
    domain: Domain, gate: tuple[Event, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, begun = gate
    asset_id = await with_product(domain, "large.tif")
    other = await with_product(domain, "small.tif", refs={"dataset_id": "other", "resource_id": "dem"})
    before = domain.rows(STANDS)
    for _ in range(3):
        refused = await decide(domain, asset_id, 0, "approve")
        assert (refused.status_code, refused.json()["code"]) == (503, "files-being-read")
        assert int(refused.headers["Retry-After"]) >= 1
    assert domain.rows(STANDS) == before
    monkeypatch.setattr(domain.service.file_checks, "_wait_seconds", 60)
    assert (await decide(domain, other, 0, "approve")).status_code == 200  # its turn comes beside the large one
    opened.set()
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 200
    assert len(begun) == 1


async def test_large_file_that_differs_is_refused_at_once_when_asked_again(
    domain: Domain, gate: tuple[Event, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, begun = gate
    asset_id = await with_product(domain, "large.tif")
    file_of(domain, "cog").write_bytes(b"cOntent")
    assert (await decide(domain, asset_id, 0, "approve")).json()["code"] == "files-being-read"
    opened.set()
    await eventually(lambda: not domain.service.file_checks._under_way)
    monkeypatch.setattr(domain.service.file_checks, "_wait_seconds", 60)
    assert (await decide(domain, asset_id, 0, "approve")).json()["code"] == "content-differs"
    assert len(begun) == 1


class Stamped(LocalStore):
    """A store of which a test says when a file was written."""

    def stamp(self, name: str) -> str | None:
        return (self.root / "stamp").read_text()

    def chunks(self, name: str) -> Iterator[bytes]:
        with (self.root / "reads").open("a") as reads:
            reads.write(".")
        yield from super().chunks(name)


async def test_file_is_read_again_only_once_it_was_written_again(tmp_path: Path) -> None:
    store = Stamped(tmp_path)
    store.write_bytes("a/b", b"x")
    sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    checks = FileChecks(store, wait_seconds=60)
    for stamp, reads in (("1", 1), ("1", 1), ("2", 2), ("2", 2)):
        (tmp_path / "stamp").write_text(stamp)
        await checks.check([Committed("a/b", sha256, 1)])
        assert (tmp_path / "reads").read_text() == "." * reads
    checks.close()


async def test_check_that_nobody_waits_for_ends_with_the_process(tmp_path: Path) -> None:
    store = Stamped(tmp_path)
    checks = FileChecks(store, wait_seconds=60)
    waiting = asyncio.create_task(checks.check([Committed("a/b", "0" * 64, 1)]))
    await asyncio.sleep(0)
    checks.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
