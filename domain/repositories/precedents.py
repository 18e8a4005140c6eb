"""Reads what a submission is judged by: its platform, its asset, the same request of before, the versions so far.

Run for every submission, so the driver runs it: through the session each statement would cost four times as much.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.numeric import Int4, Int8
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.submissions import Priority, SubmissionCreate
from domain.db import driver
from domain.rules import identity
from domain.rules.keys import common
from domain.rules.lifecycle import Approval, RequestState
from domain.rules.versions import VersionFacts

# On the way, how long locks are waited for, and two locks named by the halves of the request's id: nobody waits for
# these, but who waits for us reads in them whose turn it is. Another trip would cost as much as reading.
PLATFORM = """
    select required_refs, optional_refs, source_prefixes, priority_cap, set_config('lock_timeout', %(wait)s, true),
           pg_advisory_xact_lock_shared(%(half)s), pg_advisory_xact_lock_shared(%(third_quarter)s, %(last_quarter)s)
    from app.platforms where platform_id = %(platform_id)s and is_active
"""
# The platform's id has no space in it, so no two platforms' keys are the same words.
TAKE_KEY = "select pg_advisory_xact_lock(hashtextextended(%s || ' ' || %s, 0))"
KEEP_KEY = "insert into app.later_keys (platform_id, idempotency_key, request_id) values (%s, %s, %s)"
STORED = """
    (select request_id from app.requests where platform_id = %(platform_id)s and idempotency_key = %(key)s)
    union all
    (select request_id from app.requests where asset_id = %(asset_id)s and submitted ->> 'version_label' = %(label)s
     order by created_at desc limit 1)
    limit 1
"""
# Who has the turn of this key or this asset, and waits for nobody itself: else it may yet be another's duplicate. The
# key's first, which is waited for first.
AHEAD = """
    with locks as materialized (
        select pid, granted, mode, objsubid, classid::bigint as high, objid::bigint as low, locktype = 'advisory'
               and database = (select oid from pg_database where datname = current_database()) as is_ours
        from pg_locks
    )
    select (lpad(to_hex(half.high), 8, '0') || lpad(to_hex(half.low), 8, '0')
            || lpad(to_hex(rest.high), 8, '0') || lpad(to_hex(rest.low), 8, '0'))::uuid
    from unnest(array[hashtextextended(%(platform_id)s || ' ' || %(key)s, 0), hashtextextended(%(asset_id)s, 0)])
        with ordinality as named (name, place)
    join locks turn on (turn.high << 32) + turn.low = named.name and turn.is_ours and turn.granted
        and turn.mode = 'ExclusiveLock' and turn.objsubid = 1
    join locks half on half.pid = turn.pid and half.is_ours and half.mode = 'ShareLock' and half.objsubid = 1
    join locks rest on rest.pid = turn.pid and rest.is_ours and rest.mode = 'ShareLock' and rest.objsubid = 2
    where not exists (select from locks waiting where waiting.pid = turn.pid and not waiting.granted)
    order by named.place limit 1
"""
# Submissions take turns by the lock that others can read of; decisions lock the row alone. The update changes nothing,
# but locks and returns what is there.
TAKE_ASSET = """
    insert into app.assets (asset_id, platform_id, refs, data_type)
    select %(asset_id)s, %(platform_id)s, cast(%(refs)s as jsonb), %(data_type)s
    from pg_advisory_xact_lock(hashtextextended(%(asset_id)s, 0))
    on conflict (asset_id) do update set asset_id = excluded.asset_id
    returning deleted_at is not null, data_type
"""
# All keys between these two that begin with the first: the index finds them in any language's order.
BATCH = """
    select left(idempotency_key, %(length)s) from app.requests
    where platform_id = %(platform_id)s and idempotency_key >= %(first)s and idempotency_key < %(first)s || 'z'
        and starts_with(idempotency_key, %(first)s) limit 1
