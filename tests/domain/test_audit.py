"""The audit: every act leaves one entry, entries cannot be changed, and a change by force is found."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from domain.loops.audit_sealer import AuditSealer
from domain.rules.audit import Chain, SealKey
from domain.services.operations import audit
from tests.support.acts import approved, call, decide, processed
from tests.support.cluster import TestDatabase
from tests.support.platform import AUDIT_KEY, Domain, another_domain, running_domain


def sealer(domain: Domain) -> AuditSealer:
    return AuditSealer(domain.service.database, 60, domain.service.settings.audit_chain())


def added(at: str, many: int = 1) -> bytes:
    """The command that adds entries of a time."""
    row = f"{at}, 'somebody', 'operator', 'act', 'thing' from generate_series(1, {many})"
    return f"insert into app.audit (at, actor, role, action, subject) select {row} returning 1".encode()


def force(domain: Domain, statement: bytes) -> None:
    """What somebody with the whole server in hand can do."""
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(statement)


async def test_every_decision_leaves_one_entry(domain: Domain) -> None:
    asset_id = await processed(domain)
    await decide(domain, asset_id, 0, "approve", comment="fine")
    await decide(domain, asset_id, 0, "reject")  # refused: an act that did not happen leaves nothing
    page = (await call(domain, "operator", "GET", "/audit")).json()
    [entry] = page["entries"]
    assert (entry["actor"], entry["role"], entry["action"]) == ("reviewer", "reviewer", "approve")
    assert entry["subject"] == f"asset/{asset_id}/version/0/revision/1"
    counted = {"approvals": 1, "approvals_required": 1}
    assert entry["details"] == {"clearance": "ouo", "reason": "fine", **counted}


async def test_the_audit_is_paged_and_filtered(domain: Domain) -> None:
    await approved(domain)
    for _ in range(3):
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
    first = (await call(domain, "operator", "GET", "/audit?limit=2")).json()
    rest = (await call(domain, "operator", "GET", f"/audit?after={first['next_after']}")).json()
    assert [len(first["entries"]), len(rest["entries"]), rest["next_after"]] == [2, 2, None]
    found = (await call(domain, "operator", "GET", "/audit?subject=asset/")).json()["entries"]
    assert [entry["action"] for entry in found] == ["approve"]


@pytest.mark.parametrize("caller", ["ddh-dev", "reviewer", "worker", "gateway"])
async def test_only_operators_read_the_audit(domain: Domain, caller: str) -> None:
    assert (await call(domain, caller, "GET", "/audit")).status_code == 403
    assert (await call(domain, caller, "GET", "/audit/verify")).status_code == 403


async def test_sealers_take_turns_and_leave_nothing_out(domain: Domain) -> None:
    for _ in range(8):
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
    await asyncio.gather(*(sealer(domain).seal() for _ in range(5)))
    assert domain.rows("select count(*), max(sequence) from app.audit_seals") == [(8, 8)]
    verdict = (await call(domain, "operator", "GET", "/audit/verify")).json()
    assert (verdict["holds"], verdict["sequence"], verdict["unsealed"]) == (True, 8, 0)


async def test_an_entry_that_commits_behind_a_later_one_is_sealed(domain: Domain) -> None:
    working = sealer(domain)
    with psycopg.connect(domain.database.url()) as slow:
        slow.execute(added("now()"))
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
        assert [await working.seal() for _ in range(2)] == [1, 0]
    assert await working.seal() == 1
    sealed = [audit_id for (audit_id,) in domain.rows("select audit_id from app.audit_seals order by sequence")]
    assert sealed == sorted(sealed, reverse=True)


async def test_entry_that_commits_very_late_is_sealed_at_a_later_look(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is old each look goes through a stretch, then through the next, and from the beginning again."""
    monkeypatch.setattr(audit, "STRETCH", 2)
    working, old = sealer(domain), "now() - interval '1 hour'"
    with psycopg.connect(domain.database.url(), autocommit=True) as quick:
        quick.execute(added(old, many=3))
        with psycopg.connect(domain.database.url()) as stuck:
            stuck.execute(added(old))
            quick.execute(added(old, many=3))
            assert [await working.seal() for _ in range(2)] == [6, 0]
            assert [await working.seal() for _ in range(4)] == [0] * 4, "from the third to the seventh, to the second"
        assert [await working.seal() for _ in range(4)] == [1, 0, 0, 0]
    assert (await call(domain, "operator", "GET", "/audit/verify")).json()["unsealed"] == 0


async def test_another_sealer_begins_at_the_last_seal(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "STRETCH", 2)
    with psycopg.connect(domain.database.url(), autocommit=True) as quick:
        quick.execute(added("now()", many=9))
        assert await sealer(domain).seal() == 9
        quick.execute(added("now()", many=3))
    assert await sealer(domain).seal() == 3
    assert (await call(domain, "operator", "GET", "/audit/verify")).json()["holds"] is True


