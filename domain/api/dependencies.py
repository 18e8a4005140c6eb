"""What routes ask for: the caller, a transaction, the use cases on it. All async: FastAPI sends the rest to threads."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from sqlalchemy.ext.asyncio import AsyncSession

from domain.adapters import tokens
from domain.adapters.tokens import InvalidToken, looks_like_token
from domain.errors import Forbidden, IssuerUnavailable, Unauthenticated
from domain.repositories.platforms import Platforms
from domain.security import Identity, Role, secret_hash
from domain.services.assets import AssetChanges
from domain.services.callbacks import CallbackDesk
from domain.services.clients import ClientDesk
from domain.services.exports import ExportDesk
from domain.services.queueing import InternalRuns
from domain.services.records import RecordDesk
from domain.services.reviews import Reviews
from domain.services.runs import RunLifecycle
from domain.services.submissions import Submissions
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


async def credential(request: Request) -> str:
    """The secret of `Authorization: Bearer …` or `X-API-Key`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    secret = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if not secret:
        raise Unauthenticated("Send an API key in X-API-Key, or a token in Authorization: Bearer.")
    return secret


Secret = Annotated[str, Depends(credential)]


def allowed(*roles: Role) -> Callable[..., Coroutine[Any, Any, Identity]]:
    """A dependency that lets only these roles through."""

    async def identify(session: Session, state: ServiceState, secret: Secret) -> Identity:
        return _let_in(await _identity(session, state, secret), roles)

    return identify


def allowed_beforehand(*roles: Role) -> Callable[..., Coroutine[Any, Any, Identity]]:
    """The same, in a transaction that is over before the route begins."""

    async def identify(state: ServiceState, secret: Secret) -> Identity:
        async with state.database.transaction() as session:
            return _let_in(await _identity(session, state, secret), roles)

    return identify


def _let_in(identity: Identity | None, roles: tuple[Role, ...]) -> Identity:
    if identity is None:
        raise Unauthenticated("This credential is unknown or was withdrawn.")
    if identity.role not in roles:
        raise Forbidden(f"This needs one of the roles {', '.join(roles)}; the credential is a {identity.role}'s.")
    return identity


async def _identity(session: AsyncSession, state: Service, secret: str) -> Identity | None:
    """Who holds this credential: one of our keys, or a token where an issuer is configured."""
    platforms = Platforms(session)
    if state.tokens is None or not looks_like_token(secret):
        return await platforms.identity(secret_hash(secret))
    try:
        # The issuer's keys may be fetched here. The session has no connection before its first statement.
        client_id = await state.tokens.client_id(secret)
    except InvalidToken:
        return None
    except tokens.IssuerUnavailable as error:
        raise IssuerUnavailable("The issuer of this token does not answer. Try again, or use an API key.") from error
    return await platforms.identity_of(client_id)


async def submissions(session: Session, state: ServiceState) -> Submissions:
    return Submissions(session, state.definitions, state.quotas)


async def internal_runs(session: Session, state: ServiceState) -> InternalRuns:
    return InternalRuns(session, state.definitions)


async def lifecycle(session: Session, state: ServiceState) -> RunLifecycle:
    return RunLifecycle(session, state.settings.max_attempts)


IfMatch = Annotated[str | None, Header(description="The ETag of what was read, or * for whatever is there")]


async def export_desk(session: Session, state: ServiceState) -> ExportDesk:
    return ExportDesk(session, state.definitions, state.settings.export_workflow)


Exports = Annotated[ExportDesk, Depends(export_desk)]


async def reviews(session: Session, state: ServiceState, exports: Exports, if_match: IfMatch = None) -> Reviews:
    return Reviews(session, state.zones, str(state.settings.public_url), exports, if_match)


async def asset_changes(session: Session, exports: Exports, if_match: IfMatch = None) -> AssetChanges:
    return AssetChanges(session, exports, if_match)


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
