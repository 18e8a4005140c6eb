"""What routes ask for: the caller, a transaction, the use cases on it. All async: FastAPI sends the rest to threads."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.reviews import Decision
from domain.contracts.submissions import SubmissionCreate
from domain.errors import Forbidden
from domain.repositories.assets import Assets
from domain.repositories.platforms import Platforms
from domain.rules.clearance import REVIEW_SCOPE, REVIEWERS, STAFF, may_review
from domain.rules.scratch import is_scratch
from domain.security import Identity, Role
from domain.services.assembly import exports_of, review_desk
from domain.services.lookups import no_asset
from domain.services.operations.callbacks import CallbackDesk
from domain.services.operations.clients import ClientDesk
from domain.services.operations.discarding import Removal, ScratchDesk
from domain.services.operations.records import RecordDesk
from domain.services.publication.assets import AssetChanges
from domain.services.publication.deciding import FilesRead, decided
from domain.services.publication.exports import ExportDesk
from domain.services.publication.reviews import Reviews
from domain.services.runs.endings import RunLifecycle
from domain.services.runs.queueing import InternalRuns
from domain.services.runs.starts import RunStarts
from domain.services.submissions.accept import Submissions
from domain.services.submissions.waiting_line import Turn
from domain.shared.authentication import required_credential
from domain.state import Service


async def service(request: Request) -> Service:
    """What the application made at its start."""
    made: Service = request.app.state.service
    return made


ServiceState = Annotated[Service, Depends(service)]


async def transaction(state: ServiceState) -> AsyncIterator[AsyncSession]:
    """One transaction for the request."""
    async with state.database.transaction() as session:
        yield session


# `function` scope commits before the answer is sent: nobody is told of what could still be rolled back.
Session = Annotated[AsyncSession, Depends(transaction, scope="function")]


@dataclass(frozen=True)
class Caller:
    """What a request shows of who sent it. Behind a proxy, uvicorn has to believe the proxy's word for the address."""

    secret: str
    address: str


async def caller(request: Request) -> Caller:
    return Caller(required_credential(request.headers), request.client.host if request.client else "")


Shown = Annotated[Caller, Depends(caller)]


def allowed(*roles: Role) -> Callable[..., Coroutine[Any, Any, Identity]]:
    """A dependency that lets only these roles through."""

    async def identify(session: Session, state: ServiceState, shown: Shown) -> Identity:
        return await _let_in(session, state, shown, roles)

    return identify


def allowed_beforehand(*roles: Role) -> Callable[..., Coroutine[Any, Any, Identity]]:
    """Return a dependency like `allowed`, whose transaction is over before the route begins."""

    async def identify(state: ServiceState, shown: Shown) -> Identity:
        async with state.database.transaction() as session:
            return await _let_in(session, state, shown, roles)

    return identify


async def let_in(request: Request, state: Service, *roles: Role) -> None:
    """Refuse callers without one of the roles, for routes that have another way in as well."""
    shown = await caller(request)
    async with state.database.transaction() as session:
        await _let_in(session, state, shown, roles)


async def decider(asset_id: str, session: Session, state: ServiceState, shown: Shown) -> Identity:
    """Return the caller if they may decide about this asset; a partner's reviewer finds only its own."""
    identity = await _let_in(session, state, shown, (*sorted(REVIEWERS), "partner"))
    await _refuse_strangers(asset_id, session, identity)
    return identity


async def _refuse_strangers(asset_id: str, session: AsyncSession, identity: Identity) -> None:
    """Answer a partner about another platform's asset as about a missing one."""
    if identity.role == "partner":
        if REVIEW_SCOPE not in identity.scopes:
            raise Forbidden("This needs the scope review, which your credential has not.")
        if not may_review(identity, await Assets(session).platform_of(asset_id)):
            raise no_asset(asset_id)