async def test_looking_for_unsealed_entries_reads_little_of_a_long_audit(domain: Domain) -> None:
    with psycopg.connect(domain.database.url(), autocommit=True) as administrator:
        administrator.execute(added("now() - interval '1 hour'", many=5000))
        working = sealer(domain)
        while await working.seal():
            pass
        administrator.execute("vacuum analyze app.audit, app.audit_seals")
        asked: list[tuple[str, Any]] = []
        engine = domain.service.database.engine.sync_engine
        event.listen(
            engine, "before_cursor_execute", lambda _c, _cursor, said, values, *_: asked.append((said, values))
        )
        assert await working.seal() == 0
        assert sum("app.audit" in said for said, _ in asked) == 4
        assert sum(pages(administrator, said, values) for said, values in asked) < 80


def pages(connection: psycopg.Connection, query: str, values: Any) -> int:
    """How many pages of tables and indexes a query reads."""
    [[plan]] = connection.execute(f"explain (analyze, buffers, format json) {query}".encode(), values).fetchall()
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("role", ["cairn_app", "cairn_admin"])
@pytest.mark.parametrize(
    "statement", ["update app.audit set actor = 'x'", "delete from app.audit", "truncate app.audit cascade"]
)
async def test_no_role_can_change_an_audit_entry(domain: Domain, role: str, statement: str) -> None:
    await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
    with (
        psycopg.connect(domain.database.url(role)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (b"update app.audit set actor = 'somebody else' where audit_id = 2", "was changed"),
        (b"delete from app.audit where audit_id = 2", "is gone"),
        (b"delete from app.audit_seals where sequence = 2", "is missing"),
    ],
)
async def test_entry_changed_by_force_is_found(domain: Domain, statement: bytes, says: str) -> None:
    for _ in range(3):
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
    await sealer(domain).seal()
    force(domain, statement)
    verdict = (await call(domain, "operator", "GET", "/audit/verify")).json()
    assert verdict["holds"] is False
    assert says in verdict["fault"]


async def test_audit_cut_at_its_end_is_found_with_a_noted_head(domain: Domain) -> None:
    for _ in range(3):
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
    await sealer(domain).seal()
    noted = (await call(domain, "operator", "GET", "/audit/verify")).json()
    asked = f"/audit/verify?sequence={noted['sequence']}&hash={noted['hash']}"
    assert (await call(domain, "operator", "GET", asked)).json()["holds"] is True
    force(domain, b"delete from app.audit_seals where sequence = 3")
    force(domain, b"delete from app.audit where audit_id = 3")
    assert (await call(domain, "operator", "GET", "/audit/verify")).json()["holds"] is True
    assert (await call(domain, "operator", "GET", asked)).json()["holds"] is False


async def test_a_chain_that_is_remade_without_the_key_is_found(domain: Domain) -> None:
    """Whoever has the whole server in hand, its code included, and not the domain's environment."""
    for _ in range(3):
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
    await sealer(domain).seal()
    verdict = (await call(domain, "operator", "GET", "/audit/verify")).json()
    assert (verdict["holds"], verdict["is_keyed"]) == (True, True)
    named = verdict["hash"].partition(":")[0]
    force(domain, b"update app.audit set actor = 'somebody else' where audit_id = 2")
    for forger, says in (
        (Chain(), "without a key"),
        (Chain((SealKey(named, b"guessed"),)), "was changed"),
        (Chain((SealKey.of("a key of their own, long enough to be one"),)), "which CAIRN_AUDIT_KEYS does not hold"),
    ):
        force(domain, b"delete from app.audit_seals")
        await AuditSealer(domain.service.database, 60, forger).seal()
        await call(domain, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
        await sealer(domain).seal()  # the honest sealer goes on from what it finds, and covers it
        told = (await call(domain, "operator", "GET", "/audit/verify")).json()
        assert (told["holds"], told["sequence"], says in told["fault"]) == (False, 1, True), told


async def test_keyless_seals_hold_after_keys_are_introduced(database: TestDatabase, tmp_path: Path) -> None:
    """As many as operators know of, whichever key seals now; development says that it has none."""
    async with running_domain(database, tmp_path, development=True, audit_keys=(), secrets_keys=()) as before:
        await call(before, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
        await sealer(before).seal()
        told = (await call(before, "operator", "GET", "/audit/verify")).json()
        assert (told["holds"], told["is_keyed"], told["sequence"]) == (True, False, 1)
    for known, keys, holds in ((0, (AUDIT_KEY,), False), (1, (AUDIT_KEY,), True), (1, ("n" * 32, AUDIT_KEY), True)):
        async with another_domain(database, tmp_path, audit_keys=keys, audit_seals_without_key=known) as now:
            await call(now, "operator", "POST", "/runs", {"workflow_id": "echo_test"})
            await sealer(now).seal()
            told = (await call(now, "operator", "GET", "/audit/verify")).json()
            assert told["holds"] is holds, told
            if holds:
                noted = f"?sequence={told['sequence']}&hash={told['hash']}"
                assert (await call(now, "operator", "GET", f"/audit/verify{noted}")).json()["holds"] is True
