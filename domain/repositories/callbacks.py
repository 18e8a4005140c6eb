"""Callbacks, their endpoints, secrets and delivery log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Select, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Callback, CallbackDelivery, CallbackEndpoint, CallbackSecret, Request
from domain.rules.callbacks import CallbackState
from domain.rules.paging import Position

# An endpoint that does not answer keeps one sender busy at a time; a good one is served by a few. Leases count
# across instances, so the limit holds for all of them together. Endpoints are as many as partners ever named, often one
# a request: `owed` steps through the index of what waits, from one endpoint with something due to the next.
CLAIM = text("""
    with recursive owed as (
        (select endpoint_id from app.callbacks
         where state in ('ready', 'sending') and next_at <= now()
         order by endpoint_id limit 1)
        union all
        select (select d.endpoint_id from app.callbacks d
                where d.state in ('ready', 'sending') and d.next_at <= now() and d.endpoint_id > o.endpoint_id
                order by d.endpoint_id limit 1)
        from owed o where o.endpoint_id is not null
    )
    update app.callbacks c
    set state = 'sending', tries = tries + 1, claim = claim + 1,
        next_at = clock_timestamp() + make_interval(secs => :lease)
    from (
        select picked.callback_id
        from owed
        join app.callback_endpoints e using (endpoint_id)
        cross join lateral (
            select d.callback_id, d.next_at
            from app.callbacks d
            where d.endpoint_id = e.endpoint_id and d.state in ('ready', 'sending') and d.next_at <= now()
            order by d.next_at
            limit greatest(0, case when e.failures > 0 then 1 else :each end - (
                select count(*) from app.callbacks b
                where b.endpoint_id = e.endpoint_id and b.state = 'sending' and b.next_at > now()))
            for update skip locked
        ) picked
        where e.disabled_at is null
        order by picked.next_at
        limit :batch
    ) due, app.callback_endpoints e
    where c.callback_id = due.callback_id and e.endpoint_id = c.endpoint_id
    returning c.callback_id, c.claim, c.tries, c.request_id, c.status, c.problem, c.endpoint_id, e.url,
        clock_timestamp() as now,
        array(select s.sealed from app.callback_secrets s
              where s.client_id = e.client_id and (s.retires_at is null or s.retires_at > clock_timestamp())
              order by s.secret_id desc) as sealed_secrets