async def decider_beforehand(asset_id: str, state: ServiceState, shown: Shown) -> Identity:
    """Return the decider like `decider`, in a transaction that is over before the route begins."""
    async with state.database.transaction() as session:
        return await decider(asset_id, session, state, shown)


async def deleter(asset_id: str, session: Session, state: ServiceState, shown: Shown) -> Identity:
    """Return the caller if they may delete this asset: its deciders, and operators where it is scratch."""
    if not is_scratch(await Assets(session).platform_of(asset_id)):
        return await decider(asset_id, session, state, shown)
    identity = await _let_in(session, state, shown, (*sorted(STAFF), "partner"))
    await _refuse_strangers(asset_id, session, identity)
    return identity


async def _let_in(session: AsyncSession, state: Service, shown: Caller, roles: tuple[Role, ...]) -> Identity:
    # An issuer's keys may be fetched here. The session has no connection before its first statement.
    identity = await state.authentication.identify(shown.secret, shown.address, Platforms(session))
    if identity.role not in roles:
        raise Forbidden(f"This needs one of the roles {', '.join(roles)}; the credential is a {identity.role}'s.")
    return identity


async def turn(submission: SubmissionCreate, state: ServiceState) -> AsyncIterator[Turn]:
    """Wait for the submission's turn before the transaction begins: a waiting caller must hold no connection."""
    async with state.turns.taken(submission) as taken:
        yield taken


InTurn = Annotated[Turn, Depends(turn, scope="function")]


async def submissions(session: Session, state: ServiceState) -> Submissions:
    return Submissions(session, state.definitions, state.quotas, state.settings.source_policy())


async def internal_runs(session: Session, state: ServiceState) -> InternalRuns:
    return InternalRuns(session, state.definitions)


async def starts(session: Session) -> RunStarts:
    return RunStarts(session)


async def lifecycle(session: Session, state: ServiceState) -> RunLifecycle:
    return RunLifecycle(session, state.settings.max_attempts, state.settings.attempt_pause_seconds)


IfMatch = Annotated[str | None, Header(description="The ETag of what was read, or * for whatever is there")]


async def export_desk(session: Session, state: ServiceState) -> ExportDesk:
    return exports_of(session, state)


Exports = Annotated[ExportDesk, Depends(export_desk)]


@dataclass(frozen=True)
class Deciding:
    """Makes one caller's decisions, each in a transaction of its own in which no file is read."""

    service: Service
    if_match: str | None

    async def __call__(self, decide: Callable[[Reviews], Awaitable[Decision]]) -> Decision:
        """Make the decision, commit it, and return it."""

        async def act(session: AsyncSession, files: FilesRead) -> Decision:
            return await decide(review_desk(session, self.service, files, self.if_match))

        return await decided(self.service.database, self.service.file_checks, act)


async def deciding(state: ServiceState, if_match: IfMatch = None) -> Deciding:
    return Deciding(state, if_match)


async def asset_changes(session: Session, exports: Exports, if_match: IfMatch = None) -> AssetChanges:
    return AssetChanges(session, exports, if_match)


async def removal(state: ServiceState) -> AsyncIterator[Removal]:
    """Return a removal that is carried out after the route has ended, its transaction too, unless that failed."""
    made = Removal(state.zones)
    yield made
    await made.carry_out()


Removals = Annotated[Removal, Depends(removal, scope="function")]


async def scratch_desk(removed: Removals, session: Session, if_match: IfMatch = None) -> ScratchDesk:
    return ScratchDesk(session, removed, if_match)


async def callback_desk(session: Session, state: ServiceState) -> CallbackDesk:
    return CallbackDesk(
        session,
        state.settings.callback_policy(),
        state.vault,
        state.settings.callback_secret_overlap_seconds,
    )


async def client_desk(session: Session, state: ServiceState) -> ClientDesk:
    return ClientDesk(session, state.settings.key_overlap_seconds)


async def record_desk(session: Session, state: ServiceState) -> RecordDesk:
    return RecordDesk(session, state.definitions)