"""
SAME_ID = "request_id = %(request_id)s"
# A key is of the request that it brought, or of the one that it found to be the same.
SAME_KEY = """(platform_id = %(platform_id)s and idempotency_key = %(key)s) or request_id = (
    select request_id from app.later_keys where platform_id = %(platform_id)s and idempotency_key = %(key)s)"""


def _read(same: str) -> str:
    """The request that is the same, beside every version by its newest revision; versions that were deleted as well."""
    return f"""
        select earlier.*, v.ordinal, v.label, r.revision, r.approval, r.processing, r.fingerprint,
               v.served_revision is not null, r.decided_at is not null, v.deleted_at is null
        from (values (1)) as always
        left join lateral (
            select request_id, fingerprint, status, priority from app.requests
            where {same} order by {SAME_ID} desc limit 1
        ) earlier on true
        left join (
            app.asset_versions v join app.revisions r
            on r.asset_id = v.asset_id and r.ordinal = v.ordinal and r.revision = v.newest_revision
        ) on v.asset_id = %(asset_id)s
        order by v.ordinal
    """  # noqa: S608 - the parts are the constants above


WITHOUT_KEY, WITH_KEY = _read(SAME_ID), _read(f"({SAME_ID} or {SAME_KEY})")


@dataclass(frozen=True)
class References:
    """Which references name an asset of a platform, where its sources lie, and how urgent its work may be."""

    required: Sequence[str]
    optional: Sequence[str]
    source_prefixes: Sequence[str]
    priority_cap: str


@dataclass(frozen=True)
class Seen:
    """What recognising a submission takes."""

    request_id: UUID
    fingerprint: str
    status: RequestState
    priority: Priority


@dataclass(frozen=True)
class LockedAsset:
    """The locked asset as it was."""

    was_deleted: bool
    data_type: str


@dataclass(frozen=True)
class Precedent:
    """The request of the same id, else of the same key; the undeleted versions, oldest first; the ordinal to come."""

    seen: Seen | None
    versions: Sequence[VersionFacts]
    next_ordinal: int


@dataclass(frozen=True)
class Precedents:
    session: AsyncSession

    async def begin(self, submission: SubmissionCreate, wait_seconds: float) -> References | None:
        """What the platform's assets are named by and made from, if it is active. No lock is waited for longer."""
        terms = {"platform_id": submission.platform_id, "wait": f"{1000 * wait_seconds:.0f}ms"}
        values = terms | _named_by(submission.request_id)
        found = await (await (await driver(self.session)).execute(PLATFORM, values)).fetchone()
        return None if found is None else References(*found[:4])

    async def ahead(self, submission: SubmissionCreate) -> UUID | None:
        """The request that is being accepted, as far as it can be known: nobody can read it yet.

        To be asked once a lock was waited for in vain: nothing else can be done in this transaction.
        """
        connection = await driver(self.session)
        await connection.rollback()
        place = {"asset_id": identity.asset_id(submission.platform_id, submission.refs)}
        values = place | {"platform_id": submission.platform_id, "key": submission.idempotency_key}
        found = await (await connection.execute(STORED, values | {"label": submission.version_label})).fetchone()
        found = found or await (await connection.execute(AHEAD, values)).fetchone()
        return None if found is None else found[0]

    async def take_key(self, platform_id: str, key: str) -> None:
        """Have submissions with one key take turns: those about different assets share no other lock."""
        await (await driver(self.session)).execute(TAKE_KEY, [platform_id, key])

    async def keep_key(self, submission: SubmissionCreate, request_id: UUID) -> None:
        """Have the key of a submission that was another's duplicate stand for that request from now on."""
        values = [submission.platform_id, submission.idempotency_key, request_id]
        await (await driver(self.session)).execute(KEEP_KEY, values)

    async def batch_of(self, platform_id: str, mark: str) -> str | None:
        """The mark of the batch that the key of this one was used for."""
        values = {"platform_id": platform_id, "first": common(mark), "length": len(mark)}
        found = await (await (await driver(self.session)).execute(BATCH, values)).fetchone()
        return None if found is None else str(found[0])

    async def take_asset(self, asset_id: str, submission: SubmissionCreate) -> LockedAsset:
        """Make the asset if it is new, and lock it: submissions and decisions about one asset take turns.

        Only what is read after this is what the turn before left behind.
        """
        place = {"asset_id": asset_id, "platform_id": submission.platform_id}
        values = place | {"refs": json.dumps(submission.refs), "data_type": submission.data_type}
        taken = await (await (await driver(self.session)).execute(TAKE_ASSET, values)).fetchone()
        return LockedAsset(*taken) if taken else LockedAsset(False, submission.data_type)

    async def read(self, asset_id: str, submission: SubmissionCreate) -> Precedent:
        """Everything that came before. Ordinals are never given twice: deleted versions count."""
        key = submission.idempotency_key
        place = {"request_id": submission.request_id, "platform_id": submission.platform_id, "asset_id": asset_id}
        reading = (await driver(self.session)).execute(WITHOUT_KEY if key is None else WITH_KEY, place | {"key": key})
        rows = await (await reading).fetchall()
        request_id, fingerprint, status, priority = rows[0][:4]
        seen = None if request_id is None else Seen(request_id, fingerprint, RequestState(status), priority)
        found = [row[4:] for row in rows if row[4] is not None]
        return Precedent(seen, [_facts(*row[:-1]) for row in found if row[-1]], found[-1][0] + 1 if found else 0)


def _named_by(request_id: UUID) -> dict[str, Int8 | Int4]:
    """The names of the two locks that say which request is being accepted: one is a long number, one two short ones."""
    half, third, last = struct.unpack(">qii", request_id.bytes)
    return {"half": Int8(half), "third_quarter": Int4(third), "last_quarter": Int4(last)}


def _facts(
    ordinal: int,
    label: str,
    revision: int,
    approval: str,
    processing: str,
    fingerprint: str,
    served: bool,
    decided: bool,
) -> VersionFacts:
    states = Approval(approval), RequestState(processing)
    return VersionFacts(ordinal, label, revision, *states, fingerprint, served, decided)