""")


@dataclass(frozen=True)
class DueCallback:
    """One callback under our lease, with all that sending it takes."""

    callback_id: UUID
    claim: int
    tries: int
    request_id: UUID
    status: str
    problem: dict[str, Any] | None
    endpoint_id: int
    url: str
    now: datetime
    sealed_secrets: list[str]


@dataclass(frozen=True)
class Callbacks:
    session: AsyncSession

    async def enqueue(self, request: Request) -> None:
        """Tell the partner of the request's end, if it asked to be told. Sent once this is committed."""
        if request.callback_url is None or request.client_id is None:
            return
        endpoint = await self._endpoint(request.client_id, request.callback_url)
        disabled = endpoint.disabled_at is not None
        self.session.add(
            Callback(
                callback_id=uuid4(),
                request_id=request.request_id,
                endpoint_id=endpoint.endpoint_id,
                status=request.status.value,
                problem=request.problem if request.status == "failed" else None,
                state=CallbackState.DISABLED if disabled else CallbackState.READY,
            )
        )

    async def _endpoint(self, client_id: str, url: str) -> CallbackEndpoint:
        await self.session.execute(
            insert(CallbackEndpoint).values(client_id=client_id, url=url).on_conflict_do_nothing()
        )
        # Locked against a 410 that would disable the endpoint, and what waits for it, beside us.
        query = select(CallbackEndpoint).where(CallbackEndpoint.client_id == client_id, CallbackEndpoint.url == url)
        return (await self.session.scalars(query.with_for_update(key_share=True))).one()

    async def claim(self, batch: int, each: int, lease_seconds: float) -> Sequence[DueCallback]:
        """Take a lease on what is due, a few of each endpoint, the longest due first."""
        rows = await self.session.execute(CLAIM, {"batch": batch, "each": each, "lease": lease_seconds})
        return [DueCallback(**row) for row in rows.mappings()]

    def log_delivery(
        self, callback_id: UUID, status_code: int | None, error: str | None, excerpt: str | None, duration_ms: int
    ) -> None:
        self.session.add(
            CallbackDelivery(
                callback_id=callback_id, status_code=status_code, error=error, excerpt=excerpt, duration_ms=duration_ms
            )
        )

    async def settle(self, due: DueCallback, state: CallbackState, wait_seconds: float | None = None) -> bool:
        """Note what became of a try. False where the lease was lost: another sender's word counts then.

        The endpoint was noted before and is locked by that: where a try beside this one had it disabled, what would
        wait for its next try waits for a replay.
        """
        if state is CallbackState.READY and await self._is_disabled(due.endpoint_id):
            state, wait_seconds = CallbackState.DISABLED, None
        values: dict[str, Any] = {"state": state}
        if wait_seconds is None:
            values["finished_at"] = func.clock_timestamp()
        else:
            values["next_at"] = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, wait_seconds)
        held = (
            Callback.callback_id == due.callback_id,
            Callback.claim == due.claim,
            Callback.state == CallbackState.SENDING,
        )
        changed = await self.session.execute(update(Callback).where(*held).values(**values).returning(Callback.claim))
        return changed.first() is not None

    async def _is_disabled(self, endpoint_id: int) -> bool:
        disabled_at = select(CallbackEndpoint.disabled_at).where(CallbackEndpoint.endpoint_id == endpoint_id)
        return await self.session.scalar(disabled_at) is not None

    async def note_endpoint(self, endpoint_id: int, *, answered: bool) -> None:
        """Count failures in a row; written only where that changes something."""
        endpoint = update(CallbackEndpoint).where(CallbackEndpoint.endpoint_id == endpoint_id)
        if answered:
            await self.session.execute(endpoint.where(CallbackEndpoint.failures > 0).values(failures=0))
        else:
            await self.session.execute(endpoint.values(failures=CallbackEndpoint.failures + 1))

    async def disable(self, endpoint_id: int) -> None:
        """Send nothing more there; what waits is kept for a replay."""
        where = CallbackEndpoint.endpoint_id == endpoint_id
        await self.session.execute(update(CallbackEndpoint).where(where).values(disabled_at=func.clock_timestamp()))
        waiting = (Callback.endpoint_id == endpoint_id, Callback.state == CallbackState.READY)
        await self.session.execute(
            update(Callback).where(*waiting).values(state=CallbackState.DISABLED, finished_at=func.clock_timestamp())
        )

    async def get(self, callback_id: UUID) -> tuple[Callback, CallbackEndpoint] | None:
        row = (await self.session.execute(_with_endpoint().where(Callback.callback_id == callback_id))).first()
        return (row[0], row[1]) if row else None

    async def send_again(self, callback: Callback) -> None:
        """Start the schedule anew, at an endpoint that may have been disabled. The endpoint first, as everywhere."""
        await self.session.execute(
            update(CallbackEndpoint)
            .where(CallbackEndpoint.endpoint_id == callback.endpoint_id)
            .values(disabled_at=None, failures=0)
        )
        await self.session.execute(
            update(Callback)
            .where(Callback.callback_id == callback.callback_id)
            .values(
                state=CallbackState.READY,
                tries=0,
                claim=Callback.claim + 1,
                next_at=func.clock_timestamp(),
                finished_at=None,
            )
        )

    async def page(
        self, limit: int, after: Position | None, request_id: UUID | None, state: CallbackState | None
    ) -> Sequence[tuple[Callback, CallbackEndpoint]]:
        """Newest first."""
        query = _with_endpoint().order_by(Callback.created_at.desc(), Callback.callback_id.desc()).limit(limit)
        if after is not None:
            query = query.where(tuple_(Callback.created_at, Callback.callback_id) < tuple_(after.at, after.id))
        if request_id is not None:
            query = query.where(Callback.request_id == request_id)
        if state is not None:
            query = query.where(Callback.state == state)
        return [(row[0], row[1]) for row in await self.session.execute(query)]

    async def deliveries(self, callback_id: UUID) -> Sequence[CallbackDelivery]:
        query = select(CallbackDelivery).where(CallbackDelivery.callback_id == callback_id)
        return (await self.session.scalars(query.order_by(CallbackDelivery.delivery_id))).all()

    async def has_secret(self, client_id: str) -> bool:
        query = select(CallbackSecret.secret_id).where(
            CallbackSecret.client_id == client_id, CallbackSecret.retires_at.is_(None)
        )
        return await self.session.scalar(query) is not None

    async def secrets_marked(self, mark: str) -> Sequence[CallbackSecret]:
        """Secrets that are stored in the way that begins so, each locked."""
        query = select(CallbackSecret).where(CallbackSecret.sealed.startswith(mark, autoescape=True))
        return (await self.session.scalars(query.with_for_update(skip_locked=True))).all()

    async def rotate_secret(self, client_id: str, sealed: str, overlap_seconds: float) -> datetime | None:
        """Sign with a new secret from now on, and with the one before until the time that is returned."""
        retires_at = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, overlap_seconds)
        current = (CallbackSecret.client_id == client_id, CallbackSecret.retires_at.is_(None))
        retired = update(CallbackSecret).where(*current).values(retires_at=retires_at)
        until = (await self.session.execute(retired.returning(CallbackSecret.retires_at))).scalars().first()
        self.session.add(CallbackSecret(client_id=client_id, sealed=sealed))
        return until


def _with_endpoint() -> Select[Callback, CallbackEndpoint]:
    return select(Callback, CallbackEndpoint).join(
        CallbackEndpoint, CallbackEndpoint.endpoint_id == Callback.endpoint_id
    )
